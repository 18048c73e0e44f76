"""The states of a row, which of them belong to an owner, and groups of them as SQL."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class Status(models.IntegerChoices):
    PENDING = 0, _("pending")
    RUNNING = 1, _("running")
    FAILED = 2, _("failed")
    PAUSED = 3, _("paused")
    CANCELLING = 4, _("cancelling")
    PAUSING = 5, _("pausing")

    def __format__(self, spec: str) -> str:
        # Python 3.10 formats it as the text that Django's __str__ gives, which takes no "d".
        return format(int(self), spec)


class RunOutcome(models.TextChoices):
    """The end of a run, in the words of ``outcomes``: ``counts_as``."""

    DONE = "done", _("done")
    RESCHEDULED = "rescheduled", _("rescheduled")
    SKIPPED = "skipped", _("skipped")
    RETRIED = "retried", _("retried")
    FAILED = "failed", _("failed")
    LOST = "lost", _("lost")
    RESCUED = "rescued", _("rescued")
    CANCELLED = "cancelled", _("cancelled")  # no run: its task was cancelled while it waited


class WorkerWish(models.TextChoices):
    """The wish of an operator that a worker reads with its heartbeat; empty: to work."""

    NONE = "", _("work")
    QUIET = "quiet", _("claim nothing")
    STOP = "stop", _("stop")


# A worker owns the row; claimed_by is set exactly then.
OWNED = (Status.RUNNING, Status.CANCELLING, Status.PAUSING)
# The owner may write how its run ended. A CANCELLING row only goes away.
FINISHABLE = (Status.RUNNING, Status.PAUSING)
UNOWNED = (Status.PENDING, Status.FAILED, Status.PAUSED)


# A worker has the row in hand, whatever becomes of it.
OWNED_SQL = f"({Status.RUNNING:d}, {Status.CANCELLING:d}, {Status.PAUSING:d})"
CANCELLING_SQL = f"({Status.CANCELLING:d})"
FINISHABLE_SQL = f"({', '.join(str(int(status)) for status in FINISHABLE)})"

# The status of rows that a statement finds by their ids. In this form no planner can search by it.
# By status it would walk the entries of all rows that had it before, and those that a snapshot
# keeps from being cleaned up: for 100 ids behind 100,000 deleted rows MariaDB took 140 ms instead
# of 0.4, for one claim beside 200,000 waiting rows SQLite took 115 ms. MariaDB drops a mere plus.
STATUS_OF_FOUND = "status + 0"
