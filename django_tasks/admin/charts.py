"""Charts as SVG: their geometry, for templates to draw. Each has a table with the same numbers.

Colours are classes of our style sheet, and numbers are texts: a template would write them in the
reader's language.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import NamedTuple

from django.utils.translation import gettext

WIDTH, HEIGHT = 720.0, 180.0
LEFT, TOP, BOTTOM = 80.0, 12.0, 28.0
SPARK_WIDTH, SPARK_HEIGHT = 120.0, 24.0
MOST_LABELS = 7  # along the bottom

Placing = Callable[[int, float], tuple[str, str]]


class Part(NamedTuple):
    """A part of a bar: its height, and its class in the style sheet."""

    value: float
    kind: str


class Stack(NamedTuple):
    """A bar of one part or several, one on the other. ``words`` tell its numbers."""

    label: str
    words: str
    parts: tuple[Part, ...]


class Curve(NamedTuple):
    """A line: a value or None for each label; its name, and its class in the style sheet."""

    name: str
    kind: str
    values: Sequence[float | None]


class Rect(NamedTuple):
    x: str
    y: str
    width: str
    height: str
    kind: str
    words: str


class Grid(NamedTuple):
    """A text beside or below the chart, and the place of its line."""

    at: str
    text: str


class Stroke(NamedTuple):
    """A line as pieces between gaps, each as the points of a polyline; and its single points."""

    name: str
    kind: str
    pieces: tuple[str, ...]
    dots: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """All that the template needs; ``table`` has a head and rows of texts."""

    key: str
    title: str
    words: str
    rects: tuple[Rect, ...] = ()
    strokes: tuple[Stroke, ...] = ()
    across: tuple[Grid, ...] = ()
    along: tuple[Grid, ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    view_box: str = f"0 0 {WIDTH:.0f} {HEIGHT:.0f}"
    left: str = f"{LEFT:.0f}"
    right: str = f"{WIDTH:.0f}"
    bottom: str = f"{HEIGHT - 6:.0f}"


def bars(key: str, title: str, words: str, found: Sequence[Stack], head: tuple[str, ...]) -> Chart:
    """A chart of bars, from 0 to a round number."""
    highest = max((sum(part.value for part in bar.parts) for bar in found), default=0)
    top = round_up(highest)
    slot = (WIDTH - LEFT) / max(1, len(found))
    gap = min(2.0, slot / 5)
    rects = []
    for number, bar in enumerate(found):
        floor_at = HEIGHT - BOTTOM
        for part in bar.parts:
            height = _height(part.value / top)
            floor_at -= height
            if height:
                x, width = LEFT + number * slot + gap / 2, slot - gap
                rects.append(
                    Rect(
                        *(_text(x), _text(floor_at), _text(width), _text(height)),
                        *(part.kind, _bar_words(bar)),
                    )
                )
    return Chart(
        key=key,
        title=title,
        words=words,
        rects=tuple(rects),
        across=tuple(
            Grid(_text(_y(part)), _short(part * top))
            for part in (0, 0.5, 1)
            if part * top % 1 == 0  # there are no half tasks
        ),
        along=_along([bar.label for bar in found], slot, slot / 2),
        head=head,
        rows=tuple((bar.label, bar.words) for bar in found),
    )


def lines(
    key: str,
    title: str,
    words: str,
    labels: Sequence[str],
    found: Sequence[Curve],
    texts: Sequence[tuple[str, ...]],
    ticks: Sequence[tuple[float, str]],
    head: tuple[str, ...],
) -> Chart:
    """A chart of lines over ``ticks``, each ten times the one before: values may differ by much.

    ``texts`` are the values of each label as people read them, for the table.
    """
    low, high = log10(ticks[0][0]), log10(ticks[-1][0])
    step = (WIDTH - LEFT) / max(1, len(labels) - 1)

    def place(number: int, value: float) -> tuple[str, str]:
        part = (log10(max(value, 10**low)) - low) / (high - low)
        return _text(LEFT + number * step), _text(_y(min(1.0, part)))

    return Chart(
        key=key,
        title=title,
        words=words,
        strokes=tuple(_stroke(line, place) for line in found),
        across=tuple(Grid(_text(_y((log10(at) - low) / (high - low))), text) for at, text in ticks),
        along=_along(labels, step, 0),
        head=head,
        rows=tuple((label, *row) for label, row in zip(labels, texts, strict=True)),
    )


def _stroke(line: Curve, place: Placing) -> Stroke:
    pieces: list[list[tuple[str, str]]] = [[]]
    for number, value in enumerate(line.values):
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append(place(number, value))
    drawn = tuple(" ".join(map(",".join, piece)) for piece in pieces if len(piece) > 1)
    return Stroke(line.name, line.kind, drawn, tuple(p[0] for p in pieces if len(p) == 1))


def spark(values: Sequence[float]) -> str:
    """The points of a small line without axes; empty without a value above 0."""
    highest = max(values, default=0)
    if not highest or len(values) < 2:
        return ""
    step = SPARK_WIDTH / (len(values) - 1)
    room = SPARK_HEIGHT - 4
    return " ".join(
        f"{_text(number * step)},{_text(2 + room * (1 - value / highest))}"
        for number, value in enumerate(values)
    )


def round_up(value: float) -> float:
    """The next of 2, 4, 6, 8, 10, 20, 30, 40 … that is not lower: half of it is whole as well."""
    if value <= 10:
        return max(2, 2 * ceil(value / 2))
    power: float = 10 ** floor(log10(value))
    return power * ceil(value / power)


def _along(labels: Sequence[str], step: float, shift: float) -> tuple[Grid, ...]:
    every = max(1, ceil(len(labels) / MOST_LABELS))
    return tuple(
        Grid(_text(LEFT + number * step + shift), label)
        for number, label in enumerate(labels)
        # The last one would be cut off at the edge.
        if number % every == 0 and (not number or number * step + shift < WIDTH - LEFT - 48)
    )


def _height(part: float) -> float:
    """The height of a part of the whole; what is there is to be seen."""
    return max(1.5, part * (HEIGHT - TOP - BOTTOM)) if part > 0 else 0.0


def _y(part: float) -> float:
    return HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)


def _bar_words(bar: Stack) -> str:
    return gettext("%(time)s: %(words)s") % {"time": bar.label, "words": bar.words}


def _text(value: float) -> str:
    return f"{value:.1f}"


def _short(value: float) -> str:
    for size, unit in ((1_000_000, "M"), (1000, "k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"
