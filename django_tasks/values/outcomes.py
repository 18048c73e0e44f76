"""Outcomes of a run. Frozen: they cross from the executor's threads to the poller.

Each has ``counts_as``, the word under which runs that end so are counted and found in the history;
``error``, the text that it tells of one, and ``exception``, the path of the class that was raised;
and ``detail``, the JSON text that the history keeps with one.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Done:
    """The task is finished and its row goes."""

    counts_as: str = "done"  # or "skipped"
    detail: str | None = None
    error: ClassVar[str] = ""
    exception: ClassVar[str] = ""


DONE = Done()


@dataclass(frozen=True, slots=True)
class Reschedule:
    """The row waits for its next time (aware UTC), which the handler returned or its schedule has.

    ``biz_ext`` is the payload's JSON text if the handler changed it, None to leave it.
    ``scheduled_time`` is the time that the next run is meant for. None: ``when``, as its schedule
    says; a time that somebody has chosen is said here too.
    """

    when: datetime
    biz_ext: str | None = None
    scheduled_time: datetime | None = None
    error: str = ""
    counts_as: str = "rescheduled"  # or "skipped", "failed"
    exception: str = ""
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """The run failed and will be tried again at ``when`` (aware UTC)."""

    when: datetime
    error: str
    # Whether its own process died: then it stays as suspect as it was.
    is_suspect: bool = False
    exception: str = ""
    counts_as: ClassVar[str] = "retried"
    detail: ClassVar[str | None] = None


@dataclass(frozen=True, slots=True)
class Fail:
    """The run failed and was the last attempt: the row stays, FAILED, with its error."""

    error: str
    exception: str = ""
    counts_as: ClassVar[str] = "failed"
    detail: ClassVar[str | None] = None


@dataclass(frozen=True, slots=True)
class Again:
    """The run counts for nothing, through no fault of the task: it runs again at ``when``.

    ``scheduled_time`` is the time that it is meant for, if that is another one now.
    """

    when: datetime
    scheduled_time: datetime | None = None
    counts_as: ClassVar[str] = "retried"
    error: ClassVar[str] = ""
    exception: ClassVar[str] = ""
    detail: ClassVar[str | None] = None


@dataclass(frozen=True, slots=True)
class GiveBack:
    """The task was claimed and never started: its row goes back as it was."""

    counts_as: ClassVar[str] = "given back"
    error: ClassVar[str] = ""
    exception: ClassVar[str] = ""
    detail: ClassVar[str | None] = None


@dataclass(frozen=True, slots=True)
class Died:
    """A run whose worker died: its row was rescued. Nobody saw its end."""

    error: str
    counts_as: ClassVar[str] = "rescued"
    exception: ClassVar[str] = ""
    detail: ClassVar[str | None] = None


@dataclass(frozen=True, slots=True)
class Settled:
    """An ``atomic`` run that wrote its own end in its own transaction: nothing is left to do."""

    counts_as: str = "done"
    exception: str = ""
    error: ClassVar[str] = ""
    detail: ClassVar[str | None] = None


SETTLED = Settled()


def settled(outcome: "Outcome") -> Settled:
    """The end of an ``atomic`` run that has written ``outcome``."""
    return SETTLED if outcome is DONE else Settled(outcome.counts_as, outcome.exception)


@dataclass(frozen=True, slots=True)
class Lost:
    """An ``atomic`` run that found its row taken over, and rolled everything back."""

    counts_as: ClassVar[str] = "lost"
    error: ClassVar[str] = ""
    exception: ClassVar[str] = ""
    detail: ClassVar[str | None] = None


LOST = Lost()


@dataclass(frozen=True, slots=True)
class Unsettled:
    """An ``atomic`` run whose end the database refused or never answered.

    If it went through, the row has moved on and nothing matches. If it did not, the effects are
    gone with it and the row is still ours: then ``otherwise`` is what to write.
    """

    otherwise: Retry | Fail | Again
    counts_as: ClassVar[str] = "retried"
    error: ClassVar[str] = ""
    exception: ClassVar[str] = ""
    detail: ClassVar[str | None] = None


Outcome = Done | Reschedule | Retry | Fail | Again | GiveBack | Settled | Lost | Unsettled
# How a run may be found in the history.
Told = Outcome | Died


def runs_of(outcome: Outcome) -> int:
    """The number of runs that an outcome counts as: none if the task was skipped, or put off.

    A task that is parked counts as a run that has failed.
    """
    if isinstance(outcome, Unsettled):
        return runs_of(outcome.otherwise)
    return 0 if isinstance(outcome, (Again, GiveBack)) or outcome.counts_as == "skipped" else 1
