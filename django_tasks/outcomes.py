"""How one run of a task ended. Frozen: they cross from the executor's threads to the poller."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Done:
    """The handler returned None: the task is finished and its row goes."""


DONE = Done()


@dataclass(frozen=True, slots=True)
class Reschedule:
    """The handler returned a next time (aware UTC).

    ``biz_ext`` is the payload's JSON text if the handler changed it, None to leave it.
    """

    when: datetime
    biz_ext: str | None = None


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


@dataclass(frozen=True, slots=True)
class Unsettled:
    """An ``atomic`` run whose end the database refused or never answered.

    If it went through, the row has moved on and nothing matches. If it did not, the effects are
    gone with it and the row is still ours: then ``otherwise`` is what to write.
    """

    otherwise: Retry | Fail | Again


Outcome = Done | Reschedule | Retry | Fail | Again | GiveBack | Settled | Lost | Unsettled
