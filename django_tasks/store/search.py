"""The rows that a caller means: reads that mean the same on every database."""

import re
from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connections
from django.db.models import Q, QuerySet, TextField, Value
from django.db.models.functions import Cast, StrIndex
from django.db.models.lookups import Exact, GreaterThan

from django_tasks.host.clocks import EPOCH
from django_tasks.models import Task
from django_tasks.store.dialects import dialect_of
from django_tasks.store.pauses import PauseIndex, pauses
from django_tasks.timezones import aware, for_django
from django_tasks.values.hosts import number_of
from django_tasks.values.keys import SCHEDULE_NUM
from django_tasks.values.options import NO_OPTIONS, TaskOptions
from django_tasks.values.status import Status

LAST_LETTER = "\U0010ffff"


def key(biz_code: str, biz_num: str) -> Q:
    """The one task of a key."""
    return Q(biz_code=biz_code, biz_num=biz_num)


def with_keys(keys: Collection[tuple[str, str]], *, using: str) -> list[Task]:
    """The rows of ``keys``, in the order of keys."""
    numbers = defaultdict(list)
    for biz_code, biz_num in keys:
        numbers[biz_code].append(biz_num)
    rows = Task._base_manager.using(using)
    found: list[Task] = []
    for biz_code in sorted(numbers):
        found += rows.filter(biz_code=biz_code, biz_num__in=numbers[biz_code]).order_by("biz_num")
    return found


def payload_of(biz_code: str, biz_num: str, *, using: str) -> str | None:
    """The payload of a task as its row has it, JSON text; None if there is none, or no row."""
    rows = Task._base_manager.using(using).filter(key(biz_code, biz_num))
    return rows.values_list(Cast("biz_ext", TextField()), flat=True).first()


class Planned(NamedTuple):
    """The facts of a handler's own row: what its handler says, and when it is due."""

    schedule: str | None
    queue: str
    priority: int
    options: TaskOptions = NO_OPTIONS
    status: Status = Status.PENDING
    when: datetime = EPOCH
    scheduled_time: datetime | None = None
    attempts: int = 0
    rescues: int = 0


def planned(
    numbers: Collection[str], codes: Collection[str], *, using: str
) -> dict[tuple[str, str], Planned]:
    """The rows with these numbers, by key; those that are being cancelled count as absent."""
    rows = Task._base_manager.using(using).filter(biz_code__in=codes, biz_num__in=numbers)
    alive = rows.exclude(status=Status.CANCELLING)
    columns = ("biz_code", "biz_num", *Planned._fields)
    with dialect_of(using).bounded():
        found = list(alive.values_list(*columns))
    return {(code, number): _in_utc(Planned(*plan)) for code, number, *plan in found}


def _in_utc(row: Planned) -> Planned:
    when, scheduled = aware("when", row.when), row.scheduled_time
    return row._replace(when=when, scheduled_time=scheduled and aware("scheduled_time", scheduled))


def at_work(code: str, *, using: str) -> tuple[datetime, Any] | None:
    """The time (aware UTC) and the payload of a handler's own row, if it waits or runs.

    None if it is paused, by itself or as part of a whole. It reads the payload by the project's
    decoder, and makes models: code of the project may run.
    """
    rows = Task._base_manager.using(using).filter(key(code, SCHEDULE_NUM))
    task = rows.filter(status__in=(Status.PENDING, Status.RUNNING)).first()
    if task is None or PauseIndex(pauses(using=using)).widest(task.queue, code):
        return None
    return aware("when", min(task.when, task.scheduled_time or task.when)), task.biz_ext


def of_other_hosts(
    codes: Collection[str], own: str, before: datetime, *, using: str
) -> list[tuple[str, str]]:
    """The keys of rows of handlers on other hosts that nothing has changed since ``before``."""
    rows = Task._base_manager.using(using).filter(biz_code__in=codes)
    of_hosts = rows.filter(_begins_with(number_of(""))).exclude(biz_num=own)
    untouched = of_hosts.filter(update_time__lt=for_django(before))
    with dialect_of(using).bounded():
        return list(untouched.values_list("biz_code", "biz_num"))


def containing(biz_code: str, fragment: str, *, at_start: bool) -> Q:
    """Tasks of a code whose number contains (or begins with) ``fragment``, letter for letter."""
    matching = _begins_with(fragment) if at_start else Q(GreaterThan(_place_of(fragment), 0))
    return Q(biz_code=biz_code) & matching


_SORTS = "_django_tasks_sorts_by_letters"


def beginning(fragment: str, *, using: str) -> Q:
    """Tasks of any code whose number begins with ``fragment``, letter for letter.

    Where the order of numbers is that of their letters an index finds them, within named codes:
    1,900 ms became 2 for a million rows on MariaDB. A collation of PostgreSQL's may have any order;
    only that of letters is sure.
    """
    matching = _begins_with(fragment)
    if _sorts_by_letters(using):
        matching &= Q(biz_num__gte=fragment, biz_num__lte=fragment + LAST_LETTER)
    return matching


def _sorts_by_letters(using: str) -> bool:
    connection = connections[using]
    if connection.vendor != "postgresql":
        return True
    kept: bool | None = vars(connection).get(_SORTS)
    if kept is None:
        template = "SELECT datcollate FROM pg_database WHERE datname = current_database()"
        ((collation,),) = dialect_of(using).fetch(template)
        kept = str(collation).partition(".")[0] in ("C", "POSIX")
        setattr(connection, _SORTS, kept)
    return kept


def _begins_with(fragment: str) -> Q:
    return Q(Exact(_place_of(fragment), 1))


def _place_of(fragment: str) -> StrIndex:
    """Not LIKE: SQLite's takes 'a' for 'A', and % and _ would mean more than themselves."""
    return StrIndex("biz_num", Value(fragment))


def pending_like(biz_code: str, fragment: str, *, using: str) -> QuerySet[Task]:
    """Pending tasks whose number contains ``fragment`` in any case, earliest first.

    An empty code, or fragment, means any.
    """
    pending = Task.objects.using(using).filter(status=Status.PENDING)
    if biz_code:
        pending = pending.filter(biz_code=biz_code)
    if fragment:
        # A pattern rather than LIKE, because SQLite's knows the case of ASCII letters only.
        pattern = dialect_of(using).any_case + re.escape(fragment)
        pending = pending.filter(biz_num__iregex=pattern)
    return pending.order_by("when", "id")
