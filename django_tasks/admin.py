"""The admin's pages for tasks, workers, pauses and locks.

They read the database that the router gives tasks to. Whatever they change goes through
``django_tasks.api``: an edit is an add, a deletion is a cancel, and a run under way hears of both.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import options
from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.contrib.auth import get_permission_codename
from django.core.paginator import Paginator
from django.db import router
from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.forms.fields import InvalidJSONInput
from django.forms.utils import to_current_timezone
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import formats
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.text import capfirst
from django.utils.timesince import timesince
from django.utils.translation import gettext, ngettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from django_tasks import api, client
from django_tasks.api import CancelResult
from django_tasks.exceptions import TaskException, TaskExists, TaskValueError
from django_tasks.intake import check_code, check_queue, checked_task
from django_tasks.models import Lock, Pause, Task, WorkerRow
from django_tasks.registry import get_task_handlers
from django_tasks.status import Status
from django_tasks.store.dialects import EPOCH
from django_tasks.times import aware

if TYPE_CHECKING:
    TaskModelAdmin = admin.ModelAdmin[Task]
    ModelAdminOfAny = admin.ModelAdmin[Any]
    PauseModelAdmin = admin.ModelAdmin[Pause]
    PauseModelForm = forms.ModelForm[Pause]
    TaskModelForm = forms.ModelForm[Task]
    TaskPaginator = Paginator[Task]
else:
    TaskModelAdmin = ModelAdminOfAny = PauseModelAdmin = admin.ModelAdmin
    TaskModelForm = PauseModelForm = forms.ModelForm
    TaskPaginator = Paginator

# The list counts, pages through and acts on no more than this: counting millions of rows for
# every page view takes seconds.
LIST_LIMIT = 10_000
MOST_CHOICES = 100  # of a filter
# Of a longer text a task's page shows a part, and a longer payload cannot be edited there: as a
# form it would exceed DATA_UPLOAD_MAX_MEMORY_SIZE, and browsers choke on it.
LONG_TEXT = 100_000
MOST_NAMED = 10  # pauses, above the list of tasks
LONG_CELL = 200  # characters of one cell of a list

_SAVING: dict[int, Any] = {
    Status.PENDING: _("Saving adds the task again."),
    Status.RUNNING: _("It is running. Saving adds it again: it runs once more after this run."),
    Status.FAILED: _("It has failed. Saving adds it again: it waits anew, with all its attempts."),
    Status.PAUSED: _("It is paused. Saving adds it again; it stays paused."),
    Status.CANCELLING: _("It is being cancelled while it runs. Saving takes that back."),
    Status.PAUSING: _("It is running its last time before a pause. Saving adds it again, paused."),
}


def alias() -> str:
    """The database that holds the tasks, and the workers beside them."""
    return router.db_for_write(Task)


# The form


class PayloadField(forms.JSONField):
    """JSON to be read by people: indented, and nothing where there is nothing."""

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, InvalidJSONInput):
            return value
        if value is None:
            return ""
        # Thirty levels deep, each number is a line of sixty blanks.
        indented = json.dumps(value, ensure_ascii=False, indent=2)
        return indented if len(indented) <= LONG_TEXT else _as_json(value)


class TaskForm(TaskModelForm):
    """Checks as ``add_task`` does, and that nobody has moved the task since the form was opened."""

    seen_version = forms.IntegerField(widget=forms.HiddenInput, required=False)

    class Meta:
        model = Task
        fields = ("biz_code", "biz_num", "when", "schedule", "biz_ext", "queue", "priority")
        field_classes = {"biz_ext": PayloadField, "schedule": forms.CharField}
        widgets: ClassVar[Any] = {"schedule": forms.TextInput(attrs={"size": 60})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("queue", "priority"):
            if name in self.fields:
                self.fields[name].help_text = _("Empty: as the handler says.")
        if "schedule" in self.fields:
            self.fields["schedule"].empty_value = None  # type: ignore[attr-defined]
            self.fields["schedule"].help_text = _(
                "When it runs again: “every 30m”, “cron 0 9 * * 1-5 Asia/Shanghai”. Empty: it runs "
                "once."
            )
            self.fields["when"].required = False
            self.fields["when"].help_text = _("With a schedule it may be left empty.")
        if self.instance.pk and "seen_version" in self.fields:
            self.fields["seen_version"].initial = self.instance.version

    @property
    def moved_fields(self) -> list[str]:
        """Names of the fields that say something new about the task."""
        return [name for name in self.changed_data if name != "seen_version"]

    def clean(self) -> dict[str, Any]:
        super().clean()
        if self.instance.pk:
            self._refuse_if_moved()
            self._keep_microseconds()
        return self.cleaned_data

    def _refuse_if_moved(self) -> None:
        """Compare versions under the row's lock, which the caller's transaction holds to its end.

        SQLite has no such lock, and a transaction there that has read what is no longer so
        cannot write.
        """
        row = Task._base_manager.using(alias()).select_for_update().filter(pk=self.instance.pk)
        version = row.values_list("version", flat=True).first()
        if version is None:
            raise forms.ValidationError(_("This task has ended, or has been cancelled, meanwhile."))
        if version != self.cleaned_data.get("seen_version"):
            raise forms.ValidationError(
                _(
                    "This task has been changed, or has run, since you opened this form. Nothing "
                    "was saved. Open it again to see what it is now."
                )
            )

    def _keep_microseconds(self) -> None:
        """The widget cuts them off; a time that nobody touched must not move."""
        if "when" not in self.changed_data:
            self.cleaned_data["when"] = self.instance.when

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]
        if not self.errors:
            try:
                checked_task(self.instance, alias(), client.now)
            except TaskValueError as error:
                field = error.field if error.field in self.fields else None
                self.add_error(field, capfirst(f"{error.problem}."))
            except TaskException as error:  # a schedule whose library is not installed here
                self.add_error("schedule", str(error))


# The list


class LimitedPaginator(TaskPaginator):
    """Pages of at most LIST_LIMIT rows: the database never counts further."""

    @cached_property
    def count(self) -> int:
        return _count(self.object_list)  # type: ignore[arg-type]


class ValuesFilter(admin.SimpleListFilter):
    """The values of a column that exist, found by one seek of an index each."""

    column: ClassVar[str]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        found = sorted(set(self.values(Task._base_manager.using(alias()))))
        return [(value, value) for value in found]

    def values(self, rows: "QuerySet[Task]") -> Iterator[str]:
        return _hopping(rows, self.column)

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Task]") -> "QuerySet[Task]":
        return queryset.filter(**{self.column: self.value()}) if self.value() else queryset


class CodeFilter(ValuesFilter):
    title = _("code")
    parameter_name = column = "biz_code"


class QueueFilter(ValuesFilter):
    title = _("queue")
    parameter_name = column = "queue"

    def values(self, rows: "QuerySet[Task]") -> Iterator[str]:
        # The index that has queues has them by status.
        for status in Status:
            yield from _hopping(rows.filter(status=status), self.column)


def _count(rows: "QuerySet[Any]") -> int:
    # values(): without the workers' names, which MariaDB would look up for every row it counts.
    return rows.order_by().values("pk")[:LIST_LIMIT].count()


def _hopping(rows: "QuerySet[Task]", column: str) -> Iterator[str]:
    """Distinct values of a column, each asked for as the next one after the last."""
    values = rows.order_by(column).values_list(column, flat=True)
    value = values.first()
    for _place in range(MOST_CHOICES):
        if value is None:
            return
        yield value
        value = values.filter(**{f"{column}__gt": value}).first()


# Words


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _shown(part: str, whole: str) -> str:
    """A part of a text, line by line, and how long the whole is if that is more."""
    shown = format_html('<pre class="task-text">{}</pre>', part)
    if len(part) == len(whole):
        return shown
    sizes = {"shown": len(part), "all": len(whole)}
    note = gettext("%(shown)d of %(all)d characters are shown.") % sizes
    return format_html('{}<p class="small quiet">{}</p>', shown, note)


def _cell(text: str) -> str:
    return text if len(text) <= LONG_CELL else f"{text[: LONG_CELL - 1]}…"


def _distance(moment: datetime, now: datetime) -> str:
    """How far ahead or ago, in words."""
    if moment > now:
        return gettext("in %(time)s") % {"time": _span(now, moment)}
    return gettext("%(time)s ago") % {"time": _span(moment, now)}


def _span(start: datetime, end: datetime) -> str:
    seconds = int((end - start).total_seconds())
    if seconds >= 60:
        return timesince(start, end)
    return ngettext("%(count)d second", "%(count)d seconds", seconds) % {"count": seconds}


def _time_and_distance(value: datetime) -> str:
    local = formats.localize(to_current_timezone(value))
    distance = _distance(aware("when", value), client.now(alias()))
    return format_html('{}<br><span class="small quiet">{}</span>', local, distance)


# Actions


def _action(description: Any, permission: str, *, on_form: bool = True) -> Callable[[Any], Any]:
    """``admin.action``, which from Django 6.1 on may stand on a task's own page too."""

    def decorate(function: Any) -> Any:
        action = admin.action(function, permissions=[permission], description=description)
        locations = getattr(options, "ActionLocation", None)
        if locations is not None:
            action.locations = list(locations) if on_form else [locations.CHANGE_LIST]
            action.plural_description = description
        return action

    return decorate


_GONE = ngettext_lazy("%(count)d had gone already.", "%(count)d had gone already.", "count")
_CANCELS: dict[CancelResult, Any] = {
    CancelResult.CANCELLED: ngettext_lazy(
        "%(count)d task cancelled.", "%(count)d tasks cancelled.", "count"
    ),
    CancelResult.CANCELLING: ngettext_lazy(
        "%(count)d is running and goes when its run ends.",
        "%(count)d are running and go when their runs end.",
        "count",
    ),
    CancelResult.NOT_FOUND: _GONE,
}


class Step(NamedTuple):
    """Something done to a task by its key, and the sentences that count how it went."""

    name: Any
    take: Callable[..., bool]
    done: Any
    left: Any


RUN_NOW = Step(
    _("Run now"),
    api.run_task_now,
    ngettext_lazy("%(count)d task is due now.", "%(count)d tasks are due now.", "count"),
    _GONE,
)
PAUSE = Step(
    _("Pause"),
    api.pause_task,
    ngettext_lazy("%(count)d task paused.", "%(count)d tasks paused.", "count"),
    ngettext_lazy(
        "%(count)d left as it was: only waiting and running tasks can be paused.",
        "%(count)d left as they were: only waiting and running tasks can be paused.",
        "count",
    ),
)
RESUME = Step(
    _("Resume"),
    api.resume_task,
    ngettext_lazy("%(count)d task resumed.", "%(count)d tasks resumed.", "count"),
    ngettext_lazy(
        "%(count)d left as it was: it is not paused.",
        "%(count)d left as they were: they are not paused.",
        "count",
    ),
)
REQUEUE = Step(
    _("Requeue (failed tasks)"),
    api.requeue_task,
    ngettext_lazy("%(count)d task requeued.", "%(count)d tasks requeued.", "count"),
    ngettext_lazy(
        "%(count)d left as it was: it has not failed.",
        "%(count)d left as they were: they have not failed.",
        "count",
    ),
)


@admin.register(Task)
class TaskAdmin(TaskModelAdmin):
    form = TaskForm
    list_display = ("key", "status_word", "due", "attempts", "worker", "queue", "priority")
    list_filter = ("status", CodeFilter, QueueFilter)
    ordering = ("-id",)  # the order that costs nothing; "when" without a filter would sort all rows
    paginator = LimitedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    search_fields = ("biz_code", "biz_num")
    search_help_text = _("A code, the beginning of a number, or code/number.")
    actions = ("run_now", "cancel", "pause", "resume", "requeue")
    delete_confirmation_max_display = 100  # Django 6.1
    readonly_fields = (
        "status_word",
        "attempts",
        "rescues",
        "worker",
        "claim_time",
        "error",
        "version",
        "scheduled_time",
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
        plan = ("when", schedule, payload, "queue", "priority")
        if obj is None:
            return [(None, {"fields": ("biz_code", "biz_num", *plan)})]
        saving: dict[str, Any] = {"fields": plan}
        if self.has_change_permission(request, obj):
            saving = {"fields": (*plan, "seen_version"), "description": _SAVING[obj.status]}
        runs = ("attempts", "rescues", "worker", "claim_time", "error")
        row = ("version", "scheduled_time", "create_time", "update_time")
        return [
            (None, {"fields": ("biz_code", "biz_num", "status_word")}),
            (_("Plan"), saving),
            (_("Runs"), {"fields": runs}),
            (_("Row"), {"fields": row}),
        ]

    def get_search_results(
        self, request: HttpRequest, queryset: "QuerySet[Task]", search_term: str
    ) -> tuple["QuerySet[Task]", bool]:
        """By whole keys, which an index finds, and by beginnings of numbers, which it walks."""
        # Only the list and its actions search, and they need none of these, which may be long.
        queryset = queryset.defer("biz_ext", "last_error", "schedule")
        term = search_term.strip()
        if not term:
            return queryset, False
        code, slash, number = term.partition("/")
        wanted = Q(biz_code=term) | Q(biz_num__startswith=term)
        if slash:
            wanted |= Q(biz_code=code, biz_num__startswith=number)
        return queryset.filter(wanted), False

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        response = super().changelist_view(request, extra_context)
        context = getattr(response, "context_data", None) or {}
        if "cl" in context and (notes := list(self._notes(context["cl"].result_count))):
            context["subtitle"] = " ".join(notes)
        return response

    def _notes(self, count: int) -> Iterator[str]:
        """What whoever looks at the list should know about all of it."""
        if pauses := api.paused(using=alias()):
            scopes = [_scope(pause) for pause in pauses[:MOST_NAMED]]
            if len(pauses) > MOST_NAMED:
                scopes.append(gettext("%(count)d more") % {"count": len(pauses) - MOST_NAMED})
            yield gettext("Paused now: %(scopes)s.") % {"scopes": "; ".join(scopes)}
        if count >= LIST_LIMIT:
            yield gettext(
                "Only %(count)d tasks are counted and shown; filter or search to see others."
            ) % {"count": LIST_LIMIT}

    @admin.display(description=_("code, number"), ordering="biz_code")
    def key(self, task: Task) -> str:
        return format_html("{}<br>{}", task.biz_code, task.biz_num)

    @admin.display(description=_("status"), ordering="status")
    def status_word(self, task: Task) -> str:
        status = Status(task.status)
        return format_html(
            '<span class="task-status-{}">{}</span>', status.name.lower(), status.label
        )

    @admin.display(description=_("when"), ordering="when")
    def due(self, task: Task) -> str:
        return _time_and_distance(task.when)

    @admin.display(description=_("worker"))
    def worker(self, task: Task) -> str:
        if task.claimed_by is None:
            return self.get_empty_value_display()
        name: str | None = getattr(task, "worker_name", None)
        return name or gettext("%(id)d (gone)") % {"id": task.claimed_by}

    @admin.display(description=_("last error"))
    def error(self, task: Task) -> str:
        if not task.last_error:
            return self.get_empty_value_display()
        return _shown(task.last_error[-LONG_TEXT:], task.last_error)  # the end says most

    @admin.display(description=_("extension data"))
    def payload(self, task: Task) -> str:
        text = _as_json(task.biz_ext)
        return _shown(text[:LONG_TEXT], text)

    @admin.display(description=_("schedule"))
    def schedule_text(self, task: Task) -> str:
        if not task.schedule:
            return self.get_empty_value_display()
        return _shown(task.schedule[:LONG_TEXT], task.schedule)

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
        if obj.biz_code not in get_task_handlers():
            text = _("No handler of %(code)r is known here: the task waits until a worker has one.")
            self.message_user(request, text % {"code": obj.biz_code}, messages.WARNING)

    def delete_model(self, request: HttpRequest, obj: Task) -> None:
        self._tell_deleted(request, _cancel_each([obj]).values())

    def delete_queryset(self, request: HttpRequest, queryset: "QuerySet[Task]") -> None:
        self._tell_deleted(request, _cancel_each(queryset).values())

    # What is done to selected tasks

    @_action(RUN_NOW.name, "run")
    def run_now(self, request: HttpRequest, queryset: "QuerySet[Task]") -> None:
        self._steer(request, queryset, RUN_NOW)

    @_action(_("Cancel"), "cancel", on_form=False)
    def cancel(self, request: HttpRequest, queryset: "QuerySet[Task]") -> None:
        results = _cancel_each(queryset)
        found = Counter(results.values())
        changed = [t for t, result in results.items() if result is not CancelResult.NOT_FOUND]
        _log(request, changed, DELETION, gettext("Cancel"))
        self._tell(request, changed, [(text, found[result]) for result, text in _CANCELS.items()])

    @_action(PAUSE.name, "run")
    def pause(self, request: HttpRequest, queryset: "QuerySet[Task]") -> None:
        self._steer(request, queryset, PAUSE)

    @_action(RESUME.name, "run")
    def resume(self, request: HttpRequest, queryset: "QuerySet[Task]") -> None:
        self._steer(request, queryset, RESUME)

    @_action(REQUEUE.name, "run")
    def requeue(self, request: HttpRequest, queryset: "QuerySet[Task]") -> None:
        self._steer(request, queryset, REQUEUE)

    def has_run_permission(self, request: HttpRequest) -> bool:
        return _may(request, "run")

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return _may(request, "cancel")

    def response_action(
        self, request: HttpRequest, queryset: "QuerySet[Task]", *args: Any, **kwargs: Any
    ) -> HttpResponse | None:
        """Refuse "all of them" where that is more than the list has counted."""
        if request.POST.get("select_across") == "1" and _count(queryset) >= LIST_LIMIT:
            text = gettext(
                "More than %(count)d tasks: filter or search first. Nothing was changed."
            )
            self.message_user(request, text % {"count": LIST_LIMIT - 1}, messages.ERROR)
            return None
        return super().response_action(request, queryset, *args, **kwargs)

    def _steer(self, request: HttpRequest, queryset: "QuerySet[Task]", step: "Step") -> None:
        """Take one step with each task by its key, and tell how many it changed."""
        tasks = list(queryset)
        changed = [t for t in tasks if step.take(t.biz_code, t.biz_num, using=alias())]
        _log(request, changed, CHANGE, str(step.name))
        left = len(tasks) - len(changed)
        self._tell(request, changed, [(step.done, len(changed)), (step.left, left)])

    def _tell(
        self, request: HttpRequest, changed: list[Task], sentences: list[tuple[Any, int]]
    ) -> None:
        said = [str(text % {"count": count}) for text, count in sentences if count]
        level = messages.SUCCESS if changed else messages.WARNING
        self.message_user(request, " ".join(said) or gettext("Nothing was changed."), level)

    def _tell_deleted(self, request: HttpRequest, results: Iterable[CancelResult]) -> None:
        """What Django's own "successfully deleted" leaves out."""
        found = Counter(results)
        for result in (CancelResult.CANCELLING, CancelResult.NOT_FOUND):
            if found[result]:
                text = _CANCELS[result] % {"count": found[result]}
                self.message_user(request, text, messages.WARNING)


def _may(request: HttpRequest, action: str) -> bool:
    """Whether somebody may do this to tasks."""
    codename = get_permission_codename(action, Task._meta)
    return request.user.has_perm(f"{Task._meta.app_label}.{codename}")


def _has_long_payload(task: Task) -> bool:
    return len(_as_json(task.biz_ext)) > LONG_TEXT


def _has_long_schedule(task: Task) -> bool:
    return len(task.schedule or "") > LONG_CELL


def _cancel_each(tasks: Iterable[Task]) -> dict[Task, CancelResult]:
    return {t: api.cancel_task(t.biz_code, t.biz_num, using=alias()) for t in list(tasks)}


def _log(request: HttpRequest, tasks: list[Task], flag: int, message: str) -> None:
    """Write who did what into the admin's history."""
    if tasks:
        LogEntry.objects.log_actions(str(request.user.pk), tasks, flag, message)


class OnlyShown(ModelAdminOfAny):
    """Rows that are written by whoever they are about: nobody edits them here."""

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Any]":
        return super().get_queryset(request).using(alias())

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(WorkerRow)
class WorkerAdmin(OnlyShown):
    """Who polls the database. Workers write their rows themselves; there is nothing to edit."""

    list_display = fields = (
        "name",
        "state",
        "alive",
        "last_heartbeat",
        "queue_names",
        "threads",
        "numbers",
        "started",
    )
    ordering = ("id",)

    @admin.display(description=_("alive"), boolean=True)
    def alive(self, worker: WorkerRow) -> bool:
        silent = client.now(alias()) - aware("heartbeat", worker.heartbeat)
        return silent.total_seconds() <= worker.lease

    @admin.display(description=_("heartbeat"), ordering="heartbeat")
    def last_heartbeat(self, worker: WorkerRow) -> str:
        return _distance(aware("heartbeat", worker.heartbeat), client.now(alias()))

    @admin.display(description=_("queues"))
    def queue_names(self, worker: WorkerRow) -> str:
        return _cell(", ".join(map(str, worker.queues))) or gettext("all")

    @admin.display(description=_("counters"))
    def numbers(self, worker: WorkerRow) -> str:
        return _cell(", ".join(f"{name} {count}" for name, count in worker.counters.items()))


def _scope(pause: Pause) -> str:
    """What a pause holds, in words."""
    names = {"code": pause.biz_code, "queue": pause.queue}
    if pause.biz_code and pause.queue:
        return gettext("code %(code)s in queue %(queue)s") % names
    if pause.biz_code:
        return gettext("code %(code)s") % names
    return gettext("queue %(queue)s") % names if pause.queue else gettext("everything")


class PauseForm(PauseModelForm):
    """Checks as ``pause_tasks`` does; the model refuses what is paused already."""

    class Meta:
        model = Pause
        fields = ("biz_code", "queue")
        help_texts = {"biz_code": _("Empty: every code."), "queue": _("Empty: every queue.")}

    def clean_biz_code(self) -> str:
        return self._checked("biz_code", check_code)

    def clean_queue(self) -> str:
        return self._checked("queue", check_queue)

    def _checked(self, name: str, check: Callable[[object], str]) -> str:
        value: str = self.cleaned_data[name]
        try:
            return check(value) if value else ""
        except TaskValueError as error:
            raise forms.ValidationError(capfirst(f"{error.problem}.")) from error


@admin.register(Pause)
class PauseAdmin(PauseModelAdmin):
    """What is paused as a whole. A pause is added and deleted; there is nothing to edit.

    Whoever may pause a task may pause them all, and whoever sees tasks sees what is paused.
    """

    form = PauseForm
    list_display = ("what", "begun")
    ordering = ("queue", "biz_code")

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Pause]":
        return super().get_queryset(request).using(alias())

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _may(request, "view") or _may(request, "run")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return _may(request, "run")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _may(request, "run")

    def save_model(self, request: HttpRequest, obj: Pause, form: Any, change: bool) -> None:
        names = {"biz_code": obj.biz_code, "queue": obj.queue}
        api.pause_tasks(**names, using=alias())
        # Also if somebody else was quicker than this form: what was asked for is so.
        obj.pk = Pause._base_manager.using(alias()).values_list("pk", flat=True).get(**names)

    def delete_model(self, request: HttpRequest, obj: Pause) -> None:
        api.resume_tasks(biz_code=obj.biz_code, queue=obj.queue, using=alias())

    def delete_queryset(self, request: HttpRequest, queryset: "QuerySet[Pause]") -> None:
        for pause in list(queryset):
            self.delete_model(request, pause)

    @admin.display(description=_("paused"))
    def what(self, pause: Pause) -> str:
        return capfirst(_scope(pause))

    @admin.display(description=_("since"), ordering="since")
    def begun(self, pause: Pause) -> str:
        return _time_and_distance(pause.since)


@admin.register(Lock)
class LockAdmin(OnlyShown):
    """Who holds which lock. Nothing to edit: a row that is written or deleted here would let two
    in at once, or begin its terms anew.
    """

    list_display = fields = ("name", "held", "holder", "term", "end")
    ordering = ("name",)
    search_fields = ("name__startswith",)
    paginator = LimitedPaginator
    show_full_result_count = False

    @admin.display(description=_("held"), boolean=True)
    def held(self, lock: Lock) -> bool:
        return bool(lock.holder) and _moment(lock.until) >= client.now(alias())

    @admin.display(description=_("lease ends"))
    def end(self, lock: Lock) -> str:
        if not lock.holder:
            return self.get_empty_value_display()
        return _distance(_moment(lock.until), client.now(alias()))


def _moment(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)
