"""A task's own page: its life above, its form below, and what Save and Delete do."""

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_tasks import api
from django_tasks.admin.display import LONG_CELL, LONG_TEXT, as_json, distance, moment_field, shown
from django_tasks.admin.forms import TaskForm
from django_tasks.admin.lists import alias, sees_workers
from django_tasks.admin.standing import known_here
from django_tasks.admin.task_life import MOST_RUNS, life_of
from django_tasks.admin.task_steps import ANEW, begins_anew, cancel_means, seen_of
from django_tasks.admin.task_views import TaskSteps
from django_tasks.exceptions import TaskExists
from django_tasks.handlers.registry import sticky_codes
from django_tasks.models import Task
from django_tasks.reads.why import why
from django_tasks.store import clock
from django_tasks.values.hosts import is_schedule_num
from django_tasks.values.status import Status

SAVING: dict[int, Any] = {
    Status.PENDING: _("Saving adds the task again."),
    Status.RUNNING: _("It is running. Saving adds it again: it runs once more after this run."),
    Status.FAILED: _("It has failed. Saving adds it again: it waits."),
    Status.PAUSED: _("It is paused. Saving adds it again; it stays paused."),
    Status.CANCELLING: _("It is being cancelled while it runs. Saving takes that back."),
    Status.PAUSING: _("It is running its last time before a pause. Saving adds it again, paused."),
}
SAVE: dict[int, Any] = {
    Status.PENDING: _("Save: add the task again"),
    Status.RUNNING: _("Save: run it once more after this run"),
    Status.FAILED: _("Save: add the task again, with all its attempts"),
    Status.PAUSED: _("Save: add the task again, paused"),
    Status.CANCELLING: _("Save: take the cancel back"),
    Status.PAUSING: _("Save: add the task again, paused"),
}


class TaskPage(TaskSteps):
    """The part of the tasks' admin that is about one task."""

    form = TaskForm
    change_form_template = "admin/django_tasks/task/change_form.html"
    delete_confirmation_template = "admin/django_tasks/task/delete_confirmation.html"
    readonly_fields = (
        *("version", "attempts", "rescues", "runs", "last_run_at", "claimed_at"),
        *("scheduled_for", "latest_at", "created_at", "updated_at"),
    )
    last_run_at = moment_field(Task, "last_run")
    claimed_at = moment_field(Task, "claim_time")
    scheduled_for = moment_field(Task, "scheduled_time")
    latest_at = moment_field(Task, "latest_time")
    created_at = moment_field(Task, "create_time")
    updated_at = moment_field(Task, "update_time")

    # The form

    def get_readonly_fields(self, request: HttpRequest, obj: Task | None = None) -> tuple[str, ...]:
        if obj is None:
            return ()
        payload = ("payload",) if has_long_payload(obj) else ()
        schedule = ("schedule_text",) if has_long_schedule(obj) else ()
        return ("biz_code", "biz_num", *payload, *schedule, *self.readonly_fields)

    def get_fieldsets(self, request: HttpRequest, obj: Task | None = None) -> Any:
        payload = "payload" if obj and has_long_payload(obj) else "biz_ext"
        schedule = "schedule_text" if obj and has_long_schedule(obj) else "schedule"
        plan = ["name", "when", schedule, payload, "queue", "priority"]
        if obj is None:
            return [(None, {"fields": ("biz_code", "biz_num", *plan)})]
        row = (_("Row"), {"fields": self.readonly_fields, "classes": ("collapse",)})
        if not self.has_change_permission(request, obj):
            return [row]  # all else stands above
        edited = {"fields": (*plan, "seen_version"), "description": _saving_means(obj)}
        return [(_("Edit"), edited), row]

    @admin.display(description=_("extension data"))
    def payload(self, task: Task) -> str:
        text = as_json(task.biz_ext)
        return gettext("Too long to be edited here: %(count)d characters.") % {"count": len(text)}

    @admin.display(description=_("schedule"))
    def schedule_text(self, task: Task) -> str:
        text = task.schedule or ""
        return shown(text[:LONG_TEXT], text)

    # What is shown

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Task | None = None,
    ) -> HttpResponse:
        if obj is not None:
            context["save_label"] = SAVE[Status.FAILED if _is_retry(obj) else obj.status]
            # A form that was refused has put what was typed into its task.
            row = self.get_object(request, str(obj.pk)) if request.method == "POST" else obj
            context |= self._life_facts(request, row) if row is not None else {}
        return super().render_change_form(request, context, add, change, form_url, obj)

    def _life_facts(self, request: HttpRequest, task: Task) -> dict[str, Any]:
        sees_runs = request.user.has_perm("django_tasks.view_taskrun")
        named = sees_workers(request)
        runs = api.get_runs(
            task.biz_code, task.biz_num, MOST_RUNS if sees_runs else 0, using=alias()
        )
        now = clock.now(alias())
        return {
            "row": task,
            "life": life_of(task, runs, now),
            "reason": why(task, using=alias(), named=named),
            "buttons": self.step_buttons(request, task),
            "seen": seen_of(task),
            "sees_runs": sees_runs,
            "sees_workers": named,
            "most_runs": MOST_RUNS,
            "worker_name": getattr(task, "worker_name", None),
            "active_worker": _active_worker(task)
            if named and task.biz_code in sticky_codes()
            else "",
            "is_own_row": is_schedule_num(task.biz_num),
            "has_handler": known_here(task.biz_code),
        }

    def render_delete_form(self, request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
        context |= {"means": cancel_means(context["object"]), "title": gettext("Cancel the task")}
        return super().render_delete_form(request, context)

    # What is saved

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().changeform_view(request, *args, **kwargs)
        except TaskExists as error:
            # Somebody else has added it between our form's look and our add.
            address = self.address("django_tasks_task_add")
            return self.go(request, address, str(error), messages.ERROR)

    def save_model(self, request: HttpRequest, obj: Task, form: Any, change: bool) -> None:
        if change and not form.moved_fields:
            return
        conflict = api.OnConflict.REPLACE if change else api.OnConflict.RAISE
        stored = api.add_task(obj, on_conflict=conflict, using=alias())
        obj.pk = stored.pk
        if not known_here(obj.biz_code):
            text = _("No handler of %(code)r is known here: the task waits until a worker has one.")
            self.message_user(request, text % {"code": obj.biz_code}, messages.WARNING)

    def construct_change_message(
        self, request: HttpRequest, form: Any, formsets: Any, add: bool = False
    ) -> Any:
        message = super().construct_change_message(request, form, formsets, add)
        form.instance.was_edited = add or bool(form.moved_fields)
        return message

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Log what was changed; a form that was sent back as it was has changed nothing."""
        return super().log_change(request, obj, message) if _was_edited(obj) else None

    def response_change(self, request: HttpRequest, obj: Task) -> HttpResponse:
        if _was_edited(obj):
            return super().response_change(request, obj)
        text = gettext("Nothing was edited, so nothing was changed.")
        address = self.address("django_tasks_task_change", obj.pk)
        return self.go(request, address, text, messages.INFO)


def has_long_payload(task: Task) -> bool:
    return len(as_json(task.biz_ext)) > LONG_TEXT


def has_long_schedule(task: Task) -> bool:
    return len(task.schedule or "") > LONG_CELL


def _saving_means(task: Task) -> Any:
    means = SAVING[task.status]
    return format_html("{}<br>{}", means, ANEW) if begins_anew(task) else means


def _is_retry(task: Task) -> bool:
    return task.status == Status.PENDING and task.attempts > 0


def _was_edited(obj: Any) -> bool:
    return bool(getattr(obj, "was_edited", True))


def _active_worker(task: Task) -> str:
    state = api.get_active(task.biz_code, using=alias())
    if state is None or state.since is None:
        return gettext("none now")
    facts = {"worker": state.holder, "time": distance(state.since, clock.now(alias()))}
    return gettext("%(worker)s, took over %(time)s") % facts
