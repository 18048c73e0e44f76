"""The pictures of the page: SVG, each for light pages and for dark ones."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot

from benchmarks.table import COLUMNS, TITLES, Results, Who, by_database

_OURS, _FLOOR, _SEED = "#1f77c4", "#8c8c8c", "#c44e52"
_COLOURS = {"ours": _OURS, "ours-tasks": _OURS, "floor": _FLOOR, "seed": _SEED, "alone": _FLOOR}
_OTHERS = (
    *("#dd8452", "#55a868", "#8172b3", "#937860", "#da8bc3", "#64b5cd", "#ccb974", "#4c4c9d"),
    "#2a9d8f",
)
_STYLE = {
    "font.size": 10,
    "axes.grid": True,
    "axes.axisbelow": True,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "benchmarks",  # the same picture for the same numbers
}


def _theme(paper: str, ink: str, grid: str) -> dict[str, Any]:
    papers = ("figure.facecolor", "savefig.facecolor", "axes.facecolor", "legend.facecolor")
    inks = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    grids = ("grid.color", "legend.edgecolor")
    return {
        **_STYLE,
        **dict.fromkeys(papers, paper),
        **dict.fromkeys(inks, ink),
        **dict.fromkeys(grids, grid),
    }


# By the end of their names, which is how the site tells them apart: devtools/site/pictures.py.
_THEMES = {
    "": _theme("white", "#24292f", "#dddddd"),
    "-dark": _theme("#131416", "#d0d0d0", "#3a3a3a"),
}


def draw(results: Results, directory: Path) -> dict[str, str]:
    """Every picture for which there are numbers; measure → file name."""
    drawn = {}
    for measure, picture in _PICTURES.items():
        if results.who(measure):
            drawn[measure] = f"benchmark-{measure}.svg"
            draw_themes(directory / drawn[measure], partial(picture, results))
    return drawn


def draw_themes(path: Path, picture: Callable[[Path], None]) -> None:
    """Have a picture drawn for light pages, ``x.svg``, and for dark ones, ``x-dark.svg``."""
    mpl.use("svg")
    for suffix, style in _THEMES.items():
        with mpl.rc_context(style):
            picture(path.with_stem(f"{path.stem}{suffix}"))


@contextmanager
def saved(path: Path, figure: Any) -> Iterator[None]:
    yield
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)


def panels(count: int, height: float, *, alike: bool = False) -> tuple[Any, Sequence[Any]]:
    """Side by side; ``alike``: the same x axis, so that they can be compared."""
    size = (4.0 * count + 0.5, height)
    figure, axes = pyplot.subplots(1, count, figsize=size, squeeze=False, sharex=alike)
    return figure, axes[0]


def _logarithmic(axis: Any, title: str, label: str) -> None:
    axis.set(title=title, xscale="log", xlabel=f"{label} (log scale)")
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axis.tick_params(axis="x", labelsize=8)


def _colour(results: Results, contender: str) -> str:
    everybody = dict.fromkeys(turn["contender"] for turn in results.record["turns"])
    others = [name for name in everybody if name not in _COLOURS]
    return _COLOURS.get(contender) or _OTHERS[others.index(contender) % len(_OTHERS)]


def _bars(
    results: Results, axis: Any, measure: str, column: str, people: Sequence[Who]
) -> list[Who]:
    """One bar a contender with its spread, the best on top; who they are, from below."""
    values = {who: results.values(measure, who, column) for who in people}
    ordered = sorted((who for who in people if values[who]), key=lambda who: median(values[who]))
    up = next(each.up for each in COLUMNS[measure] if each.name == column)
    ordered = ordered if up else ordered[::-1]
    for place, who in enumerate(ordered):
        middle = median(values[who])
        ends = [[middle - min(values[who])], [max(values[who]) - middle]]
        colour = _colour(results, who.contender)
        spread = mpl.rcParams["text.color"]
        axis.barh(place, middle, xerr=ends, color=colour, ecolor=spread, capsize=2)
    axis.set_yticks(range(len(ordered)), [who.title for who in ordered])
    return ordered


def _rates(measure: str, column: str, label: str, height: float) -> Callable[[Results, Path], None]:
    def picture(results: Results, path: Path) -> None:
        grouped = by_database(results.who(measure))
        figure, axes = panels(len(grouped), height, alike=True)
        most = max(map(len, grouped.values()))
        with saved(path, figure):
            for axis, (database, people) in zip(axes, grouped.items(), strict=True):
                _bars(results, axis, measure, column, people)
                axis.set_ylim(len(people) - most - 0.6, len(people) - 0.4)  # as thick as elsewhere
                _logarithmic(axis, TITLES[database], label)

    return picture


def _late(measure: str) -> Callable[[Results, Path], None]:
    def picture(results: Results, path: Path) -> None:
        grouped = by_database(results.who(measure))
        figure, axes = panels(len(grouped), 4.2, alike=True)
        with saved(path, figure):
            for axis, (database, people) in zip(axes, grouped.items(), strict=True):
                for who in people:
                    curves = [turn["curve"] for turn in results.turns(measure, who)]
                    pooled = sorted(max(0.1, value) for curve in curves for value in curve)
                    shares = [100 * (place + 1) / len(pooled) for place in range(len(pooled))]
                    width = 2.4 if who.contender == "ours" else 1.2
                    colour = _colour(results, who.contender)
                    dash = "--" if who.processes > 1 else "-"
                    axis.plot(pooled, shares, dash, label=who.title, color=colour, linewidth=width)
                _logarithmic(axis, TITLES[database], "milliseconds")
                axis.legend(fontsize=7, loc="lower right")
            axes[0].set_ylabel("% of the tasks had started")

    return picture


def _claim(results: Results, path: Path) -> None:
    figure, axes = panels(2, 3.8)
    with saved(path, figure):
        for axis, fact, title in (
            (axes[0], "claim", "a claim of due tasks"),
            (axes[1], "look", "a look that finds nothing due"),
        ):
            for who in results.who("claim"):
                times = results.turns("claim", who)[0][fact]
                sizes = [int(size) for size in times]
                axis.plot(sizes, list(times.values()), marker="o", label=TITLES[who.database])
            _logarithmic(axis, title, "future rows in the table")
            axis.set_ylabel("milliseconds")
            axis.set_ylim(bottom=0)
            axis.legend()


def _processes(results: Results, path: Path) -> None:
    grouped = by_database(results.who("processes"))
    figure, axes = panels(len(grouped), 3.8)
    with saved(path, figure):
        for axis, (database, people) in zip(axes, grouped.items(), strict=True):
            for name in dict.fromkeys(who.contender for who in people):
                forms = sorted(who for who in people if who.contender == name)
                counts = [who.processes for who in forms]
                values = [results.values("processes", who, "rate") for who in forms]
                middles = [median(each) for each in values]
                low = [middle - min(each) for middle, each in zip(middles, values, strict=True)]
                high = [max(each) - middle for middle, each in zip(middles, values, strict=True)]
                colour = _colour(results, name)
                axis.errorbar(
                    counts, middles, [low, high], marker="o", capsize=3, label=name, color=colour
                )
            axis.set(title=TITLES[database], xlabel="processes", xticks=counts)
            axis.set_ylim(bottom=0)
            axis.legend()
        axes[0].set_ylabel("tasks a second")


def _idle(results: Results, path: Path) -> None:
    figure, axes = panels(2, 0.6 + 0.26 * len(results.who("idle")))
    with saved(path, figure):
        for axis, column in zip(axes, COLUMNS["idle"], strict=True):
            ordered = _bars(results, axis, "idle", column.name, results.who("idle"))
            labels = [f"{TITLES[who.database]}, {who.title}" for who in ordered]
            axis.set_yticks(range(len(labels)), labels, fontsize=8)
            axis.set(xlabel=column.title)


_PICTURES: dict[str, Callable[[Results, Path], None]] = {
    "drain": _rates("drain", "rate", "tasks a second", 4.2),
    "functions": _rates("functions", "rate", "calls a second", 2.2),
    "lateness": _late("lateness"),
    "pickup": _late("pickup"),
    "idle": _idle,
    "claim": _claim,
    "processes": _processes,
}
