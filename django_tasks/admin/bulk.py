"""Changes of all tasks that match a filter: asked for on a page, and done a few seconds at a time.

The first page counts and asks. From then on each page is a form that goes on when it is sent, with
what is done so far in it, signed: no request takes long, and nothing is kept on the server but a
line in the admin's log, which is written again each time.
"""

from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.core import signing
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_tasks.admin import lists
from django_tasks.admin.addresses import bulk_of, list_of, refused_list, tasks_of
from django_tasks.admin.display import in_brackets, number_of_tasks, told, zone_name
from django_tasks.admin.lists import alias, in_project_words, may
from django_tasks.admin.site import FramedPages
from django_tasks.client.changes import Step
from django_tasks.exceptions import TaskException
from django_tasks.host.clocks import ticks
from django_tasks.models import Task
from django_tasks.reads.filters import TaskFilter
from django_tasks.reads.many import meant, steps
from django_tasks.reads.words import Amount, counted, in_a_row
from django_tasks.store import clock
from django_tasks.timezones import aware
from django_tasks.values.status import OWNED

# How long one request may work, and how long its form is good for.
SECONDS = 2.0
GOOD_FOR = 86_400
BATCH = 500
SALT = "django_tasks.admin.bulk"

PERMISSIONS: dict[Step, str] = {
    Step.RUN_NOW: "run",
    Step.REQUEUE: "run",
    Step.MOVE: "run",
    Step.PAUSE: "pause",
    Step.RESUME: "pause",
    Step.CANCEL: "cancel",
}
NAMES: dict[Step, Any] = {
    Step.RUN_NOW: _("Run now"),
    Step.REQUEUE: _("Requeue"),
    Step.MOVE: _("Reschedule"),
    Step.PAUSE: _("Pause"),
    Step.RESUME: _("Resume"),
    Step.CANCEL: _("Cancel tasks"),
}
# What is meant, and what becomes of those that run.
_MEANING: dict[Step, Any] = {
    Step.RUN_NOW: _(
        "Each becomes due now, paused and failed ones too, with all its attempts. One that runs "
        "goes on, and runs once more afterwards."
    ),
    Step.REQUEUE: _(
        "Each that has failed gets a fresh start: it is due now, with all its attempts. Others are "
        "left as they are."
    ),
    Step.MOVE: _(
        "Each becomes due at the time below; a failed one waits again, a paused one stays paused. "
        "One that runs goes on, and runs again then."
    ),
    Step.PAUSE: _(
        "Each that waits does not start until it is resumed. One that runs ends its run first, and "
        "is paused then. Tasks that are added later are not paused."
    ),
    Step.RESUME: _(
        "Each that was paused by itself may start again. A pause of its code or queue stays."
    ),
    Step.CANCEL: _(
        "Each that waits is deleted and never starts. One that runs goes on to the end of its run "
        "unless its handler looks for this, and goes then. This cannot be undone."
    ),
}


class BadForm(Exception):
    """A form that was not made here, or for somebody else, or long ago."""


@dataclass(frozen=True)
class Work:
    """A change that was asked for, and what is done of it."""

    step: Step
    tasks: TaskFilter
    total: int
    is_more: bool
    to: datetime | None = None
    after: int = 0
    changed: int = 0
    left: int = 0
    going: int = 0
    log: int | None = None

    def signed(self, request: HttpRequest) -> str:
        facts = asdict(self) | {"step": self.step.value, "tasks": self.tasks.params()}
        facts["to"] = self.to and self.to.isoformat()
        return signing.dumps(facts, salt=_salt(request), compress=True)

    @classmethod
    def read(cls, request: HttpRequest) -> "Work":
        """Read what the form has brought back. Raises BadForm."""
        try:
            facts = signing.loads(
                request.POST.get("work", ""), salt=_salt(request), max_age=GOOD_FOR
            )
            facts["tasks"] = TaskFilter.from_params(facts["tasks"])
            facts["step"] = Step(facts["step"])
            facts["to"] = facts["to"] and datetime.fromisoformat(facts["to"])
            return cls(**facts)
        except (signing.BadSignature, TaskException, KeyError, TypeError, ValueError) as error:
            raise BadForm from error

    def done(self) -> str:
        """Say in words what is done so far."""
        said = [gettext("%(tasks)s changed.") % {"tasks": number_of_tasks(self.changed, False)}]
        for number, text in (
            (self.going, gettext("%(number)s of them run, and go when their runs end.")),
            (self.left, gettext("%(number)s did not match any more.")),
        ):
            if number:
                said.append(text % {"number": Amount(number)})
        return in_a_row(said)

    def told(self) -> str:
        """The same, behind the name of the change."""
        return gettext("%(step)s: %(done)s") % {"step": NAMES[self.step], "done": self.done()}


def _named(kind: str, name: Any, **others: str) -> dict[str, Any]:
    """Attributes of an input of a type, with a name for those who hear the page."""
    return {"type": kind, "aria-label": name, **others}


class MoveForm(forms.Form):
    """The time that tasks are moved to."""

    to = forms.SplitDateTimeField(
        label=_("New time"),
        widget=forms.SplitDateTimeWidget(
            date_attrs=_named("date", _("Date")),
            time_attrs=_named("time", _("Time"), step="1"),
            date_format="%Y-%m-%d",
            time_format="%H:%M:%S",
        ),
        input_date_formats=["%Y-%m-%d"],
        input_time_formats=["%H:%M:%S", "%H:%M"],
    )


class BulkPages(FramedPages):
    """The pages that change all tasks of a filter."""

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.bulk_view)
        return [path("bulk/", view, name="django_tasks_task_bulk"), *super().get_urls()]

    def steps_for_all(self, request: HttpRequest, tasks: TaskFilter) -> list[tuple[str, Any]]:
        """The addresses that ask before all of these tasks are changed, and their names."""
        offered = [step for step in NAMES if self.may_take(request, step)]
        if not tasks:  # all that there is: nobody means that
            offered = [step for step in offered if step is Step.REQUEUE]
        site = self.admin_site.name
        return [(bulk_of(tasks, step.value, site), NAMES[step]) for step in offered]

    def may_take(self, request: HttpRequest, step: Step) -> bool:
        return self.has_view_permission(request) and may(request, PERMISSIONS[step])

    def bulk_view(self, request: HttpRequest) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        return self._bulk_go_on(request) if request.method == "POST" else self._bulk_ask(request)

    def _bulk_ask(self, request: HttpRequest) -> HttpResponse:
        query = request.GET.dict()
        try:
            step = Step(query.pop("step", ""))
            tasks = tasks_of(query).settled(alias())
        except (TaskException, ValueError) as error:
            return self._bulk_refused(request, str(error))
        self._bulk_check(request, step)
        if not tasks and step is not Step.REQUEUE:
            text = gettext("Choose a filter first: that would be all tasks.")
            return self._bulk_end(request, tasks, text, messages.ERROR)
        found = meant(tasks, step, using=alias(), now=clock.now(alias()))
        number = lists.counted_beyond(found)
        work = Work(step, tasks, min(number, lists.LIST_LIMIT), number > lists.LIST_LIMIT)
        return self._bulk_page(request, work, running=_running(tasks, step))

    def _bulk_go_on(self, request: HttpRequest) -> HttpResponse:
        try:
            work = Work.read(request)
        except BadForm:
            text = gettext("This form is not valid any more. Nothing was changed.")
            return self._bulk_refused(request, text)
        self._bulk_check(request, work.step)
        if work.step is Step.MOVE and work.to is None:
            form = MoveForm(request.POST)
            if not form.is_valid():
                return self._bulk_page(request, work, form=form)
            work = replace(work, to=aware("to", form.cleaned_data["to"]))
        try:
            work, is_done = _go_on(request, work)
        except TaskException as error:
            return self._bulk_end(request, work.tasks, str(error), messages.ERROR)
        if not is_done:
            return self._bulk_page(request, work)
        level = messages.SUCCESS if work.changed else messages.WARNING
        return self._bulk_end(request, work.tasks, work.told(), level)

    def _bulk_check(self, request: HttpRequest, step: Step) -> None:
        if not self.may_take(request, step):
            raise PermissionDenied

    def _bulk_refused(self, request: HttpRequest, text: str) -> HttpResponseRedirect:
        return self.go(request, refused_list(self.admin_site.name), text, messages.ERROR)

    def _bulk_end(
        self, request: HttpRequest, tasks: TaskFilter, text: str, level: int
    ) -> HttpResponseRedirect:
        return self.go(request, list_of(tasks, self.admin_site.name), text, level)

    def _bulk_page(
        self,
        request: HttpRequest,
        work: Work,
        *,
        running: str = "",
        form: MoveForm | None = None,
    ) -> HttpResponse:
        asks_time = work.step is Step.MOVE and work.to is None
        context: dict[str, Any] = {
            "media": self.media + forms.Media(js=["django_tasks/bulk.js"]),
            "work": work,
            "signed": work.signed(request),
            "count": number_of_tasks(work.total, work.is_more),
            "words": work.tasks.words(),
            "meaning": _MEANING[work.step],
            "running": running,
            "to": work.to and told(work.to),
            "zone": zone_name(),
            "form": (form or MoveForm()) if asks_time else None,
            "goes_on": work.log is not None,
            "button": f"{NAMES[work.step]}{in_brackets(str(Amount(work.total, work.is_more)))}",
            "back": list_of(work.tasks, self.admin_site.name),
        }
        return self.page(request, "task/bulk.html", NAMES[work.step], **context)


def _go_on(request: HttpRequest, work: Work) -> tuple[Work, bool]:
    until = ticks() + SECONDS
    going = steps(
        work.tasks, work.step, to=work.to, using=alias(), batch_size=BATCH, after=work.after
    )
    try:
        with closing(going):
            for batch in going:
                work = replace(
                    work,
                    after=batch.last_id,
                    changed=work.changed + batch.changed,
                    left=work.left + batch.left,
                    going=work.going + batch.going,
                )
                if ticks() >= until:
                    return replace(work, log=_log(request, work)), False
    except BaseException:
        _log(request, work)  # what is done stands
        raise
    return replace(work, log=_log(request, work)), True


def _log(request: HttpRequest, work: Work) -> int:
    """Write the line of the whole, or write it again; returns its id."""
    message = in_project_words(work.told)
    user: Any = request.user.pk  # as it is: some projects' users have a text for a key
    mine = LogEntry.objects.filter(pk=work.log, user_id=user) if work.log else None
    if mine is not None and mine.update(change_message=message):
        return int(work.log or 0)
    entry = LogEntry.objects.create(
        user_id=user,
        content_type_id=ContentType.objects.get_for_model(Task).pk,
        object_repr=in_project_words(work.tasks.words)[:200],
        action_flag=DELETION if work.step is Step.CANCEL else CHANGE,
        change_message=message,
    )
    return int(entry.pk)


def _running(tasks: TaskFilter, step: Step) -> str:
    number, now = 0, clock.now(alias())
    for status in OWNED:
        # Status by status: then an index leads to them, however many tasks a code has.
        if tasks.status in (None, status):
            running = replace(tasks, status=status)
            number += lists.counted_beyond(meant(running, step, using=alias(), now=now))
    return str(counted(number, lists.LIST_LIMIT)) if number else ""


def _salt(request: HttpRequest) -> str:
    """A form is good for the person alone who was asked."""
    return f"{SALT}.{request.user.pk}"


def step_of(name: str) -> Step | None:
    return Step(name) if name in {step.value for step in Step} else None
