"""A run in a process of its own: ``parent`` starts it, ``child`` is it, ``texts`` go between."""
