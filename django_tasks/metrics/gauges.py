"""The samples of what is now: tasks by code and queue, workers, pauses."""

from collections import Counter
from collections.abc import Callable, Iterable
from operator import add

from django_tasks.metrics import catalogue as names
from django_tasks.metrics.families import Labels, Samples
from django_tasks.metrics.state import State
from django_tasks.reads.backlog import CountedLane
from django_tasks.reads.words import Amount
from django_tasks.reads.workers import WorkerState


def write(state: State, codes: Labels, queues: Labels, samples: Samples) -> None:
    """Write all gauges of a state."""
    _waiting(state, codes, samples)
    _held(state, codes, samples)
    failed = ((codes(code), amount.number) for code, amount in state.failed.items())
    samples.add_each(names.FAILED, codes.all(), failed, add)
    _code_workers(state, codes, samples)
    _queues(state, queues, samples)
    _capped(state, samples)
    samples.add(names.LEFT_OUT, codes.left_out)
    _workers(state, samples)
    samples.add(names.PAUSES, state.pauses)


def _seconds(each: CountedLane, state: State) -> float:
    return max(0.0, (state.now - each.lane.first).total_seconds())


def _waiting(state: State, codes: Labels, samples: Samples) -> None:
    lanes = [(codes(each.lane.biz_code), each) for each in state.free]
    due = ((code, each.due.number) for code, each in lanes)
    late = ((code, each.late.number) for code, each in lanes)
    oldest = ((code, _seconds(each, state)) for code, each in lanes)
    samples.add_each(names.DUE, codes.all(), due, add)
    samples.add_each(names.LATE, codes.all(), late, add)
    samples.add_each(names.OLDEST_DUE, codes.all(), oldest, max)


def _held(state: State, codes: Labels, samples: Samples) -> None:
    alive = {worker.id for worker in state.workers if worker.is_alive}
    groups = [(codes(each.biz_code), each) for each in state.held]
    ages = (
        (code, max(0.0, (state.now - each.since).total_seconds()))
        for code, each in groups
        if each.since is not None
    )
    stuck = ((code, each.number) for code, each in groups if each.worker not in alive)
    numbers = ((code, each.number) for code, each in groups)
    samples.add_each(names.RUNNING, codes.all(), numbers, add)
    samples.add_each(names.OLDEST_CLAIM, codes.all(), ages, max)
    samples.add_each(names.STUCK, codes.all(), stuck, add)


def _code_workers(state: State, codes: Labels, samples: Samples) -> None:
    found = _workers_for(state, state.codes(), WorkerState.knows, codes)
    samples.add_each(names.CODE_WORKERS, codes.all(), found.items(), add)


def _workers_for(
    state: State, wanted: set[str], does: Callable[[WorkerState, str], bool], labels: Labels
) -> dict[str, int]:
    """The working workers for each label. Of all under "other" the least: one may have none."""
    working = [worker for worker in state.workers if worker.is_working]
    found: dict[str, int] = {}
    for name in sorted(wanted):
        number, label = sum(does(worker, name) for worker in working), labels(name)
        found[label] = min(found.get(label, number), number)
    return found


def _queues(state: State, queues: Labels, samples: Samples) -> None:
    lanes = [(queues(each.lane.queue), each) for each in state.free]
    due = ((queue, each.due.number) for queue, each in lanes)
    oldest = ((queue, _seconds(each, state)) for queue, each in lanes)
    samples.add_each(names.QUEUE_DUE, queues.all(), due, add)
    samples.add_each(names.QUEUE_OLDEST_DUE, queues.all(), oldest, max)
    found = _workers_for(state, state.queues(), WorkerState.serves, queues)
    samples.add_each(names.QUEUE_WORKERS, queues.all(), found.items(), add)


def _capped(state: State, samples: Samples) -> None:
    counts: dict[str, Iterable[tuple[str, Amount]]] = {
        "due": ((each.lane.biz_code, each.due) for each in state.free),
        "late": ((each.lane.biz_code, each.late) for each in state.free),
        "running": ((each.biz_code, Amount(0, state.holds_more)) for each in state.held),
        "failed": state.failed.items(),
    }
    for count, amounts in counts.items():
        samples.add(names.CAPPED, len({code for code, amount in amounts if amount.is_more}), count)


def _workers(state: State, samples: Samples) -> None:
    alive = [worker for worker in state.workers if worker.is_alive]
    states = Counter(_state_of(worker) for worker in state.workers)
    for name in ("working", "quiet", "silent"):
        samples.add(names.WORKERS, states[name], name)
    samples.add(names.THREADS, sum(worker.threads for worker in alive))
    samples.add(names.BUSY, sum(worker.busy for worker in alive))
    if state.workers:
        last = max(worker.heartbeat for worker in state.workers)
        samples.add(names.HEARTBEAT, last.timestamp())


def _state_of(worker: WorkerState) -> str:
    if not worker.is_alive:
        return "silent"
    return "working" if worker.is_working else "quiet"
