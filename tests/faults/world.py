"""One scenario: a database, workers, clients, and what the harness can do to them."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from random import Random
from threading import Event
from time import monotonic
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from devtools import CHECKOUT
from tests.faults import journal
from tests.faults.databases import Site
from tests.faults.habits import HABITS
from tests.faults.history import Clock, History
from tests.faults.processes import DatabaseError, Steward, Worker, faketime
from tests.faults.records import from_records
from tests.proxy import Proxy
from tests.waiting import eventually

SETTLE_SECONDS = 60.0
# Tasks that four workers end in a second on two cores, at the very least: on SQLite.
SLOWEST_PACE = 300.0

_never = Event()


class World:
    """A scenario under way. Faults act on it; ``close`` leaves nothing behind."""

    def __init__(
        self,
        site: Site,
        directory: Path,
        *,
        seed: int,
        lease: float = 3.0,
        habits: Sequence[str] = (),
        more: str = "",
    ) -> None:
        """``more``: a handler that is known beside the usual ones."""
        self.site = site
        self.habits = habits
        self._more = more
        self.url = site.urls[-1]
        self.directory = directory
        self.lease = lease
        self.random = Random(seed)
        self.seed = seed
        self.workers: list[Worker] = []
        self.clients: list[subprocess.Popen[bytes]] = []
        self.proxy: Proxy | None = None
        self.proxied: list[Worker] = []
        self.faults = 0
        self.exit_codes: list[int | None] = []
        self.deserters: list[int] = []
        self._stewards: list[Steward] = []
        directory.mkdir(parents=True, exist_ok=True)
        os.environ[journal.DIRECTORY] = str(directory)
        self.steward = self.new_steward()

    @property
    def vendor(self) -> str:
        return self.site.vendor

    def environment(self, **more: str) -> dict[str, str]:
        return os.environ | {
            "DJANGO_SETTINGS_MODULE": "tests.faults.settings",
            "DATABASE_URL": self.url,
            "FAULTS_LEASE": str(self.lease),
            "FAULTS_MORE": self._more,
            HABITS: ",".join(self.habits),
            journal.DIRECTORY: str(self.directory),
            **more,
        }

    # Those who take part

    def new_steward(self, **more: str) -> Steward:
        # It reads the same times, and has no other habits: in a pool, every connection of its own
        # would be broken after an outage.
        own = {HABITS: ",".join(set(self.habits) & {"time-zone"}), **more}
        steward = Steward(self.environment(**own), self.directory / "steward.log")
        self._stewards.append(steward)
        return steward

    @cached_property
    def administrator(self) -> Steward:
        """A steward who may do anything to the server."""
        return self.new_steward(DATABASE_URL=self.site.admin_url or self.url)

    def administer(self, *statements: str) -> None:
        """Have it done; an earlier fault may have broken the administrator's connection."""
        with suppress(DatabaseError):
            self.administrator.ask("execute", *statements)
            return
        self.administrator.ask("execute", *statements)

    @cached_property
    def rogues(self) -> list[Steward]:
        """Two who are in the way of the workers, and of each other."""
        return [self.new_steward() for _ in range(2)]

    def start_worker(
        self, *arguments: str, proxied: bool = False, false_clock: bool = False, **more: str
    ) -> Worker:
        """Start a worker; ``proxied`` ones reach the database through the proxy."""
        url = self.proxied_url() if proxied else self._url(len(self.workers))
        environment = self.environment(DATABASE_URL=url, **more)
        if false_clock:
            environment |= self._false_clock()
        worker = Worker(arguments, environment, self.directory / "workers.log")
        self.workers.append(worker)
        if proxied:
            self.proxied.append(worker)
        return worker

    def _false_clock(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": faketime(),
            "FAKETIME_TIMESTAMP_FILE": str(self.directory / "clock"),
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }

    def set_false_clocks(self, offset: str) -> None:
        """Set the clocks of workers with a false one, as "+1h"."""
        # In one piece: they read it at any time.
        (self.directory / "clock.new").write_text(offset)
        (self.directory / "clock.new").rename(self.directory / "clock")

    def _url(self, number: int) -> str:
        return self.site.urls[number % len(self.site.urls)]

    def start_client(self, adds: int, seconds: float, batch: int, *, proxied: bool = False) -> None:
        url = self.proxied_url() if proxied else self._url(len(self.clients))
        environment = self.environment(DATABASE_URL=url)
        number = len(self.clients) + 1
        arguments = {
            "--client": number,
            "--seed": self.seed,
            "--adds": adds,
            "--seconds": seconds,
            "--batch": batch,
        }
        command = [sys.executable, "-m", "tests.faults.client"]
        command += [str(part) for pair in arguments.items() for part in pair]
        with (self.directory / "clients.log").open("ab") as log:
            client = subprocess.Popen(command, cwd=CHECKOUT, env=environment, stderr=log)
        self.clients.append(client)

    def proxied_url(self) -> str:
        """The database's address by way of the proxy, which is started when first asked for."""
        parts = urlsplit(self.url)
        if self.proxy is None:
            self.proxy = Proxy((parts.hostname or "", parts.port or 0), self.random)
            self.proxy.start()
        place = f"{parts.username}:{parts.password}@127.0.0.1:{self.proxy.port}"
        return urlunsplit(parts._replace(netloc=place))

    # What happens to them

    def pause(self, seconds: float) -> None:
        """Let things happen."""
        _never.wait(seconds)

    def between(self, least: float, most: float) -> None:
        """Let things happen for a random while."""
        self.pause(self.random.uniform(least, most))

    def fault(
        self, name: str, since: float, pids: Sequence[int] = (), *, away: bool = False
    ) -> None:
        """Journal what was done: from ``since`` until now.

        ``away``: meanwhile nobody could count on the database. Of other faults the processes
        ``pids`` are the only victims.
        """
        self.faults += 1
        journal.write("fault", name=name, pids=pids, away=away, **{"from": since})

    def close_idle_connections(self) -> None:
        """Have the server do it, as it does after its ``wait_timeout``."""
        with suppress(DatabaseError):
            self.steward.ask("close_idle", 5)

    def wait_for_clients(self) -> None:
        """A fault that comes before the first call would disturb nobody."""
        eventually(
            lambda: self._all_clients_said("-begins"),
            "all clients are at work",
            deadline=SETTLE_SECONDS,
            log=self.log,
        )

    def goes_on(self, rounds: int) -> bool:
        """Tell if there is to be more: faults, until there were enough, or tasks."""
        broken = [client for client in self.clients if client.poll() is not None]
        assert not broken, (self.directory / "clients.log").read_text()[-3000:]
        return self.faults < rounds or not self._all_clients_said("")

    def _all_clients_said(self, what: str) -> bool:
        numbers = range(1, len(self.clients) + 1)
        return all(journal.marker(f"client-{number}{what}").exists() for number in numbers)

    def wait_for_workers(self, count: int) -> None:
        eventually(
            lambda: self._asked("workers") == count,
            f"{count} workers are in the table, not {self._asked('workers')}",
            deadline=SETTLE_SECONDS,
            log=self.log,
        )

    def await_clients(self) -> None:
        """Tell the clients that it is enough, and wait until they have ended."""
        journal.marker("enough").touch()
        for client in self.clients:
            assert client.wait(300) == 0, (self.directory / "clients.log").read_text()[-3000:]

    def settle(self, tasks: int) -> bool:
        """Resume everything and wait until all ``tasks`` are done and the dead are gone."""
        deadline = monotonic() + SETTLE_SECONDS + tasks / SLOWEST_PACE
        while monotonic() < deadline:
            alive = [worker for worker in self.workers if worker.is_running()]
            # Counted each time: a supervisor may be about to replace a child that was killed.
            pids = [pid for worker in alive for pid in worker.pids()]
            if self._asked("settle") == 0 and self._asked("workers") == len(pids):
                return True
            if not alive:
                return False
            self.pause(0.1)
        return False

    def watch_rows(self) -> None:
        """Have somebody look at the rows that are held, until the workers have been stopped."""
        self.new_steward().tell("watch_rows", self.lease / 6)

    def stop_workers(self) -> None:
        """SIGTERM to all. Kept: their exit codes, and the pids of those that had ended before."""
        self.deserters = [
            worker.pid
            for worker in self.workers
            if not worker.is_running() and not worker.was_told_to_end
        ]
        journal.write("stopping")
        for worker in self.workers:
            worker.send(signal.SIGTERM)
        self.exit_codes = [worker.ended_with(30) for worker in self.workers]
        journal.marker("over").touch()

    def read_clock(self) -> tuple[float, float]:
        """The offset of the database's clock from CLOCK_MONOTONIC, and how wrong that may be."""
        before, utc, after = self.steward.ask("clock")
        return utc - (before + after) / 2, (after - before) / 2

    def history(self, clocks: list[tuple[float, float]]) -> History:
        """Everything that was journalled, and what is in the database now."""
        offsets = [offset for offset, _ in clocks]
        middle = (min(offsets) + max(offsets)) / 2
        error = max(error for _, error in clocks) + (max(offsets) - min(offsets)) / 2
        remains = self.steward.ask("remains")
        history = History(
            lease=self.lease,
            clock=Clock(middle, error),
            rows=remains["rows"],
            workers=remains["workers"],
            effects=[((effect[0], effect[1]), *effect[2:]) for effect in remains["effects"]],
            lines={(code, num): count for code, num, count in remains["lines"]},
        )
        return from_records(journal.read(self.directory), history)

    def log(self) -> str:
        """The end of what the workers said."""
        return self.workers_log()[-3000:]

    def workers_log(self) -> str:
        """All that the workers said."""
        path = self.directory / "workers.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def close(self) -> None:
        for worker in self.workers:
            worker.destroy()
        for client in self.clients:
            client.kill()
            client.wait()
        journal.marker("over").touch()
        for steward in self._stewards:
            steward.close()
        if self.proxy is not None:
            self.proxy.stop()
        os.environ.pop(journal.DIRECTORY, None)
        journal.forget()

    def _asked(self, name: str) -> Any:
        try:
            return self.steward.ask(name)
        except DatabaseError:
            return None
