"""The lateness of tasks, and the time of the recovery from a fault."""

from collections.abc import Iterator

from tests.faults.history import Fault, History, Key, Run, grouped


def lateness(history: History) -> Iterator[float]:
    """Seconds from a run's time to its start, of tasks that nobody paused."""
    stopped = steered(history, "pause", "requeue")
    return (
        run.start + history.clock.offset - run.when
        for run in history.runs
        if run.key not in stopped
        and not any(pause.covers(run.key[0], run.queue) for pause in history.pauses)
    )


def recovery(history: History) -> Iterator[float]:
    """Seconds until what a fault had interrupted went on.

    What ran in a process that was killed or stopped: until it ran again. Where no process was
    named: from the end of the fault until each worker that was there had an answer again.
    """
    by_key = grouped(history.runs, lambda run: run.key)
    signs = _signs_of_life(history)
    for fault in history.faults:
        if fault.pids:
            yield from _reruns(fault, history, by_key)
        else:
            yield from (
                min(at for at in times if at > fault.until) - fault.until
                for times in signs.values()
                if min(times) < fault.at and max(times) > fault.until
            )


def _signs_of_life(history: History) -> dict[int, list[float]]:
    """By process, when the database answered to it: it was given a task, or its heartbeat."""
    signs: dict[int, list[float]] = {}
    for worker, times in history.beats.items():
        signs.setdefault(history.pids.get(worker, worker), []).extend(times)
    for run in history.runs:
        signs.setdefault(run.pid, []).append(run.start)
    return signs


def _reruns(fault: Fault, history: History, by_key: dict[Key, list[Run]]) -> Iterator[float]:
    moved = steered(history, "pause", "cancel", "delete", "requeue")
    for run in history.runs:
        if run.pid not in fault.pids or run.key in moved or not _was_cut(run, fault):
            continue
        later = [other.start for other in by_key[run.key] if other.start > run.start]
        if later:
            yield min(later) - fault.at


def _was_cut(run: Run, fault: Fault) -> bool:
    """Tell if it ended never, or after its process had been stopped for the time of the fault."""
    if run.start > fault.at:
        return False
    return run.end is None or (run.end > fault.until and not fault.name.startswith("SIGTERM"))


def steered(history: History, *calls: str) -> set[Key]:
    """Keys whose tasks may have waited because somebody wanted them to."""
    return {call.key for call in history.calls if call.call in calls}
