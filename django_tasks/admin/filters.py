"""The filters of the list of tasks. The URL has what is chosen; ``addresses`` reads it."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone as django_timezone
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from django_tasks.admin.lists import MOST_CHOICES, CodeFilter, alias, sees_workers
from django_tasks.models import WorkerRow
from django_tasks.reads.filters import TaskFilter
from django_tasks.reads.workers import name_of
from django_tasks.store import clock
from django_tasks.store.lanes import every_lane
from django_tasks.values.status import Status

Choices = list[tuple[str, Any]]
_LANES = "_django_tasks_lanes"  # of a request


class Chosen(admin.SimpleListFilter):
    """A filter that only shows what is chosen: the list reads all of them together.

    It is shown as a line that opens, with the choice in it.
    """

    template = "admin/django_tasks/filter.html"
    offers: Callable[[], Choices]

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        return self._with_chosen(type(self).offers())

    def _with_chosen(self, offered: Choices) -> Choices:
        chosen = self.value()
        if chosen and chosen not in [value for value, _label in offered]:
            offered.append((chosen, chosen))
        return offered

    def has_output(self) -> bool:
        return True

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        return queryset

    def chosen(self) -> str:
        """The label of the choice; empty if nothing is chosen."""
        chosen = self.value()
        return next((str(label) for value, label in self.lookup_choices if value == chosen), "")


def chosen_filter(name: str, label: Any, offers: Callable[[], Choices]) -> type[Chosen]:
    facts = {"parameter_name": name, "title": label, "offers": staticmethod(offers)}
    return type(f"{name.title().replace('_', '')}Filter", (Chosen,), facts)


def _statuses() -> Choices:
    return [(str(int(status)), status.label) for status in Status]


def _times() -> Choices:
    return [
        ("due", gettext("due now")),
        ("late", gettext("late")),
        ("future", gettext("due in the future")),
    ]


def _recurring() -> Choices:
    return [("1", gettext("recurring")), ("0", gettext("once"))]


def _stuck() -> Choices:
    return [("1", gettext("stuck: its worker is gone or silent"))]


def _spans() -> Choices:
    now = clock.now(alias()).replace(second=0, microsecond=0)
    local = now.astimezone(django_timezone.get_current_timezone())
    midnight = local.replace(hour=0, minute=0, fold=0)
    return [
        (_as_text(now - timedelta(minutes=10)), gettext("failed in the last 10 minutes")),
        (_as_text(now - timedelta(hours=1)), gettext("failed in the last hour")),
        (_as_text(midnight), gettext("failed since midnight")),
        (_as_text(now - timedelta(days=7)), gettext("failed in the last 7 days")),
    ]


def _as_text(moment: datetime) -> str:
    return TaskFilter(since=moment).params()["since"]


class TextFilter(Chosen):
    """A filter by a text that is typed in."""

    template = "admin/django_tasks/text_filter.html"
    help_text: Any

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        return [(self.value() or "", self.value())]

    def choices(self, changelist: Any) -> Iterator[Any]:
        """The one choice: the text, and what else the form has to send."""
        others = changelist.get_filters_params()
        others = {name: value for name, value in others.items() if name != self.parameter_name}
        others |= {"q": [changelist.query]} if changelist.query else {}
        yield {
            "name": self.parameter_name,
            "value": self.value() or "",
            "help": self.help_text,
            "others": [(name, each) for name, found in others.items() for each in found],
            "query_string": changelist.get_query_string(remove=[self.parameter_name]),
        }


class ExceptionFilter(TextFilter):
    title = _("exception")
    parameter_name = "exception"
    help_text = _("A class, such as ConnectionError. Of what has failed, unless a status is named.")


class ErrorFilter(TextFilter):
    title = _("error")
    parameter_name = "error"
    help_text = _("Any text in the last error.")


class TaskCodeFilter(CodeFilter):
    template = Chosen.template
    has_output = Chosen.has_output
    chosen = Chosen.chosen


class PlaceFilter(Chosen):
    """The codes or the queues that there are: all lanes together are a statement for each status,
    which is asked once for a page.
    """

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        lanes: Any = getattr(request, _LANES, None)
        if lanes is None:
            lanes = [lane for status in Status for lane in every_lane(status, using=alias())]
            setattr(request, _LANES, lanes)
        found = {getattr(lane, str(self.parameter_name)) for lane in lanes} | {self.value() or ""}
        return [(value, value) for value in sorted(found - {""})[:MOST_CHOICES]]


class OfCodeFilter(PlaceFilter):
    title = _("code")
    parameter_name = "biz_code"


class OfQueueFilter(PlaceFilter):
    title = _("queue")
    parameter_name = "queue"


class OfWorkerFilter(Chosen):
    title = _("worker")
    parameter_name = "worker"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        rows = WorkerRow._base_manager.using(alias()).only("name").order_by("id")[:MOST_CHOICES]
        named = sees_workers(request)
        return self._with_chosen([(str(row.pk), name_of(row, named)) for row in rows])


TASK_FILTERS = (
    chosen_filter("status__exact", _("status"), _statuses),
    OfCodeFilter,
    OfQueueFilter,
    chosen_filter("due", _("due"), _times),
    chosen_filter("recurring", _("recurring"), _recurring),
    OfWorkerFilter,
    chosen_filter("stuck", _("stuck"), _stuck),
    ExceptionFilter,
    ErrorFilter,
    chosen_filter("since", pgettext_lazy("failed", "since"), _spans),
)
