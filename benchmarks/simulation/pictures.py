"""The pictures of docs/understand/simulation.rst."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.pictures import draw_themes, panels, saved
from benchmarks.simulation.model import Outcome
from benchmarks.simulation.report import Outcomes, title
from benchmarks.simulation.runs import LOADS

_COLOURS = {
    "head": "#c44e52",
    "random": "#dd8452",
    "shares": "#1f77c4",
    "locked": "#55a868",
}


def draw(outcomes: Outcomes, directory: Path) -> None:
    draw_themes(directory / "simulation-drain.svg", partial(_throughput, outcomes))
    draw_themes(directory / "simulation-lateness.svg", partial(_lateness, outcomes))


def _throughput(outcomes: Outcomes, path: Path) -> None:
    figure, axes = panels(2, 3.8)
    with saved(path, figure):
        _curves(axes[0], outcomes, "drain", lambda outcome: outcome.rate)
        axes[0].set(title="a backlog", ylabel="tasks a second", ylim=(0, None))
        axes[0].yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes[0].legend(fontsize=8, loc=(0.28, 0.48))  # where no curve is
        _curves(axes[1], outcomes, "drain", lambda outcome: 100 * outcome.wasted)
        axes[1].set(title="lost to others", ylabel="% of the rows read", ylim=(-3, 103))


def _lateness(outcomes: Outcomes, path: Path) -> None:
    """A curve ends where more is due than is started."""
    loads = {name: load.title for name, load in LOADS.items() if name != "drain"}
    figure, axes = panels(len(loads), 3.8)
    with saved(path, figure):
        for axis, (name, words) in zip(axes, loads.items(), strict=True):
            _curves(axis, outcomes, name, lambda outcome: 1000 * outcome.p99)
            axis.set(title=words, yscale="log", ylim=(1, 3000))
            axis.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        axes[0].set_ylabel("late by, ms, p99 (log scale)")
        axes[0].legend(fontsize=8, loc="upper left")


def _curves(axis: Any, outcomes: Outcomes, load: str, read: Callable[[Outcome], float]) -> None:
    counts = list(dict.fromkeys(key.workers for key in outcomes))
    for strategy in dict.fromkeys(key.strategy for key in outcomes):
        points = {
            key.workers: read(outcome)
            for key, outcome in outcomes.items()
            if key[:2] == (load, strategy) and not (outcome.behind and load != "drain")
        }
        axis.plot(
            list(points),
            list(points.values()),
            marker="o",
            markersize=4,
            label=title(strategy),
            color=_COLOURS[strategy],
            linewidth=2.4 if strategy == "shares" else 1.4,
        )
    axis.set(xscale="log", xlabel="workers (log scale)", xlim=(counts[0] * 0.8, counts[-1] * 1.25))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
