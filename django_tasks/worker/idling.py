"""The sleep of a poller that has nothing to claim, or claims in vain."""

from collections.abc import Callable
from datetime import datetime
from math import inf
from random import uniform

from django_tasks.store.lanes import Lane, next_due
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.membership import Membership

# Idle workers sleep up to a fifth longer than asked for, so that they do not look all at once.
LONGEST_SLEEP = 1.2
# When due tasks are there and none could be had: somebody else is at them right now. Doubled each
# time up to the poll interval: a transaction may hold a due row locked for an hour.
CONTESTED_SECONDS = 0.05
MOST_DOUBLINGS = 16
# The delay of a worker that came in vain at its next wake-up, for each of the others.
ASIDE_SECONDS = 0.001
# The claim of a task that is known to be due soon is sent as long before as the last claims have
# taken (a commit that waits for the disk: 1 to 3 ms), but never longer than this: meanwhile the
# task counts as running for a client that wants to cancel it.
LONGEST_LEAD = 0.005
# The part of the lead that is kept after a claim that was quicker.
LEAD_KEPT = 0.9


class Idling:
    """Used by the poller thread alone."""

    def __init__(
        self, config: WorkerConfig, membership: Membership, closed_for: Callable[[Lane], float]
    ) -> None:
        """``closed_for`` tells the seconds until it is worth while to claim from a lane."""
        self._config = config
        self._membership = membership
        self._closed_for = closed_for
        # Seconds before a task is due at which its claim is sent.
        self.lead = 0.0
        # Rounds in a row that have brought nothing of what was due.
        self.in_vain = 0

    def note_claim(self, took: float) -> None:
        """A claim has taken ``took`` seconds."""
        self.lead = min(LONGEST_LEAD, max(took, LEAD_KEPT * self.lead))

    def note_round(self, taken: int, *, is_contested: bool) -> None:
        """A round of claims has brought ``taken`` tasks.

        Once is nothing: others were quicker. Twice may be because only suspects are left. With
        nothing still open nobody was quicker: limits were reached.
        """
        self.in_vain = 0 if taken else self.in_vain + is_contested

    def until_first(self, lanes: list[Lane]) -> float:
        """Seconds until a task of ``lanes`` is due, or the poll interval without any."""
        now, first = self._membership.clock.now(), inf
        for lane in lanes:
            seconds = (lane.first - now).total_seconds() - self.lead
            if seconds < first:  # else it does not matter if it is closed: there may be 2,000
                first = min(first, max(seconds, self._closed_for(lane)))
        return (first if lanes else self._config.poll_interval) + self._step_aside()

    def until_contested(self, lanes: list[Lane], due: list[Lane], now: datetime) -> float:
        """Seconds until another look at due tasks that somebody else has, or holds locked."""
        doubled = CONTESTED_SECONDS * 2.0 ** min(self.in_vain - 1, MOST_DOUBLINGS)
        pause = min(uniform(0.5, 1.5) * doubled, self._config.poll_interval)
        if self.in_vain > 1:
            pause = min(pause, self._until_later(lanes, due, now))
        return max(0.0, pause) + self._step_aside()

    def _until_later(self, lanes: list[Lane], due: list[Lane], now: datetime) -> float:
        later = [lane.first for lane in lanes if lane.first > now]
        for lane in due:
            if moment := next_due(lane, now, using=self._config.using):
                later.append(moment)
        clock = self._membership.clock
        return min((clock.seconds_to(each) - self.lead for each in later), default=inf)

    def _step_aside(self) -> float:
        """Seconds to come later than the others, if they were quicker the last time: all workers
        wake up for the same task, and a thousand that do would have the database do little else.
        """
        rivals = len(self._membership.living()) - 1
        return uniform(0, max(0, rivals) * ASIDE_SECONDS) if self.in_vain else 0.0
