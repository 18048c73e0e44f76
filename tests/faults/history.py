"""The journals of all processes as the facts that the checker reasons about."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import inf
from typing import Any

Key = tuple[str, str]


@dataclass(frozen=True)
class Call:
    """One call of a client. ``answered`` is infinite where no answer came.

    It took effect at one moment between ``sent`` and ``answered``; a call without an answer took
    effect at some moment after ``sent``, or never.
    """

    call: str
    key: Key
    sent: float
    answered: float = inf
    answer: str = "unknown"
    result: Any = None

    @property
    def is_unknown(self) -> bool:
        return self.answer == "unknown"

    @property
    def was_done(self) -> bool:
        """Tell if it was acknowledged and changed something."""
        return self.answer == "acknowledged" and self.result not in (False, 0, "not_found")

    def may_follow(self, other: "Call") -> bool:
        """Tell if it may have taken effect after ``other`` did."""
        return self.answered > other.sent


@dataclass(frozen=True)
class Add(Call):
    """An add. ``id`` and ``version`` say which row it wrote, if the answer tells."""

    nonce: str = ""
    when: float = 0.0
    id: int | None = None
    version: int | None = None
    stored: bool = False

    @property
    def was_done(self) -> bool:
        return self.answer == "acknowledged" and self.stored


@dataclass(frozen=True)
class Run:
    """One run of a handler. ``end`` is None where none was written: its process died in it."""

    key: Key
    id: int
    version: int
    worker: int
    pid: int
    nonce: str
    hop: int
    when: float
    start: float
    end: float | None = None
    how: str = ""
    atomic: bool = False
    scheduled: float = 0.0
    # As its row was when it was claimed.
    attempts: int = 0
    rescues: int = 0
    # The thread, and the call of a handler, which several runs of a batch share. ``raised``: the
    # call as a whole has failed.
    thread: int = 0
    call: str = ""
    raised: bool = False

    @property
    def claim(self) -> tuple[int, int, int]:
        return self.id, self.version, self.worker

    @property
    def is_done(self) -> bool:
        return self.how == "done"

    def overlaps(self, other: "Run") -> bool:
        """Certainly: without an end, a run counts as having ended at once."""
        mine, its = self.end or self.start, other.end or other.start
        return self.start < its and other.start < mine

    def __str__(self) -> str:
        end = "…" if self.end is None else f"{self.end:.3f} {self.how}"
        return (
            f"run of {'/'.join(self.key)} row {self.id} v{self.version} by worker {self.worker}"
            f" ({self.pid}) nonce {self.nonce}.{self.hop}: {self.start:.3f} to {end}"
        )


@dataclass(frozen=True)
class End:
    """The answer of the database to the end of a claim."""

    at: float
    claim: tuple[int, int, int]
    outcome: str
    verdict: str


@dataclass(frozen=True)
class Fault:
    """A thing that the harness did, when it began and when it was over, and to which processes.

    ``away``: meanwhile nobody could count on the database.
    """

    name: str
    at: float
    until: float
    pids: tuple[int, ...] = ()
    away: bool = False

    @property
    def is_end(self) -> bool:
        """Tell if its processes were told to end."""
        return self.name.startswith(("SIGKILL", "SIGTERM"))


@dataclass(frozen=True)
class Clock:
    """The database's clock against CLOCK_MONOTONIC: ``offset`` is right within ``error``."""

    offset: float = 0.0
    error: float = 0.0


@dataclass
class History:
    """Everything that one scenario left behind."""

    lease: float
    clock: Clock = field(default_factory=Clock)
    calls: list[Call] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    # By worker: when its heartbeats were answered, and its process.
    beats: dict[int, list[float]] = field(default_factory=dict)
    pids: dict[int, int] = field(default_factory=dict)
    rescues: list[tuple[int, float]] = field(default_factory=list)
    # Looks at the rows that workers held, as (row, worker), and when.
    looks: list[tuple[float, frozenset[tuple[int, int]]]] = field(default_factory=list)
    # By process: when a receiver, a hook or a log handler of the project took its time.
    naps: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    # By row and worker: when a process of its own was started for a run.
    starts_apart: dict[tuple[int, int], list[tuple[float, float]]] = field(default_factory=dict)
    # By process: when it has ended in order, or for the sake of a run; its threads end with it.
    exits: dict[int, float] = field(default_factory=dict)
    # Runs past their ``kill_after``, and when their ends were told of; and when these were taken to
    # be written, as the last act of a process.
    given_up: dict[tuple[int, int, int], float] = field(default_factory=dict)
    last_acts: dict[tuple[int, int, int], float] = field(default_factory=dict)
    # Stops that were told in the rows of runs that they cut off: the worker, when the answer was
    # there, and the rows that were left out.
    forgiven: list[tuple[int, float, frozenset[int]]] = field(default_factory=list)
    # When somebody begins to resume whatever is paused; no client does that then.
    settling: float = inf
    # What was seen at once to be wrong, by those who saw it.
    complaints: list[str] = field(default_factory=list)
    # When all workers were told to stop.
    stopped: float | None = None
    faults: list[Fault] = field(default_factory=list)
    # What is in the database at the end; effects as (key, nonce, hop, task id, version).
    rows: list[dict[str, Any]] = field(default_factory=list)
    workers: list[int] = field(default_factory=list)
    effects: list[tuple[Key, str, int, int, int]] = field(default_factory=list)
    # How many ends the product's own history tells of, by key; None if nobody looked.
    lines: dict[Key, int] | None = None

    @cached_property
    def adds(self) -> list[Add]:
        return [call for call in self.calls if isinstance(call, Add)]

    @cached_property
    def calls_by_key(self) -> dict[Key, list[Call]]:
        return grouped(self.calls, lambda call: call.key)

    @cached_property
    def runs_by_key(self) -> dict[Key, list[Run]]:
        return grouped(self.runs, lambda run: run.key)

    @cached_property
    def runs_by_nonce(self) -> dict[str, list[Run]]:
        return grouped(self.runs, lambda run: run.nonce)

    @cached_property
    def reused_ids(self) -> set[int]:
        """Ids of rows that were given twice: as after the loss of what had used them first."""
        pairs = {(add.id, add.key) for add in self.adds if add.was_done and add.id is not None}
        pairs |= {(run.id, run.key) for run in self.runs}
        counts = Counter(row for row, _ in pairs)
        return {row for row, count in counts.items() if row is not None and count > 1}

    @cached_property
    def writes(self) -> dict[tuple[int, int], Add]:
        """Acknowledged adds by the row and the version that they wrote."""
        return {
            (add.id, add.version): add
            for add in self.adds
            if add.was_done
            and add.id is not None
            and add.version is not None
            and add.id not in self.reused_ids
        }

    def had_gap(self, worker: int, before: float) -> bool:
        """Tell if a worker was silent for about a lease: others could take it for dead."""
        beats = [beat for beat in self.beats.get(worker, []) if beat < before]
        times = [*beats, before]
        # A heartbeat bears the time of its middle, hence less than the whole lease.
        return not beats or any(
            later - sooner > 0.8 * self.lease for sooner, later in pairwise(times)
        )


def grouped(items: Iterable[Any], key: Any) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def from_records(records: Iterable[dict[str, Any]], history: History) -> History:
    """Read journals into ``history``."""
    open_calls: dict[str, dict[str, Any]] = {}
    answers: dict[str, dict[str, Any]] = {}
    starts: dict[str, dict[str, Any]] = {}
    ends: dict[str, dict[str, Any]] = {}
    for record in records:
        match record["kind"]:
            case "sent":
                open_calls[record["name"]] = record
            case "answer":
                answers[record["name"]] = record
            case "start":
                starts[record["run"]] = record
            case "end":
                ends[record["run"]] = record
            case "finish":
                for row, version, worker, outcome, verdict in record["ends"]:
                    claim = (row, version, worker)
                    history.ends.append(End(record["at"], claim, outcome, verdict))
            case "beat" if record["renewed"]:
                history.beats.setdefault(record["worker"], []).append(record["asked"])
                history.pids[record["worker"]] = record["pid"]
            case _:
                _read(record, history)
    for name, sent in open_calls.items():
        history.calls.append(_call(sent, answers.get(name)))
    for run, start in starts.items():
        history.runs.append(_run(start, ends.get(run)))
    return history


def _read(record: dict[str, Any], history: History) -> None:
    """A record that says everything by itself."""
    at = record["at"]
    match record["kind"]:
        case "rescue":
            history.rescues.append((record["worker"], at))
        case "fault":
            facts = {"pids": tuple(record["pids"]), "away": record.get("away", False)}
            history.faults.append(Fault(record["name"], record["from"], at, **facts))
        case "held":
            history.looks.append((at, frozenset((row, worker) for row, worker in record["rows"])))
        case "nap":
            # A worker waits for the process that runs a suspect in its place.
            for pid in {record["pid"], record.get("parent", record["pid"])}:
                history.naps.setdefault(pid, []).append((record["from"], at))
        case "apart":
            claim = record["row"], record["worker"]
            history.starts_apart.setdefault(claim, []).append((record["from"], at))
        case "complaint":
            history.complaints.append(record["text"])
        case "stopping":
            history.stopped = at
        case "settling":
            history.settling = at
        case "exited":
            history.exits[record["pid"]] = at
        case "given_up":
            history.given_up.update((tuple(claim), at) for claim in record["claims"])
        case "last_act":
            history.last_acts.update((tuple(claim), at) for claim in record["claims"])
        case "forgiven":
            history.forgiven.append((record["worker"], at, frozenset(record["guilty"])))


def _call(sent: dict[str, Any], answer: dict[str, Any] | None) -> Call:
    facts: dict[str, Any] = {
        "call": sent["call"],
        "key": (sent["code"], sent["num"]),
        "sent": sent["at"],
    }
    known = answer is not None and answer["answer"] != "unknown"
    if answer is not None and known:
        facts |= {"answered": answer["at"], "answer": answer["answer"]}
    if sent["call"] != "add":
        return Call(**facts, result=answer.get("result") if answer is not None else None)
    facts |= {"nonce": sent["nonce"], "when": sent["when"]}
    if answer is not None and known:
        names = ("id", "version", "stored")
        facts |= {name: answer[name] for name in names if name in answer}
    return Add(**facts)


def _run(start: dict[str, Any], end: dict[str, Any] | None) -> Run:
    names = ("id", "version", "worker", "pid", "nonce", "hop", "when", "atomic", "scheduled")
    more = [name for name in ("attempts", "rescues", "thread", "call") if name in start]
    return Run(
        key=(start["code"], start["num"]),
        start=start["at"],
        end=end["at"] if end else None,
        how=end["how"] if end else "",
        raised=bool(end and end.get("raised")),
        **{name: start[name] for name in (*names, *more)},
    )
