"""A worker in place: it claims, runs and finishes with the worker's own parts, one item a time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta
from typing import Any

from django.db import Error

from django_tasks import logs, signals
from django_tasks.handlers import finders
from django_tasks.handlers.base import TaskHandler
from django_tasks.handlers.registry import handler_for, terms_for
from django_tasks.handlers.running_task import RunningTask
from django_tasks.models import Task
from django_tasks.store import claimed_rows, lanes
from django_tasks.store.claim import Claimer
from django_tasks.store.finish import Ended
from django_tasks.store.lanes import Lane
from django_tasks.testing.autocommit import Autocommit
from django_tasks.testing.place import (
    Around,
    PlaceActive,
    PlaceCalls,
    PlaceLoop,
    PlaceMembership,
    PlaceRunner,
    PlaceTimeouts,
)
from django_tasks.testing.runs import Ran, Witness
from django_tasks.timezones import aware, for_django
from django_tasks.values.claimed import Claimed
from django_tasks.values.outcomes import GiveBack, Settled
from django_tasks.values.status import Status
from django_tasks.worker import schedule_rows
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.finisher import Finisher
from django_tasks.worker.fresh_context import FreshContext
from django_tasks.worker.gates import Gates
from django_tasks.worker.lane_claims import LaneClaims
from django_tasks.worker.lanes import is_served
from django_tasks.worker.marks import Marks
from django_tasks.worker.suspects import Suspects

MICROSECOND = timedelta(microseconds=1)
Item = tuple[Claimed, ...]


class PlaceLook:
    """One look at what waits. It begins at the start of each lane and remembers nothing."""

    def __init__(
        self,
        config: WorkerConfig,
        membership: PlaceMembership,
        finisher: Finisher,
        is_known: Callable[[str], bool],
    ) -> None:
        self._config = config
        self._membership = membership
        self.now = membership.clock.now()
        marks = Marks()
        active = PlaceActive(config, membership.name, membership.clock)
        self._gates = Gates(config, membership, active)
        self._gates.limits_may_differ()
        self._gates.read_if_due()
        self._suspects = Suspects(config.using, self._gates, finisher, marks)
        self._lane_claims = LaneClaims(
            config, self._gates, self._suspects, marks, unsure=lambda: None
        )
        self.lanes = [
            lane
            for lane in lanes.look(using=config.using).lanes
            if is_served(lane.queue, lane.biz_code, config) and is_known(lane.biz_code)
        ]

    @property
    def due(self) -> list[Lane]:
        """Those of whose tasks some are due, the most urgent first."""
        return [lane for lane in self.lanes if lane.first <= self.now]

    def claim(self, most: int) -> Item:
        """Claim what one call of a handler takes, at most ``most`` tasks; nothing if none may
        start.
        """
        claimer, now = Claimer(self._membership.worker_id), self.now
        for lane in self.due:
            portion = min(terms_for(lane.biz_code).batch, most)
            if claims := self._lane_claims.claim(claimer, lane, now, portion, careful=False):
                return tuple(claims)
        self._suspects.look_soon()
        self._suspects.look(self.due, now, 0)
        return tuple(self._lane_claims.claim_suspect(claimer, now))

    def next_time(self, *, with_schedules: bool) -> datetime | None:
        """The next time at which a task may start, None if there is none; after a ``claim`` that
        has brought nothing.
        """
        times = [self._next_of(lane, with_schedules) for lane in self.lanes]
        return min((time for time in times if time is not None), default=None)

    def _next_of(self, lane: Lane, with_schedules: bool) -> datetime | None:
        first = lane.first if with_schedules else self._first_without_schedule(lane)
        if first is None or self._gates.waits_for_runs(lane):
            return None  # no run is under way here: nobody will end those that the limit counts
        closed_for = self._lane_claims.closed_for(lane)
        if closed_for <= 0:
            return first if first > self.now else None  # due, and cannot be claimed: see the log
        return max(first, self.now + timedelta(seconds=closed_for) + MICROSECOND)

    def _first_without_schedule(self, lane: Lane) -> datetime | None:
        queue, priority, code, _ = lane
        rows = Task._base_manager.using(self._config.using).filter(
            status=Status.PENDING, queue=queue, priority=priority, biz_code=code, schedule=None
        )
        when = rows.order_by("when").values_list("when", flat=True).first()
        return None if when is None else aware("when", when)


class PlaceWorker:
    """Used by one thread, inside ``at_work``."""

    def __init__(self, config: WorkerConfig, around: Around = nullcontext) -> None:
        """Each call of a handler is made in a context that ``around`` makes."""
        self._config = config
        self.membership = PlaceMembership(config)
        self.autocommit = Autocommit()
        self.loop, timeouts = PlaceLoop(), PlaceTimeouts()
        calls = PlaceCalls(self.membership, self.loop, timeouts, self.autocommit, around)
        self.runner = PlaceRunner(config.using, self.membership, self.loop, timeouts, calls=calls)
        self._lost: set[tuple[int, ...]] = set()
        self._sought: set[str] = set()
        self._finisher = Finisher(config, Marks(), self.membership.name, self._tell)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Have a row among the workers, and the rows of schedules as the code says."""
        self.membership.join()
        try:
            schedule_rows.keep(self.membership.clock.now(), self._config)
            yield
        finally:
            self.membership.leave()

    def look(self) -> PlaceLook:
        return PlaceLook(self._config, self.membership, self._finisher, self._is_known)

    def _is_known(self, biz_code: str) -> bool:
        """Tell if a code has a handler. For one that has none, a function is looked for once."""
        if handler_for(biz_code) is not None:
            return True
        if biz_code in self._sought:
            return False
        self._sought.add(biz_code)
        try:
            return finders.find(biz_code, using=self._config.using)
        except Error:  # of the database
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a module may raise anything
            logs.search_failed(self._config.using, biz_code, error)
            return False

    def run(self, item: Item) -> list[Ran]:
        """Run what was claimed together, and write its ends: in a copy of the caller's context, as
        each run of a worker has one. The next run and the test see nothing of what it sets there.
        """
        return FreshContext().run(self._run, item)

    def _run(self, item: Item) -> list[Ran]:
        witness, failed = Witness(), None
        handler = handler_for(item[0].biz_code)
        self._finisher.hold(item)
        with witness.listening(), self.autocommit():
            ended = self.runner(item)
            try:
                self.autocommit.flush()
            except Exception as error:  # noqa: BLE001 - the ends stand, as after a commit
                logs.commit_hook_failed(self._task_of(item[0]))
                failed = error
        self._finisher.add(ended)
        self._finisher.write(self.membership.clock.now(), careful=False)
        if handler is None:
            return []
        return [self._ran(end, handler, witness, failed) for end in ended if _has_run(end)]

    def _ran(
        self, end: Ended, handler: TaskHandler, witness: Witness, failed: Exception | None
    ) -> Ran:
        claimed, outcome = end.claimed, end.outcome
        told = witness.told_of(self._task_of(claimed))
        word = told.outcome if isinstance(outcome, Settled) else outcome.counts_as
        return Ran(
            claimed.biz_code,
            claimed.biz_num,
            for_django(claimed.when),
            handler,
            "lost" if claimed[:2] in self._lost else word,
            told.exception or failed,
            self._next_time(claimed),
            told.seconds,
            claimed.attempt,
        )

    def _task_of(self, claimed: Claimed) -> RunningTask:
        clock = self.membership.clock
        return RunningTask(claimed, self._config.using, clock.tick(), claimed_rows)

    def _next_time(self, claimed: Claimed) -> datetime | None:
        rows = Task._base_manager.using(self._config.using)
        waiting = rows.filter(pk=claimed.id, status=Status.PENDING)
        return waiting.values_list("when", flat=True).first()

    def _tell(self, signal: Any, sender: Any, **facts: Any) -> None:
        if signal is signals.task_lost:
            self._lost.add(facts["task"][:2])
        signals.tell(signal, sender, **facts)


def _has_run(end: Ended) -> bool:
    return not isinstance(end.outcome, GiveBack)
