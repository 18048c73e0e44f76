"""The tasks that wait, that are late, that come and that have failed, lane by lane.

Every look is bounded: so many rows of each lane and no more, however many there are.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple

from django_tasks.host.clocks import EPOCH
from django_tasks.models import Pause
from django_tasks.reads.filters import LATE_SECONDS
from django_tasks.reads.words import Amount, counted, together
from django_tasks.store import backlog
from django_tasks.store.lanes import COUNTED, Lane, every_lane
from django_tasks.store.pauses import PauseIndex
from django_tasks.timezones import aware
from django_tasks.values.status import Status

LATE = timedelta(seconds=LATE_SECONDS)
# In lanes beyond these, those whose first task is due first, nothing is counted.
MOST_LANES = 150
# Rows that are counted in all lanes together. On PostgreSQL each of them may cost a look at the
# table as well: 180,000 took 3 seconds.
MOST_COUNTED = 10_000
# Rows that are read of what comes, and of what has failed.
MOST_COMING = 5000
MOST_FAILED = 1000


class CountedLane(NamedTuple):
    """Pending tasks that wait together, counted up to a limit."""

    lane: Lane
    due: Amount
    late: Amount


class Waiting(NamedTuple):
    """A lane with its counts, and the widest pause that it is under."""

    lane: Lane
    due: Amount
    late: Amount
    pause: Pause | None


@dataclass(frozen=True)
class Bucket:
    """The tasks that are due from ``start`` on for the length of a step; more if ``is_more``."""

    start: datetime
    count: Amount


class Coming(NamedTuple):
    """The tasks that are due in the next hours."""

    step: timedelta
    buckets: tuple[Bucket, ...]

    def total(self) -> Amount:
        return together(*(bucket.count for bucket in self.buckets))


@dataclass(frozen=True)
class Group:
    """Failed tasks of one code with one exception (its path, or ""), and when they failed.

    ``last_id`` is the row of the one that failed last.
    """

    biz_code: str
    exception: str
    count: Amount
    first: datetime
    last: datetime
    last_id: int

    @property
    def name(self) -> str:
        return self.exception.rpartition(".")[2]


@dataclass(frozen=True)
class Failures:
    """The tasks that have failed and stay until somebody requeues or cancels them."""

    count: Amount
    by_code: dict[str, Amount]
    groups: tuple[Group, ...]


def waiting(pauses: Sequence[Pause], now: datetime, *, using: str) -> list[Waiting]:
    """Each lane that has pending tasks, those first whose first task is due first."""
    lanes = every_lane(using=using)
    found = count_waiting(lanes, now, using=using, most_counted=MOST_COUNTED)
    held = PauseIndex(pauses)
    return [Waiting(*each, held.widest(each.lane.queue, each.lane.biz_code)) for each in found]


def count_waiting(
    lanes: Iterable[Lane], now: datetime, *, using: str, most_counted: int
) -> list[CountedLane]:
    """Count the tasks of these lanes, up to ``most_counted`` in all, each lane with a share.

    The lane whose first task is due first comes first.
    """
    lanes = sorted(lanes, key=lambda lane: (lane.first, lane))
    due = [lane for lane in lanes if lane.first <= now][:MOST_LANES]
    most = _share(due, most_counted)
    found = backlog.due_each(due, now, now - LATE, most, using=using)
    counts = {
        lane: (counted(number, most), counted(late, most))
        for lane, (number, late) in zip(due, found, strict=True)
    }
    return [CountedLane(lane, *counts.get(lane, _uncounted(lane, now))) for lane in lanes]


def _share(lanes: Sequence[Lane], most_counted: int) -> int:
    return max(1, min(COUNTED, most_counted // max(1, len(lanes))))


def _uncounted(lane: Lane, now: datetime) -> tuple[Amount, Amount]:
    return Amount(0, lane.first <= now), Amount(0, lane.first <= now - LATE)


def coming(lanes: Sequence[Lane], now: datetime, hours: float, *, using: str) -> Coming:
    """The number of tasks that are due in each step of the next hours.

    The step is a minute for an hour, else five or ten. At most MOST_COMING rows are read.
    """
    step = _step(hours)
    start = now - (now - EPOCH) % step
    end = start + timedelta(hours=hours)
    lanes = sorted(lanes, key=lambda lane: (lane.first, lane))
    looked, left = lanes[:MOST_LANES], lanes[MOST_LANES:]
    most = max(1, MOST_COMING // max(1, len(looked)))
    times = backlog.times_each(looked, now, end, most, using=using)
    # Behind the last one that was read of a lane there may be more of it.
    unknown = min([each[-1] for each in times if len(each) == most], default=None)
    if any(lane.first < end for lane in left):
        unknown = now
    counts = [0] * round(timedelta(hours=hours) / step)
    for moment in (moment for each in times for moment in each):
        counts[min(len(counts) - 1, (moment - start) // step)] += 1
    buckets = (
        Bucket(begin, Amount(count, unknown is not None and begin + step > unknown))
        for begin, count in ((start + number * step, count) for number, count in enumerate(counts))
    )
    return Coming(step, tuple(buckets))


def _step(hours: float) -> timedelta:
    return timedelta(minutes=1 if hours <= 1 else 5 if hours <= 3 else 10)


def failures(*, using: str) -> Failures:
    """The tasks that have failed: how many, and in which groups, of which each lane has a share.

    The groups are of the rows that were read: where a lane has more, their counts say so.
    """
    counts = _count_failed(MOST_COUNTED, using)
    looked = list(counts)[:MOST_LANES]
    most = max(10, MOST_FAILED // max(1, len(looked)))
    rows = backlog.failed_each(looked, most, using=using)
    by_code = _by_code(counts)
    # Also of a lane that was counted no further than this: such an amount is the greater one.
    cut = {lane.biz_code for lane in looked if counts[lane] > Amount(most)}
    total = together(*by_code.values())
    return Failures(total, by_code, tuple(_groups(rows, cut)))


def failed_by_code(*, using: str, most_counted: int) -> dict[str, Amount]:
    """The number of tasks of each code that have failed, without a look at the tasks themselves."""
    return _by_code(_count_failed(most_counted, using))


def _count_failed(most_counted: int, using: str) -> dict[Lane, Amount]:
    lanes = sorted(every_lane(Status.FAILED, using=using))
    looked = lanes[:MOST_LANES]
    limit = _share(looked, most_counted)
    counts = backlog.count_each(looked, Status.FAILED, limit, using=using)
    found = dict.fromkeys(lanes, Amount(0, True))
    found.update((lane, counted(count, limit)) for lane, count in zip(looked, counts, strict=True))
    return found


def _by_code(counts: dict[Lane, Amount]) -> dict[str, Amount]:
    by_code: dict[str, Amount] = {}
    for lane, count in counts.items():
        by_code[lane.biz_code] = together(by_code.get(lane.biz_code, Amount(0)), count)
    return by_code


def _groups(rows: Iterable[backlog.Failed], cut: set[str]) -> list[Group]:
    found = []
    ordered = sorted(rows)
    for (code, exception), members in groupby(ordered, key=lambda row: row[:2]):
        times = sorted((row.at, row.id) for row in members)
        count = Amount(len(times), code in cut)
        found.append(Group(code, exception, count, times[0][0], *times[-1]))
    return sorted(found, key=lambda group: group.last, reverse=True)


def since(pause: Pause) -> datetime:
    """The time of a pause, aware UTC."""
    return aware("since", pause.since)
