"""Failures by code and exception: the first look of somebody who is called at night."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models.functions import Right
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext_lazy as _

from django_tasks.admin.addresses import bulk_of, list_of
from django_tasks.admin.bulk import BulkPages
from django_tasks.admin.display import ERROR_TAIL, moment_and_distance, number_of_tasks
from django_tasks.admin.lists import alias
from django_tasks.models import Task
from django_tasks.monitoring.errors import error_line
from django_tasks.monitoring.filters import TaskFilter
from django_tasks.monitoring.many import Step
from django_tasks.store import clock
from django_tasks.timezones import aware
from django_tasks.values.status import Status

MOST_GROUPS = 100
# Rows that are looked at: of each the exception is in the table, and no index has it.
MOST_SEEN = 2_000


@dataclass
class Group:
    """The FAILED tasks of one code with one exception."""

    biz_code: str
    exception: str
    first: datetime
    last: datetime
    last_id: int
    count: int = 0
    message: str = ""
    shown: dict[str, Any] = field(default_factory=dict)

    def add(self, moment: datetime, pk: int) -> None:
        self.count += 1
        self.first = min(self.first, moment)
        if moment >= self.last:
            self.last, self.last_id = moment, pk

    @property
    def name(self) -> str:
        return self.exception.rpartition(".")[2]

    @property
    def tasks(self) -> TaskFilter:
        return TaskFilter(status=Status.FAILED, code=self.biz_code, exception=self.exception)


class FailurePages(BulkPages):
    """The page of failures."""

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.failures_view)
        return [path("failures/", view, name="django_tasks_failures"), *super().get_urls()]

    def failures_view(self, request: HttpRequest) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        groups, seen = failed_groups(using=alias())
        site, may_requeue = self.admin_site.name, self.may_take(request, Step.REQUEUE)
        now = clock.now(alias())
        for group in groups:
            group.shown = {
                "count": number_of_tasks(group.count, False),
                "first": moment_and_distance(group.first, now),
                "last": moment_and_distance(group.last, now),
                "list": list_of(group.tasks, site),
                # Without an exception the filter would mean all failures of the code.
                "requeue": may_requeue
                and group.exception
                and bulk_of(group.tasks, Step.REQUEUE.value, site),
            }
        is_more = seen > MOST_SEEN
        failed = TaskFilter(status=Status.FAILED)
        context = {
            "groups": groups[:MOST_GROUPS],
            "left_out": len(groups) - MOST_GROUPS if len(groups) > MOST_GROUPS else 0,
            "is_more": is_more,
            "count": number_of_tasks(min(seen, MOST_SEEN), is_more),
            "all_failed": list_of(failed, site),
            "requeue_all": may_requeue and bulk_of(failed, Step.REQUEUE.value, site),
        }
        return self.page(request, "task/failures.html", _("Failures"), **context)


def failed_groups(*, using: str) -> tuple[list[Group], int]:
    """The groups of FAILED tasks, the largest first, and the number of rows that were looked at.

    No more than one beyond MOST_SEEN, by the claim index.
    """
    rows = Task._base_manager.using(using).filter(status=Status.FAILED).order_by()
    facts = rows.values_list("biz_code", "exception", "update_time", "id")
    groups: dict[tuple[str, str], Group] = {}
    seen = 0
    for code, exception, updated, pk in facts[: MOST_SEEN + 1]:
        seen += 1
        moment = aware("update_time", updated)
        new = Group(code, exception, moment, moment, pk)
        groups.setdefault((code, exception), new).add(moment, pk)
    found = sorted(groups.values(), key=lambda group: (-group.count, group.biz_code))
    _add_messages(found[:MOST_GROUPS], using)
    return found, seen


def _add_messages(groups: Iterable[Group], using: str) -> None:
    by_id = {group.last_id: group for group in groups}
    rows = Task._base_manager.using(using).filter(pk__in=by_id).order_by()
    for pk, exception, tail in rows.annotate(tail=Right("last_error", ERROR_TAIL)).values_list(
        "pk", "exception", "tail"
    ):
        line = error_line(exception, tail)
        by_id[pk].message = line.removeprefix(by_id[pk].name).removeprefix(": ")
