"""Rules about time: tasks that are called too late, that start in a pause, that wait for long."""

from collections.abc import Iterator

from tests.faults.history import History, Misfire
from tests.faults.measures import steered
from tests.faults.verdicts import Accusation

# A claim is sent a little ahead of its time; and two processes note times around one event.
SLACK = 0.1


def misfired(history: History) -> Iterator[Accusation]:
    """A task that has begun once is no misfire, whoever stops in its run; and lateness counts from
    the end of a pause that began in time.
    """
    for misfire in history.misfires:
        begun = [
            run
            for run in history.runs
            if (run.id, run.when) == (misfire.id, misfire.when) and run.start < misfire.at
        ]
        if begun:
            yield Accusation("misfire", f"{misfire} had begun before: {begun[0]}")
        elif _was_held(misfire, history):
            yield Accusation("misfire", f"{misfire} was held by a pause until just before")


def _was_held(misfire: Misfire, history: History) -> bool:
    due = misfire.when - history.clock.offset
    return any(
        pause.covers(misfire.code, misfire.queue)
        and pause.answered < due + misfire.grace - SLACK
        and pause.end_asked < misfire.at < pause.end_asked + misfire.grace - SLACK
        for pause in history.pauses
    )


def started_in_a_pause(history: History) -> Iterator[Accusation]:
    """Nothing is claimed between the answer to a pause of its code or queue and the pause's end."""
    for run in history.runs:
        claimed = run.claimed - history.clock.offset
        slack = history.clock.error + SLACK
        for pause in history.pauses:
            is_inside = pause.answered + slack < claimed < pause.end_asked - slack
            if pause.covers(run.key[0], run.queue) and is_inside:
                yield Accusation("paused", f"{run} was claimed at {claimed:.3f}, in {pause}")


def late(history: History) -> Iterator[Accusation]:
    """Nobody who was not steered waits for longer than there is patience, where that was said."""
    if history.patience is None:
        return
    away = steered(history, "pause", "requeue")
    for run in history.runs:
        seconds = run.start + history.clock.offset - run.when
        if run.key not in away and seconds > history.patience:
            yield Accusation("late", f"{run} began {seconds:.3f} s after its time")
