"""Many workers on one database, simulated: who gets in whose way, and how late tasks are then.

``costs.py`` has what statements take, as measured. ``rows.py`` is the table of tasks, ``model.py``
the server and its workers. ``report.py`` makes the table and the pictures of
docs/understand/simulation.rst.
"""
