"""Runs that take longer than their timeout: each is told of once, to the log and to its handler."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial
from inspect import iscoroutine
from threading import Thread
from typing import Any

from django_tasks import logs, signals
from django_tasks.handlers.base import TaskHandler, has_own
from django_tasks.handlers.current import CURRENT
from django_tasks.handlers.recurrence import allowance_of
from django_tasks.handlers.running_task import RunningTask
from django_tasks.host.clocks import ticks
from django_tasks.store.connection import close_connections, own_connections
from django_tasks.values.claimed import Claimed
from django_tasks.worker.executor import Running
from django_tasks.worker.fresh_context import FreshContext
from django_tasks.worker.run import Run, leave


class Overdue:
    """The runs that the log has been told of: they go on. Used by the poller's thread alone."""

    def __init__(self, using: str) -> None:
        self._using = using
        self._told: set[tuple[int, int]] = set()

    def warn(self, running: Collection[Running]) -> None:
        """Tell of the runs, each with the tick of its start, that are newly overdue."""
        self._told &= {_key(item[0]) for item, _ in running}
        for item, started in running:
            first, seconds = item[0], ticks() - started
            limit = allowance_of(first).timeout
            if limit is not None and seconds > limit and _key(first) not in self._told:
                self._told.add(_key(first))
                logs.still_running(first, seconds, limit, len(item), self._using)


def _key(claimed: Claimed) -> tuple[int, int]:
    return claimed.worker_id, claimed.id


def report(runs: Sequence[Run], now: float, context: FreshContext) -> None:
    """Call ``on_stuck`` and the receivers, for each run of a call, in a thread of their own: that
    of the limits must not wait for them.

    They get a task of their own, for the handler may be changing the payload of the other one, and
    a context of their own, as that of the run was at its start.
    """
    handler = runs[0].handler
    if has_own(handler, "on_stuck") or signals.task_stuck.receivers:
        tasks = [run.task.made_again(run.claimed) for run in runs]
        arguments = (handler, tasks, now - runs[0].started.monotonic)
        call = partial(context.run, _tell, *arguments)
        Thread(target=call, name="django_tasks-stuck", daemon=True).start()


def _tell(handler: TaskHandler, tasks: Sequence[RunningTask], seconds: float) -> None:
    own_connections()
    for task in tasks:
        _tell_of(handler, task, seconds)
    close_connections()


def _tell_of(handler: TaskHandler, task: RunningTask, seconds: float) -> None:
    CURRENT.set(task)  # in a copy of the run's context
    try:
        hook: Callable[..., Any] = handler.on_stuck  # it may be async
        if iscoroutine(answer := hook(task, seconds)):
            asyncio.run(answer)
    except BaseException:  # noqa: BLE001 - the hook's failure changes nothing
        logs.hook_failed("on_stuck", task)
    leave(task, "on_stuck of ")
    signals.tell(signals.task_stuck, type(handler), task=task, seconds=seconds, using=task.using)
    leave(task, "a receiver of a signal of ")
