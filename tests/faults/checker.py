"""Reads a history and says what was promised and not kept. Pure functions.

What is assumed, so that nobody is accused falsely:

* A call took effect once, between ``sent`` and ``answered``. One that was not answered may take
  effect at any moment after ``sent``, or never.
* A row's version grows with every add to it, so of two adds with the same row the higher version
  is the later one, and a claim's version is one more than that of the write it follows.
* Ids are never used twice. Where they are, that is the accusation, and nothing more is concluded
  from them: it would be said of the wrong task.
* Who is in doubt is let off: an overlap is held against nobody whose worker may have been silent
  for a lease, a missing run not against an add that an unanswered cancel may have removed.

What each rule looks for is said at its function; each returns the accusations it makes.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations, pairwise
from math import inf

from tests.faults.changes import called_again, stale
from tests.faults.charges import charged, suspected
from tests.faults.history import Add, Call, History, Run, grouped
from tests.faults.measures import lateness, recovery
from tests.faults.punctuality import late, misfired, started_in_a_pause
from tests.faults.silence import complaints, held_for_nothing, left_behind, silences, silent
from tests.faults.verdicts import Accusation, Verdict

# Slack for the times that two processes note around one event.
JITTER = 0.005
# Business of these is written with the end of the run, or by a statement of its own.
ATOMIC = ("atomic", "atomic_again", "atomic_batch")
EFFECTFUL = "effectful"
# Its tasks have a schedule; it says Stop in the run with this number.
BEAT = "beat"
LAST_BEAT = 2


def check(history: History) -> Verdict:
    """All rules over one history."""
    return Verdict(
        tasks=sum(add.was_done for add in history.adds),
        runs=len(history.runs),
        refused=sum(end.verdict == "lost" and _is_news(end.outcome) for end in history.ends),
        unknown=sum(call.is_unknown for call in history.calls),
        accusations=[accusation for rule in RULES for accusation in rule(history)],
        lateness=sorted(lateness(history)),
        recovery=sorted(recovery(history)),
    )


# 1. Nothing is lost


def lost(history: History) -> Iterator[Accusation]:
    """An acknowledged add that was not superseded or cancelled ran to its end, once at least."""
    committed = {effect[1] for effect in history.effects}
    for add in history.adds:
        if not add.was_done or _has_run(add, history, committed):
            continue
        others = [call for call in history.calls_by_key[add.key] if call is not add]
        if not any(_excuses(other, add, history) for other in others):
            runs = history.runs_by_nonce.get(add.nonce, [])
            yield Accusation("lost", f"{add} never ran to its end: {[str(run) for run in runs]}")


def _has_run(add: Add, history: History, committed: set[str]) -> bool:
    if add.key[0] in ATOMIC:
        return add.nonce in committed
    runs = history.runs_by_nonce.get(add.nonce, [])
    # A schedule goes on until its handler stops it, whoever dies meanwhile.
    last = LAST_BEAT if add.key[0] == BEAT else 0
    return any(run.is_done and run.hop >= last for run in runs)


def _excuses(other: Call, add: Add, history: History) -> bool:
    """Tell if ``other`` may have taken away what ``add`` had stored before it ran."""
    if other.call in ("cancel", "delete", "update"):
        # What an update has written into the row of a task that ran goes with the row.
        return other.is_unknown or (other.was_done and other.may_follow(add))
    if not isinstance(other, Add):
        return False
    if other.is_unknown:
        # If it took effect and took nothing else's place, it has run or been cancelled itself;
        # the cancel would excuse both.
        return bool(history.runs_by_nonce.get(other.nonce))
    if not other.was_done:
        return False
    if other.id is None or add.id is None or other.version is None or add.version is None:
        return other.may_follow(add)
    if {add.id, other.id} & history.reused_ids:
        return other.may_follow(add)
    # In another row, it did not take this one's place: that row had gone before.
    return other.id == add.id and other.version > add.version


def unfounded(history: History) -> Iterator[Accusation]:
    """Nothing runs that was refused or never stored, and each claim has its own add's payload."""
    for run in history.runs:
        call = history.writers.get(run.nonce)
        if call is None or call.answer == "refused" or not (call.is_unknown or call.was_done):
            yield Accusation("unfounded", f"{run} belongs to {call}")
        if (wrote := history.writes.get((run.id, run.version - 1))) and wrote.nonce != run.nonce:
            yield Accusation("unfounded", f"{run} has not the payload of {wrote}")


def without_effect(history: History) -> Iterator[Accusation]:
    """A run that wrote a row by a statement of its own, and was answered, has written it."""
    there = {(row, version) for _, _, _, row, version in history.effects}
    for run in history.runs:
        if run.key[0] == EFFECTFUL and run.is_done and (run.id, run.version) not in there:
            yield Accusation("lost", f"{run} has left no effect")


# 2. No key runs twice at once


def overlaps(history: History) -> Iterator[Accusation]:
    """Two runs of a key at once, while the older one's worker could still finish.

    It could if its finish was accepted, and also if its worker was never silent for a lease: then
    nobody had the right to take the row. A silence without a reason is no excuse. A client that
    moves the task of a run past its ``kill_after`` in the last moments of its process is one, and
    so is a process that was stopped from outside after its last act: nothing goes on in it.
    """
    accepted = {end.claim for end in history.ends if end.verdict == "accepted"}
    spans = silences(history)
    for runs in history.runs_by_key.values():
        for older, younger in _overlapping(runs):
            blamed = any(
                older.start < until and since < younger.start
                for since, until in spans.get(older.pid, [])
            )
            taken = history.had_gap(older.worker, younger.start)
            acted = history.last_acts.get(older.claim, inf)
            if history.was_moved(older, younger.start):
                continue
            if history.stood_still(older, acted, younger.start):
                continue
            if older.claim in accepted or blamed or not taken:
                yield Accusation("overlap", f"{older} and {younger}")


def _overlapping(runs: list[Run]) -> Iterator[tuple[Run, Run]]:
    for one, other in combinations(sorted(runs, key=lambda run: run.start), 2):
        if one.overlaps(other):
            backwards = one.id == other.id and one.version > other.version
            yield (other, one) if backwards else (one, other)


# 3. Nothing too early, nothing after a cancel


def early(history: History) -> Iterator[Accusation]:
    """Nothing starts before its time by the database's clock; and the time is the one asked for."""
    for run in history.runs:
        now = run.start + history.clock.offset
        if now < run.when - history.clock.error - JITTER:
            yield Accusation("early", f"{run} was due {run.when - now:.6f} s later")
        wrote = history.writes.get((run.id, run.version - 1))
        if wrote and abs(wrote.when - run.when) > 1e-5:
            yield Accusation("early", f"{run} was due at {run.when}, and not as {wrote} says")


def after_cancel(history: History) -> Iterator[Accusation]:
    """Nothing starts after a cancel that said "cancelled", unless it was added again since."""
    for cancel in history.calls:
        if cancel.call != "cancel" or cancel.result != "cancelled":
            continue
        for run in history.runs_by_key.get(cancel.key, []):
            call = history.writers.get(run.nonce)
            if run.start <= cancel.answered or (call and call.may_follow(cancel)):
                continue
            if not _was_thawed(run, history):
                yield Accusation("after cancel", f"{run} after {cancel}")


def _was_thawed(run: Run, history: History) -> bool:
    """Tell if its process was stopped between its last look at the lease and its first word."""
    return any(
        run.pid in fault.pids and fault.at < run.start < fault.until + 0.2
        for fault in history.faults
    )


# 4. One end a claim


def duplicates(history: History) -> Iterator[Accusation]:
    """At most one accepted end a claim, none of a row that went on with its old owner's end."""
    accepted = [
        end
        for end in history.ends
        if end.verdict in ("accepted", "handed_over") and end.claim[0] not in history.reused_ids
    ]
    for claim, count in Counter(end.claim for end in accepted).items():
        if count > 1:
            yield Accusation("duplicate", f"{count} ends of claim {claim} were accepted")
    gone = {end.claim[0]: end for end in accepted if end.outcome == "Done"}
    for run in history.runs:
        end = gone.get(run.id)
        # Released ones live on: they had been added again.
        if end and end.verdict == "accepted" and run.version > end.claim[1]:
            yield Accusation("duplicate", f"{run} although {end} had removed the row")


def beats_twice(history: History) -> Iterator[Accusation]:
    """A schedule has at most one accepted run for each of its times."""
    accepted = {
        end.claim
        for end in history.ends
        if end.verdict == "accepted" and end.outcome in ("Reschedule", "Done")
    }
    beats = [run for run in history.runs if run.key[0] == BEAT and run.claim in accepted]
    for (row, when), runs in grouped(beats, lambda run: (run.id, run.scheduled)).items():
        if len({run.claim for run in runs}) > 1 and row not in history.reused_ids:
            yield Accusation("duplicate", f"{[str(run) for run in runs]}, all for {when}")


def told(history: History) -> Iterator[Accusation]:
    """The product's own history has a line for each end that counted, and none for more runs than
    there were.

    Between the two are ends whose answer nobody has: the worker was killed, or the line broke. And
    an ``atomic`` run whose transaction could not begin has an end, and no start in the journals.
    """
    if history.lines is None:
        return
    keys = {run.claim: run.key for run in history.runs}
    ends = {
        end.claim
        for end in history.ends
        if end.verdict in ("accepted", "handed_over") and end.outcome not in ("GiveBack", "Again")
    }
    least = Counter(keys[claim] for claim in ends if claim in keys)
    least.update(effect[0] for effect in history.effects if effect[0][0] in ATOMIC)
    most = Counter(keys.values())
    rows = {run.id: run.key for run in history.runs}
    unbegun = {end.claim for end in history.ends} - keys.keys()
    most.update(rows[row] for row, *_ in unbegun if row in rows)
    for key in most.keys() | history.lines.keys():
        count = history.lines.get(key, 0)
        if not least[key] <= count <= most[key]:
            text = f"{count} lines of {'/'.join(key)}: {least[key]} ends of {most[key]} runs"
            yield Accusation("history", text)


def ids_twice(history: History) -> Iterator[Accusation]:
    """An id belongs to one key for ever: a caller that remembers it must not meet another task."""
    for row in sorted(history.reused_ids):
        yield Accusation("id twice", f"row {row}")


def effects_twice(history: History) -> Iterator[Accusation]:
    """Effects of atomic handlers are there exactly once for each time that was asked for."""
    atomic = [effect for effect in history.effects if effect[0][0] in ATOMIC]
    for (row, version), count in Counter(effect[3:] for effect in atomic).items():
        if count > 1 and row not in history.reused_ids:
            yield Accusation("duplicate", f"{count} effects of row {row} v{version}")
    for (key, nonce, hop), count in Counter(effect[:3] for effect in atomic).items():
        again = [
            call
            for call in history.calls_by_key.get(key, [])
            if call.call in ("reschedule", "run_now")
            and (call.was_done or call.is_unknown)
            and call.may_follow(history.writers[nonce])
        ]
        if count > 1 + len(again):
            text = f"{count} effects of {history.writers[nonce]}, hop {hop}"
            yield Accusation("duplicate", text)


def unreleased(history: History) -> Iterator[Accusation]:
    """An end is refused only if the worker may have been taken for dead, or had written it before.

    A row that was only added again is *handed over* by its owner, at once. Of a run that was given
    up and ends after all there may be two ends, by two threads: the first one counts.
    """
    in_doubt = {end.claim for end in history.ends if end.verdict == "unknown"}
    counted = {end.claim for end in history.ends if end.verdict == "accepted"}
    in_doubt |= counted & history.given_up.keys()
    for end in history.ends:
        if end.verdict != "lost" or not _is_news(end.outcome) or end.claim in in_doubt:
            continue
        if not history.had_gap(end.claim[2], end.at):
            yield Accusation("unreleased", f"{end} although its worker lived")


def _is_news(outcome: str) -> bool:
    return not outcome.startswith("Unsettled") and outcome != "GiveBack"


# 5. Nothing is stuck, nobody is judged who should not be


def stuck(history: History) -> Iterator[Accusation]:
    """At the end, when everything was resumed and all workers were stopped, no row is left."""
    for row in history.rows:
        yield Accusation("stuck", f"row {row}")
    for worker in history.workers:
        yield Accusation("stuck", f"worker {worker} is still in the table")


def hasty_rescues(history: History) -> Iterator[Accusation]:
    """Only a worker whose own heartbeats had no gap for a whole lease may rescue."""
    for worker, at in history.rescues:
        beats = [beat for beat in history.beats.get(worker, []) if beat <= at]
        since = beats[0] if beats else at
        for sooner, later in pairwise(beats):
            if later - sooner > history.lease:
                since = later
        if at - since < history.lease - JITTER:
            yield Accusation("hasty", f"worker {worker} rescued after {at - since:.3f} s at {at}")


RULES: tuple[Callable[[History], Iterator[Accusation]], ...] = (
    lost,
    unfounded,
    without_effect,
    overlaps,
    early,
    after_cancel,
    duplicates,
    beats_twice,
    told,
    ids_twice,
    effects_twice,
    unreleased,
    stuck,
    hasty_rescues,
    silent,
    held_for_nothing,
    complaints,
    left_behind,
    called_again,
    stale,
    charged,
    suspected,
    misfired,
    started_in_a_pause,
    late,
)
