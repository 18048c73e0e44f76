"""Tell a handler, once, that a run of it takes longer than its timeout."""

import asyncio
from collections.abc import Callable
from inspect import iscoroutine
from threading import Thread
from typing import Any

from django_tasks import logs, signals
from django_tasks.handlers.base import TaskHandler, has_own
from django_tasks.handlers.running_task import RunningTask
from django_tasks.store.connection import close_connections


def report(handler: TaskHandler, task: RunningTask, seconds: float) -> None:
    """Call ``on_stuck`` and the receivers in a thread of their own: the poller must not wait for
    them, or it would miss its heartbeat with them.
    """
    if has_own(handler, "on_stuck") or signals.task_stuck.receivers:
        arguments = (handler, task, seconds)
        Thread(target=_tell, args=arguments, name="django_tasks-stuck", daemon=True).start()


def _tell(handler: TaskHandler, task: RunningTask, seconds: float) -> None:
    try:
        hook: Callable[..., Any] = handler.on_stuck  # it may be async
        if iscoroutine(answer := hook(task, seconds)):
            asyncio.run(answer)
    except BaseException:  # noqa: BLE001 - the hook's failure changes nothing
        logs.hook_failed("on_stuck", task)
    signals.tell(signals.task_stuck, type(handler), task=task, seconds=seconds, using=task.using)
    close_connections()
