"""Failures by code and exception: the first look of somebody who is called at night."""

from collections.abc import Sequence
from dataclasses import replace
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
from django_tasks.client.changes import Step
from django_tasks.models import Task
from django_tasks.reads.backlog import Group, failures
from django_tasks.reads.filters import TaskFilter
from django_tasks.reads.words import error_line
from django_tasks.store import clock
from django_tasks.values.status import Status

MOST_GROUPS = 100


class FailurePages(BulkPages):
    """The page of failures."""

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.failures_view)
        return [path("failures/", view, name="django_tasks_failures"), *super().get_urls()]

    def failures_view(self, request: HttpRequest) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        found = failures(using=alias())
        groups = sorted(found.groups, key=lambda group: (-group.count.number, group.biz_code))
        shown, left = groups[:MOST_GROUPS], len(groups) - MOST_GROUPS
        messages, now = _messages(shown, using=alias()), clock.now(alias())
        others = sorted(set(found.by_code) - {group.biz_code for group in groups})
        failed = TaskFilter(status=Status.FAILED)
        context = {
            "groups": [
                self._facts(request, group, message, now)
                for group, message in zip(shown, messages, strict=True)
            ],
            "left_out": max(0, left),
            "others": [
                (code, self._list(replace(failed, code=code))) for code in others[:MOST_GROUPS]
            ],
            "is_more": any(group.count.is_more for group in groups),
            "count": number_of_tasks(*found.count),
            "all_failed": self._list(failed),
            "requeue_all": self._requeue(request, failed),
        }
        return self.page(request, "task/failures.html", _("Failures"), **context)

    def _facts(
        self, request: HttpRequest, group: Group, message: str, now: datetime
    ) -> dict[str, Any]:
        tasks = TaskFilter(status=Status.FAILED, code=group.biz_code, exception=group.exception)
        return {
            "group": group,
            "message": message,
            "count": number_of_tasks(*group.count),
            "first": moment_and_distance(group.first, now),
            "last": moment_and_distance(group.last, now),
            "list": self._list(tasks),
            # Without an exception the filter would mean all failures of the code.
            "requeue": group.exception and self._requeue(request, tasks),
        }

    def _list(self, tasks: TaskFilter) -> str:
        return list_of(tasks, self.admin_site.name)

    def _requeue(self, request: HttpRequest, tasks: TaskFilter) -> str:
        may_requeue = self.may_take(request, Step.REQUEUE)
        return bulk_of(tasks, Step.REQUEUE.value, self.admin_site.name) if may_requeue else ""


def _messages(groups: Sequence[Group], *, using: str) -> list[str]:
    ids = [group.last_id for group in groups]
    rows = Task._base_manager.using(using).filter(pk__in=ids).order_by()
    facts = rows.annotate(tail=Right("last_error", ERROR_TAIL))
    lines = {pk: error_line(*error) for pk, *error in facts.values_list("pk", "exception", "tail")}
    return [
        lines.get(group.last_id, "").removeprefix(group.name).removeprefix(": ") for group in groups
    ]
