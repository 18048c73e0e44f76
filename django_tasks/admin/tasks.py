"""The pages of tasks: the list. A task's own page is a room beside."""

from django.contrib import admin
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_tasks.admin.actions import TaskActions
from django_tasks.admin.lists import alias
from django_tasks.admin.recurring import RecurringPages
from django_tasks.admin.site import StrictPages
from django_tasks.admin.task_page import TaskPage
from django_tasks.models import Task, WorkerRow
from django_tasks.values.status import Status


@admin.register(Task)
class TaskAdmin(StrictPages, RecurringPages, TaskPage, TaskActions):
    delete_confirmation_max_display = 100  # Django 6.1

    class Media:
        css = {"all": ("django_tasks/admin.css", "django_tasks/tasks.css", "django_tasks/task.css")}

    # What is shown

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Task]":
        names = WorkerRow._base_manager.filter(pk=OuterRef("claimed_by")).values("name")
        rows: QuerySet[Task] = super().get_queryset(request).using(alias())
        return rows.annotate(worker_name=Subquery(names))

    @admin.display(description=_("status"), ordering="status")
    def status_word(self, task: Task) -> str:
        status = Status(task.status)
        return format_html(
            '<span class="task-status-{}">{}</span>', status.name.lower(), status.label
        )

    @admin.display(description=_("worker"))
    def worker(self, task: Task) -> str:
        if task.claimed_by is None:
            return self.get_empty_value_display()
        name: str | None = getattr(task, "worker_name", None)
        return name or gettext("%(id)d (gone)") % {"id": task.claimed_by}
