"""Tasks a second: added, and run."""

from collections.abc import Callable, Mapping
from time import monotonic, time
from typing import Any

from benchmarks.contenders.base import Contender
from benchmarks.measures.stage import Stage
from benchmarks.processes import wait_until

PATIENCE_SECONDS = 1200


def drain(stage: Stage, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run a backlog of due tasks that do nothing.

    The rate is that of the time from the start of the first task, as the journal has it, until
    somebody outside sees an empty queue: the work alone, without the start of the processes, the
    same for everybody. What the start costs too is in ``from_launch`` (until the queue is empty)
    and ``to_exit``; the processor time of the workers from the first task on, a task, in ``cpu_us``
    (it says more than the rate when others use the machine too).
    """
    contender, journal = stage.contender, stage.journal(stage.tasks)
    contender.prepare()
    contender.add_many(contender.make(range(stage.tasks), time() - 60))
    stage.settle()
    launched = time()
    with stage.workers(environment) as workers:
        journal.wait(1, PATIENCE_SECONDS, workers.look)
        started = workers.cpu_seconds()
        journal.wait(stage.tasks, PATIENCE_SECONDS, workers.look)
        wait_until(contender.is_empty, PATIENCE_SECONDS)
        emptied, cpu = time(), workers.cpu_seconds()
    exited = time()
    first = min(journal.times())
    return {
        "rate": stage.tasks / (emptied - first),
        "took": emptied - first,
        "from_launch": emptied - launched,
        "to_exit": exited - launched,
        "cpu_us": 1e6 * (cpu - started) / stage.tasks,
    }


def enqueue(stage: Stage) -> dict[str, Any]:
    """Add tasks in bulk, then a tenth as many one by one; tasks a second each.

    Once without and once with the time it takes the caller to make what the bulk add wants.
    """
    contender, due = stage.contender, time() + 86_400
    contender.prepare()
    numbers = range(stage.tasks)
    making, tasks = _timed(lambda: contender.make(numbers, due))
    adding, _ = _timed(lambda: contender.add_many(tasks))
    stage.settle()
    singles = range(stage.tasks, stage.tasks + stage.tasks // 10)
    one_by_one, _ = _timed(lambda: _add_each(contender, singles, due))
    return {
        "bulk": len(numbers) / adding,
        "bulk_with_making": len(numbers) / (making + adding),
        "single": len(singles) / one_by_one,
    }


def _add_each(contender: Contender, numbers: range, due: float) -> None:
    for number in numbers:
        contender.add(number, due)


def _timed(action: Callable[[], Any]) -> tuple[float, Any]:
    begin = monotonic()
    answer = action()
    return monotonic() - begin, answer
