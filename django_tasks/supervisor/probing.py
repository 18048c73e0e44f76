"""The questions about ``starttask`` that its flags name, and the process that answers over HTTP."""

import multiprocessing
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from multiprocessing.context import ForkProcess
from pathlib import Path
from types import TracebackType

from django_tasks import logs
from django_tasks.host.clocks import ticks
from django_tasks.host.stop_signals import STOPS, held_back
from django_tasks.probes.answers import Page, Route, Site, health_site, metrics_site
from django_tasks.probes.board import Board
from django_tasks.probes.health import ProbeFacts, facts
from django_tasks.probes.ports import Address, listen_at
from django_tasks.probes.reporter import HealthFile, OwnPulse, Pulse, Teller
from django_tasks.probes.server import Server
from django_tasks.supervisor.recycling import next_delay
from django_tasks.worker.config import WorkerConfig


@dataclass(frozen=True, slots=True)
class ProbeFlags:
    """The wishes of the flags. ``page`` makes the metrics, in the HTTP process only."""

    health_file: Path | None = None
    health_port: Address | None = None
    metrics_port: Address | None = None
    page: Page | None = None

    @property
    def are_for_http(self) -> bool:
        """Tell if there is a port: then there must be a supervisor."""
        return self.health_port is not None or self.metrics_port is not None


class CannotProbe(Exception):
    """A flag that cannot be fulfilled, and why."""

    def __init__(self, flag: str, error: OSError) -> None:
        super().__init__(flag, error)
        self.flag = flag
        self.error = error


@dataclass(eq=False)
class Probes(AbstractContextManager["Probes"]):
    """The wishes, with the ports that are bound for them. Made before anything starts."""

    wishes: ProbeFlags = field(default_factory=ProbeFlags)
    _listeners: dict[Address, list[socket.socket]] = field(default_factory=dict)

    @classmethod
    def opened(cls, wishes: ProbeFlags) -> "Probes":
        """Bind the ports and try the file. Raises CannotProbe."""
        probes = cls(wishes)
        flag = f"--health-file {wishes.health_file}"
        try:
            if wishes.health_file is not None:
                HealthFile(wishes.health_file).try_out()
            for name, address in probes._addresses().items():
                flag = f"--{name} {address}"
                if address not in probes._listeners:
                    probes._listeners[address] = listen_at(address)
        except OSError as error:
            probes.close_ports()
            raise CannotProbe(flag, error) from error
        return probes

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close_ports()

    def close_ports(self) -> None:
        """Let go of them in this process. Others that have them from a fork keep them."""
        for listener in [each for listeners in self._listeners.values() for each in listeners]:
            listener.close()
        self._listeners.clear()

    def teller(self, board: Board, configs: Sequence[WorkerConfig]) -> Teller:
        """Tells to the file and to systemd."""
        path = self.wishes.health_file
        return Teller(board, facts_about(configs), HealthFile(path) if path else None)

    def own_pulse(self, configs: Sequence[WorkerConfig]) -> Pulse:
        """The pulse of a process that has no supervisor."""
        board = Board(1, len(configs))
        return OwnPulse(board.processes[0], self.teller(board, configs))

    def sites(self, board: Board, facts: ProbeFacts) -> dict[socket.socket, Site]:
        """The answers at each listener."""
        sites: dict[socket.socket, Site] = {}
        health, metrics = self.wishes.health_port, self.wishes.metrics_port
        for address, listeners in self._listeners.items():
            site: dict[str, Route] = {}
            if address == health:
                site |= health_site(board, facts)
            if address == metrics and self.wishes.page is not None:
                site |= metrics_site(self.wishes.page)
            sites |= dict.fromkeys(listeners, site)
        return sites

    def places(self) -> str:
        """The flags and their addresses, for people."""
        return ", ".join(f"--{name} {address}" for name, address in self._addresses().items())

    def _addresses(self) -> Mapping[str, Address]:
        ports = {"health-port": self.wishes.health_port, "metrics-port": self.wishes.metrics_port}
        return {name: address for name, address in ports.items() if address is not None}


def facts_about(configs: Sequence[WorkerConfig]) -> ProbeFacts:
    """The facts about the workers of each process."""
    return facts([each.using for each in configs], max(each.lease for each in configs))


class Answering:
    """The child process that answers over HTTP, and each that takes its place.

    Apart from the supervisor, which forks: a thread of a server could hold a lock at that moment.
    It ends when its parent is gone, or by SIGKILL: it has nothing to lose, and answers to the last.
    """

    def __init__(
        self, sites: Mapping[socket.socket, Site], before_fork: Callable[[], None]
    ) -> None:
        self._sites = sites
        self._before_fork = before_fork
        self._process: ForkProcess | None = None
        self._started = 0.0
        self._start_at: float | None = None
        self._delay = 0.0

    def start(self) -> None:
        if not self._sites:
            return
        self._before_fork()
        context = multiprocessing.get_context("fork")
        process = context.Process(
            target=_answer, args=(self._sites, os.getpid()), name="starttask-probes"
        )
        with held_back():
            process.start()
        self._process = process
        self._started, self._start_at = ticks(), None

    def watch(self) -> None:
        """Replace the process if it has died, after a while if it does so again and again."""
        process = self._process
        if process is None or process.is_alive():
            return
        if self._start_at is None:
            self._delay = next_delay(self._delay, ticks() - self._started)
            self._start_at = ticks() + self._delay
            logs.probes_ended(process.pid or 0, process.exitcode, self._delay)
        if ticks() >= self._start_at:
            try:
                self.start()
            except OSError as error:
                self._delay = next_delay(self._delay, 0.0)
                self._start_at = ticks() + self._delay
                logs.process_not_started("starttask-probes", error, self._delay)

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()


def _answer(sites: Mapping[socket.socket, Site], parent: int) -> None:
    logs.send_through(None)
    # A signal to the whole group stops the workers; until they have ended there is something to
    # tell.
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)
    Server(sites).run(lambda: os.getppid() == parent)
    os._exit(0)
