"""Workers that are started, killed, stopped and replaced, each in a process of its own."""

import itertools
from collections.abc import Callable

from django_tasks.supervisor.processes import COST, run_process
from django_tasks.worker.config import worker_config
from tests.simulated_cluster import stage
from tests.simulated_cluster.hosts import Host
from tests.simulated_cluster.notes import SUPERVISOR, Notes, end, end_process
from tests.simulated_cluster.threads import sleep

USING = "default"
# The workers of a play. Of two, each may have a long run: then nobody does what both leave.
WORKERS = (10, 10, 10, 2)
# The threads of each; of two workers the most, or they would never be done.
THREADS = (2, 1, 4)
# How long a worker that is told to stop waits for its runs: many of them take longer.
PATIENCE = (20.0, 5.0, 1.0)
# How soon a process that a run has cost is followed by another one; others are in up to a lease.
SOON = 0.5
# How much a second of a host may differ from that of another: what NTP corrects.
DRIFT = 0.0005


class Cluster:
    """Ten places for workers, and the other processes."""

    def __init__(self, lease: float) -> None:
        self._lease = lease
        self._pids = itertools.count(1)
        self._began: dict[int, float] = {}
        self._is_closing = False
        self.hosts: list[Host] = []
        self.worker_seconds = 0.0
        choices = stage.choices
        self._places = choices.pick(WORKERS)
        self.is_large = self._places > min(WORKERS)
        self._wishes = {
            "threads": choices.pick(THREADS) if self.is_large else max(THREADS),
            "poll_interval": choices.pick((5.0, 1.0, 5.0)),
            "batch_size": choices.pick((50, 3)),
            "lease": lease,
            "shutdown_timeout": choices.pick(PATIENCE),
        }

    def run(self, name: str, main: Callable[[], None], *, is_spared: bool = False) -> Host:
        """Start a process that is no worker."""
        host = Host(next(self._pids), name)
        host.is_spared = is_spared
        stage.scheduler.spawn(name, host, main)
        return host

    def start_workers(self) -> None:
        for place in range(self._places):
            self._start(place)

    def _start(self, place: int) -> None:
        choices, pid = stage.choices, next(self._pids)
        boot, rate = choices.between(0.0, 1e6), choices.between(1 - DRIFT, 1 + DRIFT)
        host = Host(pid, f"w{place}-{pid}", boot, rate, is_worker=True)
        host.notes = Notes()
        host.on_exit = lambda code: self._gone(host, place, SOON if code == COST else self._lease)
        self.hosts.append(host)
        self._began[pid] = stage.scheduler.now

        def main() -> None:
            sleep(choices.scale(0.01, 2.0))
            end_process(run_process([worker_config(USING, **self._wishes)], SUPERVISOR))

        stage.scheduler.spawn("main", host, main)

    def _gone(self, host: Host, place: int, longest: float) -> None:
        """A worker has ended: another one takes its place, unless all are to end."""
        self.hosts.remove(host)
        self.worker_seconds += stage.scheduler.now - self._began[host.pid]
        if not self._is_closing:
            self.run("supervisor", lambda: self._replace(place, longest), is_spared=True)

    def _replace(self, place: int, longest: float) -> None:
        sleep(stage.choices.scale(0.1, longest))
        if not self._is_closing:
            self._start(place)

    def threads(self) -> int:
        """The number of threads of workers that nothing keeps from claiming."""
        able = sum(host.is_claiming(stage.scheduler.now) for host in self.hosts)
        return int(self._wishes["threads"]) * able

    def kill(self, host: Host) -> None:
        """SIGKILL: whatever it was about to do does not happen any more."""
        if host.is_dead or host not in self.hosts:
            return
        stage.journal.fault("SIGKILL", stage.scheduler.now, [host.pid])
        end(host)
        self._gone(host, int(host.name[1:].split("-")[0]), self._lease)
        actor = stage.scheduler.current
        if actor is not None and actor.host is host:
            stage.scheduler.park()  # for ever

    def stop(self, host: Host) -> None:
        """SIGTERM; a second one ends it at once."""
        stage.journal.fault("SIGTERM", stage.scheduler.now, [host.pid])
        if host.notes is not None:
            host.notes.signal()

    def is_well(self) -> bool:
        """Tell if no host stands still, or is cut off."""
        return all(host.is_well(stage.scheduler.now) for host in self.hosts)

    def stop_all(self) -> None:
        """Tell all workers to end, and start no others."""
        self._is_closing = True
        stage.journal.write("stopping")
        for host in self.hosts:
            if host.notes is not None:
                host.notes.signal()
