"""A schedule, and what becomes of its times that have passed. Plain values, no Django.

A row may say both, as one text: ``every 30m | grace 10m | catch up 3``.
"""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal, NamedTuple

from django_tasks.exceptions import TaskValueError
from django_tasks.schedules import Schedule, as_schedule
from django_tasks.schedules.durations import (
    format_duration,
    is_duration_word,
    read_units,
    to_timedelta,
)
from django_tasks.schedules.missed import MOST_MISSED

OnMisfire = Literal["run", "skip", "fail"]
MISFIRES = ("run", "skip", "fail")


class Policy(NamedTuple):
    """Rules for a run that would start more than ``grace`` seconds late, for several times
    that were missed, and of runs that take long or fail: the attributes of ``TaskHandler``."""

    grace: float | None
    on_misfire: OnMisfire | None
    coalesce: bool
    catch_up: int | None
    timeout: float | None
    max_attempts: int


class Plan(NamedTuple):
    """A schedule, and what differs from its handler's policy."""

    schedule: Schedule
    differs: dict[str, Any]

    def __str__(self) -> str:
        return " | ".join([str(self.schedule), *_words(self.differs)])


def as_plan(value: object) -> Plan:
    """A plan of any value that may be a schedule. Raises TaskTypeError or TaskValueError."""
    if not isinstance(value, str):
        return Plan(as_schedule(value), {})
    text, *clauses = value.split("|")
    differs = _policies(clauses, value)
    return Plan(as_schedule(text), differs)


def _policies(clauses: list[str], whole: str) -> dict[str, Any]:
    differs: dict[str, Any] = {}
    said_by: dict[str, str] = {}
    for clause in clauses:
        words = " ".join(clause.lower().split())
        meaning = _read(words, whole)
        for name in meaning.keys() & said_by.keys():
            both = f"{said_by[name]!r} and {words!r}"
            raise TaskValueError("schedule", whole, f"says both {both}, and only one can hold")
        differs |= meaning
        said_by |= dict.fromkeys(meaning, words)
    return differs


def _read(words: str, whole: str) -> dict[str, Any]:
    for pattern, meaning in _CLAUSES:
        if match := pattern.fullmatch(words):
            try:
                return meaning(match)
            except (ValueError, OverflowError):
                break
    raise TaskValueError(
        "schedule",
        whole,
        "has behind its '|' what is none of 'grace 10m', 'late run', 'late skip', 'late fail',"
        " 'coalesce', 'each', 'catch up 3', 'timeout 30s' and 'attempts 3'",
    )


def _grace(match: re.Match[str]) -> dict[str, Any]:
    return {"grace": _seconds(match[1])}


def _timeout(match: re.Match[str]) -> dict[str, Any]:
    return {"timeout": _seconds(match[1])}


def _seconds(text: str) -> float:
    words = text.split()
    if not all(map(is_duration_word, words)):
        raise ValueError
    return to_timedelta(read_units(words)).total_seconds()


def _late(match: re.Match[str]) -> dict[str, Any]:
    return {"on_misfire": match[1]}


def _coalesce(match: re.Match[str]) -> dict[str, Any]:
    return {"coalesce": True, "catch_up": None}


def _each(match: re.Match[str]) -> dict[str, Any]:
    return {"coalesce": False, "catch_up": None}


def _catch_up(match: re.Match[str]) -> dict[str, Any]:
    return {"coalesce": False, "catch_up": _count(match[1])}


def _attempts(match: re.Match[str]) -> dict[str, Any]:
    return {"max_attempts": _count(match[1])}


def _count(text: str) -> int:
    if not 1 <= (count := int(text)) <= MOST_MISSED:
        raise ValueError
    return count


_CLAUSES: list[tuple[re.Pattern[str], Callable[[re.Match[str]], dict[str, Any]]]] = [
    (re.compile(r"grace (.+)"), _grace),
    (re.compile(r"late (run|skip|fail)"), _late),
    (re.compile(r"coalesce"), _coalesce),
    (re.compile(r"each"), _each),
    (re.compile(r"catch up ([0-9]{1,6})"), _catch_up),
    (re.compile(r"timeout (.+)"), _timeout),
    (re.compile(r"attempts ([0-9]{1,6})"), _attempts),
]


def _words(differs: dict[str, Any]) -> list[str]:
    words = []
    if "grace" in differs:
        words.append(f"grace {format_duration(timedelta(seconds=differs['grace']))}")
    if "on_misfire" in differs:
        words.append(f"late {differs['on_misfire']}")
    if differs.get("catch_up"):
        words.append(f"catch up {differs['catch_up']}")
    elif "coalesce" in differs:
        words.append("coalesce" if differs["coalesce"] else "each")
    if "timeout" in differs:
        words.append(f"timeout {format_duration(timedelta(seconds=differs['timeout']))}")
    if "max_attempts" in differs:
        words.append(f"attempts {differs['max_attempts']}")
    return words
