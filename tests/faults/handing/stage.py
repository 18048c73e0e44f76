"""One play: our workers, a broker, Celery's workers, a client, and the faults in between."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from devtools import CHECKOUT
from devtools.servers.command import servers
from tests.faults import journal
from tests.faults.databases import Site
from tests.faults.handing.judging import Arrivals, arrivals
from tests.faults.processes import Worker
from tests.faults.stage import Size
from tests.faults.verdicts import Accusation, defects
from tests.faults.world import World
from tests.leader import Leader
from tests.proxy import Proxy
from tests.waiting import eventually

BROKER = "rabbitmq"
SETTINGS = "tests.faults.handing.settings"
SETTLE_SECONDS = 60.0
CELERY_WORKERS = 2
# Each add is one message and no more: many are needed for one to be under way at a fault.
LEAST_ADDS, ADDS_A_SECOND = 3000, 500
# Messages that Celery's workers take in a second on two cores, at the very least.
SLOWEST_PACE = 300


class Stage:
    """Everybody who takes part. Faults act on it; ``close`` leaves nothing behind."""

    def __init__(self, site: Site, url: str, directory: Path, seed: int, size: Size) -> None:
        parts = urlsplit(url)
        self.world = World(site, directory, seed=seed, lease=size.lease)
        self.random = Random(seed)
        self.size = size
        self.celery: list[Leader] = []
        self._numbers = count(1)
        self.adds = max(size.tasks, LEAST_ADDS)
        self.faults = 0
        self._url = url
        self._queue = f"handed-{directory.name}"
        self._proxy = Proxy((parts.hostname or "", parts.port or 0), self.random)
        self._proxy.start()
        self._client: Leader | None = None

    # Those who take part

    def start_worker(self) -> Worker:
        """Start a worker of ours, which reaches the broker by way of the proxy."""
        parts = urlsplit(self._url)
        place = f"{parts.username}:{parts.password}@127.0.0.1:{self._proxy.port}"
        url = urlunsplit(parts._replace(netloc=place))
        return self.world.start_worker(
            "--threads",
            str(self.size.threads),
            DJANGO_SETTINGS_MODULE=SETTINGS,
            HANDED_BROKER=url,
            HANDED_QUEUE=self._queue,
        )

    def start_celery(self) -> Leader:
        """Start a worker of Celery with two processes."""
        # Its queue for commands, by this name, is locked for a while after it was killed.
        name = f"celery-{next(self._numbers)}"
        app = ["-A", "tests.faults.handing.engine:app", "worker", "-n", f"{name}@localhost"]
        plain = ["--concurrency=2", "--loglevel=WARNING", "--without-gossip", "--without-mingle"]
        environment = self.world.environment(HANDED_BROKER=self._url, HANDED_QUEUE=self._queue)
        # It is another program, which has no Django; with settings, Celery would look for one.
        del environment["DJANGO_SETTINGS_MODULE"]
        command = [sys.executable, "-m", "celery", *app, *plain]
        worker = self._started(command, environment, "celery.log")
        self.celery.append(worker)
        return worker

    def _started(self, command: list[str], environment: dict[str, str], log: str) -> Leader:
        with (self.world.directory / log).open("ab") as output:
            return Leader(command, cwd=CHECKOUT, env=environment, stdout=output, stderr=output)

    def _start_client(self) -> Leader:
        facts: dict[str, Any] = {
            "--seed": self.world.seed,
            "--adds": self.adds,
            "--seconds": self.adds / ADDS_A_SECOND,
        }
        words = [str(word) for pair in facts.items() for word in pair]
        client = [sys.executable, "-m", "tests.faults.handing.client", *words]
        environment = self.world.environment(DJANGO_SETTINGS_MODULE=SETTINGS)
        return self._started(client, environment, "client.log")

    # What happens to them

    def restart_broker(self, down: float = 0.0) -> None:
        """SIGKILL the broker, and start it again after so many seconds."""
        servers("kill", BROKER)
        self.world.pause(down)
        servers("start", BROKER)

    def cut_connections(self) -> None:
        """Cut all connections between our workers and the broker."""
        self._proxy.reset()

    def stall_connections(self, seconds: float) -> None:
        """Let nothing through between our workers and the broker, and leave both ends open."""
        self._proxy.stall()
        self.world.pause(seconds)
        self._proxy.heal()

    def kill_celery(self) -> None:
        """SIGKILL a worker of Celery with its processes; another one starts."""
        self.celery.pop(self.random.randrange(len(self.celery))).end()
        self.start_celery()

    def mend_celery(self) -> None:
        """Replace workers of Celery that have ended by themselves, as systemd would: an unlucky
        restart of the broker ends one."""
        for worker in [worker for worker in self.celery if not worker.is_running()]:
            worker.end()
            self.celery.remove(worker)
            self.start_celery()

    # The play

    def open(self) -> None:
        self.world.steward.ask("prepare")
        for _ in range(self.size.workers):
            self.start_worker()
        for _ in range(CELERY_WORKERS):
            self.start_celery()
        self.world.wait_for_workers(self.size.workers)
        self._client = self._start_client()

    def goes_on(self, rounds: int) -> bool:
        """Tell if there is to be more: faults, until there were enough, or tasks."""
        assert self._client is not None
        assert self._client.code in (None, 0), self._said("client.log")
        self.mend_celery()
        return self.faults < rounds or not journal.marker("added").exists()

    def settle(self) -> Iterator[Accusation]:
        """Wait until all is handed over, and all of that has arrived."""
        if not self.world.settle(self.adds):
            yield Accusation("stuck", "Not everything was handed over in time")
        deadline = SETTLE_SECONDS + self.adds / SLOWEST_PACE
        with suppress(AssertionError):  # what has not arrived is told of as lost
            eventually(self._has_all_arrived, "all has arrived", deadline=deadline)
        self.world.stop_workers()
        yield from defects(self.world.workers_log())

    def _has_all_arrived(self) -> bool:
        self.mend_celery()
        return not self.found().missing()

    def found(self) -> Arrivals:
        return arrivals(journal.read(self.world.directory))

    def _said(self, log: str) -> str:
        return (self.world.directory / log).read_text(errors="replace")[-3000:]

    def close(self) -> None:
        for process in [*self.celery, *filter(None, [self._client])]:
            process.end()
        self.world.close()
        self._proxy.stop()
