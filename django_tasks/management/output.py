"""Answers of commands: tables that fit the terminal, or JSON for programs."""

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from unicodedata import combining, east_asian_width

from django.core.management.base import OutputWrapper

from django_tasks.conf import options
from django_tasks.sentences import plain

GAP = "  "
# No column is made narrower than this, nor than the other while a wider one can give way: it is
# that of a time with its zone. On the right stand errors and the like: a time is not cut for them.
NARROWEST, ENOUGH = 6, 24
# Where the output goes to no terminal, and nothing says how wide it may be.
WITHOUT_TERMINAL = (160, 24)
TEXT, JSON = "table", "json"


class Unread:
    """An output that may lose its reader, as a pipe to ``head`` does: the rest goes nowhere.

    ``errors``: those that mean this.
    """

    def __init__(self, out: OutputWrapper, errors: type[OSError] = BrokenPipeError) -> None:
        self._out = out
        self._errors = errors

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)

    def write(self, text: str) -> None:
        try:
            self._out.write(text)
        except self._errors:
            self._go_nowhere()

    def flush(self) -> None:
        try:
            self._out.flush()
        except self._errors:
            self._go_nowhere()

    def _go_nowhere(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._out.fileno())
        os.close(nowhere)


def width() -> int:
    return max(20, shutil.get_terminal_size(WITHOUT_TERMINAL).columns)


def table(
    heads: Sequence[str], rows: Iterable[Sequence[Any]], most: int, spare: Iterable[int] = ()
) -> Iterator[str]:
    """The lines of a table that is at most ``most`` columns wide: long cells end with "…".

    The widest columns give way first, then those on the right. A column that is empty in all rows
    is left out. So are those whose places are ``spare``, one after the other, as long as some
    column would be cut to less than a time.
    """
    cells = [[plain(cell) for cell in row] for row in rows]
    sizes = {
        place: max(_width(row[place]) for row in [heads, *cells])
        for place in range(len(heads))
        if any(row[place] for row in cells)
    }
    for place in spare:
        if _is_narrow([*sizes.values()], most):
            sizes.pop(place, None)
    shown, widths = [*sizes], _fitting([*sizes.values()], most)
    for row in [heads, *cells]:
        line = GAP.join(_cell(row[place], size) for place, size in zip(shown, widths, strict=True))
        yield line.rstrip()


def facts(pairs: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """Lines of names and values; what is empty is left out."""
    said = [(name, str(value)) for name, value in pairs if value not in ("", None)]
    widest = max((_width(name) for name, _ in said), default=0)
    for name, value in said:
        yield f"{_cell(name, widest)}{GAP}{plain(value)}"


def block(text: str) -> Iterator[str]:
    """The lines of a long text, set in a little."""
    for line in text.rstrip().split("\n"):
        yield f"    {plain(line)}".rstrip()


def as_json(value: Any) -> str:
    """A value as JSON, by the project's encoder; times are in UTC. A terminal may show it: what
    would move the cursor is escaped, also where JSON does not ask for that.
    """
    encoder = options().payload_encoder
    text = json.dumps(_in_utc(value), cls=encoder, indent=2, ensure_ascii=False)
    return "".join(
        each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in text
    )


def cut(text: str, size: int) -> str:
    """``text``, at most ``size`` columns wide."""
    if _width(text) <= size:
        return text
    kept, used = [], 1
    for each in text:
        used += _width(each)
        if used > size:
            break
        kept.append(each)
    return "".join(kept) + "…"


def _in_utc(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _in_utc(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_in_utc(each) for each in value]
    return value.isoformat() if isinstance(value, datetime) else value


def _fitting(widths: list[int], most: int) -> list[int]:
    """Widths of columns that fit: the widest give way until none is wider than a time, then those
    on the right.
    """
    room = most - len(GAP) * (len(widths) - 1)
    while sum(widths) > room and max(widths) > ENOUGH:
        widest = widths.index(max(widths))
        others = max((each for each in widths if each < widths[widest]), default=ENOUGH)
        excess = sum(widths) - room
        widths[widest] = max(ENOUGH, min(widths[widest] - 1, max(others, widths[widest] - excess)))
    for place in reversed(range(len(widths))):
        excess = max(0, sum(widths) - room)
        widths[place] = max(min(widths[place], NARROWEST), widths[place] - excess)
    return widths


def _is_narrow(widths: list[int], most: int) -> bool:
    fitting = zip(widths, _fitting(list(widths), most), strict=True)
    return any(given < min(wanted, ENOUGH) for wanted, given in fitting)


def _cell(text: str, size: int) -> str:
    text = cut(text, size)
    return text + " " * (size - _width(text))


def _width(text: str) -> int:
    """Columns of a terminal: Chinese characters take two, accents that follow a letter none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if combining(each) else 2 if east_asian_width(each) in "WF" else 1 for each in text
    )
