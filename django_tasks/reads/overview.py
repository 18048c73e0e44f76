"""All that a person on call asks, from one bounded look: the dashboard and ``taskstatus`` show it.

In this order: is somebody working; what is late; what has failed; what comes; how fast it goes.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django_tasks.host.clocks import EPOCH
from django_tasks.models import TaskMinute
from django_tasks.reads import backlog, plain, problems
from django_tasks.reads.backlog import Coming, Failures
from django_tasks.reads.codes import Code, Seen, codes, gates, late_codes, paused_lanes
from django_tasks.reads.figures import figures, figures_by_code
from django_tasks.reads.problems import Evidence, Problem
from django_tasks.reads.words import Amount, together
from django_tasks.reads.workers import Claim, WorkerState, claims, name_of, workers
from django_tasks.store import clock, pauses
from django_tasks.values.figures import Figures

HOURS_AHEAD = 3.0
HOUR = timedelta(hours=1)
SPANS = {"hour": HOUR, "day": 24 * HOUR, "week": 7 * 24 * HOUR}


class Paused(NamedTuple):
    """A pause of a whole; an empty name means any."""

    biz_code: str
    queue: str
    since: datetime
    by: str


@dataclass(frozen=True)
class Late:
    """The tasks that are late; ``oldest`` is when the first of them was due.

    What is paused as a whole is not among them.
    """

    count: Amount
    oldest: datetime | None
    by_code: tuple[Code, ...]


class Speed(NamedTuple):
    """The figures of the time from ``since`` until now: "hour", "day" or "week"."""

    name: str
    since: datetime
    minutes: float
    figures: Figures

    @property
    def runs_a_minute(self) -> float:
        return self.figures.runs / self.minutes


@dataclass(frozen=True, kw_only=True)
class Overview:
    """The state of everything at ``now`` (aware UTC).

    ``working``: workers that are alive and claim tasks. ``last_seen``: the last sign of any worker,
    if there is one: a heartbeat, or about when the last run was. ``due``: all pending tasks that
    are due, those that are paused as a whole too.
    """

    now: datetime
    workers: tuple[WorkerState, ...]
    last_seen: datetime | None
    due: Amount
    late: Late
    running: Amount
    stuck: tuple[Claim, ...]
    failed: Failures
    coming: Coming
    speed: tuple[Speed, ...]
    codes: tuple[Code, ...]
    pauses: tuple[Paused, ...]
    problems: tuple[Problem, ...]

    @property
    def alive(self) -> list[WorkerState]:
        return [worker for worker in self.workers if worker.is_alive]

    @property
    def working(self) -> list[WorkerState]:
        return [worker for worker in self.workers if worker.is_working]

    @property
    def silent(self) -> list[WorkerState]:
        return [worker for worker in self.workers if not worker.is_alive]

    @property
    def quiet(self) -> list[WorkerState]:
        return [worker for worker in self.alive if worker.is_quiet]

    def as_json(self) -> dict[str, Any]:
        """The same as plain values, for JSON."""
        return plain.overview(self)


def overview(
    *,
    using: str,
    now: datetime | None = None,
    hours_ahead: float = HOURS_AHEAD,
    named: bool = True,
) -> Overview:
    """Look at everything once, at ``now`` by the database's clock; ``named``: with workers' names.

    The number of statements is the same however many tasks, codes and workers there are, and each
    reads a bounded number of rows. Database errors pass.
    """
    now = clock.now(using) if now is None else now
    seen = see(now, using=using)
    shown = [each._replace(name=name_of(each, named)) for each in seen.workers]
    seen = seen._replace(workers=shown)
    found = codes(seen, now)
    facts = Evidence(
        now=now,
        seen=seen,
        codes=found,
        heartbeat=max((worker.heartbeat for worker in seen.workers), default=None),
        counted=None if seen.workers else _last_counted(using),
        speed={name: figures(now - length, using=using) for name, length in SPANS.items()},
    )
    late = late_codes(found)
    return Overview(
        now=now,
        workers=tuple(seen.workers),
        last_seen=facts.heartbeat or facts.counted,
        due=together(*(code.due for code in found)),
        late=Late(
            together(*(code.late for code in late)),
            min((code.oldest for code in late if code.oldest), default=None),
            tuple(late),
        ),
        running=seen.claims.count(),
        stuck=tuple(seen.claims.stuck(seen.workers)),
        failed=seen.failures,
        coming=_coming(seen, now, hours_ahead, using),
        speed=tuple(_speed(facts)),
        codes=tuple(found),
        pauses=tuple(_paused(seen)),
        problems=tuple(problems.problems(facts)),
    )


def see(now: datetime, *, using: str) -> Seen:
    """Read what the codes and the problems are told from."""
    found = pauses.pauses(using=using)
    return Seen(
        waiting=backlog.waiting(found, now, using=using),
        claims=claims(using=using),
        failures=backlog.failures(using=using),
        paused=paused_lanes(using=using),
        # After the claims: a worker that has come since cannot be missed as the owner of one.
        workers=workers(using=using, now=now),
        pauses=found,
        gates=gates(using=using),
        figures=figures_by_code(now - HOUR, using=using),
    )


def _coming(seen: Seen, now: datetime, hours: float, using: str) -> Coming:
    lanes = [each.lane for each in seen.waiting if each.pause is None]
    return backlog.coming(lanes, now, hours, using=using)


def _speed(facts: Evidence) -> list[Speed]:
    return [
        Speed(name, facts.now - length, length.total_seconds() / 60, facts.speed[name])
        for name, length in SPANS.items()
    ]


def _paused(seen: Seen) -> list[Paused]:
    return [
        Paused(pause.biz_code, pause.queue, backlog.since(pause), pause.by) for pause in seen.pauses
    ]


def _last_counted(using: str) -> datetime | None:
    """The middle of the minute, or of the hour, in which a worker has counted a run last."""
    minutes = TaskMinute._base_manager.using(using).filter(minute__gt=0).order_by("-minute")
    found = minutes.values_list("minute", "span").first()
    if found is None:
        return None
    minute, length = found
    return EPOCH + timedelta(minutes=minute + length / 2)
