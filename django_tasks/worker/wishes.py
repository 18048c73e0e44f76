"""The wish of a person to this worker, by ``ask_worker``: to be quiet, to stop, to work.

The heartbeat reads it with the table of workers, and the poller heeds what the last heartbeat has
read. Races: a wish is taken back before it was read (nothing has happened) or after (a stop stands,
for the process may be gone already; a quiet worker works again); others have taken this worker for
dead (the row has gone, and the worker joins again with the wish that it knows of); it is stopping
for another reason (a wish to stop is noted all the same: nobody is to take its place).
"""

from django_tasks import logs
from django_tasks.values.status import WorkerWish
from django_tasks.worker.membership import Membership


class Wishes:
    """``heed`` is for the poller's thread; the rest for any."""

    def __init__(self, using: str, membership: Membership) -> None:
        self._using = using
        self._membership = membership
        self.is_to_rest = False
        self.is_to_stop = False

    def heed(self) -> None:
        """Take up what the last heartbeat has read, and say once what is new."""
        wish = self._membership.view.wish
        is_to_rest = wish == WorkerWish.QUIET
        if is_to_rest == self.is_to_rest and wish != WorkerWish.STOP:
            return
        if wish == WorkerWish.STOP and not self.is_to_stop:
            logs.asked_to_stop(self._using, self._membership.worker_id)
            self.is_to_stop = True
        elif is_to_rest != self.is_to_rest and not self.is_to_stop:
            say = logs.asked_to_rest if is_to_rest else logs.asked_to_work
            say(self._using, self._membership.worker_id)
        self.is_to_rest = is_to_rest
