"""Lateness where each customer has a lane: in few lanes, in many, and after many that have gone."""

from random import uniform
from time import sleep, time
from typing import Any

from benchmarks.address import connect
from benchmarks.measures.latency import LEAD_SECONDS, PATIENCE_SECONDS, START_SECONDS, summary
from benchmarks.measures.snapshots import snapshot
from benchmarks.measures.stage import Stage

DAY = 86_400
FEW, MANY, LEFT = 10, 2_000, 700
# The numbers of the tasks that wait for tomorrow, one a lane.
TOMORROW = 1_000_000


def many_lanes(stage: Stage) -> dict[str, Any]:
    """Start minus due time, in milliseconds: in 10 lanes, in 2,000, and in 10 beside 700 that are
    empty again but for a snapshot. In each lane a task waits for tomorrow.
    """
    stage.contender.prepare()
    facts = _lateness(stage, FEW)
    many = _lateness(stage, MANY)
    _clear(stage)
    _wait_for_tomorrow(stage, LEFT)
    with snapshot(stage.contender.url):
        left = _lateness(stage, FEW)
    facts |= {"many_p50": many["p50"], "many_p99": many["p99"], "left_p99": left["p99"]}
    return facts | {
        "many_more": many["p99"] - facts["p99"],
        "left_more": left["p99"] - facts["p99"],
    }


def _lateness(stage: Stage, lanes: int) -> dict[str, Any]:
    journal = stage.journal(stage.tasks + 1)
    _clear(stage)
    _wait_for_tomorrow(stage, lanes)
    stage.settle()
    with stage.workers() as workers:
        _add(stage, 0, 0, time())
        journal.wait(1, START_SECONDS, workers.look)
        sleep(1.0)
        begin = time() + LEAD_SECONDS + stage.tasks / 500
        due = sorted(begin + uniform(0, stage.seconds) for _ in range(stage.tasks))
        for number, moment in enumerate(due, 1):
            _add(stage, number, number % lanes, moment)
        ready = time()
        journal.wait(stage.tasks + 1, stage.seconds + PATIENCE_SECONDS, workers.look)
    starts = journal.times()[1:]
    # A task that was added after its time would be measured for something else.
    return summary(
        [start - moment for start, moment in zip(starts, due, strict=True) if moment > ready]
    )


def _add(stage: Stage, number: int, lane: int, moment: float) -> None:
    vars(stage.contender).update(priority=-lane)
    stage.contender.add_many(stage.contender.make([number], moment))


def _wait_for_tomorrow(stage: Stage, lanes: int) -> None:
    tasks: list[Any] = []
    for lane in range(lanes):
        vars(stage.contender).update(priority=-lane)
        tasks += stage.contender.make([TOMORROW + lane], time() + DAY)
    stage.contender.add_many(tasks)


def _clear(stage: Stage) -> None:
    """Empty the table by DELETE: a snapshot keeps the rows."""
    connection = connect(stage.contender.url)
    connection.cursor().execute("DELETE FROM t_task")
    connection.close()
