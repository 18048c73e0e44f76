"""The public face of the package: everything that other code calls.

Import it where models may be imported, not in a settings file or an app's ``__init__``.
"""

from typing import Any

from django_tasks import requirements
from django_tasks.client.adding import aadd_task, aadd_tasks, add_task, add_tasks
from django_tasks.client.control import (
    acancel_task,
    adelete_tasks,
    apause_task,
    arequeue_task,
    areschedule_task,
    aresume_task,
    arun_task_now,
    aupdate_task,
    cancel_task,
    delete_tasks,
    pause_task,
    requeue_task,
    reschedule_task,
    resume_task,
    run_task_now,
    update_task,
)
from django_tasks.client.many import (
    acancel_tasks,
    amove_tasks,
    apause,
    arequeue_tasks,
    aresume,
    cancel_tasks,
    find_tasks,
    move_tasks,
    pause,
    requeue_tasks,
    resume,
)
from django_tasks.client.operating import (
    aask_worker,
    alimits,
    aset_limits,
    ask_worker,
    limits,
    set_limits,
)
from django_tasks.client.pauses import (
    apause_tasks,
    apaused,
    aresume_tasks,
    pause_tasks,
    paused,
    resume_tasks,
)
from django_tasks.client.queries import (
    aget_active,
    aget_runs,
    aget_task,
    aget_tasks_by_code,
    get_active,
    get_runs,
    get_task,
    get_tasks_by_code,
)
from django_tasks.exceptions import (
    CannotStart,
    ClaimLost,
    DirectWrite,
    HandlerError,
    LockInTransaction,
    LockLost,
    LockTaken,
    RetryLater,
    TaskException,
    TaskExists,
    TaskTimeout,
    TaskTypeError,
    TaskValueError,
    UnknownDatabase,
)
from django_tasks.handlers.base import Finished, Stop, TaskHandler, task_handler
from django_tasks.handlers.current import current_task
from django_tasks.handlers.registry import get_task_handlers, register_task_handler
from django_tasks.handlers.running_task import PassiveTask, RunningTask
from django_tasks.handover.handler import HandOver
from django_tasks.host.clocks import ticks
from django_tasks.locks.held import Held
from django_tasks.locks.locking import aget_lock, alock, get_lock, lock
from django_tasks.locks.rows import LockState
from django_tasks.models import Pause, Task, TaskRun
from django_tasks.probes.health import Health, judge_here
from django_tasks.store.aliases import write_alias
from django_tasks.store.control import CancelResult
from django_tasks.values.conflicts import OnConflict
from django_tasks.values.options import TaskOptions
from django_tasks.values.status import Status, WorkerWish
from django_tasks.worker import embedded
from django_tasks.worker.config import worker_config

__all__ = [
    "CancelResult",
    "CannotStart",
    "ClaimLost",
    "DirectWrite",
    "Finished",
    "HandOver",
    "HandlerError",
    "Health",
    "Held",
    "LockInTransaction",
    "LockLost",
    "LockState",
    "LockTaken",
    "OnConflict",
    "PassiveTask",
    "Pause",
    "RetryLater",
    "RunningTask",
    "Status",
    "Stop",
    "Task",
    "TaskException",
    "TaskExists",
    "TaskHandler",
    "TaskOptions",
    "TaskRun",
    "TaskTimeout",
    "TaskTypeError",
    "TaskValueError",
    "UnknownDatabase",
    "WorkerWish",
    "aadd_task",
    "aadd_tasks",
    "aask_worker",
    "acancel_task",
    "acancel_tasks",
    "add_task",
    "add_tasks",
    "adelete_tasks",
    "aget_active",
    "aget_lock",
    "aget_runs",
    "aget_task",
    "aget_tasks_by_code",
    "alimits",
    "alock",
    "amove_tasks",
    "apause",
    "apause_task",
    "apause_tasks",
    "apaused",
    "arequeue_task",
    "arequeue_tasks",
    "areschedule_task",
    "aresume",
    "aresume_task",
    "aresume_tasks",
    "arun_task_now",
    "aset_limits",
    "ask_worker",
    "aupdate_task",
    "cancel_task",
    "cancel_tasks",
    "current_task",
    "delete_tasks",
    "find_tasks",
    "get_active",
    "get_lock",
    "get_runs",
    "get_task",
    "get_task_handlers",
    "get_tasks_by_code",
    "health",
    "limits",
    "lock",
    "move_tasks",
    "pause",
    "pause_task",
    "pause_tasks",
    "paused",
    "register_task_handler",
    "requeue_task",
    "requeue_tasks",
    "reschedule_task",
    "resume",
    "resume_task",
    "resume_tasks",
    "run_task_now",
    "running",
    "set_limits",
    "shutdown",
    "start",
    "task_handler",
    "update_task",
]


def start(*, using: str | None = None, **wishes: Any) -> bool:
    """Run a worker inside this process, in threads of its own; returns at once.

    True if it was started, or put off until after a fork; False, and nothing is done, if this
    process already runs a worker there.

    ``using`` is the database to poll (default: what the router says for writes). ``wishes`` are
    ``threads``, ``batch_size``, ``poll_interval``, ``lease``, ``queues``, ``codes``,
    ``shutdown_timeout`` (seconds), in place of the settings. A worker does not survive a fork: in a
    program that forks, call it afterwards. In a uWSGI process that has not forked yet it is put
    off: each process that answers requests starts a worker of its own.

    Raises UnknownDatabase for a bad alias, TaskValueError for a bad value, TypeError for an unknown
    wish, and CannotStart in gunicorn's master process, in a uWSGI without threads, for a database
    on which no worker can work (psycopg 2, AUTOCOMMIT off), and for handlers that cannot be used.
    """
    config = worker_config(write_alias(using), **wishes)
    if problem := requirements.refusal(config.using):
        raise CannotStart(problem)
    return embedded.start_worker(config)


def running() -> list[str]:
    """The databases on which this process runs a worker that ``start`` began; empty: none."""
    return embedded.databases()


def health() -> Health:
    """Tell if the workers that ``start`` began here are ``live`` and ``ready``, and the reason.

    Asks nothing of the database. Without a worker it is live and not ready.
    """
    return judge_here(embedded.conditions(), ticks())


def shutdown(*, wait: bool = True, timeout: float | None = None) -> bool:
    """Stop the workers that ``start`` started; True if none of them is left, or none was there.

    They claim no more, give back what they have not started, and let running tasks end. With
    ``wait``, returns when they have, or False after ``timeout`` seconds (None: no limit); without,
    returns at once. A task that still runs keeps its worker's heartbeat going until it ends.
    """
    return embedded.stop_workers(timeout if wait else 0.0)
