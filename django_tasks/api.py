"""The public face of the package: everything that other code calls.

Import it where models may be imported, not in a settings file or an app's ``__init__``.
"""

from django_tasks.client import (
    aadd_task,
    aadd_tasks,
    acancel_task,
    add_task,
    add_tasks,
    adelete_tasks,
    aget_task,
    aget_tasks_by_code,
    apause_task,
    arequeue_task,
    areschedule_task,
    aresume_task,
    arun_task_now,
    cancel_task,
    delete_tasks,
    get_task,
    get_tasks_by_code,
    pause_task,
    requeue_task,
    reschedule_task,
    resume_task,
    run_task_now,
)
from django_tasks.exceptions import (
    HandlerError,
    TaskException,
    TaskExists,
    TaskTypeError,
    TaskValueError,
    UnknownDatabase,
    WorkerError,
)
from django_tasks.handlers import TaskHandler, task_handler
from django_tasks.models import Status, Task
from django_tasks.registry import get_task_handlers, register_task_handler
from django_tasks.running import RunningTask
from django_tasks.store.steer import CancelResult
from django_tasks.store.upsert import OnConflict

__all__ = [
    "CancelResult",
    "HandlerError",
    "OnConflict",
    "RunningTask",
    "Status",
    "Task",
    "TaskException",
    "TaskExists",
    "TaskHandler",
    "TaskTypeError",
    "TaskValueError",
    "UnknownDatabase",
    "WorkerError",
    "aadd_task",
    "aadd_tasks",
    "acancel_task",
    "add_task",
    "add_tasks",
    "adelete_tasks",
    "aget_task",
    "aget_tasks_by_code",
    "apause_task",
    "arequeue_task",
    "areschedule_task",
    "aresume_task",
    "arun_task_now",
    "cancel_task",
    "delete_tasks",
    "get_task",
    "get_task_handlers",
    "get_tasks_by_code",
    "pause_task",
    "register_task_handler",
    "requeue_task",
    "reschedule_task",
    "resume_task",
    "run_task_now",
    "task_handler",
]
