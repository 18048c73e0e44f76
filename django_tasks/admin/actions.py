"""The actions on tasks, and their deletion, which is a cancel."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from django.contrib import admin, messages
from django.contrib.admin import options
from django.contrib.admin.models import CHANGE, DELETION
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from django_tasks import api
from django_tasks.admin.addresses import bulk_of, tasks_of
from django_tasks.admin.bulk import step_of
from django_tasks.admin.columns import TaskColumns
from django_tasks.admin.lists import alias, may, note
from django_tasks.api import CancelResult
from django_tasks.models import Task
from django_tasks.reads.words import in_a_row
from django_tasks.values.status import OWNED


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


class ListStep(NamedTuple):
    """Something done to a task by its key, and the sentences that count how it went."""

    name: Any
    take: Callable[..., bool]
    done: Any
    left: Any


RUN_NOW = ListStep(
    _("Run now"),
    api.run_task_now,
    ngettext_lazy("%(count)d task is due now.", "%(count)d tasks are due now.", "count"),
    _GONE,
)
PAUSE = ListStep(
    _("Pause"),
    api.pause_task,
    ngettext_lazy("%(count)d task paused.", "%(count)d tasks paused.", "count"),
    ngettext_lazy(
        "%(count)d left as it was: only waiting and running tasks can be paused.",
        "%(count)d left as they were: only waiting and running tasks can be paused.",
        "count",
    ),
)
RESUME = ListStep(
    _("Resume"),
    api.resume_task,
    ngettext_lazy("%(count)d task resumed.", "%(count)d tasks resumed.", "count"),
    ngettext_lazy(
        "%(count)d left as it was: it is not paused.",
        "%(count)d left as they were: they are not paused.",
        "count",
    ),
)
REQUEUE = ListStep(
    _("Requeue (failed tasks)"),
    api.requeue_task,
    ngettext_lazy("%(count)d task requeued.", "%(count)d tasks requeued.", "count"),
    ngettext_lazy(
        "%(count)d left as it was: it has not failed.",
        "%(count)d left as they were: they have not failed.",
        "count",
    ),
)


def _steering(step: ListStep, permission: str) -> Any:
    @_action(step.name, permission)
    def steer(page: "TaskActions", request: HttpRequest, queryset: "QuerySet[Task]") -> None:
        tasks = list(queryset)
        changed = [t for t in tasks if step.take(t.biz_code, t.biz_num, using=alias())]
        note(request, changed, CHANGE, lambda: step.name)
        left = len(tasks) - len(changed)
        page.tell(request, changed, [(step.done, len(changed)), (step.left, left)])

    return steer


class TaskActions(TaskColumns):
    """The actions of the list and of a task's own page, each with its permission."""

    actions = ("run_now", "cancel", "pause", "resume", "requeue")

    run_now = _steering(RUN_NOW, "run")
    pause = _steering(PAUSE, "pause")
    resume = _steering(RESUME, "pause")
    requeue = _steering(REQUEUE, "run")

    @_action(_("Cancel"), "cancel", on_form=False)
    def cancel(self, request: HttpRequest, queryset: "QuerySet[Task]") -> HttpResponse | None:
        if request.POST.get("post") != "yes":
            return self._ask_to_cancel(request, list(queryset))
        results = _cancel_each(queryset)
        found = Counter(results.values())
        changed = [t for t, result in results.items() if result is not CancelResult.NOT_FOUND]
        note(request, changed, DELETION, lambda: gettext("Cancel"))
        self.tell(request, changed, [(text, found[result]) for result, text in _CANCELS.items()])
        return None

    def _ask_to_cancel(self, request: HttpRequest, tasks: list[Task]) -> HttpResponse | None:
        if not tasks:
            self.tell(request, [], [])
            return None
        running = sum(1 for task in tasks if task.status in OWNED)
        context = {"tasks": tasks, "running": running, "back": request.get_full_path()}
        return self.page(request, "task/cancel.html", gettext("Cancel tasks"), **context)

    def has_run_permission(self, request: HttpRequest) -> bool:
        return may(request, "run")

    def has_pause_permission(self, request: HttpRequest) -> bool:
        return may(request, "pause")

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return may(request, "cancel")

    def response_action(
        self, request: HttpRequest, queryset: "QuerySet[Task]", *args: Any, **kwargs: Any
    ) -> HttpResponse | None:
        """Have "all of them" asked for on the page for that; it has no limit."""
        if request.POST.get("select_across") != "1":
            return super().response_action(request, queryset, *args, **kwargs)
        name = request.POST.get("action", "")
        tasks = tasks_of(request.GET.dict())
        step = step_of("cancel" if name == "delete_selected" else name)
        if step is None or not self.may_take(request, step) or not tasks:
            text = gettext("Choose a filter first: that would be all tasks.")
            self.message_user(request, text, messages.ERROR)
            return None
        return HttpResponseRedirect(bulk_of(tasks, step.value, self.admin_site.name))

    def delete_model(self, request: HttpRequest, obj: Task) -> None:
        self._tell_deleted(request, _cancel_each([obj]).values())

    def delete_queryset(self, request: HttpRequest, queryset: "QuerySet[Task]") -> None:
        self._tell_deleted(request, _cancel_each(queryset).values())

    def tell(
        self, request: HttpRequest, changed: list[Task], sentences: list[tuple[Any, int]]
    ) -> None:
        said = [str(text % {"count": count}) for text, count in sentences if count]
        level = messages.SUCCESS if changed else messages.WARNING
        self.message_user(request, in_a_row(said or [gettext("Nothing was changed.")]), level)

    def _tell_deleted(self, request: HttpRequest, results: Iterable[CancelResult]) -> None:
        found = Counter(results)
        for result in (CancelResult.CANCELLING, CancelResult.NOT_FOUND):
            if found[result]:
                text = _CANCELS[result] % {"count": found[result]}
                self.message_user(request, text, messages.WARNING)


def _cancel_each(tasks: Iterable[Task]) -> dict[Task, CancelResult]:
    return {t: api.cancel_task(t.biz_code, t.biz_num, using=alias()) for t in list(tasks)}
