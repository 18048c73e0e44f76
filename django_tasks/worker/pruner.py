"""The history forgets: old lines go, some at a time, between two claims."""

from datetime import timedelta

from django_tasks.conf import options
from django_tasks.store import runs
from django_tasks.worker.membership import Membership

# Seconds from one look to the next where nothing old was left, and where there was more.
INTERVAL = 600.0
PAUSE = 0.1


class Pruner:
    """Used by the poller thread. Of all workers of a database the oldest one prunes."""

    def __init__(self, using: str, membership: Membership) -> None:
        self._using = using
        self._membership = membership
        self._due = float("-inf")

    def prune_if_due(self) -> None:
        """Delete one batch of old lines when it is time. Database errors pass.

        They are no reason to try again soon: a cycle that fails is longer than one that prunes.
        """
        clock = self._membership.clock
        if clock.monotonic() < self._due:
            return
        self._due = clock.monotonic() + INTERVAL
        if self._membership.rank() == 0:
            before = clock.now() - timedelta(seconds=options().history_age)
            if runs.prune(before, using=self._using):
                self._due = clock.monotonic() + PAUSE
