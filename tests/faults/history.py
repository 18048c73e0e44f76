"""The journals of all processes as the facts that the checker reasons about."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import inf
from typing import Any

Key = tuple[str, str]

# The name of the fault that is none of the harness: a run costs its process.
ENDLESS = "run without end"


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
class Update(Call):
    """A call that gave a task another payload, and left its time alone."""

    nonce: str = ""


@dataclass(frozen=True)
class Run:
    """One run of a handler. ``end`` is None where none was written: its process died in it.

    ``lasted`` is the last sign of life of that process. ``claimed`` is by the database's clock.
    ``is_charge``: it ended in such a way that an attempt of the task was used.
    """

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
    # As its row was when it was claimed, and when that was.
    queue: str = ""
    attempts: int = 0
    rescues: int = 0
    claimed: float = 0.0
    # The thread, and the call of a handler, which several runs of a batch share. ``raised``: the
    # call as a whole has failed. ``is_charge``: an attempt was used.
    thread: int = 0
    call: str = ""
    raised: bool = False
    is_charge: bool = False
    lasted: float | None = None

    @property
    def claim(self) -> tuple[int, int, int]:
        return self.id, self.version, self.worker

    @property
    def is_done(self) -> bool:
        return self.how == "done"

    @property
    def comes_again(self) -> bool:
        """Tell if its call has failed for a reason that may be another one's of the same batch."""
        return bool(self.how) and not (self.is_done or self.is_charge)

    def overlaps(self, other: "Run") -> bool:
        """Certainly: without an end, a run lasts for as long as its process is known to live."""
        return self.start < other.known_end and other.start < self.known_end

    @property
    def known_end(self) -> float:
        """The first moment at which it may have been over."""
        return self.end or self.lasted or self.start

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

    @property
    def is_orderly(self) -> bool:
        """Tell if processes that it ended could say what they left behind."""
        return self.name.startswith(("SIGTERM", ENDLESS))


@dataclass(frozen=True)
class Pause:
    """A pause of a code or of a queue: when it was asked for and answered, and so its end."""

    code: str
    queue: str
    asked: float
    answered: float
    end_asked: float
    end_answered: float

    def covers(self, code: str, queue: str) -> bool:
        """Tell if it holds tasks of this code in this queue."""
        return self.code in ("", code) and self.queue in ("", queue)


@dataclass(frozen=True)
class Misfire:
    """A task that a worker has called too late; ``when`` is by the database's clock."""

    at: float
    id: int
    code: str
    queue: str
    when: float
    grace: float


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
    # What runs have found that others had left in their thread.
    found: list[str] = field(default_factory=list)
    # When all workers were told to stop.
    stopped: float | None = None
    faults: list[Fault] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)
    misfires: list[Misfire] = field(default_factory=list)
    # By process: its last sign of life; and the moment at which a run without end has cost it.
    lasts: dict[int, float] = field(default_factory=dict)
    condemned: dict[int, float] = field(default_factory=dict)
    # Processes that were stopped in order, and could not say so in the rows that they left.
    unforgiven: set[int] = field(default_factory=set)
    # The longest that a due task may wait, in seconds; None where nothing is said of it.
    patience: float | None = None
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
    def writers(self) -> dict[str, Add | Update]:
        """The calls that gave a task its payload, by what they wrote."""
        return {call.nonce: call for call in self.calls if isinstance(call, Add | Update)}

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

    def was_moved(self, run: Run, before: float) -> bool:
        """Tell if a client may have moved the task of a run that was given up after the last act of
        its process: from then on another run of it may begin, before that process has ended.
        """
        acted = self.last_acts.get(run.claim, inf)
        calls = self.calls_by_key.get(run.key, [])
        return any(acted < call.answered and call.sent < before for call in calls)

    def stood_still(self, run: Run, since: float, before: float) -> bool:
        """Tell if the process of a run was stopped from outside in that time: it could not end."""
        return any(
            fault.name == "SIGSTOP" and run.pid in fault.pids
            for fault in self.faults
            if fault.at < before and since < fault.until
        )

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
