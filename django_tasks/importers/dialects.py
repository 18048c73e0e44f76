"""Crontabs of other tools: texts that look alike, and mean other times."""

import re
from collections.abc import Iterator
from datetime import tzinfo
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.schedules import field_texts as fields
from django_tasks.schedules.base import LONGEST
from django_tasks.schedules.cron import CRONTAB, Cron
from django_tasks.schedules.field_texts import ORDINALS, WEEKDAYS, Field
from django_tasks.sentences import sentence as _

if TYPE_CHECKING:
    from typing import Unpack

    from django_tasks.schedules.base import PlanOptions

_FIVE = (fields.MINUTE, fields.HOUR, fields.DAY_OF_MONTH, fields.MONTH, fields.WEEKDAY)
_SIX = (fields.SECONDS, *_FIVE)
_ITEM = re.compile(r"(?:[*?]|([0-9]{1,4}|[a-z]{3})(?:-([0-9]{1,4}|[a-z]{3}))?)(?:/([0-9]{1,4}))?")
_PLACE = re.compile(r"([0-9]|[a-z]{3})(?:#([1-5])|l)|l([0-9])")


class CronDialect(NamedTuple):
    """The rules of a tool.

    ``forms``     the fields of a text, for each number of them that it takes
    ``weekdays``  the numbers that ``*`` has of the days of the week
    ``sunday``    that of Sunday; where it is 0, 7 is another, and the other way round
    ``either``    of two restricted fields of days one is enough; else both must match
    ``starred``   a field of days that begins with ``*`` counts as not restricted
    ``onward``    ``5/10`` goes on to the end of the field, and ``?`` is ``*``
    ``around``    a range may end before it begins
    ``places``    ``L`` is the last day of the month, ``5L`` and ``5#1`` are days of the week in it
    """

    forms: tuple[tuple[Field, ...], ...] = (_FIVE,)
    weekdays: range = range(7)
    sunday: int = 0
    either: bool = False
    starred: bool = False
    onward: bool = False
    around: bool = False
    places: bool = False


_CRON = CronDialect(either=True, starred=True)
DIALECTS = {
    "vixie": _CRON,
    "debian": _CRON,
    "croniter": CronDialect(
        (_FIVE, (*_FIVE, fields.SECONDS)), either=True, onward=True, around=True, places=True
    ),
    "apscheduler": CronDialect(),  # its fields are ours by name
    "celery": CronDialect(around=True),
    "quartz": CronDialect(
        (_SIX, (*_SIX, fields.YEAR)), range(1, 8), 1, onward=True, around=True, places=True
    ),
    "spring": CronDialect((_SIX,), range(1, 8), 7, onward=True, places=True),
}


def from_crontab(
    text: str, dialect: str, tz: str | tzinfo | None = None, **options: "Unpack[PlanOptions]"
) -> Cron:
    """The schedule that fires as the crontab ``text`` does in another tool.

    ``dialect`` is vixie, debian, croniter, apscheduler, celery, quartz or spring. ``tz`` and the
    options are those of ``Cron``. Only where one of two fields of days is enough is cronsim needed.
    Raises TaskValueError, which names the field, for what has no such schedule here.
    """
    if not isinstance(text, str):
        raise TaskTypeError("cron", text, _("must be a text"))
    if (rules := DIALECTS.get(dialect)) is None:
        choices = ", ".join(DIALECTS)
        raise TaskValueError("dialect", dialect, _("must be one of %(choices)s", choices=choices))
    words = text.lower().split() if len(text) <= LONGEST else []
    form = next((form for form in rules.forms if len(form) == len(words)), None)
    if form is None:
        lengths = " / ".join(str(len(form)) for form in rules.forms)
        raise TaskValueError("cron", text, _("must have %(length)s fields", length=lengths))
    if dialect == "apscheduler":
        given: dict[str, Any] = dict(zip(CRONTAB, words, strict=True))
        return Cron(tz=tz, **given, **options)
    by_name = {field.name: word for field, word in zip(form, words, strict=True)}
    given = {field.name: _text(field, by_name[field.name], rules) for field in form}
    if _one_is_enough(by_name, rules):
        return Cron(_crontab(form, by_name, given, rules), tz, **options)
    if (places := _places(by_name["day_of_week"], rules)) is not None:
        if given["day"] != "*":
            raise TaskValueError("day", by_name["day"], _("must be * beside a day like 5L or 5#1"))
        given |= {"day": places, "day_of_week": "*"}
    return Cron(tz=tz, **given, **options)


def _one_is_enough(by_name: dict[str, str], rules: CronDialect) -> bool:
    def is_open(word: str) -> bool:
        return word in ("*", "?") or (rules.starred and word.startswith("*"))

    return rules.either and not (is_open(by_name["day"]) or is_open(by_name["day_of_week"]))


def _crontab(
    form: tuple[Field, ...], by_name: dict[str, str], given: dict[str, Any], rules: CronDialect
) -> str:
    """The same for cronsim, with days as numbers: a star among them would ask for both."""
    days = _numbers(fields.DAY_OF_MONTH, by_name["day"], rules)
    weekdays = _numbers(fields.WEEKDAY, by_name["day_of_week"], rules)
    if len(weekdays) == 7 and rules.places:  # croniter takes it for a star, at times
        _refuse(fields.WEEKDAY, by_name["day_of_week"])
    given["day"] = ",".join(map(str, days))
    given["day_of_week"] = ",".join(map(str, sorted((day + 1) % 7 for day in weekdays)))
    order = _SIX if fields.SECONDS in form else _FIVE
    return " ".join(given[field.name] for field in order)


def _text(field: Field, word: str, rules: CronDialect) -> str:
    """The field by name: as it stands where that means the same, else as a list."""
    if word in ("*", "?") or (field is fields.WEEKDAY and _places(word, rules)):
        return "*" if word != "?" or rules.onward else _refuse(field, word)
    if field is fields.DAY_OF_MONTH and word == "l" and rules.places:
        return "last"
    numbers = _numbers(field, word, rules)
    if field is fields.WEEKDAY:
        in_order = sorted(numbers, key=lambda day: (day + 1) % 7)
        return "*" if len(numbers) == 7 else ",".join(WEEKDAYS[day] for day in in_order)
    if re.fullmatch(r"\*/[0-9]+", word) and len(numbers) > 1:
        return word
    return ",".join(map(str, numbers))


def _places(word: str, rules: CronDialect) -> str | None:
    """Days of the week in a month, ``1st mon,last fri``; None if these are others."""
    found = [_PLACE.fullmatch(item) for item in word.split(",")]
    if not rules.places or None in found:
        return None
    days = [(match[1] or match[3], match[2]) for match in found if match]
    return ",".join(
        f"{ORDINALS[int(place) - 1] if place else 'last'} "
        f"{WEEKDAYS[_numbers(fields.WEEKDAY, day, rules)[0]]}"
        for day, place in days
    )


def _numbers(field: Field, word: str, rules: CronDialect) -> list[int]:
    """The values of a field, days of the week as ours: 0 is Monday."""
    items = word.split(",")
    if rules.places and len(items) > 1 and "*" in items:  # is it a list, or open? They do not agree
        _refuse(field, word)
    found = {value for item in items for value in _values(field, item, rules)}
    if field is fields.WEEKDAY:
        found = {(value - rules.sunday - 1) % 7 for value in found}
    return sorted(found)


def _values(field: Field, item: str, rules: CronDialect) -> Iterator[int]:
    if (match := _ITEM.fullmatch(item)) is None or (item[0] == "?" and not rules.onward):
        _refuse(field, item)
    low, high, by = match.groups()
    least, most = field.least, field.most
    if field is fields.WEEKDAY:
        least, most = rules.weekdays[0], rules.weekdays[-1]
    first = least if low is None else _value(field, low, rules)
    last = most if low is None or (by and rules.onward) else first
    if high:
        last = _value(field, high, rules)
        if field is fields.WEEKDAY and first == 7 == rules.sunday:
            first = 0
        if first == last and rules.places:  # croniter takes it for all values, or for some
            _refuse(field, item)
    if by and (int(by) == 0 or (low and not high and not rules.onward)):
        _refuse(field, item)
    if first <= last:
        return iter(range(first, last + 1, int(by or 1)))
    if not rules.around or (by and rules.places):
        _refuse(field, item)
    return iter((*range(first, max(first, most) + 1), *range(least, last + 1))[:: int(by or 1)])


def _value(field: Field, text: str, rules: CronDialect) -> int:
    least, names = field.least, field.names
    possible = set(range(least, field.most + 1))
    if field is fields.WEEKDAY:
        least, names = rules.weekdays[0], (WEEKDAYS[-1], *WEEKDAYS[:-1])
        possible = {*rules.weekdays, *((0, 7) if rules.sunday in (0, 7) else ())}
        if text in names:
            return least + (rules.sunday - least + names.index(text)) % 7
    value = least + names.index(text) if text in names else int(text) if text.isdigit() else -1
    return value if value in possible else _refuse(field, text)


def _refuse(field: Field, item: str) -> NoReturn:
    raise TaskValueError(field.name, item, _("means nothing in this dialect, or nothing here"))
