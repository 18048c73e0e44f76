"""What a handler gets: the task as it was claimed, by the names of its fields."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from asgiref.sync import sync_to_async

from django_tasks import payload

_UNREAD: Any = object()


@dataclass(slots=True)
class RunningTask:
    """One run of one task.

    All fields of the row are here under their names; only ``biz_ext`` may be changed, and the
    change is kept if the handler returns a next time. Times are what the model would give
    (aware under ``USE_TZ``). ``attempt`` counts from 1; ``lateness`` is how many
    seconds after ``when`` the run started.
    """

    id: int
    biz_code: str
    biz_num: str
    when: datetime
    queue: str
    priority: int
    status: int
    version: int
    attempts: int
    rescues: int
    create_time: datetime
    update_time: datetime
    last_error: str
    schedule: str | None
    claimed_by: int
    claim_time: datetime
    using: str
    lateness: float
    _text: str | None = field(repr=False)
    _asked_to_stop: Callable[[], bool] = field(repr=False)
    _biz_ext: Any = field(default=_UNREAD, repr=False)

    @property
    def attempt(self) -> int:
        """1 for the first run, one more after every failure and every rescue."""
        return 1 + self.attempts + self.rescues

    @property
    def biz_ext(self) -> Any:
        """The payload. Decoded when first asked for, so that a broken one fails its own run."""
        if self._biz_ext is _UNREAD:
            self._biz_ext = payload.load(self._text)
        return self._biz_ext

    @biz_ext.setter
    def biz_ext(self, value: Any) -> None:
        self._biz_ext = value

    @property
    def cancel_requested(self) -> bool:
        """Whether to stop: the task was cancelled, or this worker no longer owns it.

        Asks the database each time. In ``async def handle`` use ``acancel_requested``.
        """
        return self._asked_to_stop()

    async def acancel_requested(self) -> bool:
        """``cancel_requested`` for an async handler."""
        return await sync_to_async(self._asked_to_stop)()

    def changed_payload(self, limit: int) -> str | None:
        """The JSON text of ``biz_ext`` if the handler changed it, None if not.

        Raises TaskValueError when the new value cannot be stored.
        """
        if self._biz_ext is _UNREAD:
            return None
        text = payload.dump(self._biz_ext, limit) or "null"
        return None if payload.same(text, self._text) else text

    def __str__(self) -> str:
        return f"{self.biz_code}/{self.biz_num}"
