"""The text of one of APScheduler's cron fields, ``*/5`` or ``1st mon,last``, and its values."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.sentences import said
from django_tasks.sentences import sentence as _

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
ORDINALS = ("1st", "2nd", "3rd", "4th", "5th", "last")


class Field(NamedTuple):
    """A field, its values with the names they have, and itself where it is left out at the end."""

    name: str
    least: int
    most: int
    default: str
    names: tuple[str, ...] = ()


YEAR = Field("year", 1970, 9999, "*")
MONTH = Field("month", 1, 12, "1", MONTHS)
DAY_OF_MONTH = Field("day", 1, 31, "1")
WEEK = Field("week", 1, 53, "*")
WEEKDAY = Field("day_of_week", 0, 6, "*", WEEKDAYS)
HOUR = Field("hour", 0, 23, "0")
MINUTE = Field("minute", 0, 59, "0")
SECONDS = Field("second", 0, 59, "0")

# The most significant first: the order in which they are printed.
FIELDS = (YEAR, MONTH, DAY_OF_MONTH, WEEK, WEEKDAY, HOUR, MINUTE, SECONDS)
NAMES = tuple(field.name for field in FIELDS)

_STEPS = re.compile(r"(?:\*|([0-9]{1,4})(?:-([0-9]{1,4}))?)(?:/([0-9]{1,4}))?")
_NAMED = re.compile(r"([a-z]+)(?:-([a-z]+))?")
_POSITION = re.compile(rf"({'|'.join(ORDINALS)}) +({'|'.join(WEEKDAYS)})|last")


def canonical(field: Field, value: object) -> str:
    """The canonical spelling of a field, an int or a text.

    Raises TaskTypeError for anything else, TaskValueError for a text that is no such field; both
    name the field.
    """
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TaskTypeError(field.name, value, _("must be a whole number or a text like '*/5'"))
    items = [item.strip() for item in str(value).lower().split(",")]
    try:
        return ",".join(_canonical_item(field, item) for item in items)
    except ValueError as error:
        raise TaskValueError(field.name, value, said(error)) from None


def _canonical_item(field: Field, item: str) -> str:
    """Numbers as short as can be, and days of the week by name: numbers of them mislead."""
    if field is DAY_OF_MONTH and _POSITION.fullmatch(item):
        return " ".join(item.split())
    values = _range(field, item)
    first, last, step = values[0], values[-1], values.step
    if item.startswith("*"):
        return f"*/{step}" if step > 1 else "*"
    if field is WEEKDAY and step > 1:
        return ",".join(WEEKDAYS[value] for value in values)
    if field is WEEKDAY:
        return WEEKDAYS[first] if first == last else f"{WEEKDAYS[first]}-{WEEKDAYS[last]}"
    if first == last:
        return str(first)
    if step == 1:
        return f"{first}-{last}"
    return f"{first}/{step}" if values.stop > field.most else f"{first}-{values.stop - 1}/{step}"


def _range(field: Field, item: str) -> range:
    """The values of ``*``, ``*/5``, ``9``, ``9-17``, ``9-17/2``, ``9/2`` or ``mon-fri``.

    Raises ValueError with the end of a sentence.
    """
    step, by = 1, None
    if match := _STEPS.fullmatch(item):
        low, high, by = match.groups()
        first = field.least if low is None else int(low)
        last = int(high) if high else field.most if low is None or by else first
        step = int(by) if by else 1
    elif (match := _NAMED.fullmatch(item)) and set(match.groups()) <= {*field.names, None}:
        first = field.least + field.names.index(match[1])
        last = field.least + field.names.index(match[2]) if match[2] else first
    else:
        raise ValueError(
            _("has %(item)r, which is none of %(possible)s", item=item, possible=_possible(field))
        )
    if not (field.least <= first and last <= field.most):
        raise ValueError(
            _(
                "has %(item)r, which is not from %(least)s to %(most)s",
                item=item,
                least=field.least,
                most=field.most,
            )
        )
    if first > last:
        raise ValueError(_("has %(item)r, which ends before it begins", item=item))
    most = (last or field.most) - first  # of 0-0 any step is taken, as there
    if by and not 1 <= step <= most:
        raise ValueError(
            _("has %(item)r, whose step is not from 1 to %(most)s", item=item, most=most)
        )
    return range(first, last + 1, step)


def _possible(field: Field) -> str:
    forms = ["'*'", "'*/2'", "'1'", "'1-3'", "'1-3/2'"]
    if field.names:
        forms.append(f"'{field.names[0]}-{field.names[4]}'")
    if field is DAY_OF_MONTH:
        forms += ["'1st mon'", "'last fri'", "'last'"]
    return _("%(forms)s, and several with ',' between", forms=", ".join(forms))


@lru_cache(maxsize=1024)
def values_of(field: Field, text: str) -> Sequence[int]:
    """The values of a field in order, without those that are positions in a month."""
    ranges = [_range(field, item) for item in text.split(",") if not _POSITION.fullmatch(item)]
    if len(ranges) == 1:
        return ranges[0]
    return sorted({value for each in ranges for value in each})


@lru_cache(maxsize=1024)
def positions_of(text: str) -> frozenset[str]:
    """The positions in a month that a text of days has: ``1st mon``, ``last``."""
    return frozenset(item for item in text.split(",") if _POSITION.fullmatch(item))
