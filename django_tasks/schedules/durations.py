"""Durations as people write them: 30m, 1h30m, 2w, 90 seconds, 1 hour and 30 minutes."""

import re
from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal

from django_tasks.sentences import sentence as _

EXACT = {
    "weeks": timedelta(weeks=1),
    "days": timedelta(days=1),
    "hours": timedelta(hours=1),
    "minutes": timedelta(minutes=1),
    "seconds": timedelta(seconds=1),
}
_SPELLINGS = {
    "years": ("years", "year", "yrs", "yr", "y"),
    "months": ("months", "month", "mo"),
    "weeks": ("weeks", "week", "wk", "w"),
    "days": ("days", "day", "d"),
    "hours": ("hours", "hour", "hrs", "hr", "h"),
    "minutes": ("minutes", "minute", "mins", "min", "m"),
    "seconds": ("seconds", "second", "secs", "sec", "s"),
}
_UNITS = {spelling: unit for unit, spellings in _SPELLINGS.items() for spelling in spellings}
_LONGEST_FIRST = "|".join(sorted(_UNITS, key=len, reverse=True))
_NUMBER = r"[0-9]{1,20}(?:\.[0-9]{1,6})?"
_PIECE = re.compile(rf"({_NUMBER})({_LONGEST_FIRST})?|({_LONGEST_FIRST})", re.IGNORECASE)
_WORD = re.compile(rf"(?:{_NUMBER}(?:{_LONGEST_FIRST}))+|{_NUMBER}|{_LONGEST_FIRST}", re.IGNORECASE)


def format_duration(duration: timedelta) -> str:
    """A duration in its short form: ``1h30m``; ``0s`` for none."""
    words, rest = "", duration
    for unit, one in EXACT.items():
        if unit == "seconds":
            break
        number, rest = divmod(rest, one)
        words += f"{number}{unit[0]}" if number else ""
    if rest or not words:
        words += f"{_seconds(rest)}s"
    return words


def _seconds(rest: timedelta) -> str:
    if not rest.microseconds:
        return str(rest.seconds)
    return f"{rest.seconds}.{rest.microseconds:06}".rstrip("0")


def is_duration_word(word: str) -> bool:
    """Tell if ``word`` may be a part of a duration: ``30``, ``minutes``, ``1h30m``."""
    return _WORD.fullmatch(word) is not None


def read_units(words: Iterable[str]) -> dict[str, Decimal]:
    """The number of each unit. Raises ValueError, with what is wrong, if it cannot be told.

    A unit alone is one of it: ``every hour``.
    """
    found: dict[str, Decimal] = {}
    number: str | None = None
    for piece in (match for word in words for match in _PIECE.finditer(word)):
        digits, unit, alone = piece.groups()
        if digits is not None:
            if number is not None:
                raise ValueError(
                    _(
                        "has two numbers, %(number)s and %(digits)s, without a unit between",
                        number=number,
                        digits=digits,
                    )
                )
            number = digits
        if (unit := unit or alone) is None:
            continue
        if unit == "M":
            raise ValueError(
                _("has %(text)r, and 'm' is a minute, 'mo' a month", text=f"{digits or ''}M")
            )
        name = _UNITS[unit.lower()]
        if name in found:
            raise ValueError(_("says %(name)s twice", name=name))
        found[name] = Decimal(1 if number is None else number)
        number = None
    if number is not None:
        raise ValueError(_("has a number without a unit, %(number)s", number=number))
    return found


def to_timedelta(amounts: dict[str, Decimal]) -> timedelta:
    """The sum of weeks to seconds, to the microsecond; OverflowError if it is too long."""
    microseconds = sum(
        (amount * (EXACT[unit] // timedelta.resolution) for unit, amount in amounts.items()),
        start=Decimal(0),
    )
    return timedelta(microseconds=int(microseconds.to_integral_value()))
