"""The task that a handler gets: as it was claimed, by the names of its fields."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from asgiref.sync import sync_to_async

from django_tasks.clock import Tick
from django_tasks.timezones import for_django
from django_tasks.values import payload
from django_tasks.values.claimed import Claimed

_UNREAD: Any = object()


class RunningTask:
    """One run of one task.

    All fields of the row are here under their names; only ``biz_ext`` may be changed, and the
    change is kept if the handler returns a next time. Times are what the model would give
    (aware under ``USE_TZ``). ``attempt`` counts from 1; ``lateness`` is how many
    seconds after ``when`` the run started.
    """

    # Made for every run, and most handlers read two or three of its values: so it computes what
    # it is asked for.
    __slots__ = ("_asked_to_stop", "_biz_ext", "_claimed", "_started", "using")

    def __init__(
        self,
        claimed: Claimed,
        using: str,
        started: Tick,
        asked_to_stop: Callable[..., bool],
    ) -> None:
        """``asked_to_stop`` takes a claim and ``using``."""
        self.using = using
        self._claimed = claimed
        self._started = started
        self._asked_to_stop = asked_to_stop
        self._biz_ext = _UNREAD

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
            self._biz_ext = payload.load(self._claimed.biz_ext)
        return self._biz_ext

    @biz_ext.setter
    def biz_ext(self, value: Any) -> None:
        self._biz_ext = value

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
    def scheduled_time(self) -> datetime:
        """The time that this run is meant for: ``when`` without jitter, and before any retry."""
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
        return self._asked_to_stop(self._claimed, using=self.using)

    async def acancel_requested(self) -> bool:
        """``cancel_requested`` for an async handler."""
        return await sync_to_async(self._asked_to_stop)(self._claimed, using=self.using)

    def changed_payload(self, limit: int) -> str | None:
        """The JSON text of ``biz_ext`` if the handler changed it, None if not.

        Raises TaskValueError when the new value cannot be stored.
        """
        if self._biz_ext is _UNREAD:
            return None
        text = payload.dump(self._biz_ext, limit) or "null"
        return None if payload.same(text, self._claimed.biz_ext) else text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunningTask) and self._claimed[:2] == other._claimed[:2]

    def __hash__(self) -> int:
        return hash(self._claimed.id)

    def __str__(self) -> str:
        return str(self._claimed)

    def __repr__(self) -> str:
        return f"<RunningTask {self}, attempt {self.attempt}>"
