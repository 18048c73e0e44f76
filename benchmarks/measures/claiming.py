"""The cost of a claim: beside many future or due rows, in many lanes, beside unknown codes."""

from collections.abc import Iterable
from statistics import median
from time import sleep, time
from typing import Any, NamedTuple

from benchmarks import statements
from benchmarks.address import connect, parse
from benchmarks.measures.stage import Stage
from benchmarks.processes import wait_until

DAY = 86_400
MOST_DUE = 1_000_000
UNKNOWN = 100_000
LANES = 20
IDLE_SECONDS = 4.0
PATIENCE_SECONDS = 600
WARM_UP = 5  # claims of a worker that has just started are small


class Cost(NamedTuple):
    """Milliseconds at the median: a claim, and a look of an idle worker that finds nothing."""

    claim: float
    look: float


def claim_time(stage: Stage) -> dict[str, Any]:
    """Milliseconds a claim, as its statements take them in a real worker that runs 20,000 tasks.

    By what else is in the table: future rows (``claim``, and ``look`` when nothing is due), more
    due rows (``due``), lanes, due rows of a code that the worker does not know.
    """
    stage.contender.prepare()
    due = max(1000, min(20_000, stage.tasks // 2))
    lanes = {str(count): _in_lanes(stage, due, count).claim for count in (1, LANES)}
    unknown = min(UNKNOWN, stage.tasks)
    facts: dict[str, Any] = {
        "lanes": lanes,
        "unknown": {"0": lanes["1"], str(unknown): _beside_unknown(stage, due, unknown).claim},
        "due": {str(size): _of_more(stage, due, size) for size in _sizes(stage, MOST_DUE)},
    }
    costs = dict(_beside_future(stage, due))
    facts["claim"] = {str(size): cost.claim for size, cost in costs.items()}
    facts["look"] = {str(size): cost.look for size, cost in costs.items()}
    return facts


def _sizes(stage: Stage, most: int) -> list[int]:
    steps = (10_000, 100_000, 1_000_000, 10_000_000)
    return [size for size in steps if size <= min(stage.tasks, most)]


def _in_lanes(stage: Stage, due: int, lanes: int) -> Cost:
    """All that is due waits in one lane; each of the others has a future row."""
    _clear(stage)
    for lane in range(lanes):
        _set(stage, priority=-lane)
        stage.contender.fill(range(due + lane, due + lane + 1), time() + DAY)
    _set(stage, priority=None)
    stage.contender.fill(range(due), time() - DAY)
    return _run_all(stage, due)


def _beside_unknown(stage: Stage, due: int, rows: int) -> Cost:
    _clear(stage)
    _set(stage, code="unknown")
    stage.contender.fill(range(rows), time() - 2 * DAY)
    _set(stage, code="noop")
    stage.contender.fill(range(due), time() - DAY)
    return _run_all(stage, due)


def _of_more(stage: Stage, due: int, size: int) -> float:
    """Run the first of many that are due."""
    _clear(stage)
    stage.contender.fill(range(size), time() - DAY)
    _set(stage, flags=("--max-tasks", str(min(size, due))))
    try:
        return _look_on(stage, size, until_idle=False).claim
    finally:
        _set(stage, flags=())


def _beside_future(stage: Stage, due: int) -> Iterable[tuple[int, Cost]]:
    _clear(stage)
    there = 0
    for size in _sizes(stage, stage.tasks):
        stage.contender.fill(range(due + there, due + size), time() + DAY)
        there = size
        stage.contender.fill(range(due), time() - DAY)
        yield size, _run_all(stage, due)


def _run_all(stage: Stage, due: int) -> Cost:
    return _look_on(stage, due, until_idle=True)


def _look_on(stage: Stage, tasks: int, *, until_idle: bool) -> Cost:
    """Have a worker run what is due, and read what it said to the database."""
    stage.settle()
    journal = stage.journal(tasks)
    said = stage.scratch / "statements"
    said.unlink(missing_ok=True)
    with stage.workers({statements.VARIABLE: str(said)}) as workers:
        if until_idle:
            journal.wait(tasks, PATIENCE_SECONDS, workers.look)
            sleep(IDLE_SECONDS)
        else:
            wait_until(workers.have_ended, PATIENCE_SECONDS)
    return _cost(statements.read(said))


def _cost(said: list[statements.Statement]) -> Cost:
    groups = list(statements.claims(said))
    claims = [seconds for seconds, group in groups if statements.is_taking(group[-1])]
    looks = [seconds for seconds, group in groups if not statements.is_taking(group[-1])]
    return Cost(1000 * median(claims[WARM_UP:] or claims), 1000 * median(looks or [0.0]))


def _set(stage: Stage, **attributes: Any) -> None:
    vars(stage.contender).update(attributes)


def _clear(stage: Stage) -> None:
    connection = connect(stage.contender.url)
    on_sqlite = parse(stage.contender.url).vendor == "sqlite"
    connection.cursor().execute("DELETE FROM t_task" if on_sqlite else "TRUNCATE TABLE t_task")
    connection.close()
