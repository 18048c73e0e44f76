"""The table of workers: those that poll this database, and the signs of their lives."""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django_tasks.clock import ClockReading
from django_tasks.conf import host_name
from django_tasks.store.dialects import dialect_of, placeholders
from django_tasks.values.status import OWNED_SQL

LOOPBACK = ("127.", "[::1]", "localhost:")


class Door(NamedTuple):
    """The "host:port" at which a worker can be rung; its ``name`` begins with "host:pid:"."""

    name: str
    address: str

    def can_be_reached(self) -> bool:
        """Tell if it is another process's, and can be rung from here."""
        host, pid, *_ = *self.name.split(":"), ""
        here = host == host_name()
        ours = here and pid == str(os.getpid())
        return bool(self.address) and not ours and (here or not self.address.startswith(LOOPBACK))


class Peer(NamedTuple):
    """A row of the worker table; ``heartbeat`` is aware UTC, ``lease`` seconds, ``wish`` what a
    person has asked of it: a ``WorkerWish``.
    """

    id: int
    beats: int
    heartbeat: datetime
    lease: float
    wish: str = ""

    def looks_alive(self, now: datetime) -> bool:
        """By the clock: good enough to count workers, not to take their claims."""
        return now <= self.alive_until

    @property
    def alive_until(self) -> datetime:
        """The last moment at which it looks alive."""
        return self.heartbeat + timedelta(seconds=self.lease)


class Registration(NamedTuple):
    """A worker's facts about itself. ``lease`` is seconds, empty ``queues`` means all.

    ``codes`` are those that it has handlers for and may claim; ``wish`` is one that it knows of.
    """

    name: str
    lease: float
    threads: int
    queues: tuple[str, ...] = ()
    doorbell: str = ""
    host: str = ""
    pid: int = 0
    version: str = ""
    codes: tuple[str, ...] = ()
    wish: str = ""


class Signs(NamedTuple):
    """The signs of life of one heartbeat, for people.

    ``busy`` counts threads, ``memory`` is bytes; None for ``codes``: as they were told before.
    """

    state: str
    counters: Mapping[str, int]
    busy: int = 0
    memory: int = 0
    codes: Sequence[str] | None = None


def register(worker: Registration, now: datetime, *, using: str) -> int:
    """Enter a worker into the table; returns its id, which is never used again.

    By a statement and not by the model: receivers of ``post_save`` may take as long as they like,
    and a lease waits for this.
    """
    dialect = dialect_of(using)
    moment = dialect.to_column(now)
    values = {
        "name": worker.name,
        "started": moment,
        "heartbeat": moment,
        "beats": 0,
        "lease": worker.lease,
        "queues": json.dumps(worker.queues),
        "threads": worker.threads,
        "state": "running",
        "counters": "{}",
        "doorbell": worker.doorbell,
        "host": worker.host,
        "pid": worker.pid,
        "version": worker.version,
        "codes": json.dumps(worker.codes),
        "wish": worker.wish,
    }
    return dialect.insert(f"{{worker}} ({', '.join(values)})", list(values.values()))


def roll_call(*, using: str) -> tuple[ClockReading, list[Peer]]:
    """The database's clock and all workers, in one statement if there is any worker."""
    dialect = dialect_of(using)
    template = (
        f"SELECT {dialect.clock_sql}, id, beats, heartbeat, lease, wish FROM {{worker}} ORDER BY id"
    )
    rows = dialect.fetch(template)
    clock = dialect.reading(rows[0][0]) if rows else dialect.read_clock()
    return clock, [
        Peer(worker_id, beats, dialect.from_column(heartbeat), lease, wish)
        for _, worker_id, beats, heartbeat, lease, wish in rows
    ]


def doors(*, using: str) -> list[Door]:
    """Doorbells at which workers can be woken that may claim."""
    template = "SELECT name, doorbell FROM {worker} WHERE doorbell <> '' AND wish = ''"
    rows = dialect_of(using).fetch(template)
    return [Door(*row) for row in rows]


def beat(worker_id: int, now: datetime, signs: Signs, *, using: str) -> bool:
    """Renew a worker's lease; False when its row is gone: others took it for dead."""
    dialect = dialect_of(using)
    values = {
        "heartbeat": dialect.to_column(now),
        "state": signs.state,
        "counters": json.dumps(signs.counters),
        "busy": signs.busy,
        "memory": signs.memory,
    }
    if signs.codes is not None:
        values["codes"] = json.dumps(signs.codes)
    columns = ", ".join(f"{name} = %s" for name in values)
    template = f"UPDATE {{worker}} SET beats = beats + 1, {columns} WHERE id = %s"
    return dialect.execute(template, [*values.values(), worker_id]) == 1


def set_wish(worker_id: int, wish: str, *, using: str) -> bool:
    """Write what a person asks of a worker; False when its row is gone.

    Race: the worker is taken for dead now. Then its row goes with the wish, and the one in which it
    joins again is another worker's; or it has read the wish before, and takes it along.
    """
    template = "UPDATE {worker} SET wish = %s WHERE id = %s"
    return dialect_of(using).execute(template, [wish, worker_id]) == 1


def remove(worker_id: int, *, using: str) -> bool:
    """Take a stopped worker out of the table."""
    return dialect_of(using).execute("DELETE FROM {worker} WHERE id = %s", [worker_id]) == 1


def fence(peer: Peer, *, using: str) -> bool:
    """Remove a worker that has been silent since ``peer`` was read.

    False when it has sent a heartbeat meanwhile: it lives. From here on its own heartbeat matches
    nothing, so it learns that everything it claimed is lost.
    """
    template = "DELETE FROM {worker} WHERE id = %s AND beats = %s"
    return dialect_of(using).execute(template, [peer.id, peer.beats]) == 1


def orphaning_owners(*, using: str) -> list[int]:
    """Ids that own tasks but are not in the table of workers.

    The owners are read before the workers: a worker registers before it claims, so a new one
    cannot be taken for dead. Ids are never used again, so no row can be misjudged later either.
    """
    dialect = dialect_of(using)
    owners = dialect.fetch(f"SELECT DISTINCT claimed_by FROM {{task}} WHERE status IN {OWNED_SQL}")
    ids = [row[0] for row in owners if row[0] is not None]
    if not ids:
        return []
    living = dialect.fetch(f"SELECT id FROM {{worker}} WHERE id IN ({placeholders(len(ids))})", ids)
    return sorted(set(ids) - {row[0] for row in living})
