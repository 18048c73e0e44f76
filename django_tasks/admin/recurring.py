"""The pages of what repeats: every schedule, and one schedule with its next times."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django.contrib import messages
from django.contrib.admin.models import CHANGE
from django.core.exceptions import PermissionDenied
from django.db.models import OuterRef, Subquery
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_tasks import api
from django_tasks.admin.display import distance, told, told_with_day, zone_name
from django_tasks.admin.forms import ScheduleForm
from django_tasks.admin.lists import alias, may, note
from django_tasks.admin.task_steps import (
    ANEW,
    MOVED,
    PAUSE,
    RESUME,
    PageStep,
    begins_anew,
    guarded,
    seen_of,
)
from django_tasks.admin.task_views import TaskSteps, no_task
from django_tasks.client.arguments import check_code
from django_tasks.exceptions import TaskException, TaskValueError
from django_tasks.models import Task, TaskRun
from django_tasks.reads import recurring
from django_tasks.reads.words import as_sentence, listed
from django_tasks.schedules.base import LONGEST
from django_tasks.schedules.policies import Plan, clauses
from django_tasks.store import clock
from django_tasks.store.pauses import PauseIndex
from django_tasks.timezones import aware
from django_tasks.values.hosts import is_schedule_num
from django_tasks.values.keys import check_number
from django_tasks.values.status import OWNED, Status

MOST_TIMES = 10

_CHANGED = _("Schedule changed from “%(before)s” to “%(schedule)s”.")
_SAVING = {
    Status.PENDING: _("Saving moves the task to the first of these times."),
    Status.RUNNING: _("It is running. This run goes on, and then the first of these times counts."),
    Status.FAILED: _("It has failed. Saving lets it wait again, for the first of these times."),
    Status.PAUSED: _("It is paused, and stays paused. The first of these times counts afterwards."),
    Status.CANCELLING: _(
        "It is being cancelled while it runs. Saving takes that back: this run goes on, and then "
        "the first of these times counts."
    ),
    Status.PAUSING: _(
        "It is running its last time before a pause. It is paused afterwards, and the first of "
        "these times counts when it is resumed."
    ),
}


@dataclass(frozen=True, kw_only=True)
class RecurringRow:
    """One schedule in the list."""

    task: Task
    status: Status
    options: str
    is_own: bool
    hint: str
    last: TaskRun | None
    ended: str
    next: str
    away: str
    step: PageStep | None
    address: str
    seen: str


class RecurringPages(TaskSteps):
    """The list of schedules, and the page on which one is tried and saved."""

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        return [
            path("recurring/", view(self.recurring_view), name="django_tasks_recurring"),
            path(
                "recurring/schedule/",
                view(self.schedule_view),
                name="django_tasks_recurring_schedule",
            ),
            *super().get_urls(),
        ]

    # Every schedule

    def recurring_view(self, request: HttpRequest) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        using = alias()
        context: dict[str, Any] = {"zone": zone_name()}
        try:
            code, after = _place(request.GET)
        except TaskValueError as error:
            return self.go(request, request.path, as_sentence(error.problem), messages.ERROR)
        if code:
            look = recurring.look(code, after, using=using)
            looks: Sequence[recurring.CodeLook] = (look,)
            context |= {"code": code, "look": look, "more": look.further}
        else:
            page = recurring.page_of_codes(after, using=using)
            looks = page.looks
            context |= {"more": page.further, "partly": [each for each in looks if each.further]}
        # Rows of handlers stand on the first page, and are left out where they are met again.
        own = recurring.own_rows(using=using)
        first = [] if after else [row for row in own.rows if code in ("", row.biz_code)]
        met = {row.pk for row in own.rows}
        ids = [pk for each in looks for pk in each.ids if pk not in met]
        tasks = recurring.rows_of(ids, using=using) if ids else []
        context |= {
            "rows": self._recurring_rows(request, [*first, *tasks]),
            "missing": own.missing if not code and not after else (),
            "back": request.get_full_path(),
            "sees_runs": request.user.has_perm("django_tasks.view_taskrun"),
            "changes": self.has_change_permission(request),
        }
        return self.page(request, "task/recurring.html", _("Recurring tasks"), **context)

    def _recurring_rows(self, request: HttpRequest, tasks: Sequence[Task]) -> list[RecurringRow]:
        using = alias()
        now = clock.now(using)
        held = PauseIndex(api.paused(using=using))
        runs = _last_runs(tasks, using)
        pausing = may(request, PAUSE.permission)
        return [self._recurring_row(task, runs.get(task.pk), held, pausing, now) for task in tasks]

    def _recurring_row(
        self,
        task: Task,
        last: TaskRun | None,
        held: PauseIndex,
        pausing: bool,
        now: datetime,
    ) -> RecurringRow:
        status = Status(task.status)
        step = next((each for each in (PAUSE, RESUME) if pausing and status in each.means), None)
        due = aware("when", task.when)
        if last is not None and task.last_run is not None and last.ended < task.last_run:
            last = None  # the history has no line of a run that came later
        ended = task.last_run if last is None else last.ended
        return RecurringRow(
            task=task,
            status=status,
            options=listed(clauses(task.options)),
            is_own=is_schedule_num(task.biz_num),
            hint=_hint(task, held),
            last=last,
            ended=told(ended) if ended else "",
            next=told(due),
            away=distance(due, now),
            step=step,
            address=self.step_address(task, step) if step else "",
            seen=seen_of(task),
        )

    # One schedule

    def schedule_view(self, request: HttpRequest) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        is_post = request.method == "POST"
        data = request.POST if is_post else request.GET
        task = self.get_object(request, data["task"]) if data.get("task") else None
        if data.get("task") and task is None:
            return no_task(self, request)
        can_save = task is not None and not is_schedule_num(task.biz_num)
        can_save = can_save and self.has_change_permission(request, task)
        if is_post and not can_save:
            raise PermissionDenied
        text = data.get("schedule")
        form = ScheduleForm(None if text is None else {"schedule": text}, initial=_initial(task))
        plan = form.plan if form.is_bound and form.is_valid() else None
        if is_post and task is not None and plan is not None:
            return self._save_schedule(request, task, plan)
        context = {
            "form": form,
            "task": task,
            "is_own": task is not None and is_schedule_num(task.biz_num),
            "can_save": can_save,
            "seen": data.get("seen") or (seen_of(task) if task else ""),
            "saving": _saving_means(task) if task else (),
            "zone": zone_name(),
            **(_preview_of(task) if text is None else _preview(plan)),
        }
        title = _("A schedule and its next times")
        return self.page(request, "task/schedule.html", title, **context)

    def _save_schedule(self, request: HttpRequest, task: Task, plan: Plan) -> HttpResponse:
        using = alias()
        address = self.address("django_tasks_task_change", task.pk)
        change = partial(
            api.update_task, task.biz_code, task.biz_num, using=using, schedule=str(plan)
        )
        try:
            done = guarded(task.pk, request.POST.get("seen", ""), change, using=using)
        except TaskException as error:
            return self.go(request, address, as_sentence(str(error)), messages.ERROR)
        if not done:
            return self.go(request, address, MOVED % {"task": task}, messages.WARNING)
        facts = {"before": task.schedule or "-", "schedule": str(plan), "task": task}
        note(request, [task], CHANGE, lambda: _CHANGED % facts)
        said = gettext("Task %(task)s repeats now: %(schedule)s.") % facts
        return self.go(request, address, said, messages.SUCCESS)


def _place(asked: Any) -> tuple[str, str]:
    code, after = asked.get("code", "").strip(), asked.get("after", "")
    if code:
        return check_code(code), check_number(after) if after else ""
    return "", check_code(after) if after else ""


def _saving_means(task: Task) -> list[Any]:
    means = _SAVING[Status(task.status)]
    return [means, ANEW] if begins_anew(task) else [means]


def _initial(task: Task | None) -> dict[str, str]:
    if task is None or not task.schedule:
        return {}
    return {"schedule": task.schedule[: LONGEST + 1]}


def _preview(plan: Plan | None) -> dict[str, Any]:
    if plan is None:
        return {}
    now = clock.now(alias())
    return {"plan": plan, **_told(recurring.coming(plan.schedule, None, now, MOST_TIMES), now)}


def _preview_of(task: Task | None) -> dict[str, Any]:
    if task is None or not task.schedule:
        return {}
    now = clock.now(alias())
    if task.status not in (Status.PENDING, Status.PAUSED):
        return _told(recurring.coming_of(task, now, MOST_TIMES), now)
    due = aware("when", task.when)
    coming = recurring.coming_of(task, max(now, due), MOST_TIMES - 1)
    return _told(coming._replace(times=(due, *coming.times)), now)


def _told(coming: recurring.NextTimes, now: datetime) -> dict[str, Any]:
    times = [(told_with_day(each), distance(each, now)) for each in coming.times]
    return {"times": times, "times_error": coming.error}


def _last_runs(tasks: Sequence[Task], using: str) -> dict[int, TaskRun]:
    if not tasks:
        return {}
    runs = TaskRun._base_manager.using(using)
    of_task = runs.filter(biz_code=OuterRef("biz_code"), biz_num=OuterRef("biz_num"))
    last = Subquery(of_task.order_by("-id").values("pk")[:1])
    rows = Task._base_manager.using(using).filter(pk__in=[task.pk for task in tasks])
    found = dict(rows.annotate(line=last).values_list("pk", "line"))
    there = runs.defer("error", "detail").in_bulk([pk for pk in found.values() if pk is not None])
    return {task: there[run] for task, run in found.items() if run in there}


def _hint(task: Task, held: PauseIndex) -> str:
    if task.status == Status.FAILED:
        return gettext("stands still until it is requeued")
    if task.status in (Status.PAUSED, Status.PAUSING):
        return gettext("stands still until it is resumed")
    if task.status == Status.CANCELLING:
        return gettext("ends with this run")
    if held.widest(task.queue, task.biz_code):
        return gettext("its code or queue is paused")
    if not _is_readable(task):
        return gettext("its schedule cannot be read here")
    return gettext("runs now") if task.status in OWNED else ""


def _is_readable(task: Task) -> bool:
    try:
        recurring.schedule_of(task)
    except Exception:  # noqa: BLE001 - a handler's own trigger may raise anything
        return False
    return True
