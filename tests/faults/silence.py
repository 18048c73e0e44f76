"""Rules about those who live: a worker sends heartbeats, and knows what it holds.

A worker that is silent for a lease is taken for dead, and its tasks run a second time beside it.
Nobody but a fault may bring that about: neither what a project's own code does in a worker nor what
others do in the database. And a row that its worker holds, and neither runs nor ends, is found by
that worker itself.
"""

from collections.abc import Iterator
from itertools import pairwise

from tests.faults.history import History, grouped
from tests.faults.verdicts import Accusation

# Heartbeats within which a worker finds a row that it holds for nothing, and one more: between two
# looks of ours, and of its own, some time passes.
HEARTBEATS = 6 + 1
# How long after its last act a process ends at the latest: the worker's own, by a test of this.
LAST_ACT_SECONDS = 10.0

Span = tuple[float, float]


def silent(history: History) -> Iterator[Accusation]:
    """A worker that runs, and can reach its database, is never silent for a lease."""
    for pid, spans in silences(history).items():
        for since, until in spans:
            text = f"process {pid} for {until - since:.3f} s from {since:.3f}"
            yield Accusation("silent", text)


def silences(history: History) -> dict[int, list[Span]]:
    """By process, times without a heartbeat that are longer than a lease and without a reason."""
    beats = grouped(
        ((history.pids[worker], at) for worker in history.pids for at in history.beats[worker]),
        lambda beat: beat[0],
    )
    return {
        pid: [
            (since, until)
            for since, until in pairwise(_times([at for _, at in own], _end(pid, history)))
            if until - since > history.lease and not _is_explained(pid, since, until, history)
        ]
        for pid, own in beats.items()
    }


def _times(beats: list[float], end: float | None) -> list[float]:
    times = sorted(beats)
    return times if end is None or end < times[-1] else [*times, end]


def _end(pid: int, history: History) -> float | None:
    """The time at which a process was told to end, or did by itself; None: never.

    By itself: for the sake of a run without end, for example. Its heartbeats end with its last act,
    and a log handler that hangs may keep it for as long as the retry of that run is put off.
    """
    ends = [fault.at for fault in history.faults if fault.is_end and pid in fault.pids]
    ends += [history.exits[pid]] if pid in history.exits else []
    if pid in history.condemned:
        last = history.lasts[pid]
        acts = [at for claim, at in history.last_acts.items() if history.pids[claim[2]] == pid]
        act = max(acts, default=last)
        ends.append(act if last - act <= LAST_ACT_SECONDS else last)
    return min(ends, default=history.stopped)


def _is_explained(pid: int, since: float, until: float, history: History) -> bool:
    """Tell if a fault has the blame; for one more lease those that it has hit may get up."""
    return any(
        (fault.away or pid in fault.pids)
        and fault.at < until
        and since < fault.until + history.lease
        for fault in history.faults
    )


def held_for_nothing(history: History) -> Iterator[Accusation]:
    """A row that is held runs or ends; if not, its worker finds it within a few heartbeats."""
    bound = HEARTBEATS * history.lease / 3
    busy = _busy(history)
    for claim, span in _holdings(history):
        if (pid := history.pids.get(claim[1])) is None:
            continue
        spans = [*busy.get(claim, []), *history.naps.get(pid, [])]
        for since, until in _gaps(span, spans):
            if until - since > bound and _was_well(claim[1], pid, since, until, history):
                text = f"row {claim[0]}, held for nothing by worker {claim[1]} ({pid})"
                yield Accusation("stuck", f"{text} for {until - since:.3f} s from {since:.3f}")


def _holdings(history: History) -> Iterator[tuple[tuple[int, int], Span]]:
    """Each row and its worker, from the first to the last of the looks in a row that saw them."""
    open_: dict[tuple[int, int], float] = {}
    before = 0.0
    for at, held in [*history.looks, (0.0, frozenset())]:
        for claim in open_.keys() - held:
            yield claim, (open_.pop(claim), before)
        for claim in held - open_.keys():
            open_[claim] = at
        before = at


def _busy(history: History) -> dict[tuple[int, int], list[Span]]:
    """By row and worker, when it ran, when the worker tried to write an end of it, and when a
    process of its own was started for it: where two cores have ten to serve, that takes a while.

    A task of a batch that is called again in halves waits for the other calls, which may take long.
    """
    spans = {claim: list(starts) for claim, starts in history.starts_apart.items()}
    events = [(run.claim, run.start) for run in history.runs]
    events += [(end.claim, end.at) for end in history.ends]
    times = grouped(events, lambda event: event[0])
    for run in history.runs:
        until = float("inf") if run.end is None else run.end
        if run.comes_again:
            until = min((at for _, at in times[run.claim] if at >= until), default=until)
        spans.setdefault((run.id, run.worker), []).append((run.start, until))
    for end in history.ends:
        row, _, worker = end.claim
        spans.setdefault((row, worker), []).append((end.at, end.at))
    return spans


def _gaps(whole: Span, spans: list[Span]) -> Iterator[Span]:
    """The parts of ``whole`` that no span covers."""
    reached, last = whole
    for since, until in sorted(spans):
        if reached < min(since, last):
            yield reached, min(since, last)
        reached = max(reached, until)
    if reached < last:
        yield reached, last


def _was_well(worker: int, pid: int, since: float, until: float, history: History) -> bool:
    """Tell if a worker sent heartbeats all the time, and no fault was in its way."""
    beats = [beat for beat in sorted(history.beats[worker]) if since < beat < until]
    steady = all(
        later - sooner <= history.lease for sooner, later in pairwise([since, *beats, until])
    )
    return steady and not _is_explained(pid, since, until, history)


def complaints(history: History) -> Iterator[Accusation]:
    """Nobody who took part has seen something at once that must not be."""
    return (Accusation("stuck", text) for text in history.complaints)


def left_behind(history: History) -> Iterator[Accusation]:
    """No run has found anything that another one had left in its thread."""
    return (Accusation("left behind", text) for text in history.found)
