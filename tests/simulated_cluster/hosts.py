"""Processes, each on a host of its own: a monotonic clock, and what a process keeps in globals."""

from collections.abc import Callable, Iterator, MutableMapping
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from tests.simulated_cluster import stage
from tests.simulated_cluster.scheduler import Actor

if TYPE_CHECKING:
    from tests.simulated_cluster.notes import Notes

# The time of day when simulated time begins.
BEGINNING = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


class Host:
    """A process. ``globals`` stand for the module globals that each process has for itself."""

    def __init__(
        self, pid: int, name: str, boot: float = 0.0, rate: float = 1.0, *, is_worker: bool = False
    ) -> None:
        self.pid = pid
        self.name = name
        self.is_worker = is_worker
        # How wrong its time of day is.
        self.wall = 0.0
        self.is_dead = False
        self.frozen_until = 0.0
        # How many times as long its statements take as those of others.
        self.slowness = 1.0
        # Until when the network between this host and the database is cut.
        self.cut_until = 0.0
        # Whether faults may strike here at all.
        self.is_spared = False
        # The signals to it, and who hears of its exit code; of a worker alone.
        self.notes: Notes | None = None
        self.on_exit: Callable[[int], None] = lambda code: None
        self.globals: dict[str, dict[Any, Any]] = {}
        self._boot = boot
        self._rate = rate

    def is_well(self, now: float) -> bool:
        """Tell if it runs, and reaches the database."""
        return not self.is_dead and max(self.frozen_until, self.cut_until) <= now

    def is_claiming(self, now: float) -> bool:
        """Tell if it is well, and is not to end."""
        notes = self.notes
        return self.is_well(now) and not (notes and (notes.is_told or notes.is_woken))

    def ticks(self, now: float) -> float:
        """The host's monotonic clock: it began at some time, and runs a little fast or slow."""
        return self._boot + now * self._rate

    def simulated(self, ticks: float) -> float:
        """The simulated time at which this host's clock shows ``ticks``."""
        return (ticks - self._boot) / self._rate


# What is kept while it is nobody's turn: the product has hooks for the child of a fork.
NOBODY: dict[Any, dict[Any, Any]] = {}


class PerHost(MutableMapping[Any, Any]):
    """A dictionary of a module, of which each process has its own."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _own(self) -> dict[Any, Any]:
        actor = stage.scheduler.current
        owner = NOBODY if actor is None else actor.host.globals
        return owner.setdefault(self._name, {})

    def __getitem__(self, key: Any) -> Any:
        return self._own()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._own()[key] = value

    def __delitem__(self, key: Any) -> None:
        del self._own()[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._own())

    def __len__(self) -> int:
        return len(self._own())


def current() -> Actor:
    """The actor whose turn it is."""
    actor = stage.scheduler.current
    assert actor is not None, "nobody's turn"
    return actor


def ticks() -> float:
    """The monotonic clock of the present host."""
    scheduler = stage.scheduler
    actor = scheduler.current
    return scheduler.now if actor is None else actor.host.ticks(scheduler.now)


def utc_now() -> datetime:
    """The time of day as the present host believes it to be."""
    actor = stage.scheduler.current
    wrong = actor.host.wall if actor else 0.0
    return BEGINNING + timedelta(seconds=stage.scheduler.now + wrong)


def getpid() -> int:
    return current().host.pid
