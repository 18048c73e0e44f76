"""A row that a claim has taken, and how far its run is. Frozen: they cross threads."""

from datetime import datetime
from typing import NamedTuple

from django_tasks.sentences import on_a_line
from django_tasks.values.status import Status

MOST_PROGRESS = 2**53  # steps
PROGRESS_LENGTH = 200  # characters


class Claimed(NamedTuple):
    """A task that worker ``worker_id`` owns, as it was at the claim; times are aware UTC.

    ``version`` is the fencing number: every write that follows repeats id, version and worker_id.
    ``biz_ext`` and ``options`` are JSON texts. ``planned`` is the next time of its schedule, of a
    run that was wanted before it. A NamedTuple, because thousands a second are made.
    """

    id: int
    version: int
    biz_code: str
    biz_num: str
    when: datetime
    biz_ext: str | None
    queue: str
    priority: int
    attempts: int
    rescues: int
    create_time: datetime
    last_error: str
    schedule: str | None
    scheduled_time: datetime | None
    options: str | None
    runs: int
    worker_id: int
    claim_time: datetime
    planned: datetime | None = None

    @property
    def status(self) -> int:
        return Status.RUNNING

    @property
    def attempt(self) -> int:
        """1 for the first run, one more after every failure and every rescue."""
        return 1 + self.attempts + self.rescues

    @property
    def intended_time(self) -> datetime:
        """For which time this run is: without jitter, retries and pauses."""
        return self.scheduled_time or self.when

    def __str__(self) -> str:
        return on_a_line(f"{self.biz_code}/{self.biz_num}")


class Progress(NamedTuple):
    """The number of steps of a run that are done, of all if that is known, and a word about it."""

    done: int
    total: int | None
    text: str
