"""Rows that repeat. No index knows them, so each look is bounded, and says how far it went.

The rows of handlers are found by their keys. Other tasks are found code by code, a number of rows
of each: with ten million tasks of a code that do not repeat, a look ends all the same.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

from django.db.models import Q, QuerySet

from django_tasks.handlers.finders import known_handler, known_handlers
from django_tasks.handlers.recurrence import TRIGGER
from django_tasks.models import Task, WorkerRow
from django_tasks.schedules import Schedule, as_schedule
from django_tasks.schedules.accept import stored
from django_tasks.schedules.budget import budget
from django_tasks.store import lanes
from django_tasks.timezones import aware
from django_tasks.values.hosts import is_of_a_host, is_schedule_num, number_in, number_of
from django_tasks.values.keys import SCHEDULE_NUM

CODES = 20  # of one page
LOOK = 250  # rows of each code of a page: each costs MariaDB a look at the table
LOOK_FURTHER = 5_000  # rows, where a single code is looked through
LISTED = 50  # rows of each code
MOST_HANDLERS = 500  # rows of handlers, of all hosts
MOST_HOSTS = 100


@dataclass(frozen=True, kw_only=True)
class OwnRows:
    """The rows of this project's handlers, and the codes that should have one."""

    rows: tuple[Task, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class CodeLook:
    """The rows of one code that repeat, among the ``looked`` ones in the order of numbers.

    ``further`` is the number behind which to look further; empty: all were looked at.
    """

    code: str
    ids: tuple[int, ...]
    looked: int
    further: str


@dataclass(frozen=True, kw_only=True)
class CodePage:
    """The looks at some codes. ``further`` is the code behind which there are more, or empty."""

    looks: tuple[CodeLook, ...]
    further: str


def own_rows(*, using: str) -> OwnRows:
    """The rows of this project's handlers."""
    handlers = known_handlers()
    found = Task._base_manager.using(using).filter(
        biz_code__in=handlers, biz_num__in=_numbers(using), schedule__isnull=False
    )
    lean = without_long_texts(found.order_by("biz_code", "biz_num"))
    rows = tuple(lean[:MOST_HANDLERS])
    there = {*found.values_list("biz_code", flat=True).distinct()}  # more than are shown
    wanted = sorted(code for code, handler in handlers.items() if handler.schedule is not None)
    return OwnRows(rows=rows, missing=tuple(code for code in wanted if code not in there))


def page_of_codes(after: str = "", *, using: str) -> CodePage:
    """The tasks that repeat, of the codes that come behind ``after``."""
    codes = list(islice(_codes(after, using), CODES + 1))
    looks = tuple(look(code, most=LOOK, using=using) for code in codes[:CODES])
    return CodePage(looks=looks, further=codes[CODES - 1] if len(codes) > CODES else "")


def look(code: str, after: str = "", *, most: int = LOOK_FURTHER, using: str) -> CodeLook:
    """Look at ``most`` rows of a code, behind the number ``after``."""
    rows = Task._base_manager.using(using).filter(biz_code=code, biz_num__gt=after)
    repeats = rows.order_by("biz_num").annotate(repeats=Q(schedule__isnull=False))
    seen = list(repeats.values_list("pk", "biz_num", "repeats")[: most + 1])
    further = seen[most - 1][1] if len(seen) > most else ""
    found = [(pk, number) for pk, number, does_repeat in seen[:most] if does_repeat]
    if len(found) > LISTED:
        found = found[:LISTED]
        further = found[-1][1]
    looked = min(len(seen), most)
    return CodeLook(code=code, ids=tuple(pk for pk, _ in found), looked=looked, further=further)


def rows_of(ids: Collection[int], *, using: str) -> list[Task]:
    """The rows with these ids, in the order of keys."""
    rows = Task._base_manager.using(using).filter(pk__in=ids, schedule__isnull=False)
    return list(without_long_texts(rows.order_by("biz_code", "biz_num")))


def without_long_texts(rows: "QuerySet[Task]") -> "QuerySet[Task]":
    return rows.defer("biz_ext", "last_error", "progress")


def _numbers(using: str) -> set[str]:
    """The numbers under which handlers have rows: on hosts too, of workers and of rows that wait.

    By their beginning they could not be found: not every database has letters in the order of
    their codes.
    """
    workers = WorkerRow._base_manager.using(using).exclude(host="")
    hosts = workers.values_list("host", flat=True).distinct()[:MOST_HOSTS]
    queues = {lane.queue for lane in lanes.look(using=using).lanes if is_of_a_host(lane.queue)}
    waiting = sorted(map(number_in, queues))[:MOST_HOSTS]
    return {SCHEDULE_NUM, *map(number_of, hosts), *waiting}


def _codes(after: str, using: str) -> Iterator[str]:
    rows = Task._base_manager.using(using).order_by("biz_code").values_list("biz_code", flat=True)
    code = rows.filter(biz_code__gt=after).first()
    while code is not None:
        yield code
        code = rows.filter(biz_code__gt=code).first()


# Times to come


class NextTimes(NamedTuple):
    """The next times of a schedule, aware UTC, or one sentence why nobody knows them."""

    times: tuple[datetime, ...]
    error: str = ""


def coming(schedule: Schedule, previous: datetime | None, now: datetime, most: int) -> NextTimes:
    """The next ``most`` times of a schedule after ``now``."""
    try:
        with budget(schedule):
            return NextTimes(tuple(islice(_times(schedule, previous, now), most)))
    except Exception as error:  # noqa: BLE001 - a stranger's trigger may raise anything
        return NextTimes((), str(error) or type(error).__name__)


def coming_of(task: Task, now: datetime, most: int) -> NextTimes:
    """The times after the one for which a task with a schedule waits, or runs."""
    when = aware("when", task.when)
    intended = aware("when", task.scheduled_time or task.when)
    try:
        schedule = schedule_of(task)
    except Exception as error:  # noqa: BLE001 - the same, and a handler may be anything
        return NextTimes((), str(error) or type(error).__name__)
    if intended > when:  # it is wanted before its next time
        found = coming(schedule, intended, intended, most - 1)
        return found._replace(times=(intended, *found.times))
    return coming(schedule, intended, max(now, intended), most)


def schedule_of(task: Task) -> Schedule:
    """The schedule of a row; a trigger that only the code knows stands in its handler."""
    text: Any = task.schedule
    if text.startswith(TRIGGER) and is_schedule_num(task.biz_num):
        handler = known_handler(task.biz_code)
        if handler is not None and handler.schedule is not None:
            return as_schedule(handler.schedule)
    return stored(text)


def _times(schedule: Schedule, previous: datetime | None, now: datetime) -> Iterator[datetime]:
    moment = schedule.next_after(previous, now)
    while moment is not None:
        yield moment
        moment = schedule.next_after(moment, moment)
