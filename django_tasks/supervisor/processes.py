"""The processes of ``starttask``: one with its workers, or children that are watched."""

import logging
import multiprocessing
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from logging.handlers import QueueHandler
from multiprocessing.context import ForkProcess
from queue import Queue, SimpleQueue

from django.db import connections

from django_tasks import logs
from django_tasks.handlers.companions import take_leave
from django_tasks.host.clocks import ticks
from django_tasks.host.stop_signals import Notes, held_back
from django_tasks.logs.patient import PatientLog, patiently
from django_tasks.probes.board import Board, Slot
from django_tasks.probes.reporter import ChildPulse, Pulse, Teller
from django_tasks.store.dialects import has_one_writer
from django_tasks.supervisor.probing import Answering, Probes, facts_about
from django_tasks.supervisor.recycling import Recycling, next_delay
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.web_servers import shares_one_thread
from django_tasks.worker.worker import Worker, abandon_all, stop_all

# How often the main thread looks up: whether its workers have ended by themselves, and whether
# its supervisor is still there.
GLANCE_SECONDS = 0.5
STOPPING_GLANCE_SECONDS = 0.05

NO_RECYCLING = Recycling()
NO_PULSE = Pulse()
NO_PROBES = Probes()

# The exit code of a child that a run without end has cost: another one takes its place at once.
COST = 75
# That of a child whose workers were all asked to stop, by their rows: no other one takes its place.
ASKED = 76
# That of a child whose database has rejected a statement of ours: another one would fare no better.
REJECTED = 77

# How much longer than its children's deadline a supervisor waits for them, and how long for those
# that were told to end at once.
PATIENCE_SECONDS = 5.0
LAST_WORDS_SECONDS = 3.0

UNREAD = (
    "The log of this process goes into a queue that nobody reads, for the thread of its"
    " QueueListener did not survive the fork: start one in each child, with"
    " os.register_at_fork(after_in_child=...), or run starttask with --processes 1.\n"
)


@patiently
def run_process(
    configs: Sequence[WorkerConfig],
    parent: int | None = None,
    recycling: Recycling = NO_RECYCLING,
    pulse: Pulse = NO_PULSE,
) -> int:
    """Run a worker for each config in this process until a signal; returns the exit code.

    0: everything ended in order, even if not all receivers have heard of it, or all workers were
    asked to stop and did, however long it took. 1: something still ran at the deadline, or a second
    signal came, or a worker ended by an error, or its database rejects a statement of ours; then
    the others are stopped as by a signal. ``parent`` is the supervisor's process id: this process
    stops when that is gone, and ends with ``COST`` for a run past its ``kill_after``, with
    ``REJECTED`` for a statement, and with ``ASKED`` if its workers were asked to stop, whatever
    becomes of their runs. At a limit of ``recycling`` it claims no more, and ends when what runs
    has ended. Its ``pulse`` beats at each glance. A log handler that hangs hides no signal from it.
    """
    began = ticks()
    with Notes.taken(is_child=parent is not None) as notes:
        workers = _started(configs, notes, is_child=parent is not None)
        while any(worker.is_alive() for worker in workers) and not _are_to_end(workers):
            pulse.beat(workers)
            if notes.wait(GLANCE_SECONDS):
                break
            if parent is not None and os.getppid() != parent:
                logs.supervisor_died()
                break
            if reached := recycling.reached(sum(worker.runs() for worker in workers)):
                recycling = _retire(workers, reached)
        with _ending_in_time(workers):
            for worker in workers:
                worker.stop()
            for worker in workers:
                if worker.failed:
                    logs.worker_failed(worker.config.using)
            is_child = parent is not None
            code = _stop(workers, notes, pulse, is_child=is_child)
            for worker in workers:
                logs.total(worker.config.using, worker.runs(), ticks() - began)
            if any(worker.is_condemned for worker in workers):
                _end_at_once(pulse, _code(workers, COST, is_child=is_child))
            take_leave()
            pulse.close()
            return _code(workers, 1 if _are_broken(workers) else code, is_child=is_child)


@patiently
def run_processes(
    configs: Sequence[WorkerConfig],
    count: int,
    recycling: Recycling = NO_RECYCLING,
    probes: Probes = NO_PROBES,
) -> int:
    """Watch ``count`` child processes that run ``configs``; returns the exit code.

    One more answers over HTTP, if ``probes`` want it. A log handler that hangs holds up neither a
    successor nor the end.
    """
    board = Board(count, len(configs))
    teller = probes.teller(board, configs)
    answering = Answering(probes.sites(board, facts_about(configs)), _close_connections)
    children = [
        Child(number, configs, recycling, line, probes)
        for number, line in enumerate(board.processes, 1)
    ]
    with Notes.taken() as notes:
        try:
            answering.start()
            for child in children:
                child.start()
            teller.look()
            while not notes.wait(GLANCE_SECONDS):
                for child in children:
                    child.watch()
                answering.watch()
                teller.look()
                if any(child.is_rejected for child in children):
                    break  # no child would fare better
                if all(child.has_finished for child in children):
                    return 0
            patience = max(each.shutdown_timeout for each in configs)
            return _stop_children(children, notes, patience, teller)
        finally:
            answering.end()
            teller.close()


def _started(configs: Sequence[WorkerConfig], notes: Notes, *, is_child: bool) -> list[Worker]:
    if shares_one_thread():
        logs.shares_one_thread(configs[0].using)
    kill = notes.wake if is_child else None
    several = len(configs) > 1
    workers = [
        Worker(config, ended=notes.wake, kill=kill, has_neighbours=several) for config in configs
    ]
    for worker in workers:
        worker.start()
    return workers


def _are_broken(workers: list[Worker]) -> bool:
    return any(worker.failed or worker.is_rejected for worker in workers)


def _code(workers: list[Worker], code: int, *, is_child: bool) -> int:
    """The exit code: ``code``, unless a supervisor is to hear that nobody wants another process, or
    that it would fare no better.

    Race: a child ends, for another reason or by a crash, before it has read the wish. Then it is
    replaced, and the new worker must be asked.
    """
    if is_child and all(worker.was_asked_to_stop() for worker in workers):
        return ASKED
    return REJECTED if is_child and any(worker.is_rejected for worker in workers) else code


def _are_to_end(workers: list[Worker]) -> bool:
    return _are_broken(workers) or any(worker.is_condemned for worker in workers)


def _retire(workers: list[Worker], reached: str) -> Recycling:
    for worker in workers:
        worker.stop()
    logs.retiring(reached)
    return NO_RECYCLING


@contextmanager
def _ending_in_time(workers: list[Worker]) -> Iterator[None]:
    """End this process soon after its deadline, in order, whatever its main thread is doing."""

    def end() -> None:
        try:
            abandon_all(workers)
        finally:
            os._exit(1)

    patience = max(worker.config.shutdown_timeout for worker in workers)
    guard = threading.Timer(patience + LAST_WORDS_SECONDS, end)
    guard.daemon = True
    guard.start()
    try:
        yield
    finally:
        guard.cancel()


def _stop(
    workers: list[Worker], notes: Notes, pulse: Pulse = NO_PULSE, *, is_child: bool = False
) -> int:
    patience = max(worker.config.shutdown_timeout for worker in workers)
    deadline = ticks() + patience
    for worker in workers:
        if keys := worker.running():
            logs.stopping(worker.config.using, keys, patience)
    while any(worker.is_alive() for worker in workers) and ticks() < deadline:
        pulse.beat(workers, is_stopping=True)
        # The first one may come now, where something else has begun this stop.
        if notes.wait(STOPPING_GLANCE_SECONDS) and notes.is_second:
            keys = [key for worker in workers for key in worker.running()]
            abandon_all(workers)
            logs.second_signal(keys)
            return _end_at_once(pulse, _code(workers, 1, is_child=is_child))
    left = stop_all(workers, timeout=0)
    in_order = [worker for worker in left if worker.has_signed_off()]
    is_bad = left != in_order or _are_broken(workers)
    code = COST if any(worker.is_condemned for worker in workers) else int(is_bad)
    running = [worker.running() for worker in left]
    abandon_all(left)
    for worker, keys in zip(left, running, strict=True):
        if worker in in_order or (worker.is_condemned and not keys):
            logs.receivers_unheard(worker.config.using)
        else:
            logs.abandoned(worker.config.using, keys)
    return _end_at_once(pulse, _code(workers, code, is_child=is_child)) if left else 0


def _end_at_once(pulse: Pulse, code: int) -> int:
    """End without waiting for threads. The rows that are still owned will be rescued."""
    take_leave()
    pulse.close()
    PatientLog().post(logging.shutdown)  # a handler that hangs may hold its lock
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # its reader has gone, or it is closed
            if stream is not None:
                stream.flush()
    os._exit(code)


def fitting_processes(aliases: Iterable[str]) -> int:
    """The number of processes that are worth their memory where nobody has said one.

    Measured (docs/understand/benchmarks.rst): two drain a server's queue 1.5 to 1.8 times as fast
    as one; more gain little, unless handlers compute. Writers of SQLite wait for each other.
    """
    if any(has_one_writer(alias) for alias in aliases):
        return 1
    return min(2, os.cpu_count() or 1)


@dataclass
class Child:
    """A child process, and each that takes its place."""

    number: int
    configs: Sequence[WorkerConfig]
    recycling: Recycling = NO_RECYCLING
    line: Slot = field(default_factory=lambda: Board(1, 1).processes[0])
    probes: Probes = NO_PROBES
    has_finished: bool = False
    is_rejected: bool = False
    _process: ForkProcess | None = None
    _started: float = 0.0
    _start_at: float | None = None
    _delay: float = 0.0

    def start(self) -> None:
        """Start a process. Raises OSError where the system has none left."""
        _close_connections()
        self.line.expect()
        context = multiprocessing.get_context("fork")
        process = context.Process(
            target=_child_main,
            args=(self.configs, os.getpid(), self.recycling, self.line, self.probes),
            name=f"starttask-{self.number}",
        )
        with held_back():
            process.start()
        self._process = process
        self._started = ticks()
        self._start_at = None

    def watch(self) -> None:
        """Replace the process if it has died, after a while if it does so again and again."""
        process = self._process
        if self.has_finished or process is None or process.is_alive():
            return
        self.line.leave()
        if process.exitcode == ASKED:
            logs.not_replaced(self.number, process.pid or 0)
            self.has_finished = True
        elif process.exitcode == REJECTED:
            self.has_finished = self.is_rejected = True
        elif process.exitcode == 0 and self._ends_by_itself():
            self.has_finished = True
        else:
            if self._start_at is None:
                is_normal = process.exitcode == 0 and self.recycling
                at_once = is_normal or process.exitcode == COST
                self._start_at = ticks() + (0.0 if at_once else self._plan(process))
            if ticks() >= self._start_at:
                self._start_again()

    def _start_again(self) -> None:
        try:
            self.start()
        except OSError as error:  # no process or no memory is left for now
            self._delay = next_delay(self._delay, 0.0)
            self._start_at = ticks() + self._delay
            logs.process_not_started(f"starttask-{self.number}", error, self._delay)

    def _ends_by_itself(self) -> bool:
        return any(each.until_empty or each.max_tasks is not None for each in self.configs)

    def is_alive(self) -> bool:
        return self._process is not None and self._process.is_alive()

    def terminate(self) -> None:
        if self._process is not None and self.is_alive():
            self._process.terminate()

    def kill(self) -> None:
        if self._process is not None and self.is_alive():
            self._process.kill()

    def exit_code(self) -> int:
        code = 0 if self._process is None else self._process.exitcode or 0
        return 0 if code == ASKED else code

    def _plan(self, process: ForkProcess) -> float:
        self._delay = next_delay(self._delay, ticks() - self._started)
        logs.child_ended(self.number, process.pid or 0, process.exitcode, self._delay)
        return self._delay


def _close_connections() -> None:
    """Before a fork: a connection that two processes share is a broken one."""
    for connection in connections.all(initialized_only=True):
        connection.close()
        if hasattr(connection, "close_pool"):
            connection.close_pool()  # PostgreSQL's has threads, which a fork does not copy


def _child_main(
    configs: Sequence[WorkerConfig], parent: int, recycling: Recycling, line: Slot, probes: Probes
) -> None:
    logs.send_through(None)
    # It may outlive its supervisor, whose ports are to be free then.
    probes.close_ports()
    if _is_log_unread(logs.logger.name):
        sys.stderr.write(UNREAD)
    sys.exit(run_process(configs, parent, recycling, ChildPulse(line)))


def _stop_children(children: list[Child], notes: Notes, timeout: float, teller: Teller) -> int:
    """Pass the signal on; children have their own deadline, ours is a little later."""
    _terminate(children)
    deadline = ticks() + timeout + PATIENCE_SECONDS
    while _living(children) and ticks() < deadline:
        teller.look(is_stopping=True)
        if notes.wait(STOPPING_GLANCE_SECONDS) and notes.is_second:
            _terminate(children)
            # They say what they leave behind.
            deadline = min(deadline, ticks() + LAST_WORDS_SECONDS)
            logs.second_signal([])
    clean = not _living(children)
    for child in children:
        child.kill()
    return 0 if clean and not any(child.exit_code() for child in children) else 1


def _terminate(children: list[Child]) -> None:
    for child in children:
        child.terminate()


def _living(children: list[Child]) -> list[Child]:
    return [child for child in children if child.is_alive()]


def _is_log_unread(name: str) -> bool:
    """Tell if records of the logger ``name`` pile up in the memory of this process, unread.

    They go through a queue to a thread of the project's, which a fork does not copy.
    To be asked in the child of a fork before it starts threads: as long as there is only one,
    nobody reads a queue.
    """
    return threading.active_count() == 1 and any(map(_is_queue, _handlers(name)))


def _is_queue(handler: logging.Handler) -> bool:
    # A queue of multiprocessing's is read in another process.
    return isinstance(handler, QueueHandler) and isinstance(handler.queue, Queue | SimpleQueue)


def _handlers(name: str) -> list[logging.Handler]:
    found: list[logging.Handler] = []
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        found += logger.handlers
        logger = logger.parent if logger.propagate else None
    return found
