"""Workers that are started, killed, stopped and replaced, each in a process of its own."""

import itertools
from collections.abc import Callable

from django_tasks.worker.config import worker_config
from django_tasks.worker.worker import Worker
from tests.explore import stage
from tests.explore.hosts import Host
from tests.explore.threads import Event, sleep

USING = "default"
# The workers of a play. Of two, each may have a long run: then nobody does what both leave.
WORKERS = (10, 10, 10, 2)
# The threads of each; of two workers the most, or they would never be done.
THREADS = (2, 1, 4)
# How much a second of a host may differ from that of another: what NTP corrects.
DRIFT = 0.0005


class Cluster:
    """Ten places for workers, and the other processes."""

    def __init__(self, lease: float) -> None:
        self._lease = lease
        self._pids = itertools.count(1)
        self._began: dict[int, float] = {}
        self._stops: dict[int, Event] = {}
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
            "shutdown_timeout": 20.0,
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
        self.hosts.append(host)
        stop = self._stops[pid] = Event()
        self._began[pid] = stage.scheduler.now

        def main() -> None:
            sleep(choices.scale(0.01, 2.0))
            worker = Worker(worker_config(USING, **self._wishes))
            worker.start()
            stop.wait()
            worker.stop()
            worker.join()
            if worker.failed:
                stage.journal.write("complaint", text=f"{host.name} has failed")
            self._gone(host, place)

        stage.scheduler.spawn("main", host, main)

    def _gone(self, host: Host, place: int) -> None:
        """A worker has ended: another one takes its place, unless all are to end."""
        self.hosts.remove(host)
        self.worker_seconds += stage.scheduler.now - self._began[host.pid]
        if not self._is_closing:
            self.run("supervisor", lambda: self._replace(place), is_spared=True)

    def _replace(self, place: int) -> None:
        sleep(stage.choices.scale(0.1, self._lease))
        if not self._is_closing:
            self._start(place)

    def threads(self) -> int:
        """The number of threads of workers that nothing keeps from claiming."""
        able = [
            host
            for host in self.hosts
            if host.is_well(stage.scheduler.now) and not self._stops[host.pid].is_set()
        ]
        return int(self._wishes["threads"]) * len(able)

    def kill(self, host: Host) -> None:
        """SIGKILL: whatever it was about to do does not happen any more."""
        if host.is_dead or host not in self.hosts:
            return
        stage.journal.fault("SIGKILL", stage.scheduler.now, [host.pid])
        host.is_dead = True
        stage.database.lose_sessions(host.pid)
        self._gone(host, int(host.name[1:].split("-")[0]))
        actor = stage.scheduler.current
        if actor is not None and actor.host is host:
            stage.scheduler.park()  # for ever

    def stop(self, host: Host) -> None:
        """SIGTERM."""
        stage.journal.fault("SIGTERM", stage.scheduler.now, [host.pid])
        self._stops[host.pid].set()

    def stop_all(self) -> None:
        """Tell all workers to end, and start no others."""
        self._is_closing = True
        stage.journal.write("stopping")
        for host in self.hosts:
            self._stops[host.pid].set()
