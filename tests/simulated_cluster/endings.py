"""Rules about runs that did not end by themselves: cut off by a stop, in a batch, or given up.

An orderly stop, the failure of another one's call and the end of a neighbour's process are no fault
of a task: it comes back as it was. A run past its ``kill_after`` is charged, and nothing runs
beside it.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from math import inf
from typing import Any, NamedTuple

from tests.faults.checker import JITTER
from tests.faults.history import Add, Call, History, Run, grouped
from tests.faults.verdicts import Accusation

Records = list[dict[str, Any]]
Claim = tuple[int, int, int]

# Seconds within which an end is written after the call that brought it, and those for which
# troubles last after they are over.
SOON = 5.0
LONG = 30.0
# Seconds within which a process ends that has written the ends of runs that were given up; they
# are tried again after that. A worker's reading of the database's clock may be so much behind.
LAST_ACT = 10.0
LAG = 2.5
# Outcomes that use an attempt up, and those that leave a row with the counters that it had.
CHARGED = ("Retry", "Fail")
UNCHARGED = ("GiveBack", "Unsettled Again")


# 3. An orderly stop charges nobody


def charged_for_a_stop(history: History, records: Records) -> Iterator[Accusation]:
    """A run that an orderly stop has cut off comes back with one rescue, and no attempt more.

    So it is no suspect, however many stops there were; and no misfire, for a rescue tells that it
    has begun. Of stops that were told in the rows: the database may not have answered.
    """
    ended = {end.claim for end in history.ends}
    runs = _by_version(history)
    for worker, at, guilty in history.forgiven:
        if history.had_gap(worker, at):
            continue  # others may have rescued its rows before
        for run in history.runs:
            if run.worker != worker or run.end is not None or run.start > at:
                continue
            if run.id in guilty or run.claim in ended or run.claim in history.given_up:
                continue
            after = runs.get((run.id, run.version + 2))  # a rescue and a claim, and nothing else
            if after and (after.attempts, after.rescues) != (run.attempts, max(1, run.rescues)):
                yield Accusation(
                    "charged", f"{_state(run)} was cut off by a stop, and is {_state(after)}"
                )


# 4. The calls of a batch


def charged_for_others(history: History, records: Records) -> Iterator[Accusation]:
    """A call that has failed for several tasks charges none of them: each is called again."""
    sizes = {call: len(runs) for call, runs in _calls(history).items()}
    last = {run.claim: run for run in _in_order(history.runs)}
    for end in history.ends:
        run = last.get(end.claim)
        if end.outcome not in CHARGED or run is None or end.claim in history.given_up:
            continue
        if run.raised and sizes[run.call] > 1:
            yield Accusation("charged", f"{end} for a call of {sizes[run.call]} tasks: {run}")


def charged_for_nothing(history: History, records: Records) -> Iterator[Accusation]:
    """A task that goes back between two calls, or comes again by itself, is as it was."""
    runs = _by_version(history)
    last = {run.claim: run for run in _in_order(history.runs)}
    for end in history.ends:
        run, after = last.get(end.claim), runs.get((end.claim[0], end.claim[1] + 2))
        if end.outcome not in UNCHARGED or end.verdict != "accepted" or run is None:
            continue
        if after and (after.attempts, after.rescues) != (run.attempts, run.rescues):
            yield Accusation("charged", f"{_state(run)} has ended as {end}, and is {_state(after)}")


def called_again(history: History, records: Records) -> Iterator[Accusation]:
    """Before each further call there is a look: what was touched until then is not called again."""
    ends = {
        thread: sorted(run.end for run in runs if run.end is not None)
        for thread, runs in grouped(history.runs, _thread).items()
    }
    for runs in grouped(history.runs, lambda run: run.claim).values():
        first, *further = _in_order(runs)
        for run in further:
            before = ends[_thread(run)]
            if not (number := bisect_right(before, run.start)):
                continue
            span = first.start, before[number - 1]
            for call in history.calls_by_key.get(run.key, []):
                if span[0] < call.sent and call.answered < span[1] and _moves(call, run, history):
                    yield Accusation("called again", f"{run}, begun at {first.start}, after {call}")


def _moves(call: Call, run: Run, history: History) -> bool:
    """Tell if a call has changed what a claimed row says."""
    if not call.was_done:
        return False
    if isinstance(call, Add):
        return call.id in (None, run.id)
    if call.call == "pause":
        resumes = [
            other
            for other in history.calls_by_key[run.key]
            if other.call == "resume" and other.may_follow(call) and other.sent < run.start
        ]
        return not resumes and run.start < history.settling
    return call.call in ("cancel", "delete", "reschedule", "run_now", "update")


def kept_ends(history: History, records: Records) -> Iterator[Accusation]:
    """The ends that a call has brought are written while the rest of its item is called.

    Of an ``atomic`` run, which writes its own end, nothing is seen here.
    """
    written: dict[Claim, float] = {}
    for end in sorted(history.ends, key=lambda end: end.at):
        written.setdefault(end.claim, end.at)
    troubles = list(_troubles(records))
    for runs, until in _items(history):
        for run in runs:
            if not run.is_done or run.atomic or run.end is None:
                continue
            bound = run.end + SOON
            if bound < min(until, written.get(run.claim, inf)) and not any(
                trouble.is_of(run.pid, run.end, bound) for trouble in troubles
            ):
                yield Accusation("kept", f"the end of {run}, until {written.get(run.claim)}")


def _items(history: History) -> Iterator[tuple[list[Run], float]]:
    """The runs of each item that took several calls, and the end of its last one.

    A further call is known by a task that was in one before it.
    """
    for runs in grouped(history.runs, _thread).values():
        calls = list(grouped(_in_order(runs), lambda run: run.call).values())
        item: list[Run] = []
        for call in [*calls, []]:
            if {run.claim for run in call} & {run.claim for run in item}:
                item += call
                continue
            if item and len({run.call for run in item}) > 1:
                yield item, _until(item[-1], history)
            item = list(call)


# 5. Runs that were given up


def beside(history: History, records: Records) -> Iterator[Accusation]:
    """Nothing runs beside a run that has no end: it goes on until its process ends.

    Unless its worker was taken for dead; or its process was frozen, and could not end in time; or a
    client has moved the task of a run that was given up, after the last act of its process.
    """
    accepted = {end.claim for end in history.ends if end.verdict == "accepted"}
    for run in history.runs:
        if run.end is not None or run.pid not in history.exits:
            continue
        over = history.exits[run.pid]
        for other in history.runs_by_key[run.key]:
            if other.claim == run.claim or not run.start < other.start < over:
                continue
            may_be_dead = run.claim not in accepted and history.had_gap(run.worker, other.start)
            is_let_off = may_be_dead or history.was_moved(run, other.start)
            if not is_let_off and not history.stood_still(run, run.start, other.start):
                text = f"{other} beside {run}, whose process ended at {over:.3f}"
                yield Accusation("beside", text)


def given_up_badly(history: History, records: Records) -> Iterator[Accusation]:
    """A run that was given up is charged; it is tried again when its process has ended, and that is
    soon. Unless a stop has come to its deadline at that moment: its process has just said what it
    leaves, and ends, and the run comes again as one that the stop has cut off.
    """
    troubles = list(_troubles(records))
    runs, ends = _by_version(history), grouped(history.ends, lambda end: end.claim)
    known = {run.claim: run for run in history.runs}
    for claim, at in history.given_up.items():
        if (run := known.get(claim)) is None:
            continue
        exited = history.exits.get(run.pid, inf)
        is_fair = not any(trouble.is_of(run.pid, at, exited) for trouble in troubles)
        is_cut_off = any(who == run.worker and at <= said for who, said, _ in history.forgiven)
        accepted = [end for end in ends.get(claim, ()) if end.verdict == "accepted"]
        is_tried = claim in ends or claim in history.last_acts  # its answer may come too late
        if not is_tried and exited < inf and is_fair and not is_cut_off:
            yield Accusation("given up", f"{claim} at {at:.3f}, and nobody has written its end")
        if claim not in history.last_acts or not accepted or accepted[0].outcome != "Retry":
            continue
        acted, written = history.last_acts[claim], accepted[0].at
        if written + LAST_ACT < exited < inf and is_fair:
            yield Accusation("given up", f"{claim} has an end since {written}, and runs on")
        if after := runs.get((claim[0], claim[1] + 2)):
            yield from _tried_again(claim, after, acted, history, is_fair=is_fair)


def _tried_again(
    claim: Claim, run: Run, acted: float, history: History, *, is_fair: bool
) -> Iterator[Accusation]:
    """The next run of what was given up, whose end was taken to be written at ``acted``."""
    before = next(other for other in history.runs if other.claim == claim)
    if run.attempts != before.attempts + 1:
        yield Accusation("charged", f"{_state(before)} was given up, and is {_state(run)}")
    clock = history.clock
    if is_fair and run.when - clock.offset < acted + LAST_ACT - LAG - clock.error - JITTER:
        seconds = run.when - clock.offset - acted
        yield Accusation("given up", f"{run} is tried again {seconds:.3f} s after the last act")


# Their parts


class Trouble(NamedTuple):
    """A time in which things may take long; without ``pids``, for all."""

    since: float
    until: float
    pids: tuple[int, ...] = ()

    def is_of(self, pid: int, since: float, until: float) -> bool:
        """Tell if it is some process's, at some time of these."""
        return (not self.pids or pid in self.pids) and self.since < until and since < self.until


def _troubles(records: Records) -> Iterator[Trouble]:
    """Storms and faults, each with a while after it. An orderly stop is none."""
    storm = None
    for record in records:
        match record["kind"]:
            case "storm":
                storm = record["at"]
            case "calm" if storm is not None:
                yield Trouble(storm, record["at"] + LONG)
                storm = None
            case "fault" if record["name"] != "SIGTERM":
                yield Trouble(record["from"], record["at"] + LONG, tuple(record["pids"]))
    if storm is not None:
        yield Trouble(storm, inf)


def _by_version(history: History) -> dict[tuple[int, int], Run]:
    """The first run of each version of a row."""
    runs = _in_order(history.runs)
    return {(run.id, run.version): run for run in reversed(runs)}


def _in_order(runs: list[Run]) -> list[Run]:
    return sorted(runs, key=lambda run: run.start)


def _calls(history: History) -> dict[str, list[Run]]:
    return grouped(history.runs, lambda run: run.call)


def _thread(run: Run) -> tuple[int, int]:
    return run.pid, run.thread


def _until(run: Run, history: History) -> float:
    """The end of a run, or of its process."""
    return history.exits.get(run.pid, run.start) if run.end is None else run.end


def _state(run: Run) -> str:
    return f"{run} with {run.attempts} attempts and {run.rescues} rescues"


RULES: tuple[Callable[[History, Records], Iterator[Accusation]], ...] = (
    charged_for_a_stop,
    charged_for_others,
    charged_for_nothing,
    called_again,
    kept_ends,
    beside,
    given_up_badly,
)
