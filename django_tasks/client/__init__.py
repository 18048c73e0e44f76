"""The things that callers do to tasks. ``django_tasks.api`` is the front door."""
