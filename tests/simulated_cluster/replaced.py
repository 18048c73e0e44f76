"""Puts simulated clocks, threads and connections into the modules of the product and the suite.

They reach these through names of their own modules, so the names are changed, and nothing else of
Python is. ``before_setup`` comes before the product is imported: some defaults of its functions are
clocks.
"""

import random
import sys
import threading
import time
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

from tests.simulated_cluster import hosts, left, notes, stage, threads

PACKAGES = ("django_tasks", "tests.faults")
PLAYED = (
    *("django_tasks.api", "django_tasks.worker.worker", "django_tasks.supervisor.processes"),
    "tests.faults.broken",
    *("tests.faults.client", "tests.faults.handlers", "tests.faults.steward"),
    "tests.simulated_cluster.handlers",
)


def _now() -> float:
    return stage.scheduler.now


THREADING = SimpleNamespace(
    Thread=threads.Thread,
    Event=threads.Event,
    Condition=threads.Condition,
    Lock=threads.Lock,
    local=threads.Local,
    Timer=threads.Timer,
    current_thread=threads.current_thread,
    get_ident=threads.get_ident,
)
_LOCK = type(threading.Lock())
_NEW: tuple[tuple[Any, Any], ...] = (
    (threading, THREADING),
    (threading.Thread, threads.Thread),
    (threading.Event, threads.Event),
    (threading.Condition, threads.Condition),
    (threading.Lock, threads.Lock),
    (threading.get_ident, threads.get_ident),
    (time.sleep, threads.sleep),
    (time.monotonic, _now),
    (time.time, _now),
)


def before_setup() -> None:
    """Replace the host's clocks where they are defined."""
    from django.utils import timezone

    from django_tasks.host import clocks

    _set(clocks, "ticks", hosts.ticks)
    _set(clocks, "utc_now", hosts.utc_now)
    _set(timezone, "now", hosts.utc_now)


def after_setup() -> None:
    """Replace the rest where it is used."""
    _import_all()
    for name, module in sorted(sys.modules.items()):
        if name.startswith(PACKAGES):
            _replace_in(module)
    _replace_globals()
    _replace_journal()


def _import_all() -> None:
    """Import what is played; a module that comes later would have real threads."""
    for name in PLAYED:
        import_module(name)


def _replace_in(module: ModuleType) -> None:
    for name, value in list(vars(module).items()):
        for old, new in _NEW:
            if value is old:
                setattr(module, name, new)
        if type(value) is threading.Event:
            setattr(module, name, threads.Event())
        if type(value) is _LOCK:
            setattr(module, name, threads.Lock())


def _replace_globals() -> None:
    """Give each simulated process a copy of the state that modules keep for theirs."""
    from django.db import connections
    from django.db.backends.base import base

    from django_tasks.logs import lines
    from django_tasks.store import clock, ownership, workers
    from django_tasks.wakeup import doorbell, local, wake
    from django_tasks.worker import (
        config,
        execution,
        heartbeat,
        membership,
        pruner,
        timeouts,
        worker,
    )
    from tests.simulated_cluster import doors, manners

    _set(connections, "_connections", threads.Local())
    # The age of a connection decides whether it is closed after a run.
    _set(base, "time", SimpleNamespace(monotonic=_now))
    _set(lines, "_outlet", threads.Local(post=None))
    _set(clock, "_readings", hosts.PerHost("readings"))
    _set(wake, "_doors", hosts.PerHost("doors"))
    _set(local, "_listeners", hosts.PerHost("listeners"))
    # In the digest of a play stands each value that a statement has.
    _set(membership, "resident_memory", lambda: 50_000_000)
    process = SimpleNamespace(getpid=hosts.getpid)
    _set(config, "os", process)
    _set(workers, "os", process)
    _set(config, "secrets", SimpleNamespace(token_hex=lambda size: "0" * size))
    _set(timeouts, "SimpleQueue", threads.SimpleQueue)
    _set(worker, "ListenerThread", doors.Listener)
    _set(doorbell, "_send", doors.send)
    _set(heartbeat, "has_one_writer", lambda using: not stage.is_optimistic)
    _set(execution, "run_apart", _no_process)
    _set(ownership, "_hand_over_joined", manners.hand_over_joined)
    # The fault suite's are a second, the product's ten minutes and two.
    _set(pruner, "INTERVAL", 60.0)
    _set(pruner, "WORKERS_INTERVAL", 60.0)
    _replace_interrupts()
    _replace_process()


def _replace_interrupts() -> None:
    from django_tasks.host import interrupts

    _set(interrupts, "are_possible", lambda: True)
    own = {"interrupt": None, "is_fork_guarded": False, "kept": None}
    _set(interrupts, "_thread", threads.Local(**own))
    _set(interrupts, "_leave_with", left.leave_with)
    _set(interrupts, "_take_back", left.take_back)


def _replace_process() -> None:
    """Replace what the main function of a worker's process asks of the operating system."""
    from django_tasks import logs
    from django_tasks.supervisor import processes

    _set(processes, "Notes", notes.Notes)
    _set(processes, "os", notes.PROCESS)
    _set(processes, "logging", SimpleNamespace(shutdown=lambda: None))
    # Whatever there is to be seen at a glance wakes the main thread as well.
    _set(processes, "GLANCE_SECONDS", 60.0)
    _set(processes, "STOPPING_GLANCE_SECONDS", 1.0)
    text = "a worker has ended by an error"
    _set(logs, "worker_failed", lambda using: stage.journal.write("complaint", text=text))


def _replace_journal() -> None:
    from django_tasks.signals import task_missed
    from tests.faults import journal, watching

    _set(journal, "write", lambda kind, **facts: stage.journal.write(kind, **facts))
    _set(journal, "unique", lambda: stage.journal.unique())
    _set(watching, "moment", lambda ticks: hosts.current().host.simulated(ticks))
    task_missed.connect(_missed, dispatch_uid="tests.simulated_cluster")


def _no_process(claimed: Any, *args: Any, **kwargs: Any) -> Any:
    """A host that has no room for another process: a suspect runs in the worker."""
    from django_tasks.worker.isolated.parent import NoProcess

    stage.journal.met["suspects run"] += 1
    raise NoProcess("simulated")


def _missed(*, task: Any, action: str, **_: Any) -> None:
    when = task.when.timestamp()
    stage.journal.write("missed", id=task.id, when=when, action=action, text=str(task))


def _set(owner: Any, name: str, value: Any) -> None:
    assert hasattr(owner, name), name
    setattr(owner, name, value)


def seed_everything(seed: int) -> None:
    """The product's own chance: its jitter and its lots."""
    random.seed(seed)
