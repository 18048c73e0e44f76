"""Run what is due, in place."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

from asgiref.sync import sync_to_async

from django_tasks.exceptions import TaskException, TaskValueError
from django_tasks.handlers import finders
from django_tasks.handlers.registry import handler_for
from django_tasks.host.clocks import utc_now
from django_tasks.store import clock
from django_tasks.store.aliases import write_alias
from django_tasks.testing.clock import Moment, at_present, freeze_tasks, moment_of, present
from django_tasks.testing.codes import Codes, codes_of
from django_tasks.testing.frozen import frozen_now
from django_tasks.testing.runs import Ran
from django_tasks.testing.worker import PlaceLook, PlaceWorker
from django_tasks.values.amounts import flag, whole_number
from django_tasks.worker.config import worker_config

# Without a ``limit``, more runs than this are taken for a task that never ends.
MOST_RUNS = 1000

Names = Collection[str] | str


class TooManyRuns(TaskException, RuntimeError):
    """After 1,000 runs there was still something to do, and the caller had set no ``limit``."""


def run_due_tasks(
    now: Moment | None = None,
    codes: Codes | None = None,
    limit: int | None = None,
    *,
    queues: Names | None = None,
    raise_errors: bool = True,
    using: str | None = None,
) -> list[Ran]:
    """Run what is due, on this thread and this connection, until nothing is; returns what ran.

    All rules of a worker hold: the rows of handlers with a schedule, retries, policies, batches,
    limits, the history, signals. Nothing interrupts a run, though: that a plain handler took
    longer than its ``timeout`` is told of in the log, ``kill_after`` does nothing, and a task whose
    worker has died twice runs here.

    ``now`` is the time for all of it, see ``freeze_tasks``; left out, a frozen clock counts, and
    else the present moment. Time stands still meanwhile. ``codes`` and ``queues`` are those to
    serve (default: all); a handler, or a ``@task`` function, stands for its code. ``limit``: stop
    after so many runs; without one, TooManyRuns after 1,000.

    The exception of a handler is raised, once its end is written; other tasks stay as they are.
    With ``raise_errors=False`` it is in the record instead, unless it is no Exception
    (KeyboardInterrupt). Part of the caller's transaction, if there is one. Raises UnknownDatabase,
    TaskTypeError and TaskValueError for bad arguments.
    """
    alias = write_alias(using)
    runs = _Runs(limit, raise_errors)
    with _at(now, alias), _worker(alias, codes, queues) as worker:
        runs.all_due(worker)
    return runs.ran


def drain_tasks(
    until: Moment | timedelta | None = None,
    codes: Codes | None = None,
    limit: int | None = None,
    *,
    queues: Names | None = None,
    raise_errors: bool = True,
    using: str | None = None,
) -> list[Ran]:
    """Run what is due, and then, with the clock moved on to each next time, all that follows:
    retries, next times, schedules, tasks that handlers add. Returns what ran, in that order.

    ``until`` is the last time that counts, a timedelta is from now. Without it, it ends when
    nothing waits but tasks with a schedule, which would never end. The clock is what it was
    afterwards. All else is as for ``run_due_tasks``.
    """
    alias = write_alias(using)
    runs = _Runs(limit, raise_errors)
    begin = _moment(alias)
    end = _end(until, begin)
    with freeze_tasks(begin) as time, _worker(alias, codes, queues) as worker:
        while (look := runs.all_due(worker)) is not None:
            moment = look.next_time(with_schedules=end is not None)
            if moment is None or (end is not None and moment > end):
                break
            time.move_to(moment)
    return runs.ran


arun_due_tasks = sync_to_async(run_due_tasks)
adrain_tasks = sync_to_async(drain_tasks)


class _Runs:
    """The runs of one call, and the rules for how many, and for those that fail."""

    def __init__(self, limit: int | None, raise_errors: bool) -> None:
        self.ran: list[Ran] = []
        if limit is not None:
            whole_number("limit", limit, 1, 1_000_000)
        self._limit = limit
        self._raises = flag("raise_errors", raise_errors)
        self._claimed = 0

    def all_due(self, worker: PlaceWorker) -> PlaceLook | None:
        """Run until nothing more may start, and return the look that has found nothing; None when
        as many have run as the caller wants.
        """
        most = self._limit or MOST_RUNS
        while self._claimed != self._limit:
            look = worker.look()
            if self._claimed >= most and look.due:
                raise _too_many(look.due[0].biz_code)
            item = look.claim(max(1, most - self._claimed))
            if not item:
                return look
            self._claimed += len(item)
            self._note(worker.run(item))
        return None

    def _note(self, ran: list[Ran]) -> None:
        self.ran += ran
        for each in ran:
            error = each.exception
            if error is not None and (self._raises or not isinstance(error, Exception)):
                with suppress(AttributeError):  # Python 3.10 knows no notes
                    error.add_note(f"raised by the handler of {each.code}/{each.num}, in place")
                raise error


def _too_many(code: str) -> TooManyRuns:
    return TooManyRuns(
        f"{MOST_RUNS} tasks have run, and one of {code!r} is due still, or again: a handler or a"
        " schedule that never ends? If it is meant to be so, say limit=…"
    )


@contextmanager
def _worker(using: str, codes: Codes | None, queues: Names | None) -> Iterator[PlaceWorker]:
    wishes: dict[str, Any] = {"threads": 1}
    given = {"codes": None if codes is None else codes_of(codes), "queues": queues}
    wishes |= {name: value for name, value in given.items() if value is not None}
    config = worker_config(using, **wishes)
    finders.discover()
    for code in config.codes:
        if handler_for(code) is None and not finders.find(code, using=using):
            raise TaskValueError("codes", code, "has no handler in this project")
    worker = PlaceWorker(config)
    with worker.at_work():
        yield worker


@contextmanager
def _at(now: Moment | None, using: str) -> Iterator[None]:
    if now is not None:
        with freeze_tasks(moment_of(now, "now")):
            yield
    elif _is_in_hand():
        with at_present():  # a handler may push it on
            yield
    else:
        with freeze_tasks(_moment(using)):
            yield


def _is_in_hand() -> bool:
    """Tell if a test has stopped or moved the clock."""
    return clock.source() is not clock.database_now or frozen_now() is not None


def _moment(using: str) -> datetime:
    """The time of a call, aware UTC.

    Where nobody has stopped the clock, the later one of two: a test takes a time from the host's,
    which may be a little ahead of the database's, and wants it to have come.
    """
    moment = present(using)
    return moment if _is_in_hand() else max(moment, utc_now())


def _end(until: Moment | timedelta | None, begin: datetime) -> datetime | None:
    if until is None:
        return None
    end = begin + until if isinstance(until, timedelta) else moment_of(until, "until")
    if end < begin:
        raise TaskValueError("until", until, "has passed already")
    return end
