"""The codes: those that this project has handlers for, and those that rows or workers name."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from django_tasks.exceptions import TaskException
from django_tasks.handlers.finders import has_handler, known_handlers
from django_tasks.handlers.registry import terms_for
from django_tasks.host.clocks import EPOCH
from django_tasks.models import Gate, Pause
from django_tasks.reads.backlog import Failures, Waiting
from django_tasks.reads.words import Amount, together
from django_tasks.reads.workers import Claims, WorkerState, running_by_code
from django_tasks.store.lanes import Lane, every_lane
from django_tasks.values.figures import NO_FIGURES, Figures
from django_tasks.values.limits import NO_LIMIT, PERIODS, Limit, Opening, Rate, as_limit, in_force
from django_tasks.values.status import Status

MOST_GATES = 10_000


class Limits(NamedTuple):
    """The limits of one code in the whole cluster.

    ``own`` are those of its handler as this process knows it, and ``in_force`` those of an operator
    before these. ``is_full``: a task that is due has to wait for them now.
    """

    own: Limit
    in_force: Limit
    is_full: bool


@dataclass(frozen=True, kw_only=True)
class Code:
    """One code as it stands. ``figures`` are those of the last hour.

    ``first`` is the time of the pending task that is due first, and ``oldest`` the same if it is
    due and not paused as a whole. ``workers``: those that work and have a handler of it.
    """

    code: str
    has_handler: bool
    workers: int
    queues: tuple[str, ...]
    first: datetime | None
    oldest: datetime | None
    due: Amount
    late: Amount
    running: Amount
    failed: Amount
    is_waiting: bool
    is_paused: bool = False
    pauses: tuple[Pause, ...] = ()
    limits: Limits
    figures: Figures


class Seen(NamedTuple):
    """All that was read about the tasks, from which codes are put together."""

    waiting: Sequence[Waiting]
    claims: Claims
    failures: Failures
    paused: Sequence[Lane]
    workers: Sequence[WorkerState]
    pauses: Sequence[Pause]
    gates: Mapping[str, Gate]
    figures: Mapping[str, Figures]


def paused_lanes(*, using: str) -> list[Lane]:
    """Lanes with tasks that are paused one by one."""
    return every_lane(Status.PAUSED, using=using)


def gates(*, using: str) -> dict[str, Gate]:
    """The gates by code: the state of a rate, and an operator's limits."""
    return {gate.biz_code: gate for gate in Gate._base_manager.using(using)[:MOST_GATES]}


def codes(seen: Seen, now: datetime) -> list[Code]:
    """Each code that anything names, in the order of names."""
    # By code, and not looked through for each: there may be 2,000 of them, and as many pauses.
    lanes, pauses = defaultdict[str, list[Waiting]](list), defaultdict[str, list[Pause]](list)
    for each in seen.waiting:
        lanes[each.lane.biz_code].append(each)
    for pause in seen.pauses:
        pauses[pause.biz_code].append(pause)
    paused = {lane.biz_code for lane in seen.paused}
    running = running_by_code(seen.claims)
    known = {*lanes, *pauses, *paused, *running, *seen.failures.by_code, *seen.figures}
    known |= {*known_handlers(), *(code for each in seen.workers for code in each.codes or ())}
    seen = seen._replace(workers=[worker for worker in seen.workers if worker.is_working])
    return [
        replace(
            _code(code, lanes[code], running.get(code, Amount(0)), seen, now),
            is_paused=code in paused,
            pauses=tuple(pauses[code]),
        )
        for code in sorted(known - {""})
    ]


def _code(
    code: str, waiting: Sequence[Waiting], running: Amount, seen: Seen, now: datetime
) -> Code:
    oldest = min((each.lane.first for each in waiting if each.pause is None), default=None)
    return Code(
        code=code,
        has_handler=has_handler(code),
        workers=sum(worker.knows(code) for worker in seen.workers),
        queues=tuple(sorted({each.lane.queue for each in waiting})),
        first=min((each.lane.first for each in waiting), default=None),
        oldest=oldest if oldest is not None and oldest <= now else None,
        due=together(*(each.due for each in waiting)),
        late=together(*(each.late for each in waiting if each.pause is None)),
        running=running,
        failed=seen.failures.by_code.get(code, Amount(0)),
        is_waiting=bool(waiting),
        limits=_limits(code, seen.gates.get(code), running.number, now),
        figures=seen.figures.get(code, NO_FIGURES),
    )


def _limits(code: str, gate: Gate | None, running: int, now: datetime) -> Limits:
    limit = limit_of(code, gate)
    is_full = not opening(limit, gate, running, now).starts
    return Limits(terms_for(code).limit or NO_LIMIT, limit, is_full)


def limit_of(code: str, gate: Gate | None) -> Limit:
    """The limits in force: those of an operator before those of the handler."""
    try:
        said = as_limit(gate.max_running, gate.rate_limit) if gate else None
    except TaskException:  # of another release: its workers know what it means
        said = None
    return in_force(terms_for(code).limit, said)


def opening(limit: Limit, gate: Gate | None, running: int, now: datetime) -> Opening:
    """The opening of a code's gate at ``now``, while so many of its tasks run."""
    moment = (now - EPOCH) // timedelta(microseconds=1)
    return limit.opening(running, gate.full_until if gate else 0, moment)


def rate_text(rate: Rate | None) -> str | None:
    """A rate as one writes it."""
    if rate is None:
        return None
    units = {period: unit for unit, period in PERIODS.items()}
    return f"{rate.starts}/{units[rate.period]}"


def late_codes(found: Iterable[Code]) -> list[Code]:
    """Those with tasks that are late, the one whose oldest has waited longest first."""
    late = [code for code in found if code.late]
    return sorted(late, key=lambda code: (code.oldest is None, code.oldest or code.first))
