"""The sticky handlers for which this worker is the active one.

The tasks of a sticky handler, in its own queue, run in one worker as long as that lives. For each
such code there is a lock, and the worker that has it is active. A thread with a connection of its
own takes, renews and frees these locks: the poller and the runs only ask what it believes, and no
statement that claims knows of it. So a heartbeat, which owes nothing to anybody, owes nothing to a
lock either.

Races:

* This worker stood still for longer than its lease, and goes on with what it had claimed: it asks
  its own clock, by which its term has ended before anybody else could take the lock.
* It stops while a run is about to start. It believes in no term any more before it looks at what
  runs, and a run counts as running before it asks. So either the run is refused or it is seen, and
  the lock is freed after its end. This thread alone says what is believed: at any moment the poller
  may find that it goes on after all.
"""

from collections.abc import Callable, Collection
from math import inf
from threading import Event
from typing import NamedTuple

from django.db import Error

from django_tasks import logs
from django_tasks.clock import Clock
from django_tasks.handlers.registry import sticky_codes, terms_for
from django_tasks.host.clocks import ticks
from django_tasks.locks import rows
from django_tasks.locks.rows import Hold, LockState
from django_tasks.store.connection import (
    close_connections,
    drop_connection,
    keep_connection,
    take_connection,
)
from django_tasks.store.lanes import Lane
from django_tasks.values.claimed import Claimed
from django_tasks.values.keys import lock_of
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.rejected import Rejected
from django_tasks.worker.threads import LastingThread

# A tick that is late by so many seconds says that the active worker may have gone. That is asked at
# most this often.
LATE_SECONDS = 1.0
# How often a worker that stops looks if the last run of a code has ended, in seconds.
STOPPING_SECONDS = 0.1
# After another worker's lease has ended, by its clock, seconds until the lock is asked for.
SLACK_SECONDS = 0.05
# A worker that ends waits this long for its locks to be freed; else they are free after its lease.
CLOSE_SECONDS = 5.0


class Term(NamedTuple):
    """A lock that this worker has. Nobody else can take it before ``end``, in seconds of the host's
    monotonic clock.
    """

    hold: Hold
    end: float


class Active:
    """``may_run`` is for any thread. ``others`` are the locks that somebody has, by code, as they
    were last seen.
    """

    def __init__(
        self,
        config: WorkerConfig,
        name: str,
        clock: Clock,
        wake: Callable[[], None] = lambda: None,
        running: Callable[[], Collection[str]] = tuple,
        post: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        """``name`` is the worker's, which no other one ever has. ``wake`` is called when it has
        become active; ``running`` are the codes of the runs under way; ``post`` takes log lines.
        """
        self._post = post
        self._config = config
        self._name = name
        self._clock = clock
        self._wake = wake
        self._running = running
        self.others: dict[str, LockState] = {}
        self.rejected = Rejected(config.using, config.lease)
        self._terms: dict[str, Term] = {}
        self._stirred = Event()
        self._asked_at = float("-inf")
        self._is_retiring = False
        self._is_closing = False
        self._thread: LastingThread | None = None

    # For any thread

    def may_run(self, waits: Lane | Claimed) -> bool:
        """Tell if tasks of this code and queue may run here now.

        In another queue than its handler's a task runs anywhere: the active worker may not serve
        it.
        """
        code = waits.biz_code
        is_sticky = code in sticky_codes() and waits.queue == terms_for(code).queue
        return not is_sticky or self.is_active(code)

    def is_active(self, biz_code: str) -> bool:
        """Tell if this worker is the active one of a sticky handler."""
        term = self._terms.get(biz_code)
        return term is not None and not self._is_retiring and ticks() < term.end

    # For the poller's thread

    def ensure(self) -> None:
        """Have a thread if there are sticky handlers; replace it if it has died."""
        if self._thread is not None:
            self._thread.ensure()
        elif self._codes():
            self._thread = LastingThread(f"django_tasks-active-{self._config.using}", self._main)
            self._thread.start()

    def admits(self, lane: Lane) -> bool:
        """Tell if tasks of a lane may be claimed. One that waits for long may have nobody any more:
        then its lock is asked for soon.
        """
        if self.may_run(lane):
            return True
        is_late = self._clock.seconds_to(lane.first) <= -LATE_SECONDS
        if is_late and ticks() - self._asked_at >= LATE_SECONDS:
            self._asked_at = ticks()
            self._stirred.set()
        return False

    def retire(self, is_over: bool = True) -> None:
        """Run nothing more: each lock is freed when the last run of its code has ended. Or go on,
        if it was not over after all: claims that had not started have gone back.
        """
        if self._is_retiring != is_over:
            self._is_retiring = is_over
            self._stirred.set()

    def close(self) -> None:
        """Free what is left, and end."""
        self._is_retiring = self._is_closing = True
        self._stirred.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    # The thread

    def _main(self) -> None:
        logs.send_through(self._post)
        take_connection(self._config.using, self._config.heartbeat_bounds)
        try:
            while not self._is_closing:
                self._stirred.wait(self._guardedly())
                self._stirred.clear()
            if self._terms:
                self._guardedly()
        finally:
            close_connections()

    def _guardedly(self) -> float:
        """One cycle that survives whatever happens; returns how long to sleep."""
        try:
            keep_connection(self._config.using)
            delay = self._retired() if self._is_retiring else self._cycle()
            self.rejected.is_over()
            return delay
        except Error as error:  # the heartbeat's thread tells of outages
            drop_connection(self._config.using)
            self.rejected.note(error)
        except Exception:  # noqa: BLE001 - a defect must not end the terms
            logs.terms_failed(self._config.using)
        return self._config.lease / 12

    def _cycle(self) -> float:
        self._for_each(list(self._terms), self._renew)
        wanted = {lock_of(code): code for code in self._codes() if code not in self._terms}
        states = rows.states(wanted, using=self._config.using) if wanted else []
        others = {wanted[state.name]: state for state in states if state.is_held}
        mine = [code for code, state in others.items() if state.holder == self._name]
        for code in mine:
            self._adopt(code, others.pop(code))
        self.others = others
        free = [code for code in wanted.values() if code not in others and code not in mine]
        self._for_each(free, self._take)
        return self._pause()

    def _for_each(self, codes: Collection[str], step: Callable[[str], None]) -> None:
        """Do a step for each code. An error of one must not cost the others their terms."""
        problem: Error | None = None
        for code in codes:
            try:
                step(code)
            except Error as error:
                problem = error
                drop_connection(self._config.using)
        if problem is not None:
            raise problem

    def _codes(self) -> list[str]:
        serves = self._config.serves
        return [code for code in sticky_codes() if serves(terms_for(code).queue, code)]

    def _take(self, code: str) -> None:
        asked, lease = ticks(), self._config.lease
        hold = rows.take(lock_of(code), self._name, lease, using=self._config.using)
        if hold is not None:
            self._note(code, Term(hold, asked + lease))
            logs.became_active(code, hold.term, self._config.using)
            self._wake()

    def _adopt(self, code: str, state: LockState) -> None:
        """Go on with a lock that this worker has unknowingly: the answer to its take was lost."""
        hold = Hold(state.name, state.term, state.holder)
        self._note(code, Term(hold, -inf))
        self._renew(code)

    def _renew(self, code: str) -> None:
        asked, (hold, end), lease = ticks(), self._terms[code], self._config.lease
        if rows.renew(hold, lease, using=self._config.using):
            self._note(code, Term(hold, asked + lease))
            if end == -inf and not self._is_retiring:
                self._wake()
        else:
            self._forget(code)
            logs.no_longer_active(code, hold.term, self._config.using)

    def _note(self, code: str, term: Term) -> None:
        self._terms = {**self._terms, code: term}  # one reference: readers see old or new, whole

    def _free(self, code: str) -> None:
        rows.free(self._terms[code].hold, using=self._config.using)
        self._forget(code)

    def _forget(self, code: str) -> None:
        self._terms = {other: term for other, term in self._terms.items() if other != code}

    def _pause(self) -> float:
        ends = [state.until for state in self.others.values() if state.until is not None]
        first = min((self._clock.seconds_to(end) for end in ends), default=inf)
        return max(SLACK_SECONDS, min(self._config.heartbeat_interval, first + SLACK_SECONDS))

    def _retired(self) -> float:
        self.others = {}
        self._terms = {code: Term(hold, -inf) for code, (hold, _) in self._terms.items()}
        running = () if self._is_closing else self._running()
        self._for_each([code for code in self._terms if code in running], self._renew)
        self._for_each([code for code in self._terms if code not in running], self._free)
        return STOPPING_SECONDS if self._terms else self._config.heartbeat_interval
