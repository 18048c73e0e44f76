"""The pages of tasks: the list. A task's own page is a room beside."""

from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest

from django_tasks.admin.actions import TaskActions
from django_tasks.admin.lists import alias
from django_tasks.admin.recurring import RecurringPages
from django_tasks.admin.site import StrictPages
from django_tasks.admin.task_page import TaskPage
from django_tasks.models import Task, WorkerRow


class TaskAdmin(StrictPages, RecurringPages, TaskPage, TaskActions):
    delete_confirmation_max_display = 100  # Django 6.1

    class Media:
        css = {"all": ("django_tasks/tasks.css", "django_tasks/task.css")}

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Task]":
        names = WorkerRow._base_manager.filter(pk=OuterRef("claimed_by")).values("name")
        rows: QuerySet[Task] = super().get_queryset(request).using(alias())
        return rows.annotate(worker_name=Subquery(names))
