"""The last look for lanes where looks are dear, kept up to date and relied on for a while."""

from collections.abc import Iterable
from math import inf

from django_tasks.clock import Clock
from django_tasks.store import lanes as store
from django_tasks.store.lanes import LANES_AT_ONCE, Lane
from django_tasks.worker.idling import LONGEST_SLEEP
from django_tasks.worker.marks import Key, Marks, key_of

# So many seconds a look is relied on, a poll interval at most, as by a worker that sleeps on it;
# after a hint no longer than it took, so that looks have half of the time at most. Only the lanes
# of its own claims and ends are asked again. With a queue for each of 2,000 customers a look takes
# 20 ms, and after each claim, each end and each hint there was one: most of a core for 45 tasks a
# second, which were late because of it.
RELIED_SECONDS = 0.2
NEVER = -inf


class LastLook:
    """Used by the poller thread alone."""

    def __init__(self, using: str, poll_interval: float, clock: Clock, marks: Marks) -> None:
        self._using = using
        self._poll_interval = poll_interval
        self._clock = clock
        self._marks = marks
        self._lanes: dict[Key, Lane] = {}
        self._touched: set[Key] = set()
        # When it was, by the clock's ``monotonic``; never: it is not relied on.
        self._at = NEVER
        # The seconds that it took, and whether a hint has come since.
        self._took = 0.0
        self._is_hinted = False

    def note(self, lanes: Iterable[Lane], took: float, *, is_dear: bool) -> None:
        """A look that took so many seconds has just found these."""
        self._marks.take_stirred()  # before the look
        self._touched.clear()
        self._took, self._is_hinted = took, False
        if is_dear:
            self._lanes = {key_of(lane): lane for lane in lanes}
            self._at = self._clock.monotonic()
        else:
            self.forget()

    def forget(self) -> None:
        """Rely on it no more."""
        self._lanes, self._at = {}, NEVER

    def heed_hint(self) -> None:
        """Tasks were added: have a look before long."""
        self._is_hinted = True

    def touch(self, lane: Lane) -> None:
        """A claim has taken what it found in this lane."""
        self._touched.add(key_of(lane))

    def lanes(self) -> list[Lane] | None:
        """The lanes as they are now, in the order to claim them; None if it is time for a look.

        Database errors pass. What is paused meanwhile is found by the claim, which brings nothing.
        """
        relied = min(RELIED_SECONDS, self._poll_interval)
        if self._age() >= (min(relied, self._took) if self._is_hinted else relied):
            return None
        stirred = self._marks.take_stirred()
        if stirred is None or len(stirred | self._touched) > LANES_AT_ONCE:
            self.forget()
            return None
        self._touched |= stirred
        if self._touched:
            self._ask_again()
        return store.in_order(self._lanes.values())

    def until_poll(self) -> float:
        """Seconds for which a worker may sleep that relies on it: tasks are added meanwhile.

        Infinite where none is relied on, and no hint has come: it has just had one.
        """
        if self._at == NEVER and not self._is_hinted:
            return inf
        longest = self._took if self._is_hinted else LONGEST_SLEEP * self._poll_interval
        return max(0.0, longest - self._age())

    def _age(self) -> float:
        return self._clock.monotonic() - self._at

    def _ask_again(self) -> None:
        places = {key: self._marks.since(key) for key in self._touched}
        found = store.look_along(places, using=self._using, with_pauses=False).lanes
        for key in self._touched:
            self._lanes.pop(key, None)
        self._lanes.update((key_of(lane), lane) for lane in found)
        self._touched.clear()
