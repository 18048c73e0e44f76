"""How one run of a task ended. Frozen: they cross from the executor's threads to the poller."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Done:
    """The task is finished and its row goes."""

    counts_as: str = "done"  # or "skipped"


DONE = Done()


@dataclass(frozen=True, slots=True)
class Reschedule:
    """The row waits for its next time (aware UTC), which the handler returned or its schedule has.

    ``biz_ext`` is the payload's JSON text if the handler changed it, None to leave it.
    ``scheduled_time`` is the time that the next run is meant for, if that is not ``when``.
    """

    when: datetime
    biz_ext: str | None = None
    scheduled_time: datetime | None = None
    error: str = ""
    counts_as: str = "rescheduled"  # or "skipped", "failed"


@dataclass(frozen=True, slots=True)
class Retry:
    """The run failed and will be tried again at ``when`` (aware UTC)."""

    when: datetime
    error: str


@dataclass(frozen=True, slots=True)
class Fail:
    """The run failed and was the last attempt: the row stays, FAILED, with its error."""

    error: str


@dataclass(frozen=True, slots=True)
class Again:
    """The run counts for nothing, through no fault of the task: it runs again at ``when``."""

    when: datetime


@dataclass(frozen=True, slots=True)
class GiveBack:
    """The task was claimed and never started: its row goes back as it was."""


@dataclass(frozen=True, slots=True)
class Settled:
    """An ``atomic`` run that wrote its own end in its own transaction: nothing is left to do."""


@dataclass(frozen=True, slots=True)
class Lost:
    """An ``atomic`` run that found its row taken over, and rolled everything back."""


LOST = Lost()


@dataclass(frozen=True, slots=True)
class Unsettled:
    """An ``atomic`` run whose end the database refused or never answered.

    If it went through, the row has moved on and nothing matches. If it did not, the effects are
    gone with it and the row is still ours: then ``otherwise`` is what to write.
    """

    otherwise: Retry | Fail | Again


Outcome = Done | Reschedule | Retry | Fail | Again | GiveBack | Settled | Lost | Unsettled

_NAMES = {
    Settled: "done",
    Retry: "retried",
    Again: "retried",
    Unsettled: "retried",
    Fail: "failed",
    GiveBack: "given back",
    Lost: "lost",
}


def name_of(outcome: Outcome) -> str:
    """The word under which runs that end so are counted, and found in the history."""
    if isinstance(outcome, Done | Reschedule):
        return outcome.counts_as
    return _NAMES[type(outcome)]


def error_of(outcome: Outcome) -> str:
    """The error that it tells of, or nothing."""
    match outcome:
        case Reschedule(error=text) | Retry(error=text) | Fail(error=text):
            return text
    return ""
