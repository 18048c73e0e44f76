"""The pages of tasks: the list, a task's own page, and saving."""

from collections.abc import Iterator
from typing import Any

from django.contrib import admin, messages
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_tasks import api
from django_tasks.admin import lists
from django_tasks.admin.actions import TaskActions
from django_tasks.admin.display import (
    LONG_CELL,
    LONG_TEXT,
    as_json,
    distance,
    scope_name,
    shown,
    time_and_distance,
)
from django_tasks.admin.forms import TaskForm
from django_tasks.admin.lists import (
    SEARCH_HELP,
    SEARCHED,
    CodeFilter,
    LimitedPaginator,
    QueueFilter,
    alias,
    with_key,
)
from django_tasks.conf import options
from django_tasks.exceptions import TaskExists
from django_tasks.handlers.registry import get_task_handlers, sticky_codes
from django_tasks.models import Task, WorkerRow
from django_tasks.schedules.policies import clauses
from django_tasks.store import clock
from django_tasks.values.status import Status

MOST_NAMED = 10  # pauses, above the list of tasks

_SAVING: dict[int, Any] = {
    Status.PENDING: _("Saving adds the task again."),
    Status.RUNNING: _("It is running. Saving adds it again: it runs once more after this run."),
    Status.FAILED: _("It has failed. Saving adds it again: it waits, with all its attempts."),
    Status.PAUSED: _("It is paused. Saving adds it again; it stays paused."),
    Status.CANCELLING: _("It is being cancelled while it runs. Saving takes that back."),
    Status.PAUSING: _("It is running its last time before a pause. Saving adds it again, paused."),
}


@admin.register(Task)
class TaskAdmin(TaskActions):
    form = TaskForm
    list_display = ("key", "status_word", "due", "attempts", "worker", "queue", "priority")
    list_filter = ("status", CodeFilter, QueueFilter)
    ordering = ("-id",)  # the order that costs nothing; "when" without a filter would sort all rows
    paginator = LimitedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    search_fields = SEARCHED
    search_help_text = SEARCH_HELP
    delete_confirmation_max_display = 100  # Django 6.1
    readonly_fields = (
        "status_word",
        "own_options",
        "runs",
        "how_far",
        "attempts",
        "rescues",
        "active_worker",
        "worker",
        "claim_time",
        "error",
        "ended_runs",
        "version",
        "scheduled_time",
        "latest_time",
        "create_time",
        "update_time",
    )

    class Media:
        css = {"all": ("django_tasks/admin.css",)}

    # What is shown

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Task]":
        names = WorkerRow._base_manager.filter(pk=OuterRef("claimed_by")).values("name")
        return super().get_queryset(request).using(alias()).annotate(worker_name=Subquery(names))

    def get_readonly_fields(self, request: HttpRequest, obj: Task | None = None) -> tuple[str, ...]:
        if obj is None:
            return ()
        payload = ("payload",) if _has_long_payload(obj) else ()
        schedule = ("schedule_text",) if _has_long_schedule(obj) else ()
        return ("biz_code", "biz_num", *payload, *schedule, *self.readonly_fields)

    def get_fieldsets(self, request: HttpRequest, obj: Task | None = None) -> Any:
        payload = "payload" if obj and _has_long_payload(obj) else "biz_ext"
        schedule = "schedule_text" if obj and _has_long_schedule(obj) else "schedule"
        plan = ["name", "when", schedule, payload, "queue", "priority"]
        if obj is None:
            return [(None, {"fields": ("biz_code", "biz_num", *plan)})]
        plan.append("own_options")
        saving: dict[str, Any] = {"fields": plan}
        if self.has_change_permission(request, obj):
            saving = {"fields": (*plan, "seen_version"), "description": _SAVING[obj.status]}
        active = ("active_worker",) if obj.biz_code in sticky_codes() else ()
        runs = (
            *("runs", "how_far", "attempts", "rescues", *active, "worker", "claim_time", "error"),
            "ended_runs",
        )
        row = ("version", "scheduled_time", "latest_time", "create_time", "update_time")
        return [
            (None, {"fields": ("biz_code", "biz_num", "status_word")}),
            (_("Plan"), saving),
            (_("Runs"), {"fields": runs}),
            (_("Row"), {"fields": row}),
        ]

    def get_search_results(
        self, request: HttpRequest, queryset: "QuerySet[Task]", search_term: str
    ) -> tuple["QuerySet[Task]", bool]:
        # Only the list and its actions search, and they need none of these, which may be long.
        return with_key(
            queryset.defer("biz_ext", "last_error", "schedule", "options"), search_term
        ), False

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        response = super().changelist_view(request, extra_context)
        context = getattr(response, "context_data", None) or {}
        if "cl" in context and (notes := list(self._notes(context["cl"].result_count))):
            context["subtitle"] = " ".join(notes)
        return response

    def _notes(self, count: int) -> Iterator[str]:
        """Sentences about the list as a whole, for everyone who looks at it."""
        if pauses := api.paused(using=alias()):
            scopes = [scope_name(pause) for pause in pauses[:MOST_NAMED]]
            if len(pauses) > MOST_NAMED:
                scopes.append(gettext("%(count)d more") % {"count": len(pauses) - MOST_NAMED})
            yield gettext("Paused now: %(scopes)s.") % {"scopes": "; ".join(scopes)}
        if count >= lists.LIST_LIMIT:
            yield gettext(
                "Only %(count)d tasks are counted and shown; filter or search to see others."
            ) % {"count": lists.LIST_LIMIT}

    @admin.display(description=_("code, number"), ordering="biz_code")
    def key(self, task: Task) -> str:
        code = task.biz_code
        if not _has_handler(code):
            mark = '{} <span class="task-no-handler">{}</span>'
            code = format_html(mark, code, gettext("no handler"))
        if not task.name:
            return format_html("{}<br>{}", code, task.biz_num)
        return format_html("{}<br>{}<br>{}", code, task.biz_num, task.name)

    @admin.display(description=_("status"), ordering="status")
    def status_word(self, task: Task) -> str:
        status = Status(task.status)
        return format_html(
            '<span class="task-status-{}">{}</span>', status.name.lower(), status.label
        )

    @admin.display(description=_("when"), ordering="when")
    def due(self, task: Task) -> str:
        return time_and_distance(task.when)

    @admin.display(description=_("worker"))
    def worker(self, task: Task) -> str:
        if task.claimed_by is None:
            return self.get_empty_value_display()
        name: str | None = getattr(task, "worker_name", None)
        return name or gettext("%(id)d (gone)") % {"id": task.claimed_by}

    @admin.display(description=_("active worker"))
    def active_worker(self, task: Task) -> str:
        state = api.get_active(task.biz_code, using=alias())
        if state is None or state.since is None:
            return gettext("none now")
        facts = {"worker": state.holder, "time": distance(state.since, clock.now(alias()))}
        return gettext("%(worker)s, took over %(time)s") % facts

    @admin.display(description=_("last error"))
    def error(self, task: Task) -> str:
        if not task.last_error:
            return self.get_empty_value_display()
        return shown(task.last_error[-LONG_TEXT:], task.last_error)  # the end says most

    @admin.display(description=_("history"))
    def ended_runs(self, task: Task) -> str:
        query = urlencode({"biz_code": task.biz_code, "biz_num": task.biz_num})
        address = reverse(f"{self.admin_site.name}:django_tasks_taskrun_changelist")
        return format_html(
            '<a href="{}?{}">{}</a>', address, query, gettext("runs that have ended")
        )

    @admin.display(description=_("extension data"))
    def payload(self, task: Task) -> str:
        text = as_json(task.biz_ext)
        return shown(text[:LONG_TEXT], text)

    @admin.display(description=_("schedule"))
    def schedule_text(self, task: Task) -> str:
        if not task.schedule:
            return self.get_empty_value_display()
        return shown(task.schedule[:LONG_TEXT], task.schedule)

    @admin.display(description=_("options"))
    def own_options(self, task: Task) -> str:
        return ", ".join(clauses(task.options)) or self.get_empty_value_display()

    @admin.display(description=_("progress"))
    def how_far(self, task: Task) -> str:
        if task.progress is None:
            return self.get_empty_value_display()
        done, total, text = (task.progress.get(name) for name in ("done", "total", "text"))
        steps = f"{done}" if total is None else f"{done} / {total}"
        return f"{steps} {text}".strip()

    # What is saved

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().changeform_view(request, *args, **kwargs)
        except TaskExists as error:
            # Somebody else has added it between our form's look and our add.
            self.message_user(request, str(error), messages.ERROR)
            return HttpResponseRedirect(reverse(f"{self.admin_site.name}:django_tasks_task_add"))

    def save_model(self, request: HttpRequest, obj: Task, form: Any, change: bool) -> None:
        if change and not form.moved_fields:
            return
        conflict = api.OnConflict.REPLACE if change else api.OnConflict.RAISE
        stored = api.add_task(obj, on_conflict=conflict, using=alias())
        obj.pk = stored.pk
        if not _has_handler(obj.biz_code):
            text = _("No handler of %(code)r is known here: the task waits until a worker has one.")
            self.message_user(request, text % {"code": obj.biz_code}, messages.WARNING)


def _has_handler(biz_code: str) -> bool:
    """Tell if this process knows a handler, or is not to ask."""
    return options().strict_codes == "off" or biz_code in get_task_handlers()


def _has_long_payload(task: Task) -> bool:
    return len(as_json(task.biz_ext)) > LONG_TEXT


def _has_long_schedule(task: Task) -> bool:
    return len(task.schedule or "") > LONG_CELL
