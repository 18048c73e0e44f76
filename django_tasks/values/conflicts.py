"""The choices of an add whose key exists: ``on_conflict``, with ``wait`` and ``at_most``."""

from datetime import timedelta
from enum import Enum
from typing import Literal, NamedTuple

from django_tasks.backoff import Duration
from django_tasks.exceptions import TaskValueError
from django_tasks.sentences import sentence as _
from django_tasks.values.amounts import duration

DEBOUNCE = "debounce"


class OnConflict(str, Enum):
    """The choice of an add whose key exists. A CANCELLING task counts as absent."""

    REPLACE = "replace"  # move it
    KEEP = "keep"  # leave it as it is
    EARLIEST = "earliest"  # move it only if the new time is earlier
    RAISE = "raise"  # refuse


ConflictOfMany = OnConflict | Literal["replace", "keep", "earliest", "raise"]
Conflict = ConflictOfMany | Literal["debounce"]


class DebounceTerms(NamedTuple):
    """The wait after the last add, and the longest wait after the first one."""

    wait: timedelta
    at_most: timedelta | None


def checked_conflict(value: Conflict) -> OnConflict:
    """Read the ``on_conflict`` of one task, if it is not "debounce"."""
    return _conflict(
        value, _("must be one of %(choices)s, %(debounce)r", choices=_choices(), debounce=DEBOUNCE)
    )


def checked_conflict_of_many(value: ConflictOfMany) -> OnConflict:
    """Read the ``on_conflict`` of ``add_tasks``."""
    if value == DEBOUNCE:
        raise TaskValueError("on_conflict", value, _("goes with add_task only, one task at a time"))
    return _conflict(value, _("must be one of %(choices)s", choices=_choices()))


def debounce_terms(
    conflict: Conflict, wait: Duration | None, at_most: Duration | None
) -> DebounceTerms | None:
    """The terms of ``on_conflict="debounce"``; None for another one.

    Raises TaskTypeError or TaskValueError, naming ``wait`` or ``at_most``.
    """
    if conflict != DEBOUNCE:
        for name, value in (("wait", wait), ("at_most", at_most)):
            if value is not None:
                raise TaskValueError(name, value, _("goes with on_conflict='debounce' only"))
        return None
    if wait is None:
        raise TaskValueError("wait", wait, _("must say how long on_conflict='debounce' waits"))
    longest = None if at_most is None else duration("at_most", at_most)
    terms = DebounceTerms(duration("wait", wait), longest)
    if longest is not None and longest < terms.wait:
        raise TaskValueError("at_most", at_most, _("must not be shorter than wait"))
    return terms


def _conflict(value: Conflict, otherwise: str) -> OnConflict:
    try:
        return OnConflict(value)
    except ValueError:
        raise TaskValueError("on_conflict", value, otherwise) from None


def _choices() -> str:
    return ", ".join(repr(choice.value) for choice in OnConflict)
