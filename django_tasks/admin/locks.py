"""The page of locks."""

from datetime import datetime, timedelta

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from django_tasks.admin import site
from django_tasks.admin.display import time_above_distance
from django_tasks.admin.lists import LimitedPaginator, alias
from django_tasks.host.clocks import EPOCH
from django_tasks.models import Lock
from django_tasks.store import clock


class LockAdmin(site.CardPages):
    """Locks and their holders. Nothing to edit: a row that is written or deleted here would let two
    in at once, or begin its terms again.
    """

    list_display = ("name", "held", "holder", "begin", "term", "end")
    fields = (*list_display, "attributes")
    ordering = ("name",)
    search_fields = ("name__startswith",)
    paginator = LimitedPaginator
    show_full_result_count = False

    @admin.display(description=_("held"), boolean=True)
    def held(self, lock: Lock) -> bool:
        return bool(lock.holder) and _moment(lock.until) >= clock.now(alias())

    @admin.display(description=_("since"))
    def begin(self, lock: Lock) -> str:
        if not lock.holder:
            return self.get_empty_value_display()
        return _time_and_distance(lock.since)

    @admin.display(description=_("lease ends"))
    def end(self, lock: Lock) -> str:
        if not lock.holder:
            return self.get_empty_value_display()
        return _time_and_distance(lock.until)


def _time_and_distance(microseconds: int) -> str:
    return time_above_distance(_moment(microseconds), clock.now(alias()))


def _moment(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)
