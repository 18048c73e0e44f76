"""The admin's pages for tasks, their runs, workers, pauses and locks.

They read the database that the router gives tasks to. Whatever they change goes through
``django_tasks.api``: an edit is an add, a deletion is a cancel, and a run under way hears of both.
"""

from django.contrib import admin
from django.contrib.admin import AdminSite

from django_tasks import models
from django_tasks.admin import codes, dashboard, locks, pauses, runs, tasks, workers

__all__ = ["codes", "dashboard", "locks", "pauses", "register", "runs", "tasks", "workers"]

_PAGES = (
    (dashboard.Dashboard, dashboard.DashboardPage),
    (codes.Codes, codes.CodePages),
    (models.Task, tasks.TaskAdmin),
    (models.TaskRun, runs.RunAdmin),
    (models.WorkerRow, workers.WorkerAdmin),
    (models.Pause, pauses.PauseAdmin),
    (models.Lock, locks.LockAdmin),
)


def register(site: AdminSite) -> None:
    """Register all pages with an admin site; what it has under one of our models stays."""
    for model, page in _PAGES:
        if not site.is_registered(model):
            site.register(model, page)


register(admin.site)
