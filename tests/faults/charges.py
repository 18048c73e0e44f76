"""Rules about what a task has to answer for: its attempts, and the deaths of its workers."""

from collections.abc import Iterator

from tests.faults.history import History, Run, grouped
from tests.faults.verdicts import Accusation

# Codes whose runs use an attempt only by an exception that the journals know of. An ``atomic`` run
# may fail when it is committed, and a timeout may come before the first word of a run.
EXACT = ("plain", "effectful", "again", "beat", "flaky", "brittle", "batched", "punctual")
# A row that was rescued so often runs in a process of its own, whose death it has to answer for.
SUSPICIOUS_RESCUES = 2


def charged(history: History) -> Iterator[Accusation]:
    """A run has used no more attempts than earlier runs of its row have ended with an exception.

    The call of a batch that is tried again in halves uses none, nor does the end of a process.
    """
    for row, runs in grouped(history.runs, lambda run: run.id).items():
        if row in history.reused_ids or any(map(_is_suspect, runs)):
            continue
        for run in runs:
            charges = sum(other.is_charge and other.start < run.start for other in runs)
            if run.key[0] in EXACT and run.attempts > charges:
                text = f"{run} has used {run.attempts} attempts, and has failed {charges} times"
                yield Accusation("charged", text)


def suspected(history: History) -> Iterator[Accusation]:
    """Nobody is a suspect where processes have ended in order alone: such ends count once."""
    for run in history.runs:
        faults = [fault for fault in history.faults if fault.at < run.start]
        if not _is_suspect(run) or not all(fault.is_orderly for fault in faults):
            continue
        pids = {other.pid for other in history.runs_by_key[run.key]}
        if faults and not pids & history.unforgiven:
            yield Accusation("suspect", f"{run} was rescued {run.rescues} times")


def _is_suspect(run: Run) -> bool:
    return run.rescues >= SUSPICIOUS_RESCUES
