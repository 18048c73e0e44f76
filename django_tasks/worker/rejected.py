"""Statements of ours that the server has rejected: claim nothing, ask once more, then end.

A right, a table, a server that is away: somebody brings them back, and a worker waits. What a
server rejects for what it says stays rejected until one of the two is another release.
"""

from django_tasks import logs
from django_tasks.host.clocks import ticks
from django_tasks.store.rejections import rejection_of

# Between two tries while nothing is claimed.
RETRY_SECONDS = 2.0
# A rejection is forgotten that was not met again for so many times the patience.
FORGET_AFTER = 3


class Rejected:
    """Of one thread and its database. ``is_open`` and ``is_final`` are for any thread."""

    def __init__(self, using: str, patience: float) -> None:
        """``patience``: seconds after which the same statement is rejected for good."""
        self._using = using
        self._patience = patience
        # The time of the first rejection, by the function that has sent the statement.
        self._since: dict[str, float] = {}
        self._has_worked = False
        self.is_final = False

    @property
    def is_open(self) -> bool:
        """Tell if the last that is known is a rejection."""
        return bool(self._since)

    def note(self, error: BaseException) -> bool:
        """Note and say that a statement was rejected; False if ``error`` is none of that.

        It is final if the thread has not worked yet, or if this statement was rejected a lease ago.
        That was on another connection: the caller drops its own after each error.
        """
        rejection = rejection_of(error, using=self._using)
        if rejection is None:
            return False
        now = ticks()
        is_new = rejection.place not in self._since
        since = self._since.setdefault(rejection.place, now)
        is_final = not self._has_worked or now - since >= self._patience
        if is_new or (is_final and not self.is_final):
            left = 0.0 if is_final else self._patience
            logs.statement_rejected(self._using, rejection.sentence(self._using), error, left)
        self.is_final = self.is_final or is_final
        return True

    def is_resting(self) -> bool:
        """Tell if nothing is to be claimed: what was rejected is not to be asked again yet."""
        return self.is_open and ticks() - min(self._since.values()) < self._patience

    def is_over(self) -> None:
        """Note that nothing was rejected now, and forget what was rejected long ago.

        Not at once: that statement may not be among what was asked.
        """
        self._has_worked = True
        oldest = ticks() - FORGET_AFTER * self._patience
        self._since = {place: since for place, since in self._since.items() if since > oldest}
