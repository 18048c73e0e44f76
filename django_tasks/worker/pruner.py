"""The history forgets: old lines go, counted minutes are merged, and failed tasks go if the project
wants that, some at a time, between two claims.
"""

from collections.abc import Callable
from datetime import timedelta

from django.db import Error

from django_tasks.conf import options
from django_tasks.store import failed, minutes, pauses, runs
from django_tasks.store.errors import Kind, kind_of
from django_tasks.store.minutes import HOUR, minute_of
from django_tasks.worker.membership import Membership

# Seconds from one look to the next where nothing old was left, and where there was more.
INTERVAL = 600.0
PAUSE = 0.1
# For the rows of all workers: a minute has as many as there are workers times codes, and each look
# at the last hours reads those that are not merged yet.
WORKERS_INTERVAL = 120.0
# Minutes for which the counts are there by the minute.
BY_THE_MINUTE = 2 * HOUR
# Minutes after which those of all workers are merged: by then each has written its own.
BY_THE_WORKER = 3
# Minutes for which they are there at all, however short the history of runs is: the dashboard tells
# of a week.
SHORTEST_AGE = 8 * 24 * HOUR
# A run that has waited for a pause and still not begun so long after it counts as late by all of
# its waiting.
ENDED_PAUSE_AGE = timedelta(days=31)


class Pruner:
    """Used by the poller thread. Of all workers of a database the oldest one prunes."""

    def __init__(self, using: str, membership: Membership) -> None:
        self._using = using
        self._membership = membership
        self._chores = (
            self._chore(self._prune, INTERVAL),
            self._chore(self._merge_workers, WORKERS_INTERVAL),
            self._chore(self._merge_hours, INTERVAL),
            self._chore(self._merge_old, INTERVAL),
            self._chore(self._prune_failed, INTERVAL),
            self._chore(self._forget_pauses, INTERVAL),
        )

    def prune_if_due(self) -> None:
        """Delete or merge one batch of what is old when it is time. Database errors pass.

        They are no reason to try again soon: a cycle that fails is longer than one that prunes.
        """
        for chore in self._chores:
            if chore():
                return

    def _chore(self, piece: Callable[[], bool], interval: float) -> Callable[[], bool]:
        due = float("-inf")

        def do_if_due() -> bool:
            nonlocal due
            clock = self._membership.clock
            if clock.monotonic() < due:
                return False
            due = clock.monotonic() + interval
            if self._membership.rank() != 0:
                return False
            try:
                has_more = piece()
            except Error as error:
                if kind_of(error, using=self._using) is Kind.REJECTED:
                    due = clock.monotonic()  # the next try says whether it is final
                raise
            if has_more:
                due = clock.monotonic() + PAUSE
            return True

        return do_if_due

    def _prune(self) -> bool:
        before = self._membership.clock.now() - timedelta(seconds=options().history_age)
        return runs.prune(before, using=self._using)

    def _merge_workers(self) -> bool:
        if len(self._membership.living()) < 2:
            return False  # there is nothing to merge a single worker's rows with
        before = minute_of(self._membership.clock.now()) - BY_THE_WORKER
        return minutes.merge_workers(before, using=self._using)

    def _merge_hours(self) -> bool:
        before = minute_of(self._membership.clock.now()) - BY_THE_MINUTE
        return minutes.merge_hours(before, using=self._using)

    def _merge_old(self) -> bool:
        age = max(SHORTEST_AGE, int(options().history_age / 60))
        before = minute_of(self._membership.clock.now()) - age
        return minutes.merge_old(before, using=self._using)

    def _prune_failed(self) -> bool:
        age = options().failed_age
        if age is None:
            return False
        before = self._membership.clock.now() - timedelta(seconds=age)
        # More follow where many were found; a few have grown old just now.
        gone = failed.delete_old_failed(before, using=self._using, most_lanes=failed.MOST_LANES)
        return gone * 10 >= failed.AT_ONCE

    def _forget_pauses(self) -> bool:
        pauses.forget_ends(self._membership.clock.now() - ENDED_PAUSE_AGE, using=self._using)
        return False
