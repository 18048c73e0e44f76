"""One try of a handler, from a state that is restored afterwards."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from typing import Any

from django.core import mail
from django.db import connections, transaction

from django_tasks.exceptions import TaskException
from django_tasks.handlers.base import TaskHandler
from django_tasks.handlers.recurrence import allowance_of
from django_tasks.store import control, rescue, search
from django_tasks.store.claim import Claimer, claim
from django_tasks.store.lanes import Lane
from django_tasks.store.upsert import NewTask, upsert_one
from django_tasks.testing.clock import present
from django_tasks.testing.runs import Ran
from django_tasks.testing.statements import Point, Watch
from django_tasks.testing.worker import PlaceWorker
from django_tasks.values.claimed import Claimed
from django_tasks.values.conflicts import OnConflict
from django_tasks.worker.config import worker_config
from django_tasks.worker.fresh_context import FreshContext


class NotClaimed(TaskException, RuntimeError):
    """The task of a crash test could not be started: its code or its queue is paused."""


class Stage:
    """The databases of a test, a task, and the workers that come and go."""

    def __init__(self, new: NewTask, handler: TaskHandler, using: str) -> None:
        self.new = new
        self.handler = handler
        self.using = using
        opened = [
            each.alias for each in connections.all(initialized_only=True) if _is_of_test(each)
        ]
        self.aliases = list(dict.fromkeys([using, *opened]))
        self._config = worker_config(using, threads=1)

    @contextmanager
    def scene(self) -> Iterator[None]:
        """All that is done in it is taken back at its end."""
        before = mails()
        with ExitStack() as stack:
            for alias in self.aliases:
                stack.enter_context(_taken_back(alias))
            try:
                self.prepare()
                yield
            finally:
                forget_mails(before)

    def run(
        self, watch: Watch | None = None, workers: list[PlaceWorker] | None = None
    ) -> Ran | None:
        """Have a new worker run the task to the end of its run; None if it is not there, or not
        due. The worker is put into ``workers`` before it begins.
        """
        worker, claimed = self._claimed(watch)
        if workers is not None:
            workers.append(worker)
        if claimed is None:
            return None
        ran = worker.run((claimed,))
        self.free(worker)
        return ran[0] if ran else None

    def run_until_death(self, death: Point) -> Watch:
        """Have a new worker begin the task and die at ``death``, if it comes to that."""
        watch = Watch(self.aliases, mails, death)
        worker, claimed = self._claimed(watch)
        if claimed is None:
            raise NotClaimed(f"{self.new.biz_code}/{self.new.biz_num} cannot start: it is paused")
        with worker.autocommit():
            try:
                FreshContext().run(worker.runner.run_bare, claimed, self.handler)
            except BaseException:
                if not watch.is_dead:
                    raise
                forget_mails(watch.mails_at_death)
            else:
                watch.was_swallowed = watch.is_dead
        self.free(worker)
        return watch

    def in_the_middle(self, number: int, act: Callable[[PlaceWorker], None]) -> Ran | None:
        """Run the task, and call ``act`` after the statement ``number`` of its handler."""
        workers: list[PlaceWorker] = []
        watch = Watch(self.aliases, mails, middle=number, act=lambda: act(workers[0]))
        return self.run(watch, workers)

    def free(self, worker: PlaceWorker) -> None:
        """Have a worker leave, and what it still owns rescued, as that of a dead one."""
        worker.membership.leave()
        owners, now = [worker.membership.worker_id], self.now()
        rescue.rescue(owners, lambda row: allowance_of(row).max_attempts, now, using=self.using)

    def cancel(self, worker: PlaceWorker) -> None:
        control.cancel(self._key(), self.now(), using=self.using)

    def move(self, worker: PlaceWorker) -> None:
        control.reschedule(self._key(), self.now(), self.now(), using=self.using)

    def is_there(self) -> bool:
        return bool(search.with_keys([self.new[:2]], using=self.using))

    def now(self) -> datetime:
        return present(self.using)

    def prepare(self) -> None:
        """Have the task wait as nobody has touched it yet."""
        control.cancel(self._key(), self.now(), using=self.using)
        upsert_one(self.new, OnConflict.REPLACE, self.now(), using=self.using)

    def _claimed(self, watch: Watch | None) -> tuple[PlaceWorker, Claimed | None]:
        """A new worker with its claim of the task, past all limits."""
        worker = PlaceWorker(self._config) if watch is None else PlaceWorker(self._config, watch)
        if watch is not None:
            watch.autocommit, watch.place_in_loop = worker.autocommit, worker.loop.place
        claimer, new = Claimer(worker.membership.join()), self.new
        lane = Lane(new.queue, new.priority, new.biz_code, new.when)
        while claims := claim(claimer, lane, self.now(), 1, using=self.using):
            if claims[0].biz_num == new.biz_num:
                return worker, claims[0]
        worker.membership.leave()
        return worker, None

    def _key(self) -> Any:
        return search.key(*self.new[:2])


def mails() -> int:
    """The number of mails in the outbox of Django's locmem backend."""
    return len(getattr(mail, "outbox", []))


def forget_mails(count: int) -> None:
    """Take back all mails but the first ``count``."""
    with suppress(AttributeError):
        del mail.outbox[count:]


def _is_of_test(connection: Any) -> bool:
    return bool(connection.in_atomic_block)


@contextmanager
def _taken_back(alias: str) -> Iterator[None]:
    block: Any = transaction.atomic(using=alias)
    # As TestCase marks its own: a handler may have blocks that are ``durable``.
    block._from_testcase = True
    with block:
        try:
            yield
        finally:
            transaction.set_rollback(True, using=alias)
