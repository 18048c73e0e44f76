"""Rules about what clients change: a call that is made again, and the payloads of later claims."""

from collections.abc import Iterator
from itertools import pairwise

from tests.faults.history import Add, Call, History, Run, Update, grouped
from tests.faults.verdicts import Accusation

# Calls that change a task: a run that is called once more after one was told of it is wrong.
CHANGES = ("add", "update", "cancel", "delete", "pause", "reschedule", "run_now")
# Another node of a cluster, which a worker may ask, hears of a change a moment after its answer.
LAG = 0.02
# A claim is sent a little ahead of its time, so that time may be later than the claim.
AHEAD = 0.1


def called_again(history: History) -> Iterator[Accusation]:
    """What a client has changed during a call of a batch is in no further call of that claim.

    The halves of a batch that failed are such calls. A change counts if it was sent and answered
    between the start and the end of one call: then it was there when the next one was made.
    """
    for runs in grouped(history.runs, lambda run: run.claim).values():
        for former, latter in pairwise(sorted(runs, key=lambda run: run.start)):
            for change in _changes(former, latter, history):
                yield Accusation("called again", f"{latter} after {former} and {change}")


def _changes(former: Run, latter: Run, history: History) -> Iterator[Call]:
    """The changes that came during one call, and were not undone before the next one."""
    calls = history.calls_by_key.get(former.key, [])
    for call in calls:
        if call.call not in CHANGES or not call.was_done:
            continue
        if not former.start <= call.sent <= call.answered <= former.known_end - LAG:
            continue
        if call.call != "pause" or not any(
            other.call == "resume" and other.may_follow(call) and other.sent < latter.start
            for other in calls
        ):
            yield call


def stale(history: History) -> Iterator[Accusation]:
    """What is claimed after an add or an update was answered has its payload, or a later one."""
    for key, calls in history.calls_by_key.items():
        writes = [call for call in calls if isinstance(call, Add | Update) and call.was_done]
        is_told = all(isinstance(call, Update) for call in calls if call.call == "update")
        if not (writes and is_told):  # else one of them may have put an older nonce back
            continue
        for run in history.runs_by_key.get(key, []):
            wrote = history.writers.get(run.nonce)
            claimed = run.claimed - history.clock.offset - history.clock.error - AHEAD
            for call in writes:
                if wrote and wrote.answered < call.sent and call.answered < claimed:
                    yield Accusation("stale", f"{run} has the payload of {wrote}, not of {call}")
                    break
