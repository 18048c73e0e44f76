"""A schedule, and what becomes of its times that have passed. Plain values, no Django.

A caller may say both as one text: ``every 30m | grace 10m | catch up 3``.
"""

import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

from django_tasks.backoff import Delays, Duration, seconds
from django_tasks.exceptions import TaskValueError
from django_tasks.schedules import Schedule, as_schedule
from django_tasks.schedules.durations import (
    format_duration,
    is_duration_word,
    read_units,
    to_timedelta,
)
from django_tasks.sentences import sentence as _
from django_tasks.values.options import MOST_ATTEMPTS, MOST_MISSED, NO_OPTIONS, TaskOptions


class Plan(NamedTuple):
    """A schedule, and the options that differ from those of its handler."""

    schedule: Schedule
    options: TaskOptions

    def __str__(self) -> str:
        return " | ".join([str(self.schedule), *clauses(self.options)])


def as_plan(value: object) -> Plan:
    """A plan of any value that may be a schedule. Raises TaskTypeError or TaskValueError."""
    if not isinstance(value, str):
        return Plan(as_schedule(value), NO_OPTIONS)
    text, *said = value.split("|")
    options = _policies(said, value)
    return Plan(as_schedule(text), options)


def _policies(said: list[str], whole: str) -> TaskOptions:
    given: dict[str, Any] = {}
    said_by: dict[str, str] = {}
    for clause in said:
        words = " ".join(clause.lower().split())
        about, meaning = _read(words, whole)
        if about in said_by:
            raise TaskValueError(
                "schedule",
                whole,
                _(
                    "says both %(first)r and %(second)r, and only one can hold",
                    first=said_by[about],
                    second=words,
                ),
            )
        given |= meaning
        said_by[about] = words
    return TaskOptions(**given)


def _read(words: str, whole: str) -> tuple[str, dict[str, Any]]:
    """The subject of a clause, of which there may be one in a text, and its options."""
    for about, pattern, meaning in _CLAUSES:
        if match := re.fullmatch(pattern, words):
            try:
                return about, meaning(match)
            except (ValueError, OverflowError):
                break
    raise TaskValueError(
        "schedule",
        whole,
        _(
            "has behind its '|' what is none of 'grace 10m', 'late run', 'late "
            "skip', 'late fail', 'coalesce', 'each', 'catch up 3', 'timeout 30s' and "
            "'attempts 3'"
        ),
    )


def _seconds(text: str) -> float:
    words = text.split()
    if not all(map(is_duration_word, words)):
        raise ValueError
    return to_timedelta(read_units(words)).total_seconds()


def _count(text: str, most: int) -> int:
    if not 1 <= (count := int(text)) <= most:
        raise ValueError
    return count


_CLAUSES: list[tuple[str, str, Callable[[re.Match[str]], dict[str, Any]]]] = [
    ("grace", r"grace (.+)", lambda match: {"misfire_grace_time": _seconds(match[1])}),
    ("late", r"late (run|skip|fail)", lambda match: {"on_misfire": match[1]}),
    ("missed", r"coalesce", lambda match: {"coalesce": True}),
    ("missed", r"each", lambda match: {"coalesce": False}),
    (
        "missed",
        r"catch up ([0-9]{1,6})",
        lambda match: {"coalesce": False, "catch_up": _count(match[1], MOST_MISSED)},
    ),
    ("timeout", r"timeout (.+)", lambda match: {"timeout": _seconds(match[1])}),
    (
        "attempts",
        r"attempts ([0-9]{1,6})",
        lambda match: {"max_attempts": _count(match[1], MOST_ATTEMPTS)},
    ),
]


def clauses(options: TaskOptions) -> Iterator[str]:
    """Options in words: first the clauses that a text may have, then those that it cannot say."""
    if options.misfire_grace_time is not None:
        yield f"grace {_duration(options.misfire_grace_time)}"
    if options.on_misfire is not None:
        yield f"late {options.on_misfire}"
    if options.catch_up is not None:
        yield f"catch up {options.catch_up}"
    elif options.coalesce is not None:
        yield "coalesce" if options.coalesce else "each"
    if options.timeout is not None:
        yield f"timeout {_duration(options.timeout)}"
    if options.max_attempts is not None:
        yield f"attempts {options.max_attempts}"
    if options.backoff is not None:
        yield f"backoff {_backoff(options.backoff)}"
    if options.expires is not None:
        yield f"expires {_moment(options.expires)}"


def _moment(value: datetime | timedelta) -> str:
    if isinstance(value, timedelta):
        return f"in {format_duration(value)}"
    return f"{value.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def _duration(value: Duration) -> str:
    return format_duration(timedelta(seconds=seconds(value)))


def _backoff(value: Any) -> str:
    if isinstance(value, Delays):
        return ", ".join(map(_duration, value.delays))
    return f"{_duration(value.first)} times {value.factor:g} up to {_duration(value.cap)}"
