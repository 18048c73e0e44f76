"""Schedules as text, the way a person would write them, read back."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

from django_tasks.exceptions import NotHere, TaskTypeError, TaskValueError, ValueNotHere
from django_tasks.schedules.arguments import project_zone, zone, zone_name
from django_tasks.schedules.at import At
from django_tasks.schedules.base import DEEPEST, LONGEST, Schedule
from django_tasks.schedules.budget import budget, is_limited
from django_tasks.schedules.combined import AllOf, AnyOf
from django_tasks.schedules.cron import Cron
from django_tasks.schedules.cron_fields import is_open
from django_tasks.schedules.durations import EXACT, is_duration_word, read_units, to_timedelta
from django_tasks.schedules.english import DAYS, NICKNAMES, PLACES, day_in_month
from django_tasks.schedules.every import Every
from django_tasks.schedules.times_of_day import MIDNIGHT, time_of_day
from django_tasks.schedules.wall_clock import offsets
from django_tasks.sentences import Sentence, said
from django_tasks.sentences import sentence as _

POSSIBLE = _(
    "possible are 'every 30m', 'every weekday at 18:30', '@daily', 'every "
    "month on day 31 at 9:00 Asia/Shanghai', 'cron 0 9 * * 1-5', 'cron "
    "day=last fri hour=9', 'at 2026-12-24T18:00:00+08:00', 'any of (...; "
    "...)' and 'all of (...; ...)'"
)

_TOKEN = re.compile(r"[();]|[^\s();]+")
_CRON_FIELD = re.compile(
    r"(?:[0-9*,/#?-]|L|W|"
    r"SUN|MON|TUE|WED|THU|FRI|SAT|JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC)+",
    re.IGNORECASE,
)
# What Python 3.10 reads, with a few more liberties; later versions read still more.
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_CLOCK = re.compile(r"[0-9]{1,2}:[0-9]{2}\S*")
_DATETIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt]([0-9]{1,2}:[0-9]{2})(:[0-9]{2})?(?:\.([0-9]{1,6}))?)?"
    r"(?:([Zz])|([+-][0-9]{2}):?([0-9]{2})(:[0-9]{2})?)?"
)
_NUMBER = re.compile(r"[0-9]{1,20}")
_NO_ZONE = re.compile(
    rf"[^a-z].*|at|in|on|and|the|of|every|day|month|year|noon|midnight|am|pm|{'|'.join(DAYS)},?",
    re.IGNORECASE,
)
_SECONDS = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,6})?")


# An add may say options behind its schedule: django_tasks.schedules.policies reads both.
_POLICIES = _(
    "has a '|', which only the schedule of an add may have; a handler says "
    "the same by its misfire_grace_time, on_misfire, coalesce, catch_up, "
    "timeout and max_attempts"
)


class Nonsense(Exception):
    """A fault of a text, as the end of a sentence."""


def parse(text: str) -> Schedule:
    """The schedule that ``text`` stands for: ``parse(str(schedule)) == schedule``.

    Case of keywords, blanks and long or short forms (``every 30 minutes``) are free; times on a
    wall clock without a zone are those of ``settings.TIME_ZONE``. Raises TaskTypeError for what is
    no text; TaskValueError, with a sentence that shows what is possible, for one of more than 1,000
    characters, one nested more than 5 levels deep, one whose parts are together too dear to work
    out, one with the options of an add (``| grace 10m``), and any other that is no schedule.
    """
    if not isinstance(text, str):
        raise TaskTypeError("schedule", text, _("must be a text"))
    if len(text) > LONGEST:
        raise TaskValueError(
            "schedule",
            text,
            _(
                "is %(length)s characters long, more than %(longest)s",
                length=f"{len(text):,}",
                longest=f"{LONGEST:,}",
            ),
        )
    if "|" in text:
        raise TaskValueError("schedule", text, _POLICIES)
    with budget(text):
        return _parsed(text, project_zone(), is_limited())


@lru_cache(maxsize=1024)  # a worker reads the same texts again and again
def _parsed(text: str, local: str | None, _limited: bool) -> Schedule:
    try:
        reader = Reader(_TOKEN.findall(text), local)
        schedule = reader.schedule(depth=1)
        reader.expect_end()
    except Nonsense as error:
        raise TaskValueError("schedule", text, said(error)) from None
    except TaskValueError as error:
        reason = _("is impossible: %(field)s %(problem)s", field=error.field, problem=error.problem)
        kind = ValueNotHere if isinstance(error, NotHere) else TaskValueError
        raise kind("schedule", text, reason) from None
    return schedule


def _often(word: str) -> Sentence:
    """The complaint about a text whose 'every' is followed by ``word``."""
    if not word:
        return _("says 'every' without how often; %(possible)s", possible=POSSIBLE)
    return _(
        "says 'every' and then %(word)r, which is neither a duration nor a day; %(possible)s",
        word=word,
        possible=POSSIBLE,
    )


class Reader:
    """Reads tokens from left to right; ``local`` is the zone of times that name none."""

    def __init__(self, tokens: list[str], local: str | None) -> None:
        self.tokens = tokens
        self.local = local
        self.place = 0

    # Tokens

    def peek(self) -> str:
        """The next token, '' at the end."""
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def after_next(self) -> str:
        return self.tokens[self.place + 1] if self.place + 1 < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.place += 1
        return token

    def skip(self, *words: str) -> bool:
        """Pass these words if they come next."""
        here = [token.lower() for token in self.tokens[self.place : self.place + len(words)]]
        if here != list(words):
            return False
        self.place += len(words)
        return True

    def has_more(self) -> bool:
        """Tell if this schedule goes on with something else than an option."""
        return self.peek() not in ("", "(", ")", ";") and self.peek().lower() not in _OPTIONS

    def expect_end(self) -> None:
        if self.peek():
            raise Nonsense(
                _(
                    "has %(word)r where it should end; %(possible)s",
                    word=self.peek(),
                    possible=POSSIBLE,
                )
            )

    # Schedules

    def schedule(self, depth: int) -> Schedule:
        if depth > DEEPEST:
            raise Nonsense(_("is nested more than %(deepest)s levels deep", deepest=DEEPEST))
        if self.peek().lower() in NICKNAMES:
            return NICKNAMES[self.take().lower()](**self.zone_and_options())
        if self.skip("every"):
            return self.weekly() if self.names_day() else self.every()
        if self.skip("the") or self.peek().lower() in PLACES:
            return self.monthly()
        if self.skip("cron"):
            return self.cron()
        if self.skip("at"):
            return At(self.moment("at"), **self.options())
        for words, several in ((("any", "of"), AnyOf), (("all", "of"), AllOf)):
            if self.skip(*words, "("):
                return several(*self.parts(depth), **self.options())
        if self.skip("trigger"):
            raise Nonsense(_("is that of a trigger object, which only the code knows"))
        raise Nonsense(_("is none that can be read; %(possible)s", possible=POSSIBLE))

    def parts(self, depth: int) -> list[Schedule]:
        parts = [self.schedule(depth + 1)]
        while self.skip(";"):
            parts.append(self.schedule(depth + 1))
        if not self.skip(")"):
            if not self.peek():
                raise Nonsense(_("has 'nothing' where ';' or ')' is expected"))
            raise Nonsense(_("has %(word)r where ';' or ')' is expected", word=self.peek()))
        return parts

    def every(self) -> Every:
        half = self.skip("half", "hour") or self.skip("half", "an", "hour")
        amounts = {"minutes": Decimal(30)} if half else self.amounts()
        if not amounts:
            is_word = self.has_more() and self.peek().lower() not in ("at", "on")
            raise Nonsense(_often(self.peek() if is_word else ""))
        dates: dict[str, Any] = {}
        if self.skip("on", "day"):
            dates["day"] = self.number("day")
        elif self.skip("on", "last", "day") or self.skip("on", "the", "last", "day"):
            dates["day"] = 31
        if self.skip("at"):
            dates["at"] = self.time_of_day()
        self.skip("in")
        if self.has_more():
            dates["tz"] = self.zone_here()
        options = self.options("gap", "fold")
        if amounts.keys() <= EXACT.keys() and not dates.keys() | options.keys() & {"gap", "fold"}:
            return Every(_exactly(amounts), **options)
        return Every(**_whole(amounts), **{"tz": self.local, **dates}, **options)

    def weekly(self) -> Cron:
        """``every monday and thursday at 9:00``."""
        days = [self.day_name()]
        while self.skip("and") or self.names_day():
            days.append(self.day_name())
        return Cron(day_of_week=",".join(days), **self.clock(), **self.zone_and_options())

    def monthly(self) -> Schedule:
        """``last day of the month at noon``, ``first monday of the month``."""
        place = PLACES.get(self.take().lower())
        is_day = self.skip("day")
        day = "" if is_day or not self.names_day() else self.day_name()
        if place is None or "-" in day or not (is_day or day) or not self.of_month():
            raise Nonsense(_("is none that can be read; %(possible)s", possible=POSSIBLE))
        if day:
            return Cron(day=f"{place} {day}", **self.clock(), **self.zone_and_options())
        at = self.time_of_day() if self.skip("at") else MIDNIGHT
        return Every(months=1, day=day_in_month(place), at=at, **self.zone_and_options())

    def of_month(self) -> bool:
        return any(self.skip("of", *which, "month") for which in (("the",), ("every",), ("each",)))

    def names_day(self) -> bool:
        return self.peek().lower().rstrip(",") in DAYS

    def day_name(self) -> str:
        """The days that a word stands for; a comma may follow."""
        if not self.names_day():
            if not self.peek():
                raise Nonsense(_("has 'nothing' where a day of the week is expected"))
            raise Nonsense(_("has %(word)r where a day of the week is expected", word=self.peek()))
        return DAYS[self.take().lower().rstrip(",")]

    def clock(self) -> dict[str, Any]:
        """The fields of the time of day that stands here; of midnight if there is none."""
        at = time_of_day(self.time_of_day()) if self.skip("at") else MIDNIGHT
        if at.microsecond:
            raise Nonsense(_("has a fraction of a second, %(at)s, which no field tells", at=at))
        return {"hour": at.hour, "minute": at.minute, "second": at.second}

    def time_of_day(self) -> str:
        word = self.take()
        return f"{word} {self.take()}" if self.peek().lower() in ("am", "pm") else word

    def zone_and_options(self) -> dict[str, Any]:
        """The zone that stands here or else ours, and the options of times on a wall clock."""
        self.skip("in")
        tz = self.zone_here() if self.has_more() else self.local
        return {"tz": tz, **self.options("gap", "fold")}

    def zone_here(self) -> str:
        """The zone that stands here. What is meant for another place is not blamed on zones."""
        if _NO_ZONE.fullmatch(self.peek()):
            raise Nonsense(
                _(
                    "has %(word)r where a time zone or the end is expected; %(possible)s",
                    word=self.peek(),
                    possible=POSSIBLE,
                )
            )
        return zone_name(self.take())

    def amounts(self) -> dict[str, Decimal]:
        """The number of each unit here: ``1h30m``, ``hour``, ``1 hour and 30 minutes``."""
        words: list[str] = []
        while is_duration_word(self.peek()) or (words and self.peek().lower() == "and"):
            if (word := self.take()).lower() != "and":
                words.append(word)
        try:
            return read_units(words)
        except ValueError as error:
            raise Nonsense(said(error)) from None

    def cron(self) -> Cron:
        fields: list[str] = []
        while self.has_more() and (_CRON_FIELD.fullmatch(self.peek()) or "=" in self.peek()):
            fields.append(self.take())
            while "=" in fields[-1] and self.has_more() and is_open(fields[-1], self.peek()):
                fields[-1] += f" {self.take()}"
        return Cron(" ".join(fields), **self.zone_and_options())

    # Options

    def options(self, *more: str) -> dict[str, Any]:
        """The options that stand here, ``more`` being those that not every schedule has."""
        options: dict[str, Any] = {}
        while (word := self.peek().lower()) in _OPTIONS:
            name, read = _OPTIONS[word]
            if name in options:
                raise Nonsense(_("says %(word)r twice", word=word))
            if name in ("gap", "fold") and name not in more:
                raise Nonsense(
                    _("has a %(name)s, which only times on a wall clock have", name=name)
                )
            self.take()
            options[name] = read(self, word)
        return options

    def moment(self, what: str) -> datetime:
        """A date and time with an offset, or with a zone behind."""
        text = self.take()
        if _DATE.fullmatch(text) and _CLOCK.fullmatch(self.peek()):
            text += f"T{self.take()}"
        if (match := _DATETIME.fullmatch(text)) is None:
            raise Nonsense(
                _("needs a time like 2026-12-24T18:00:00+08:00 after %(what)r", what=what)
            )
        try:
            moment = _moment(*match.groups())
        except ValueError as error:
            raise Nonsense(
                _("has no time after %(what)r (%(error)s)", what=what, error=error)
            ) from None
        if moment.tzinfo is not None:
            return moment
        self.skip("in")
        if not self.has_more():
            raise Nonsense(
                _("needs an offset or a time zone behind %(text)s, like %(text)s+08:00", text=text)
            )
        where = zone(self.zone_here())
        before, behind = offsets(where, moment)
        if before < behind:
            raise Nonsense(
                _(
                    "has no time after %(what)r: clocks are put forward over %(moment)s",
                    what=what,
                    moment=moment,
                )
            )
        return moment.replace(tzinfo=where)

    def duration(self, what: str) -> timedelta:
        if _SECONDS.fullmatch(self.peek()) and not is_duration_word(self.after_next()):
            return _exactly({"seconds": Decimal(self.take())})
        amounts = self.amounts()
        if not amounts or not amounts.keys() <= EXACT.keys():
            raise Nonsense(_("needs a duration like 30s or 1h30m after %(what)r", what=what))
        return _exactly(amounts)

    def number(self, what: str) -> int:
        if _NUMBER.fullmatch(self.peek()) is None:
            raise Nonsense(_("needs a whole number after %(what)r", what=what))
        return int(self.take())

    def word(self, what: str) -> str:
        return self.take().lower()


# Keyword, argument, and what reads its value.
_OPTIONS: dict[str, tuple[str, Callable[[Reader, str], Any]]] = {
    "from": ("start", Reader.moment),
    "until": ("end", Reader.moment),
    "jitter": ("jitter", Reader.duration),
    "count": ("count", Reader.number),
    "gap": ("gap", Reader.word),
    "fold": ("fold", Reader.word),
}


def _moment(
    date: str,
    minute: str | None,
    second: str | None,
    fraction: str | None,
    zulu: str | None,
    *offset: str | None,
) -> datetime:
    """A datetime of the pieces of ``_DATETIME``; ValueError if there is no such."""
    clock = f"{(minute or '0:00').zfill(5)}{second or ':00'}.{(fraction or '').ljust(6, '0')}"
    hours, minutes, seconds = offset
    ahead = "+00:00" if zulu else f"{hours}:{minutes}{seconds or ''}" if hours else ""
    return datetime.fromisoformat(f"{date}T{clock}{ahead}")


def _exactly(amounts: dict[str, Decimal]) -> timedelta:
    try:
        return to_timedelta(amounts)
    except OverflowError:
        raise Nonsense(_("has a duration that is too long")) from None


def _whole(amounts: dict[str, Decimal]) -> dict[str, Any]:
    """Whole numbers as such: dates are counted in nothing else."""
    for unit, amount in amounts.items():
        if amount != int(amount):
            raise Nonsense(
                _(
                    "has %(amount)s %(unit)s, which must be a whole number where dates are meant",
                    amount=amount,
                    unit=unit,
                )
            )
    return {unit: int(amount) for unit, amount in amounts.items()}
