"""The rows of handlers that have a schedule of their own: made, moved and removed at the start.

One for each handler; of a handler that runs on each host, one for each host, which the workers
there keep.

What a handler says goes into its row by one rule. A queue or a priority does not say when: the row
keeps its time, its attempts and its error. Another schedule begins with its first time, and the run
that it drops is told as missed. The newest release has the say: the row keeps which one that was,
and an older one changes nothing. The rules of a zone may have changed since the row was written:
then its time is asked for again.

Races: workers start at once, of one release or of two (the unique key lets one of them insert; a
change looks at the row again under its lock), with clients that pause or run the row meanwhile.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import DatabaseError, InterfaceError
from django.db.models import Q
from django.dispatch import Signal

from django_tasks import logs, signals
from django_tasks.conf import options as settings
from django_tasks.handlers.base import TaskHandler
from django_tasks.handlers.recurrence import by_todays_rules, first_time, text_of
from django_tasks.handlers.registry import get_task_handlers
from django_tasks.host.clocks import ticks
from django_tasks.models import Task
from django_tasks.schedules import as_schedule
from django_tasks.store import control, search
from django_tasks.store.control import CancelResult
from django_tasks.store.search import Planned
from django_tasks.store.upsert import NewTask, upsert_one
from django_tasks.timezones import aware, for_django
from django_tasks.values.conflicts import OnConflict
from django_tasks.values.hosts import number_of, queue_of
from django_tasks.values.keys import SCHEDULE_NUM
from django_tasks.values.options import TaskOptions, options_to_text
from django_tasks.values.releases import Release
from django_tasks.values.status import Status
from django_tasks.worker.config import WorkerConfig

# Code and number.
Key = tuple[str, str]

# When this process loaded the package; of one that was forked, the first of them: a child that is
# replaced is of the release that its supervisor is of. Hosts differ in their time of day and agree
# about the database's: a look at the rows goes back from its now by what has passed here since.
_LOADED = ticks()

# What a handler says about its row, as columns.
_SAID = ("schedule", "queue", "priority", "options")

# The schedules of newer releases that were told of, by database and key.
_TOLD: dict[tuple[str, Key], str | None] = {}


def are_wanted() -> bool:
    """Tell if there are handlers with a schedule."""
    return any(handler.schedule is not None for handler in get_task_handlers().values())


def look(now: datetime, config: WorkerConfig) -> None:
    """Tell of the rows that a newer release has given another schedule. Changes nothing: a row that
    a client has cancelled stays away until a worker starts. Database errors pass.
    """
    release = _release(now)
    handlers, using = get_task_handlers(), config.using
    numbers = (SCHEDULE_NUM, number_of(config.host))
    for key, there in search.planned(numbers, handlers, using=using).items():
        _is_of_a_newer_release(key, there, text_of(handlers[key[0]]), release, using)


def keep(now: datetime, config: WorkerConfig) -> None:
    """Have the rows say what the code says; those of codes that nobody knows here stay.

    So do those of this host if this worker would not run them: another one here may. Database
    errors pass. A trigger that raises harms its own handler's row only.
    """
    release = _release(now)  # once and first: a slow row must not make the others' older
    handlers, using = get_task_handlers(), config.using
    numbers = (SCHEDULE_NUM, number_of(config.host))
    rows = search.planned(numbers, handlers, using=using)
    for handler in handlers.values():
        try:
            _keep_all(handler, rows, release, now, config)
        except (DatabaseError, InterfaceError):
            raise
        except Exception as error:  # noqa: BLE001 - a stranger's trigger may raise anything
            logs.schedule_over(handler.get_biz_code(), error, using)


def _keep_all(
    handler: TaskHandler,
    rows: Mapping[Key, Planned],
    release: Release,
    now: datetime,
    config: WorkerConfig,
) -> None:
    code, schedule, using = handler.get_biz_code(), text_of(handler), config.using
    of_all, of_host = (code, SCHEDULE_NUM), (code, number_of(config.host))
    queue, own, other = handler.queue, of_all, of_host
    if handler.each_host:
        if not config.serves(handler.queue, code):
            return
        queue, own, other = queue_of(config.host), of_host, of_all
    there = rows.get(own)
    for key in (own, other):
        if key in rows and _is_of_a_newer_release(key, rows[key], schedule, release, using):
            return
    wanted = Planned(schedule, queue, handler.priority, TaskOptions(release=release))
    if schedule is not None:
        _keep(handler, own, wanted, there, now, using=using)
    elif there is not None:
        _remove(own, there, now, using=using)
    if unwanted := rows.get(other):
        _remove(other, unwanted, now, using=using)


def _keep(
    handler: TaskHandler,
    key: Key,
    wanted: Planned,
    there: Planned | None,
    now: datetime,
    *,
    using: str,
) -> None:
    if there is not None and _says(there, wanted):
        if not handler.each_host or control.alter(_row(key, there), {}, now, using=using):
            _ask_again(handler, key, there, now, using=using)
            return
        there = None  # removed just now, as one of a host that has gone
    first = None
    if there is None or there.schedule != wanted.schedule:
        # Before the row is locked: a trigger of the project takes the time that it takes.
        first = first_time(as_schedule(handler.schedule), now)
    if there is None and first is not None:
        logs.schedule_kept(key[0], wanted.schedule, using)
        if _add(key, wanted, first, now, using=using):
            return
    # Another worker may have been first with its row just now, perhaps one of an older release.
    _Change(handler, wanted, first, now, using).make(key)


def _ask_again(
    handler: TaskHandler, key: Key, there: Planned, now: datetime, *, using: str
) -> None:
    """Move a row to its time by the rules that its zone has today.

    Race: somebody claims, pauses or moves it meanwhile: then it is none that waits as it was read.
    """
    today = by_todays_rules(there, as_schedule(handler.schedule))
    if there.status != Status.PENDING or today is None:
        return
    waits = Q(status=Status.PENDING, attempts=0, rescues=0, when=for_django(there.when))
    if control.replan(_row(key, there) & waits, today, now, using=using):
        logs.zone_changed(*key, today, using)
        _tell(signals.task_changed, key, using, change="rescheduled")


class _Change(NamedTuple):
    """A change of a handler's row, as it is found under its lock. ``first``: the first time of its
    schedule, None if the row had that already.
    """

    handler: TaskHandler
    wanted: Planned
    first: datetime | None
    now: datetime
    using: str

    def make(self, key: Key) -> None:
        seen: list[Task] = []

        def changes(there: Task) -> tuple[dict[str, Any], datetime | None] | None:
            seen[:] = [there]  # once more after a deadlock
            return self._of(there)

        if not control.decide(search.key(*key), changes, self.now, using=self.using):
            return
        (there,) = seen
        is_moved = there.schedule != self.wanted.schedule
        if is_moved:
            logs.schedule_replaced(key[0], there.schedule, self.wanted.schedule, self.using)
            self._tell_of_the_dropped(there)
        elif (there.queue, there.priority) == self.wanted[1:3]:
            return  # the release alone
        change = "rescheduled" if is_moved else "updated"
        _tell(signals.task_changed, key, self.using, change=change)

    def _of(self, there: Task) -> tuple[dict[str, Any], datetime | None] | None:
        mine = self.wanted.options.release
        if there.status == Status.CANCELLING or _is_newer(there.options, mine):
            return None
        plan = Planned(there.schedule, there.queue, there.priority, there.options)
        if _says(plan, self.wanted):
            return None
        facts = dict(zip(_SAID, self.wanted, strict=False))
        facts["options"] = replace(there.options, release=mine)
        if there.schedule == self.wanted.schedule:
            return facts, None
        # Given another one since it was read: the next process that starts sees to it.
        return None if self.first is None else (facts, self.first)

    def _tell_of_the_dropped(self, there: Task) -> None:
        """Tell of a run that waited for a worker or for another attempt: it comes no more. One that
        is parked as FAILED was told of then.
        """
        due = aware("when", min(there.when, there.scheduled_time or there.when))
        late = (self.now - due).total_seconds()
        if there.status in (Status.PENDING, Status.PAUSED) and (late > 0 or there.attempts):
            logs.missed(there, late, "replaced", self.using)
            facts = {"task": there, "lateness": late, "action": "replaced"}
            signals.tell(signals.task_missed, type(self.handler), using=self.using, **facts)


def _release(now: datetime) -> Release:
    return Release(now - timedelta(seconds=ticks() - _LOADED), settings().release)


def _says(there: Planned, wanted: Planned) -> bool:
    kept, own = there.options.release, wanted.options.release
    if not isinstance(kept, Release) or not isinstance(own, Release) or kept.is_older_than(own):
        return False
    return there[:3] == wanted[:3]


def _is_newer(options: TaskOptions, release: Any) -> bool:
    return isinstance(options.release, Release) and release.is_older_than(options.release)


def _is_of_a_newer_release(
    key: Key, there: Planned, schedule: str | None, release: Release, using: str
) -> bool:
    """Tell if the row is a newer release's, and say so, once, if it has another schedule."""
    if not _is_newer(there.options, release):
        return False
    if there.schedule != schedule and _TOLD.get((using, key), "") != there.schedule:
        _TOLD[using, key] = there.schedule
        logs.release_is_older(key[0], schedule, there.schedule, using)
    return True


def _add(key: Key, wanted: Planned, first: datetime, now: datetime, *, using: str) -> bool:
    schedule, queue, priority, own, *_ = wanted
    options = options_to_text(own)
    new = NewTask(*key, first, None, queue, priority, schedule, options=options)
    task, is_new = upsert_one(new, OnConflict.KEEP, now, using=using)
    if is_new:
        signals.tell(signals.task_added, Task, task=task, using=using)
    return is_new


def _remove(key: Key, there: Planned, now: datetime, *, using: str) -> None:
    logs.schedule_kept(key[0], None, using)
    done = control.cancel(_row(key, there), now, using=using)
    if done.gone or done.going:
        result = CancelResult.CANCELLED if done.gone else CancelResult.CANCELLING
        _tell(signals.task_cancelled, key, using, result=result)


def _tell(signal: Signal, key: Key, using: str, **facts: object) -> None:
    biz_code, biz_num = key
    signals.tell(signal, Task, biz_code=biz_code, biz_num=biz_num, using=using, **facts)


def _row(key: Key, there: Planned) -> Q:
    return search.key(*key) & Q(**dict(zip(_SAID[:3], there, strict=False)))
