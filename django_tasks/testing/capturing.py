"""Adds that store nothing."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from itertools import count

from django_tasks import payloads
from django_tasks.client import storing
from django_tasks.client.storing import Item, Key, Merge, already_exists
from django_tasks.host.clocks import utc_now
from django_tasks.models import Task
from django_tasks.store import clock
from django_tasks.store.upsert import NewTask
from django_tasks.testing.decorating import managed
from django_tasks.testing.frozen import frozen_now
from django_tasks.timezones import aware, for_django
from django_tasks.values.conflicts import DebounceTerms, OnConflict
from django_tasks.values.options import options_of_text
from django_tasks.values.status import Status

# Ids of captured tasks: of no row, and true.
_ids = count(-1, -1)


@managed
def captured_tasks() -> Iterator[list[Task]]:
    """Collect what ``add_task`` and ``add_tasks`` would store, in a list, and store nothing.

    It asks no database, so it works in a ``SimpleTestCase``; its clock is the host's unless a test
    has stopped another one. Bad input raises as always, and ``task_added`` is sent. Tasks know each
    other by their keys: one that is added again replaces the one before, and ``on_conflict`` says
    otherwise. They know nothing of rows that are stored, and stay in the list after a rollback.
    A task is returned as a stored one would be, its ``id`` is below 0. All other functions work
    as always, and find none of these. In the whole process, async code included.
    """
    captured: list[Task] = []
    with ExitStack() as stack:
        if clock.source() is clock.database_now:
            stack.enter_context(clock.replaced(lambda using: frozen_now() or utc_now()))
        stack.enter_context(storing.replaced(Captured(captured)))
        yield captured


class Captured:
    """A storage that puts tasks into a list."""

    def __init__(self, tasks: list[Task]) -> None:
        self.tasks = tasks
        self._latest: dict[Key, datetime] = {}
        self._payloads: dict[Key, str | None] = {}

    def one(
        self, new: NewTask, conflict: OnConflict, *, using: str, paused: bool
    ) -> tuple[Task, bool]:
        there = self._find(new)
        if there is not None and conflict is not OnConflict.REPLACE:
            if conflict is OnConflict.RAISE:
                raise already_exists(new)
            if conflict is OnConflict.KEEP or new.when >= aware("when", there.when):
                return there, False
        return self._put(new, there, paused=paused), True

    def debounced(
        self, new: NewTask, terms: DebounceTerms, merged: Merge, now: datetime, *, using: str
    ) -> Task:
        there = self._find(new)
        latest = None if terms.at_most is None else now + terms.at_most
        if there is not None:
            latest = self._latest.get(new[:2]) or latest
            new = new._replace(biz_ext=merged(payloads.encoded(there.biz_ext)))
        if latest is not None:
            self._latest[new[:2]] = latest
            new = new._replace(when=max(now, min(new.when, latest)))
        return self._put(new, there)

    def many(
        self, items: Sequence[Item], conflict: OnConflict, batch_size: int, *, using: str
    ) -> tuple[set[Key], list[Task]]:
        if conflict is OnConflict.RAISE:  # all or none
            for index, new in items:
                if self._find(new) is not None:
                    raise already_exists(new, index)
        stored = [self.one(new, conflict, using=using, paused=False) for _, new in items]
        moved = [task for task, is_moved in stored if is_moved]
        return {(task.biz_code, task.biz_num) for task in moved}, moved

    def payload(self, task: Task, *, using: str) -> str | None:
        return self._payloads.get((task.biz_code, task.biz_num))

    def wake(self, first: datetime, tasks: int = 1, *, using: str) -> None:
        """No worker finds any of these."""

    def _find(self, new: NewTask) -> Task | None:
        return next((task for task in self.tasks if (task.biz_code, task.biz_num) == new[:2]), None)

    def _put(self, new: NewTask, there: Task | None, *, paused: bool = False) -> Task:
        now = for_django(clock.now("default"))
        task = Task(
            id=next(_ids) if there is None else there.id,
            biz_code=new.biz_code,
            biz_num=new.biz_num,
            when=for_django(new.when),
            biz_ext=payloads.decoded(new.biz_ext),
            queue=new.queue,
            priority=new.priority,
            schedule=new.schedule,
            name=new.name,
            options=options_of_text(new.options),
            status=Status.PAUSED if paused else Status.PENDING,
            version=0 if there is None else there.version + 1,
            create_time=now if there is None else there.create_time,
            update_time=now,
        )
        if there is not None:
            self.tasks.remove(there)
        self.tasks.append(task)
        self._payloads[new[:2]] = new.biz_ext
        return task
