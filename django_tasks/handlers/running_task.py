"""The task that a handler gets: as it was claimed, by the names of its fields."""

from datetime import datetime
from typing import Any, NamedTuple, Protocol

from asgiref.sync import sync_to_async

from django_tasks import payloads
from django_tasks.clock import Tick
from django_tasks.exceptions import TaskValueError
from django_tasks.host.clocks import ticks
from django_tasks.sentences import on_a_line
from django_tasks.timezones import for_django
from django_tasks.values import payload_text
from django_tasks.values.amounts import whole_number
from django_tasks.values.claimed import MOST_PROGRESS, PROGRESS_LENGTH, Claimed, Progress
from django_tasks.values.keys import check_text
from django_tasks.values.options import TaskOptions, options_of_text

_UNREAD: Any = object()
# Seconds between two writes of the progress: a loop may tell of each of its thousand steps.
PROGRESS_INTERVAL = 1.0


class ClaimedRow(Protocol):
    """Questions and writes about the row of a claim."""

    def is_cancelled(self, claimed: Claimed, *, using: str) -> bool:
        """Tell if the run should stop."""

    def save_payload(self, claimed: Claimed, text: str | None, *, using: str) -> bool:
        """Write the payload; False if somebody else has written one meanwhile."""

    def save_progress(self, claimed: Claimed, progress: Progress, *, using: str) -> None:
        """Write how far the run is."""


class RunningTask:
    """One run of one task.

    All fields of the row that a worker reads are here under their names; only ``biz_ext`` may be
    changed, and the change is kept if the handler returns a next time, or by ``save``. Times are
    what the model would give (aware under ``USE_TZ``). ``attempt`` counts from 1; ``lateness`` is
    how many seconds after ``when`` the run started; ``runs`` of this task have ended before;
    ``worker`` is the name of the worker that runs it.
    """

    # Made for every run, and most handlers read two or three of its values: so it computes what
    # it is asked for.
    __slots__ = (
        *("_biz_ext", "_claimed", "_has_saved", "_next_progress", "_row", "_saved", "_started"),
        *("using", "worker"),
    )

    def __init__(
        self, claimed: Claimed, using: str, started: Tick, row: ClaimedRow, worker: str = ""
    ) -> None:
        self.using = using
        self.worker = worker
        self._claimed = claimed
        self._started = started
        self._row = row
        self._biz_ext = _UNREAD
        self._next_progress = 0.0
        self._has_saved = False
        self._saved: str | None = None

    def made_again(self, claimed: Claimed) -> "RunningTask":
        """This run as it is at its start, for a claim that may say other facts."""
        return RunningTask(claimed, self.using, self._started, self._row, self.worker)

    def begun_again(self, started: Tick, *, is_saved: bool) -> "RunningTask":
        """This run for another call: as at its start, or with what was saved (``is_saved``)."""
        again = RunningTask(self._claimed, self.using, started, self._row, self.worker)
        if is_saved and self._has_saved:
            again._has_saved, again._saved = True, self._saved
            again._biz_ext = payloads.decoded(self._saved)
        return again

    @property
    def id(self) -> int:
        return self._claimed.id

    @property
    def biz_code(self) -> str:
        return self._claimed.biz_code

    @property
    def biz_num(self) -> str:
        return self._claimed.biz_num

    @property
    def when(self) -> datetime:
        return for_django(self._claimed.when)

    @property
    def biz_ext(self) -> Any:
        """The payload. Decoded when first asked for, so that a broken one fails its own run."""
        if self._biz_ext is _UNREAD:
            self._biz_ext = payloads.decoded(self._claimed.biz_ext)
        return self._biz_ext

    @biz_ext.setter
    def biz_ext(self, value: Any) -> None:
        self._biz_ext = value

    @property
    def payload_text(self) -> str | None:
        """The payload as the row has it, JSON text; None if there is none."""
        return self._claimed.biz_ext

    @property
    def started(self) -> datetime:
        """The time at which this run started, by the database's clock."""
        return for_django(self._started.utc)

    @property
    def create_time(self) -> datetime:
        return for_django(self._claimed.create_time)

    @property
    def update_time(self) -> datetime:
        return for_django(self._claimed.claim_time)

    @property
    def status(self) -> int:
        return self._claimed.status

    @property
    def version(self) -> int:
        return self._claimed.version

    @property
    def queue(self) -> str:
        return self._claimed.queue

    @property
    def priority(self) -> int:
        return self._claimed.priority

    @property
    def attempts(self) -> int:
        return self._claimed.attempts

    @property
    def rescues(self) -> int:
        return self._claimed.rescues

    @property
    def claimed_by(self) -> int:
        return self._claimed.worker_id

    @property
    def claim_time(self) -> datetime:
        return for_django(self._claimed.claim_time)

    @property
    def last_error(self) -> str:
        return self._claimed.last_error

    @property
    def schedule(self) -> str | None:
        return self._claimed.schedule

    @property
    def options(self) -> TaskOptions:
        return options_of_text(self._claimed.options)

    @property
    def runs(self) -> int:
        return self._claimed.runs

    @property
    def planned(self) -> datetime | None:
        """The next time of its schedule, if this run was wanted before it."""
        return self._claimed.planned

    @property
    def scheduled_time(self) -> datetime:
        """The time that this run is meant for: ``when`` without jitter, retries and pauses."""
        return for_django(self._claimed.intended_time)

    @property
    def attempt(self) -> int:
        """1 for the first run, one more after every failure and every rescue."""
        return self._claimed.attempt

    @property
    def lateness(self) -> float:
        """Seconds from ``when`` to the start of this run, by the database's clock."""
        return (self._started.utc - self._claimed.when).total_seconds()

    @property
    def cancel_requested(self) -> bool:
        """Tell if the run should stop: the task was cancelled, or this worker no longer owns it.

        Asks the database each time. In ``async def handle`` use ``acancel_requested``.
        """
        return self._row.is_cancelled(self._claimed, using=self.using)

    async def acancel_requested(self) -> bool:
        """``cancel_requested`` for an async handler."""
        return await sync_to_async(self._row.is_cancelled)(self._claimed, using=self.using)

    def save(self, biz_ext: Any) -> bool:
        """Write the payload now: a run that dies goes on from there. It is ``biz_ext`` from now on.

        False, and nothing is written, if the task was added again, moved or cancelled meanwhile, or
        its payload updated: what was written then stands. One statement of its own; in an
        ``atomic`` run it is a part of its transaction. Raises ClaimLost if this worker no longer
        owns the task, TaskTypeError or TaskValueError for a value that cannot be stored.
        """
        text = payloads.encoded(biz_ext)
        if not self._row.save_payload(self._claimed, text, using=self.using):
            return False
        self._has_saved, self._saved = True, text
        self._biz_ext = biz_ext
        return True

    async def asave(self, biz_ext: Any) -> bool:
        """``save`` for an async handler."""
        return await sync_to_async(self.save)(biz_ext)

    def progress(self, done: int, total: int | None = None, text: str = "") -> None:
        """Tell how far this run is: for the admin and for ``get_task(…).progress``.

        Written once a second at most, and each time that ``done`` is ``total``. In an ``atomic``
        run it is seen by nobody before the end, so nothing is written. ``text`` has up to 200
        characters. Raises TaskTypeError or TaskValueError; an error of the database is left out.
        """
        progress = _checked_progress(done, total, text)
        now = ticks()
        if done == total or now >= self._next_progress:
            self._next_progress = now + PROGRESS_INTERVAL
            self._row.save_progress(self._claimed, progress, using=self.using)

    async def aprogress(self, done: int, total: int | None = None, text: str = "") -> None:
        """``progress`` for an async handler."""
        await sync_to_async(self.progress)(done, total, text)

    def changed_payload(self) -> str | None:
        """The JSON text of ``biz_ext`` if the handler changed it, None if not.

        Raises TaskValueError when the new value cannot be stored. What was only read may be what
        would be refused now: it was stored with another limit, or by somebody else.
        """
        if self._biz_ext is _UNREAD:
            return None
        try:
            text = payloads.encoded(self._biz_ext) or "null"
        except TaskValueError:
            if self._has_saved or self._biz_ext != payloads.decoded(self._claimed.biz_ext):
                raise
            return None
        if self._has_saved:
            return text  # a transaction of the handler's own may have rolled back what was saved
        return None if payload_text.same(text, self._claimed.biz_ext) else text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunningTask) and self._claimed[:2] == other._claimed[:2]

    def __hash__(self) -> int:
        return hash(self._claimed.id)

    def __str__(self) -> str:
        return str(self._claimed)

    def __repr__(self) -> str:
        return f"<RunningTask {self}, attempt {self.attempt}>"


def _checked_progress(done: object, total: object, text: object) -> Progress:
    if text != "":
        check_text("text", text, PROGRESS_LENGTH)
    return Progress(
        whole_number("done", done, 0, MOST_PROGRESS),
        None if total is None else whole_number("total", total, 0, MOST_PROGRESS),
        str(text),
    )


class PassiveTask(NamedTuple):
    """The argument of ``on_passive``. ``str(task)`` is "code/number".

    ``when`` is the time of the schedule, aware UTC. ``biz_ext`` is the payload, and ``active`` the
    worker that runs the task, "host:pid:token", ``since`` a time, aware UTC, in its ``term``: as
    they were at the last look, which comes as often as a heartbeat. ``using`` is the database.
    """

    biz_code: str
    biz_num: str
    when: datetime
    biz_ext: Any
    active: str
    since: datetime
    term: int
    using: str

    def __str__(self) -> str:
        return on_a_line(f"{self.biz_code}/{self.biz_num}")
