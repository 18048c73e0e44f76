"""Numbers, spans, times and scopes as people read them, on pages and terminals. No markup."""

from collections.abc import Iterable
from datetime import datetime
from functools import reduce
from typing import Any, NamedTuple

from django.db.models import QuerySet
from django.utils import timezone as django_timezone
from django.utils.formats import localize, number_format
from django.utils.text import capfirst
from django.utils.translation import gettext, ngettext, pgettext
from django.utils.translation import gettext_lazy as _

from django_tasks.models import Pause


class Amount(NamedTuple):
    """A number of rows that was counted up to a limit: ``is_more`` if there are others."""

    number: int
    is_more: bool = False

    def __str__(self) -> str:
        if self.is_more and not self.number:
            return gettext("some")
        number = number_format(self.number, force_grouping=True)
        return gettext("more than %(number)s") % {"number": number} if self.is_more else number

    def short(self) -> str:
        """The same in few characters: "1,000+"."""
        number = number_format(self.number, force_grouping=True)
        return f"{number}+" if self.is_more else number

    def __bool__(self) -> bool:
        return self.number > 0 or self.is_more


def counted(number: int, most: int) -> Amount:
    """An amount of a count that stopped at ``most`` + 1."""
    return Amount(most, True) if number > most else Amount(number)


def counted_rows(rows: QuerySet[Any], most: int) -> Amount:
    """The number of rows, which are counted up to ``most``."""
    return counted(rows.values("pk")[: most + 1].count(), most)


def together(*amounts: Amount) -> Amount:
    """The sum of amounts."""
    return Amount(sum(each.number for each in amounts), any(each.is_more for each in amounts))


def span(seconds: float) -> str:
    """A length of time, as exact as it is of interest: "48 s", "3 h 5 min"."""
    if not seconds > 0:
        return gettext("%(number)d s") % {"number": 0}
    if seconds < 0.9995:
        return gettext("%(number)s ms") % {"number": localize(round(1000 * seconds))}
    if seconds < 9.95:
        tenths = round(seconds, 1)
        number = number_format(tenths, 0 if tenths.is_integer() else 1)
        return gettext("%(number)s s") % {"number": number}
    whole = round(seconds)
    for large, small, sizes in (
        (_("%(large)d d"), _("%(large)d d %(small)d h"), (86_400, 3600)),
        (_("%(large)d h"), _("%(large)d h %(small)d min"), (3600, 60)),
        (_("%(large)d min"), _("%(large)d min %(small)d s"), (60, 1)),
    ):
        if whole >= sizes[0]:
            parts = {"large": whole // sizes[0], "small": whole % sizes[0] // sizes[1]}
            return str(small if parts["small"] else large) % parts
    return gettext("%(number)d s") % {"number": whole}


def at(moment: datetime, now: datetime) -> str:
    """A time (aware) in the current time zone, to the second; with its date unless that is today's.

    In figures that are the same in every language, and with the zone.
    """
    zone = django_timezone.get_current_timezone()
    local = moment.astimezone(zone)
    if local.date() != now.astimezone(zone).date():
        return stamp(moment)
    return f"{local:%H:%M:%S} {local.tzname()}"


def about(moment: datetime, now: datetime) -> str:
    """The same to the minute, for a time that is not known better."""
    zone = django_timezone.get_current_timezone()
    local = moment.astimezone(zone)
    day = "" if local.date() == now.astimezone(zone).date() else f"{local:%Y-%m-%d} "
    return f"{day}{local:%H:%M} {local.tzname()}"


def stamp(moment: datetime, precision: str = "seconds") -> str:
    """A time (aware) in the current time zone, with its date and zone.

    To the second, or as exact as ``isoformat`` is told.
    """
    local = moment.astimezone(django_timezone.get_current_timezone())
    return f"{local.replace(tzinfo=None).isoformat(' ', precision)} {local.tzname()}"


def distance_text(moment: datetime, now: datetime) -> str:
    """The distance to a moment, ahead or ago."""
    seconds = (moment - now).total_seconds()
    sentence = gettext("in %(span)s") if seconds > 0 else gettext("%(span)s ago")
    return sentence % {"span": span(abs(seconds))}


def attempts_text(count: int) -> str:
    return ngettext("%(count)d attempt", "%(count)d attempts", count) % {"count": count}


def scope_name(pause: Pause) -> str:
    """The scope of a pause, in words."""
    names = {"code": pause.biz_code, "queue": pause.queue}
    if pause.biz_code and pause.queue:
        return gettext("code %(code)s in queue %(queue)s") % names
    if pause.biz_code:
        return gettext("code %(code)s") % names
    return gettext("queue %(queue)s") % names if pause.queue else gettext("everything")


def scope_words(pause: Pause) -> str:
    """The same as the beginning of a sentence."""
    return capfirst(scope_name(pause))


def progress_text(progress: Any) -> str:
    """The progress that a handler has told of its run, as the column has it."""
    if not isinstance(progress, dict):
        return ""
    done, total, text = (progress.get(name) for name in ("done", "total", "text"))
    return f"{f'{done}' if total is None else f'{done} / {total}'} {text or ''}".strip()


def memory(size: int) -> str:
    """A number of bytes."""
    if size < 1024**3:
        return gettext("%(number)d MB") % {"number": round(size / 1024**2)}
    return gettext("%(number)s GB") % {"number": localize(round(size / 1024**3, 1))}


def as_sentence(clause: str) -> str:
    """A clause of ours as a sentence of its own."""
    return capfirst(gettext("%(error)s.") % {"error": clause})


def state_words(state: str) -> str:
    """The state of a worker, as its row has it."""
    known = {
        "running": gettext("works"),
        "quiet": gettext("quiet"),
        "stopping": pgettext("a worker", "stopping"),
        "rejected": gettext("statements rejected"),
    }
    return known.get(state, state)


def listed(words: Iterable[str]) -> str:
    """Words in a row, with the mark between them that the language has for this."""
    return pgettext("between the words of a list", ", ").join(words)


def in_a_row(sentences: Iterable[str]) -> str:
    """Sentences in a row: some languages have no blank between them."""
    text = gettext("%(sentence)s %(next)s")
    return reduce(lambda before, after: text % {"sentence": before, "next": after}, sentences)


def class_name(path: str) -> str:
    """The name of a class without its module."""
    return path.rpartition(".")[2]


LONG_MESSAGE = 1000  # characters of a message
LONGEST_LINE = 300  # characters of an error in a list


def message_of(error: str, exception: str = "") -> str:
    """The message at the end of a traceback: from the last line that names the exception on."""
    lines = error.rstrip().splitlines()
    name = class_name(exception)
    for place in range(len(lines) - 1, -1, -1) if name else ():
        head = lines[place].partition(":")[0]
        if head in (name, exception) or head.endswith(f".{name}"):
            return _cut("\n".join(lines[place:]), LONG_MESSAGE)
    return _cut(_last_words(lines), LONG_MESSAGE)


def error_line(exception: str, error: str) -> str:
    """The class of an exception and the first line of its message, for a list.

    ``exception`` is the path of the class, ``error`` the traceback or its end; either may be empty.
    """
    name = class_name(exception)
    first = message_of(error, exception).partition("\n")[0].strip()
    if not first:
        return name
    first = first.removeprefix(exception.removesuffix(name))
    if name not in first:
        first = f"{name}: {first}"
    return _cut(first, LONGEST_LINE)


def _last_words(lines: list[str]) -> str:
    """The last line with a letter or a figure in it: databases point at a place with "   ^"."""
    return next((line for line in reversed(lines) if any(map(str.isalnum, line))), "")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
