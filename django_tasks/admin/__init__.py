"""The admin's pages for tasks, their runs, workers, pauses and locks.

They read the database that the router gives tasks to. Whatever they change goes through
``django_tasks.api``: an edit is an add, a deletion is a cancel, and a run under way hears of both.
"""

from django_tasks.admin import codes, dashboard, locks, pauses, runs, tasks, workers

__all__ = ["codes", "dashboard", "locks", "pauses", "runs", "tasks", "workers"]
