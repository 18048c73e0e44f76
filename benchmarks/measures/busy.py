"""Lateness in a busy hour: adds, retries and schedules, without and under a held snapshot."""

from collections.abc import Sequence
from time import monotonic, sleep, time
from typing import Any

from benchmarks.measures.latency import summary
from benchmarks.measures.snapshots import snapshot
from benchmarks.measures.stage import Stage
from benchmarks.processes import wait_until

PATIENCE_SECONDS = 600
STEP_SECONDS = 0.05
# Tasks that are added together are due at five times, so that some of them wait for each other.
LEAD_SECONDS = (0.2, 0.5, 0.8, 1.1, 1.4)
SETTLE_SECONDS = 3.0
BEATS = 20
MINUTE = 60


def busy(stage: Stage) -> dict[str, Any]:
    """The lateness of tasks at so many a second, in milliseconds: free, and under a snapshot.

    Before the clock is looked at, a backlog of as many tasks is run: the rows that it leaves are
    what a snapshot keeps. One task in ten comes again 0.3 s later, one in a hundred fails and is
    tried again then, and twenty schedules fire each second.
    """
    contender = stage.contender
    contender.prepare()
    facts = _hour(stage)
    with snapshot(contender.url):
        under = _hour(stage)
    facts |= {f"held_{name}": value for name, value in under.items() if name != "curve"}
    return {**facts, "held_to_free": facts["held_p99"] / facts["p99"]}


def _hour(stage: Stage) -> dict[str, Any]:
    # Slots of the journal: the backlog, first runs, second runs, each schedule by its seconds.
    first, second, beats = stage.tasks, 2 * stage.tasks, 3 * stage.tasks
    journal = stage.journal(beats + BEATS * MINUTE)
    _add(stage, "noop", range(stage.tasks), time())
    with stage.workers() as workers:
        journal.wait(stage.tasks, PATIENCE_SECONDS, workers.look)
        sleep(SETTLE_SECONDS)
        _start_schedules(beats)
        too_late = _add_at_a_steady_rate(stage, range(first, second))
        journal.wait(second, PATIENCE_SECONDS, workers.look)
        sleep(SETTLE_SECONDS)
        _stop_schedules()
        wait_until(stage.contender.is_empty, PATIENCE_SECONDS)
    times = journal.times()
    # A task that was stored after its time would be measured for something else.
    return summary([times[n] for n in range(first, len(times)) if times[n] and n not in too_late])


def _add(stage: Stage, code: str, numbers: Sequence[int], due: float) -> None:
    vars(stage.contender).update(code=code, payload=stage.tasks)
    stage.contender.add_many(stage.contender.make(numbers, due))


def _add_at_a_steady_rate(stage: Stage, numbers: range) -> set[int]:
    """Add the tasks; returns those that were due before they were stored."""
    begin, added, too_late = monotonic(), 0, set[int]()
    while added < len(numbers):
        passed = monotonic() - begin + STEP_SECONDS
        wanted = min(len(numbers), int(stage.tasks * passed / stage.seconds))
        now, part = time(), numbers[added:wanted]
        for place, lead in enumerate(LEAD_SECONDS):
            if some := part[place :: len(LEAD_SECONDS)]:
                _add(stage, "busy", some, now + lead)
                too_late.update(some if time() > now + lead else ())
        added = wanted
        sleep(max(0.0, begin + passed - monotonic()))
    return too_late


def _start_schedules(slot: int) -> None:
    from django_tasks.api import Task, add_task

    for number in range(BEATS):
        payload = slot + number * MINUTE
        add_task(Task(biz_code="beat", biz_num=str(number), biz_ext=payload, schedule="every 1s"))


def _stop_schedules() -> None:
    from django_tasks.api import cancel_task

    for number in range(BEATS):
        cancel_task("beat", str(number))
