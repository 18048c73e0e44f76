"""The addresses of the steps with one task: each asks where it matters, and each is a POST."""

from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from django.contrib.admin.models import CHANGE, DELETION
from django.contrib.messages import SUCCESS, WARNING
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_tasks.admin.display import told, zone_name
from django_tasks.admin.forms import RescheduleForm
from django_tasks.admin.lists import alias, may, note
from django_tasks.admin.site import FramedPages
from django_tasks.admin.task_steps import (
    CANCEL,
    CANCELLED_WHILE_IT_RUNS,
    GONE,
    MOVED,
    RESCHEDULE,
    STEPS,
    PageStep,
    cancel_means,
    guarded,
    seen_of,
)
from django_tasks.models import Task
from django_tasks.store import clock
from django_tasks.timezones import aware
from django_tasks.values.status import OWNED, Status

# The waits that one click gives, in seconds.
WAITS = {
    300: _("in 5 minutes"),
    1800: _("in 30 minutes"),
    7200: _("in 2 hours"),
    86_400: _("in 1 day"),
}


class Button(NamedTuple):
    """A step as a task's page offers it: at once, or on a page that asks first."""

    step: PageStep
    address: str
    means: Any
    asks: bool

    @property
    def is_danger(self) -> bool:
        return self.step is CANCEL


class TaskSteps(FramedPages):
    """The steps with one task."""

    def get_urls(self) -> list[Any]:
        mine = [
            path(
                f"<path:object_id>/{step.address}/",
                self.admin_site.admin_view(partial(self.step_view, step=step)),
                name=f"django_tasks_task_{step.address.replace('-', '_')}",
            )
            for step in STEPS
        ]
        return [*mine, *super().get_urls()]

    def step_view(self, request: HttpRequest, object_id: str, step: PageStep) -> HttpResponse:
        if not self.has_view_permission(request) or not may(request, step.permission):
            raise PermissionDenied
        task = self.get_object(request, object_id)
        if task is None:
            return no_task(self, request)
        seen = (request.POST if request.method == "POST" else request.GET).get("seen", "")
        has_moved = seen != seen_of(task) or Status(task.status) not in step.means
        if has_moved and (seen or request.method == "POST"):
            return self._tell_step(request, task, MOVED, WARNING)
        if step is RESCHEDULE:
            return self._reschedule_view(request, task, seen)
        if request.method == "POST":
            return self._take_step(request, task, step, seen)
        return self._ask(request, task, step)

    def step_buttons(self, request: HttpRequest, task: Task) -> list[Button]:
        """The steps that make sense for a task now, and that the user may take."""
        status = Status(task.status)
        return [
            Button(step, self.step_address(task, step), step.means[status], status in step.asks)
            for step in STEPS
            if status in step.means and may(request, step.permission)
        ]

    def step_address(self, task: Task, step: PageStep) -> str:
        return self.address(f"django_tasks_task_{step.address.replace('-', '_')}", task.pk)

    # What is asked

    def _ask(self, request: HttpRequest, task: Task, step: PageStep, **more: Any) -> HttpResponse:
        means: list[Any] = [step.means.get(Status(task.status), "")]
        if step is CANCEL:
            means = cancel_means(task)
        context = {
            "task": task,
            "step": step,
            "status": Status(task.status),
            "is_possible": Status(task.status) in step.means,
            "means": means,
            "is_danger": step is CANCEL,
            "yes": _("Yes, cancel it") if step is CANCEL else step.label,
            "seen": seen_of(task),
            "due": told(task.when),
            **more,
        }
        return self.page(request, "task/step.html", step.label, **context)

    def _reschedule_view(self, request: HttpRequest, task: Task, seen: str) -> HttpResponse:
        form = RescheduleForm(initial={"when": aware("when", task.when)})
        when: datetime | timedelta | None = None
        if request.method == "POST":
            when = _wait(request.POST.get("wait", ""))
            if when is None:
                form = RescheduleForm(request.POST, initial=form.initial)
                when = form.cleaned_data["when"] if form.is_valid() else None
        if when is not None:
            now = clock.now(alias())
            moment = now + when if isinstance(when, timedelta) else aware("when", when)
            return self._take_step(request, task, RESCHEDULE, seen, when=moment)
        more = {"form": form, "waits": WAITS, "zone": zone_name()}
        return self._ask(request, task, RESCHEDULE, **more | {"media": self.media + form.media})

    # What is done

    def _take_step(
        self, request: HttpRequest, task: Task, step: PageStep, seen: str, **facts: datetime
    ) -> HttpResponse:
        using = alias()
        act = partial(step.take, task.biz_code, task.biz_num, using, **facts)
        if not guarded(task.pk, seen, act, using=using):
            return self._tell_step(request, task, MOVED, WARNING)
        said = {name: told(value) for name, value in facts.items()}
        words = {"before": told(task.when), **said}
        flag = DELETION if step is CANCEL else CHANGE
        note(request, [task], flag, lambda: step.logged % words)
        done = step.done
        if step is CANCEL and task.status in OWNED:
            done = CANCELLED_WHILE_IT_RUNS
        return self._tell_step(request, task, done, SUCCESS, **said)

    def _tell_step(
        self, request: HttpRequest, task: Task, sentence: Any, level: int, **facts: str
    ) -> HttpResponse:
        is_there = Task._base_manager.using(alias()).filter(pk=task.pk).exists()
        if sentence is MOVED and not is_there:
            sentence = GONE
        back = request.POST.get("back", "")
        if back.partition("?")[0] != self.address("django_tasks_recurring"):
            own = self.address("django_tasks_task_change", task.pk)
            back = own if is_there else self.address("django_tasks_task_changelist")
        return self.go(request, back, sentence % {"task": task, **facts}, level)


def no_task(page: FramedPages, request: HttpRequest) -> HttpResponse:
    """Say that there is no such task any more, on the list of tasks."""
    text = gettext("This task has ended, or there never was one.")
    return page.go(request, page.address("django_tasks_task_changelist"), text, WARNING)


def _wait(text: str) -> timedelta | None:
    return next((timedelta(seconds=each) for each in WAITS if str(each) == text), None)
