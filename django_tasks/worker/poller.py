"""One cycle of a worker's bookkeeping: write how runs ended, attend to news, claim what is due.

While one statement is under way, ends and free threads pile up and go together in the next: that
is all the batching there is, and it adds no waiting.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from random import uniform

from django_tasks import logs, signals
from django_tasks.host.clocks import ticks
from django_tasks.store.connection import keep_connection
from django_tasks.store.finish import Ended, finish
from django_tasks.values.claimed import Claimed
from django_tasks.values.outcomes import GiveBack
from django_tasks.values.status import WorkerWish
from django_tasks.worker.active import Active
from django_tasks.worker.claiming import Claiming
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.counting import Counts
from django_tasks.worker.executor import STALE_SECONDS, Executor, Item
from django_tasks.worker.finisher import Finisher
from django_tasks.worker.given_up import GivenUp
from django_tasks.worker.heartbeat import Report
from django_tasks.worker.idling import LONGEST_SLEEP
from django_tasks.worker.marks import Marks
from django_tasks.worker.membership import Membership
from django_tasks.worker.overdue import Overdue
from django_tasks.worker.pruner import Pruner
from django_tasks.worker.recurring import Recurring
from django_tasks.worker.rejected import Rejected
from django_tasks.worker.rescuer import Rescuer, give_back_strays

# Strays and orphans are looked for at every sixth heartbeat, and sooner where there is a reason.
TIDY_EVERY = 6
# The number of heartbeats after a lost answer in which there may be strays.
UNSURE_BEATS = 3
TALLY_SECONDS = 60.0
# How soon to look again whether a row that somebody holds locked is free.
LOCKED_SECONDS = 0.05
# How many rows one statement gives back in place of a poller that hangs.
MOST_RELIEVED = 500


class Wishes:
    """The wish of a person to this worker, by ``ask_worker``: to be quiet, to stop, to work.

    The heartbeat reads it with the table of workers, and the poller's thread heeds what the last
    one has read. Races: a wish is taken back before it was read (nothing has happened) or after (a
    stop stands, for the process may be gone already; a quiet worker works again); others have taken
    this worker for dead (the row has gone, and the worker joins again with the wish that it knows
    of); it is stopping for another reason (a wish to stop is noted: nobody is to take its place).
    """

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


class Poller:
    """Used by one thread. ``run_once`` returns the seconds until it wants to be called again.

    ``report``, ``seconds_in_cycle`` and ``relieve`` are for the thread that sends the heartbeats.
    """

    def __init__(
        self,
        config: WorkerConfig,
        membership: Membership,
        executor: Executor,
        tell: Callable[..., None] = signals.tell,
        active: Active | None = None,
    ) -> None:
        """``tell`` sends signals, without waiting for their receivers. Without ``active`` it claims
        no tasks of sticky handlers.
        """
        self._config = config
        self._membership = membership
        self._executor = executor
        self._marks = Marks()
        # Taken by the thread that sends the heartbeats, which writes them.
        self.counts = Counts(membership.clock.now)
        self._finisher = Finisher(config, self._marks, membership.name, tell, self.counts)
        active = active or Active(config, membership.name, membership.clock)
        self._claiming = Claiming(
            config, membership, executor, self._finisher, self._marks, active, self.unsure
        )
        self._rescuer = Rescuer(membership, config.using, tell, self.counts)
        self._pruner = Pruner(config.using, membership)
        self._recurring = Recurring(config, membership.clock)
        self._wishes = Wishes(config.using, membership)
        self._careful = self._quiet = False
        # Set before a cycle that is to claim nothing: the server has rejected a statement.
        self.is_held = False
        # Written by any thread. Cleared before the look: a hint that comes meanwhile counts again.
        self._has_hint = self._has_overdue = False
        self._given_up = GivenUp()
        # The last heartbeat whose news were attended to, under which worker id.
        self._beats = self._searched = self._worker_id = 0
        self._unsure_beats = 0
        self._missing: set[tuple[int, ...]] = set()
        # Of the thread that sends the heartbeats: given back, and not written yet.
        self._relieved: list[Ended] = []
        self._overdue = Overdue(config.using)
        self._tallied = (ticks(), self._finisher.counters.copy())
        self._report = Report("running", {})
        self._cycle_since: float | None = None
        self.finished = False

    def run_once(self) -> float:
        """One cycle. Database errors pass; whatever was under way is kept or found again."""
        self._cycle_since = ticks()
        try:
            return self._cycle()
        finally:
            self._report = Report(self.state(), dict(self._finisher.counters))
            self._cycle_since = None

    def _cycle(self) -> float:
        careful, self._careful = self._careful, False
        keep_connection(self._config.using)
        self._executor.mend()
        self._recurring.keep_up()
        ended = self._given_up.as_told(self._executor.collect())
        self._finisher.add(ended)
        # Careful for as long as somebody holds a row that we want: a plain cycle would wait for it.
        self._careful = self._finisher.write(self._membership.clock.now(), careful=careful)
        self._claiming.note_ends(ended)
        self._attend_heartbeat()
        self._wishes.heed()
        if self._wishes.is_to_stop:
            self.quieten()
        if self._quiet:
            return self._wind_down()
        if self._wishes.is_to_rest or self.is_held:
            return self._rest()
        if self._executor.is_stale():
            self._take_back()
            return 0.0
        if self._has_hint:
            self._has_hint = False
            self._claiming.heed_hint()
        if self._has_overdue:
            self._has_overdue = False
            self._claiming.look_far_back()
            self._claiming.limits_may_differ(hinted=True)
        delay = self._claiming.claim(careful=careful)
        self._pruner.prune_if_due()
        if self._has_nothing_more():
            self.quieten()
            return 0.0
        return self._bounded(delay)

    def state(self) -> str:
        """The state for the worker's row. For any thread."""
        if self._quiet:
            return "stopping"
        if self.is_held:
            return "rejected"
        return "quiet" if self._wishes.is_to_rest else "running"

    @property
    def rejected(self) -> Rejected:
        """The rejections of the thread that keeps the rows of schedules."""
        return self._recurring.rejected

    def quieten(self) -> None:
        """Claim no more; ``finished`` turns true when everything that was claimed has ended."""
        self._quiet = True

    def was_asked_to_stop(self) -> bool:
        """Tell if somebody has written into its row that it is to stop. For any thread."""
        return self._wishes.is_to_stop

    def contended(self) -> None:
        """Somebody else was in the way of the last cycle: step over locked rows in the next."""
        self._careful = True

    def unsure(self) -> None:
        """An answer of the database was lost: a claim may be ours without our knowing."""
        self._unsure_beats = UNSURE_BEATS

    def claims_no_more(self) -> bool:
        """Tell if it claims no more, and what it has claimed has started."""
        has_had_enough = self._claiming.has_had_enough() and not self._executor.has_waiting()
        is_to_rest = self._wishes.is_to_rest or self.is_held
        return self._quiet or is_to_rest or has_had_enough

    def note_hint(self) -> None:
        """Tasks were added that are due soon. For any thread."""
        self._has_hint = True

    def note_overdue(self) -> None:
        """Tasks that were due for a while already wait now. For any thread."""
        self._has_overdue = True

    def give_up(self, ends: Sequence[Ended]) -> None:
        """Keep ``ends`` in place of those of runs that do not end, and wait for these no more.

        Their rows stay owned while they run: nothing may start beside them. For any thread. Race: a
        run ends by itself. Then its row gets the end that was told already.
        """
        self._given_up.add(ends)

    def awaiting_ends(self, claims: Sequence[Claimed]) -> AbstractContextManager[None]:
        """Write no ends of their own of runs that are just being given up. For any thread."""
        return self._given_up.expected(claims)

    def write_given_up(self, delay: timedelta) -> bool:
        """Write the ends of runs that were given up, as the last act; False if some are locked.

        Give back the rest of their batches, which nobody will call. To be called until it is true:
        database errors pass, and what was not written is kept. ``delay``: see ``last_ends``.
        """
        now = self._membership.clock.now()
        # A call that was given up has ended after the last cycle: the rest of its batch goes back.
        self._finisher.add(self._given_up.as_told(self._executor.collect()))
        if ends := self.last_ends(now, delay):
            # Race: a run has ended by itself before it was given up, and its own end is written.
            self._finisher.add(end for end in ends if self._finisher.holds(end.claimed))
            self._finisher.give_back(self._given_up.never_called(self._items()))
        self._finisher.write(now, careful=True)
        return self._finisher.is_empty()

    def last_ends(self, now: datetime, delay: timedelta) -> list[Ended]:
        """Take the ends of runs that were given up. The process ends in ``delay`` at the latest."""
        return self._given_up.take(now + delay)

    def has_given_up(self) -> bool:
        """Tell if there may be ends of runs that were given up. For the poller's thread."""
        return not self._given_up.is_empty()

    def given_up(self) -> frozenset[tuple[int, ...]]:
        """Id and version of the claims whose runs were given up. For any thread."""
        return self._given_up.fences()

    def unwritten(self) -> int:
        """Ends that are still to be written."""
        return self._finisher.unwritten()

    def has_written(self) -> bool:
        """Tell if every claim has ended, and its end is written."""
        return self._finisher.is_empty() and not self._finisher.not_ended()

    def running(self) -> list[Claimed]:
        """The claims that run."""
        return [claimed for item in self._items() for claimed in item]

    def ending(self) -> list[Claimed]:
        """The claims that run, but those of calls that were given up."""
        return [
            claimed
            for item in self._items()
            if not self._given_up.is_leaving(item)
            for claimed in item
        ]

    def _items(self) -> list[Item]:
        return [item for item, _ in self._executor.running()]

    def runs(self) -> int:
        """The number of runs that have ended, well or not."""
        return self._finisher.runs()

    # For the thread that sends the heartbeats

    def report(self) -> Report:
        """The words for the worker's row."""
        return self._report._replace(busy=len(self._executor.running()))

    def seconds_in_cycle(self) -> float:
        """Seconds for which the present cycle has been going on; 0 between two cycles."""
        since = self._cycle_since
        return 0.0 if since is None else ticks() - since

    def relieve(self) -> int:
        """Give back what waits unstarted, in place of this poller, which hangs; how many rows.

        Database errors pass: then the next call writes them, or the poller itself when it goes on.
        Race: both do. The second one matches nothing.
        """
        self._relieved += [Ended(claimed, GiveBack()) for claimed in self._executor.relieve()]
        now, count = self._membership.clock.now(), len(self._relieved)
        while batch := self._relieved[:MOST_RELIEVED]:
            finish(batch, now, using=self._config.using, careful=True)
            del self._relieved[:MOST_RELIEVED]
        return count

    # What follows a heartbeat

    def _attend_heartbeat(self) -> None:
        """Do what each heartbeat gives a reason for, one bounded piece a cycle.

        Noted as done at its end: an error has it repeated in the next cycle.
        """
        beats = self._membership.view.beats
        if self._worker_id != self._membership.worker_id:
            # Others took us for dead: what waits here was claimed in the life before.
            self._take_back()
            # A worker that has just joined claims by the limits of operators from the start.
            self._claiming.limits_may_differ()
            self._worker_id = self._membership.worker_id
        if beats != self._beats:
            thorough = self._unsure_beats > 0 or beats % TIDY_EVERY == 0
            self._rescuer.look(thorough=thorough)
            if beats != self._searched:  # an error below repeats all of this, at once
                self._searched = beats
                self._find_missing()
            if thorough:
                self._give_back_strays()
            self._claiming.look_for_suspects()
            self._claiming.limits_may_differ()
            self._overdue.warn(self._executor.running())
            self._tally()
            self._beats = beats
        if self._rescuer.has_more() and self._rescuer.rescue_some():
            self._marks.forget()

    def _take_back(self) -> None:
        unstarted = self._executor.take_back()
        self._finisher.give_back(unstarted)
        # Last: it asks the database, and an error of that must lose no claim.
        self._claiming.note_given_back(unstarted)

    def _find_missing(self) -> None:
        """Give back claims that are held, and neither wait, run nor have ended: twice in a row.

        A defect would have lost them, and their rows would stay RUNNING under a healthy heartbeat.
        Once may be an instant on the way from one place to the next.
        """
        missing = self._finisher.not_ended() - self._executor.known()
        lost, self._missing = missing & self._missing, missing
        if lost:
            claims = self._finisher.held(lost)
            logs.claims_missing(self._config.using, [str(claimed) for claimed in claims])
            self._executor.forget(len(claims))
            self._finisher.give_back(claims)

    def _give_back_strays(self) -> None:
        held = self._finisher.held_ids(self._membership.worker_id)
        if give_back_strays(self._membership, held, using=self._config.using):
            self._marks.forget()
        self._unsure_beats = max(0, self._unsure_beats - 1)

    def _tally(self) -> None:
        since, before = self._tallied
        if ticks() - since >= TALLY_SECONDS:
            counters = self._finisher.counters
            if news := counters - before:
                logs.tally(self._config.using, news, ticks() - since)
            self._tallied = (ticks(), counters.copy())

    # Stopping

    def _has_nothing_more(self) -> bool:
        idle = self._executor.is_idle() and self._finisher.is_empty()
        emptied = (
            self._config.until_empty and self._claiming.nothing_due and self._recurring.is_settled()
        )
        return idle and (emptied or self._claiming.has_had_enough())

    def _rest(self) -> float:
        # What was due before says nothing about what is due later: a worker that was to stop once
        # the queue is empty must look first. One that has run its ``max_tasks`` may end now.
        self._claiming.nothing_due = False
        self._take_back()
        if not self._finisher.is_empty():
            return self._until_written()
        if self._has_nothing_more():
            self.quieten()
            return 0.0
        return self._bounded(self._config.poll_interval)

    def _until_written(self) -> float:
        return LOCKED_SECONDS if self._careful else 0.0

    def _wind_down(self) -> float:
        """Stopping: unstarted claims go back, the rest ends, and only then its row goes."""
        self._take_back()
        if not self._finisher.is_empty():
            return self._until_written()
        stuck = self.given_up()
        if self._executor.is_idle() or (stuck and self._executor.runs_only(stuck)):
            self.finished = True
            return 0.0
        return self._bounded(self._config.poll_interval)

    def _bounded(self, delay: float) -> float:
        if self._executor.has_waiting():
            delay = min(delay, STALE_SECONDS)
        if self._rescuer.has_more():
            return 0.0
        # Each heartbeat wakes us besides.
        return max(0.0, min(delay, self._config.poll_interval * uniform(1.0, LONGEST_SLEEP)))
