"""The figures of what has run, from the counted minutes: never from tasks or their runs.

The last two hours are there by the minute, what is older by the hour, up to HISTORY_AGE.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from django_tasks.host.clocks import EPOCH
from django_tasks.store import clock, minutes
from django_tasks.store.minutes import minute_of
from django_tasks.values.figures import NO_FIGURES, Figures, figures_of

MINUTE = timedelta(minutes=1)


class FailureGroup(NamedTuple):
    """Runs of a code that have failed with the same exception (its path).

    ``first`` and ``last`` are aware UTC, to the minute: the oldest may be to the hour.
    """

    biz_code: str
    exception: str
    times: int
    first: datetime
    last: datetime


def figures(
    since: datetime, *, until: datetime | None = None, biz_code: str = "", using: str
) -> Figures:
    """The figures of all codes, or of one, from ``since`` (aware) to before ``until``, or to now.

    To the minute. Database errors pass, as from all functions here.
    """
    first, last = _range(since, until, using)
    found = minutes.sums(first, last, biz_code=biz_code, using=using)
    return _figures(values for _, _, values in found)


def figures_by_code(
    since: datetime, *, until: datetime | None = None, using: str
) -> dict[str, Figures]:
    """The figures of each code that has run."""
    first, last = _range(since, until, using)
    found = minutes.sums(first, last, by_code=True, using=using)
    return {code: figures_of(values) for code, _, values in found}


def series(
    since: datetime, until: datetime, step: timedelta, *, biz_code: str = "", using: str
) -> list[tuple[datetime, Figures]]:
    """The figures of each ``step`` (whole minutes) from ``since`` on, the empty ones as well.

    Steps begin at multiples of ``step`` since 1970 UTC. Those that are older than two hours want
    a step of whole hours: what is merged counts at the beginning of its hour.
    """
    width = _width(step)
    first, last = _steps(since, until, width)
    found = minutes.sums(first, last, biz_code=biz_code, step=width, using=using)
    known = {minute: figures_of(values) for _, minute, values in found}
    return [(_moment(at), known.get(at, NO_FIGURES)) for at in range(first, last, width)]


def series_by_code(
    since: datetime, until: datetime, step: timedelta, *, using: str
) -> dict[str, list[tuple[datetime, Figures]]]:
    """The ``series`` of each code that has run, by one statement."""
    width = _width(step)
    first, last = _steps(since, until, width)
    known: dict[str, dict[int, Figures]] = defaultdict(dict)
    for code, minute, values in minutes.sums(first, last, step=width, by_code=True, using=using):
        known[code][minute] = figures_of(values)
    return {
        code: [(_moment(at), of.get(at, NO_FIGURES)) for at in range(first, last, width)]
        for code, of in known.items()
    }


def failures_by_exception(since: datetime, *, using: str) -> list[FailureGroup]:
    """Failed runs since ``since`` by code and exception, the most frequent first.

    A run that was tried again counts as well.
    """
    groups = minutes.failures(minute_of(since), using=using)
    return [
        FailureGroup(code, exception, times, _moment(first), _moment(last))
        for code, exception, times, first, last in groups
    ]


def _range(since: datetime, until: datetime | None, using: str) -> tuple[int, int]:
    last = minute_of(until) if until else minute_of(clock.now(using)) + 1
    return minute_of(since), last


def _steps(since: datetime, until: datetime, width: int) -> tuple[int, int]:
    first = minute_of(since)
    return first - first % width, minute_of(until)


def _width(step: timedelta) -> int:
    return max(1, step // MINUTE)


def _figures(found: Iterable[list[float]]) -> Figures:
    return next((figures_of(values) for values in found), NO_FIGURES)


def _moment(minute: int) -> datetime:
    return EPOCH + minute * MINUTE
