"""The pages of tasks."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import options
from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.contrib.admin.widgets import (
    AdminSplitDateTime,
    BaseAdminDateWidget,
    BaseAdminTimeWidget,
)
from django.db.models import OuterRef, QuerySet, Subquery
from django.forms.fields import InvalidJSONInput
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import formats
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.text import capfirst
from django.utils.translation import gettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from django_tasks import api
from django_tasks.admin import lists
from django_tasks.admin.lists import (
    SEARCH_HELP,
    SEARCHED,
    CodeFilter,
    LimitedPaginator,
    QueueFilter,
    alias,
    counted,
    may,
    with_key,
)
from django_tasks.admin.words import LONG_CELL, as_json, scope_name, shown, time_and_distance
from django_tasks.api import CancelResult
from django_tasks.client.arguments import checked_task
from django_tasks.exceptions import TaskException, TaskExists, TaskValueError
from django_tasks.handlers.registry import get_task_handlers
from django_tasks.models import Task, WorkerRow
from django_tasks.values.status import Status

if TYPE_CHECKING:
    TaskModelAdmin = admin.ModelAdmin[Task]
    TaskModelForm = forms.ModelForm[Task]
else:
    TaskModelAdmin = admin.ModelAdmin
    TaskModelForm = forms.ModelForm

# Of a longer text a task's page shows a part, and a longer payload cannot be edited there: as a
# form it would exceed DATA_UPLOAD_MAX_MEMORY_SIZE, and browsers choke on it.
LONG_TEXT = 100_000
MOST_NAMED = 10  # pauses, above the list of tasks

_SAVING: dict[int, Any] = {
    Status.PENDING: _("Saving adds the task again."),
    Status.RUNNING: _("It is running. Saving adds it again: it runs once more after this run."),
    Status.FAILED: _("It has failed. Saving adds it again: it waits anew, with all its attempts."),
    Status.PAUSED: _("It is paused. Saving adds it again; it stays paused."),
    Status.CANCELLING: _("It is being cancelled while it runs. Saving takes that back."),
    Status.PAUSING: _("It is running its last time before a pause. Saving adds it again, paused."),
}


# The form


def _exact_format(kind: str, part: str) -> str:
    """The first of the language's input formats that says ``part`` of a date or a time."""
    known: list[str] = formats.get_format(kind)  # and ISO's among them, whatever the language
    return next(form for form in known if part in form and "%f" not in form)


class ExactDate(BaseAdminDateWidget):
    def format_value(self, value: Any) -> Any:
        return formats.localize_input(value, _exact_format("DATE_INPUT_FORMATS", "%Y"))


class ExactTime(BaseAdminTimeWidget):
    def format_value(self, value: Any) -> Any:
        return formats.localize_input(value, _exact_format("TIME_INPUT_FORMATS", "%S"))


class ExactWhen(AdminSplitDateTime):
    """Django's widget, but with seconds and whole years in every language.

    It writes a time in the first format that a language reads, and in Chinese that has no seconds.
    """

    def __init__(self, attrs: Any = None) -> None:
        super().__init__(attrs)
        self.widgets = (ExactDate(attrs), ExactTime(attrs))


class PayloadField(forms.JSONField):
    """JSON to be read by people: indented, and nothing where there is nothing."""

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, InvalidJSONInput):
            return value
        if value is None:
            return ""
        # Thirty levels deep, each number is a line of sixty blanks.
        indented = json.dumps(value, ensure_ascii=False, indent=2)
        return indented if len(indented) <= LONG_TEXT else as_json(value)


class TaskForm(TaskModelForm):
    """Checks as ``add_task`` does, and that nobody has moved the task since the form was opened."""

    seen_version = forms.IntegerField(widget=forms.HiddenInput, required=False)

    class Meta:
        model = Task
        fields = ("biz_code", "biz_num", "when", "schedule", "biz_ext", "queue", "priority")
        field_classes = {"biz_ext": PayloadField, "schedule": forms.CharField}
        widgets: ClassVar[Any] = {
            "when": ExactWhen,
            "schedule": forms.TextInput(attrs={"size": 60}),
        }

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
            self._keep_what_nobody_edited()
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

    def _keep_what_nobody_edited(self) -> None:
        """A form tells less than a row: it has no microseconds, and an hour that comes twice once.

        So a field that was sent back as it was shown keeps its value, and cannot be wrong.
        """
        for name in set(self.fields) - {*self.changed_data, "seen_version"}:
            self.errors.pop(name, None)
            self.cleaned_data[name] = getattr(self.instance, name)

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]
        if not self.errors:
            try:
                checked_task(self.instance, alias())
            except TaskValueError as error:
                field = error.field if error.field in self.fields else None
                self.add_error(field, capfirst(f"{error.problem}."))
            except TaskException as error:  # a schedule whose library is not installed here
                self.add_error("schedule", str(error))


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
    search_fields = SEARCHED
    search_help_text = SEARCH_HELP
    actions = ("run_now", "cancel", "pause", "resume", "requeue")
    delete_confirmation_max_display = 100  # Django 6.1
    readonly_fields = (
        "status_word",
        "attempts",
        "rescues",
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
        plan = ("when", schedule, payload, "queue", "priority")
        if obj is None:
            return [(None, {"fields": ("biz_code", "biz_num", *plan)})]
        saving: dict[str, Any] = {"fields": plan}
        if self.has_change_permission(request, obj):
            saving = {"fields": (*plan, "seen_version"), "description": _SAVING[obj.status]}
        runs = ("attempts", "rescues", "worker", "claim_time", "error", "ended_runs")
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
        return with_key(queryset.defer("biz_ext", "last_error", "schedule"), search_term), False

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        response = super().changelist_view(request, extra_context)
        context = getattr(response, "context_data", None) or {}
        if "cl" in context and (notes := list(self._notes(context["cl"].result_count))):
            context["subtitle"] = " ".join(notes)
        return response

    def _notes(self, count: int) -> Iterator[str]:
        """What whoever looks at the list should know about all of it."""
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
        return format_html("{}<br>{}", task.biz_code, task.biz_num)

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
        return may(request, "run")

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return may(request, "cancel")

    def response_action(
        self, request: HttpRequest, queryset: "QuerySet[Task]", *args: Any, **kwargs: Any
    ) -> HttpResponse | None:
        """Refuse "all of them" where that is more than the list has counted."""
        if request.POST.get("select_across") == "1" and counted(queryset) >= lists.LIST_LIMIT:
            text = gettext(
                "More than %(count)d tasks: filter or search first. Nothing was changed."
            )
            self.message_user(request, text % {"count": lists.LIST_LIMIT - 1}, messages.ERROR)
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


def _has_long_payload(task: Task) -> bool:
    return len(as_json(task.biz_ext)) > LONG_TEXT


def _has_long_schedule(task: Task) -> bool:
    return len(task.schedule or "") > LONG_CELL


def _cancel_each(tasks: Iterable[Task]) -> dict[Task, CancelResult]:
    return {t: api.cancel_task(t.biz_code, t.biz_num, using=alias()) for t in list(tasks)}


def _log(request: HttpRequest, tasks: list[Task], flag: int, message: str) -> None:
    """Write who did what into the admin's history."""
    if tasks:
        LogEntry.objects.log_actions(str(request.user.pk), tasks, flag, message)
