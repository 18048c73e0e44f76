"""The lateness of tasks: those of a future time, those added for now, the short beside the long."""

from collections.abc import Sequence
from random import uniform
from time import sleep, time
from typing import Any

from benchmarks.journal import Journal
from benchmarks.measures.stage import Stage
from benchmarks.processes import Workers

START_SECONDS = 60
LEAD_SECONDS = 2.0
PATIENCE_SECONDS = 120
PERCENTILES = (0.5, 0.9, 0.99, 1.0)


def lateness(stage: Stage) -> dict[str, Any]:
    """Start minus due time of future tasks, spread over so many seconds, on an idle worker."""
    contender, journal = stage.contender, stage.journal(stage.tasks + 1)
    contender.prepare()
    with stage.workers() as workers:
        _await_readiness(stage, journal, workers)
        begin = time() + LEAD_SECONDS + stage.tasks / 1000
        due = sorted(begin + uniform(0, stage.seconds) for _ in range(stage.tasks))
        for number, moment in enumerate(due, 1):
            contender.add_many(contender.make([number], moment))
        ready = time()
        journal.wait(stage.tasks + 1, stage.seconds + PATIENCE_SECONDS, workers.look)
    starts = journal.times()[1:]
    # A task that was added after its time would be measured for something else.
    late = [start - moment for start, moment in zip(starts, due, strict=True) if moment > ready]
    return summary(late)


def pickup(stage: Stage) -> dict[str, Any]:
    """From before an add for now, by another process, to the start; at irregular times."""
    contender, journal = stage.contender, stage.journal(stage.tasks + 1)
    contender.prepare()
    added = []
    with stage.workers() as workers:
        _await_readiness(stage, journal, workers)
        for number in range(1, stage.tasks + 1):
            sleep(uniform(0.1, 1.9) * stage.seconds / stage.tasks)
            added.append(time())
            contender.add(number, added[-1])
        journal.wait(stage.tasks + 1, PATIENCE_SECONDS, workers.look)
    starts = journal.times()[1:]
    return summary([start - moment for start, moment in zip(starts, added, strict=True)])


def _await_readiness(stage: Stage, journal: Journal, workers: Workers) -> None:
    """Task 0 has run: the worker is up, and idle again a moment later."""
    stage.contender.add(0, time())
    journal.wait(1, START_SECONDS, workers.look)
    sleep(1.0)


def blocking(stage: Stage) -> dict[str, Any]:
    """The lateness of 1-ms tasks while long ones run: three quarters of all threads have one.

    Two workers (two ``starttask``), 16 threads: 12 tasks that last from one second up to the whole
    time. A short task has a free thread at any moment, in one worker or the other.
    """
    contender, journal = stage.contender, stage.journal(stage.tasks + 13)
    contender.prepare()
    napping = vars(contender)
    napping["code"] = "nap"
    commands = [*contender.workers(1), *contender.workers(1)]
    with stage.running(commands) as workers:
        _add_nap(stage, 0, 0.0)
        journal.wait(1, START_SECONDS, workers.look)
        for number in range(1, 13):
            _add_nap(stage, number, uniform(1.0, max(1.0, stage.seconds)))
        sleep(0.5)
        added = []
        for number in range(13, stage.tasks + 13):
            sleep(stage.seconds / stage.tasks)
            added.append(time())
            _add_nap(stage, number, 0.001)
        journal.wait(stage.tasks + 13, PATIENCE_SECONDS, workers.look)
    starts = journal.times()[13:]
    return summary([start - moment for start, moment in zip(starts, added, strict=True)])


def _add_nap(stage: Stage, number: int, seconds: float) -> None:
    stage.contender.add(number, time(), seconds)  # type: ignore[call-arg]  # only ours can


def summary(seconds: Sequence[float]) -> dict[str, Any]:
    """Milliseconds: the percentiles, and a hundred of them for a picture."""
    ordered = sorted(1000 * each for each in seconds)

    def percentile(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    names = ("p50", "p90", "p99", "max")
    facts: dict[str, Any] = dict(zip(names, map(percentile, PERCENTILES), strict=True))
    facts["curve"] = [round(percentile(step / 100), 3) for step in range(101)]
    return facts
