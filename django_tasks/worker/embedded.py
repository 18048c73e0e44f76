"""Workers inside the current process, for programs that have no room for a second one."""

import atexit
from functools import cache
from threading import Lock

from django_tasks import logs, requirements
from django_tasks.exceptions import CannotStart
from django_tasks.handlers import finders, registry
from django_tasks.host import forks
from django_tasks.worker import web_servers
from django_tasks.worker.condition import Condition
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.isolated import child
from django_tasks.worker.worker import Worker, abandon_all, stop_all

# All that have not ended: on one database there may be one at work and others still stopping.
_workers: list[Worker] = []
# What is to be started in the children of this process: see ``surroundings``.
_wanted: list[WorkerConfig] = []
_lock = Lock()


@forks.in_child
def _forget() -> None:
    global _lock
    _lock = Lock()
    _workers.clear()


def start_worker(config: WorkerConfig) -> bool:
    """Start a worker unless one of this process already works on that database; tell if it did.

    Its threads are daemons; what runs when the process exits gets the shutdown timeout to end. In
    a process that is about to fork into those that serve, it is started in each of them instead. In
    one that runs a single claim for a worker there is none.
    """
    if child.is_here:
        return False
    if web_servers.is_before_fork():
        return _start_after_fork(config)
    if refusal := finders.refusal():  # without the lock: a module of the project may call us
        raise CannotStart("\n".join(refusal))
    with _lock:
        _drop_ended()
        if any(each.config.using == config.using and each.is_wanted() for each in _workers):
            return False
        if web_servers.shares_one_thread():
            logs.shares_one_thread(config.using)
        if problem := requirements.memory_problem(config.using):
            logs.unfit_database(config.using, problem)
        if codes := registry.killing(config.codes):
            logs.nothing_is_killed(codes)
        worker = Worker(config)
        _workers.append(worker)
        _stop_at_exit()
        worker.start()
        return True


def databases() -> list[str]:
    """The aliases on which a worker of this process is at work, and not about to stop."""
    with _lock:
        return [each.config.using for each in _workers if each.is_wanted() and each.is_alive()]


def conditions() -> dict[str, Condition]:
    """The condition of the last worker of this process on each database."""
    with _lock:
        return {each.config.using: each.condition() for each in _workers}


def stop_workers(timeout: float | None = None) -> bool:
    """Stop the workers of this process; False if some task still ran after ``timeout`` seconds.

    Such a worker goes on with its heartbeat until that task has ended: nobody else starts it.
    """
    with _lock:
        _wanted.clear()
        workers = list(_workers)
    left = stop_all(workers, timeout)  # without the lock: others may be in more of a hurry
    with _lock:
        _drop_ended()
    return not left


def wait_for_workers() -> None:
    """Sleep until all workers of this process have ended."""
    for worker in list(_workers):
        worker.join()


def _start_after_fork(config: WorkerConfig) -> bool:
    """Have a worker started in each child of this process; tell if that was not known yet."""
    with _lock:
        is_new = all(each.using != config.using for each in _wanted)
        if is_new:
            _wanted.append(config)
    _start_wanted_after_fork()
    return is_new


@cache
def _start_wanted_after_fork() -> None:
    web_servers.call_after_fork(_start_wanted)


def _start_wanted() -> None:
    for config in list(_wanted):
        start_worker(config)


def _drop_ended() -> None:
    _workers[:] = [worker for worker in _workers if worker.is_alive()]


@cache
def _stop_at_exit() -> None:
    atexit.register(_stop_in_time)


def _stop_in_time() -> None:
    """Stop, and say in the database of what still runs at the deadline that this is no death."""
    with _lock:
        workers = list(_workers)
    timeout = max((each.config.shutdown_timeout for each in workers), default=0.0)
    abandon_all(stop_all(workers, timeout))
