"""The time that statements take: all numbers that were measured or assumed, in one place."""

from dataclasses import dataclass

from benchmarks.simulation.engine import BATCH

# Of any statement, for the server: to parse it, to plan it, to answer.
STATEMENT = 0.00005
LOOPBACK = 0.00008


@dataclass(frozen=True)
class Costs:
    """Seconds of a server's time; of statements on rows, for each row.

    Measured, as medians of what a worker's statements took while it drained a backlog of tasks that
    do nothing, on the machine of docs/understand/benchmarks.rst (2 cores, server and worker on it):
    ``lanes``, ``read``, ``take``, ``delete`` for batches of 500, ``commit``.

    Fitted: ``upkeep``, what the server does with a row afterwards and in the background (purge,
    vacuum, pages and log), so that two processes drain what two processes did when ours was a
    prototype: 28,000 a second on MariaDB, 57,000 on PostgreSQL. SQLite does this within its
    statements.

    Assumed, and not measured: ``step``, ``look`` and ``peer``.
    """

    lanes: float  # where anything waits
    take: float  # a row changed to RUNNING
    delete: float
    commit: float
    read: float = 0.0  # a candidate; 0: the statement that takes does the search
    upkeep: float = 0.0
    step: float = 0.4e-6  # an index entry that is passed over: another share's, or locked
    look: float = 2e-6  # a row found by its id that has changed, or is asked whose it is
    peer: float = 1e-6  # a row of the table of workers, read with each heartbeat
    one_writer: bool = False  # the whole file has one lock for writing


@dataclass(frozen=True)
class Site:
    """The servers and hosts. ``client`` is the cost of a task in the worker's Python, in seconds.

    Measured: ``client``, and a round trip over loopback. Assumed: 0.3 ms between two hosts.
    """

    cores: int = 2
    trip: float = 0.0003
    client: float = 10e-6
    shared: bool = False  # the workers run on the server's cores


HOSTS = Site()
ONE_MACHINE = Site(trip=LOOPBACK, shared=True)


def _row(milliseconds: float) -> float:
    """A row's part of a statement that took so long for a batch."""
    return (milliseconds / 1000 - STATEMENT - LOOPBACK) / BATCH


DATABASES = {
    "sqlite": Costs(
        lanes=0.0001, take=_row(1.4), delete=_row(0.9), commit=0.00005, one_writer=True
    ),
    "mariadb": Costs(
        lanes=0.0009 - STATEMENT - LOOPBACK,
        read=_row(3.5),
        take=_row(6.0),
        delete=_row(3.3),
        commit=0.0003,
        upkeep=34e-6,
    ),
    "postgresql": Costs(
        lanes=0.0007 - STATEMENT - LOOPBACK,
        take=_row(5.2),
        delete=_row(1.6),
        commit=0.0003,
        upkeep=10e-6,
    ),
}


def capacity(costs: Costs, site: Site = HOSTS) -> float:
    """Tasks a second for ever, in full batches and with no waste.

    Every core of the server is busy, or its log, or the one thread in the background.
    """
    statements = 4 if costs.read else 3
    rows = BATCH * (costs.read + costs.take + costs.delete + costs.upkeep)
    work = rows + costs.lanes + statements * STATEMENT
    log = 2 * costs.commit + costs.one_writer * work
    return BATCH / max(work / site.cores, log, BATCH * costs.upkeep)
