"""The times of sticky handlers' schedules, in the workers that are not the active one.

A thread of its own reads the rows as often as a heartbeat comes, counts the times of their
schedules in between without asking the database, and calls ``on_passive``. It runs code of the
project: no lease and no claim depends on it.
"""

import asyncio
from collections.abc import Callable, Collection
from copy import deepcopy
from datetime import datetime
from inspect import iscoroutine
from threading import Event
from typing import Any

from django.db import Error

from django_tasks import logs
from django_tasks.clock import Clock
from django_tasks.handlers.base import TaskHandler, has_own
from django_tasks.handlers.passive_task import PassiveTask
from django_tasks.handlers.registry import get_task_handlers, sticky_codes
from django_tasks.host.clocks import ticks
from django_tasks.schedules import as_schedule
from django_tasks.store import search
from django_tasks.store.connection import close_connections
from django_tasks.values.keys import SCHEDULE_NUM
from django_tasks.worker.active import Active
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.threads import LastingThread

# The longest sleep: a clock that was set is noticed then.
LONGEST_SLEEP = 1.0


class Passive:
    """``ensure`` and ``close`` are for the poller's thread, all the rest for its own."""

    def __init__(self, config: WorkerConfig, active: Active, clock: Clock) -> None:
        self._config = config
        self._active = active
        self._clock = clock
        self._next_look = float("-inf")
        # By code: the payload, and the next time of the schedule.
        self._payloads: dict[str, Any] = {}
        self._next: dict[str, datetime] = {}
        # The last time that was attended to.
        self._told: dict[str, datetime] = {}
        self._closing = Event()
        self._thread: LastingThread | None = None

    def ensure(self) -> None:
        """Have a thread if there are sticky handlers; replace it if it has died."""
        if self._thread is not None:
            self._thread.ensure()
        elif sticky_codes():
            self._thread = LastingThread(f"django_tasks-passive-{self._config.using}", self._main)
            self._thread.start()

    def close(self) -> None:
        """End after the call that is under way, for which nobody waits."""
        self._closing.set()

    # The thread

    def _main(self) -> None:
        while not self._closing.is_set():
            self._closing.wait(self._guardedly())

    def _guardedly(self) -> float:
        """One cycle that survives whatever happens; returns how long to sleep."""
        try:
            return self.cycle()
        except Error:  # the heartbeat's thread tells of outages
            return LONGEST_SLEEP
        except Exception:  # noqa: BLE001 - a defect must not end the calls
            logs.terms_failed(self._config.using)
            return self._config.heartbeat_interval
        finally:
            close_connections()

    def cycle(self) -> float:
        """Look at the rows if it is time, and attend to each time that has come; seconds to sleep.

        Errors of the database pass.
        """
        handlers = self._handlers()
        found = self._look(handlers) if ticks() >= self._next_look else None
        for code, handler in handlers.items():
            if code in self._next and self._clock.seconds_to(self._next[code]) <= 0:
                self._attend(handler, code)
        if found is not None:
            self._note(found, handlers)
            return 0.0
        left = (self._clock.seconds_to(moment) for moment in self._next.values())
        return max(0.0, min(LONGEST_SLEEP, *left)) if self._next else LONGEST_SLEEP

    def _handlers(self) -> dict[str, TaskHandler]:
        """The sticky handlers with a hook whose tasks this worker serves, by code."""
        handlers, serves = get_task_handlers(), self._config.serves
        sticky = {code: handlers[code] for code in sticky_codes() if code in handlers}
        return {
            code: handler
            for code, handler in sticky.items()
            if has_own(handler, "on_passive") and serves(handler.queue, code)
        }

    def _look(self, codes: Collection[str]) -> dict[str, tuple[datetime, Any]]:
        """The times and payloads of the rows that wait or run.

        Race: the active worker has just run one, and its row has the time after. So what came
        before that answer is attended to before the answer is taken over.
        """
        self._next_look = ticks() + self._config.heartbeat_interval
        found = search.at_work(codes, using=self._config.using)
        self._next = {code: moment for code, moment in self._next.items() if code in found}
        return found

    def _note(
        self, found: dict[str, tuple[datetime, Any]], handlers: dict[str, TaskHandler]
    ) -> None:
        self._payloads = {code: payload for code, (_, payload) in found.items()}
        self._next = {}
        for code, (planned, _) in found.items():
            if code in self._told and planned <= self._told[code]:
                self._count_on(handlers[code], code)
            else:
                self._next[code] = planned

    def _attend(self, handler: TaskHandler, code: str) -> None:
        """Call the hook, unless this worker is the active one or knows of none."""
        self._told[code] = when = self._next.pop(code)
        self._count_on(handler, code)
        state = self._active.others.get(code)
        if state is None or state.since is None or self._active.may_run(code):
            return
        payload, using = deepcopy(self._payloads[code]), self._config.using
        seen = (payload, state.holder, state.since, state.term)
        _call(handler.on_passive, PassiveTask(code, SCHEDULE_NUM, when, *seen, using))

    def _count_on(self, handler: TaskHandler, code: str) -> None:
        """Go on with the schedule by itself; times that have passed meanwhile are left out."""
        told = self._told[code]
        try:
            moment = as_schedule(handler.schedule).next_after(told, max(told, self._clock.now()))
        except Exception as error:  # noqa: BLE001 - a stranger's trigger may raise anything
            logs.schedule_over(code, error)
            return
        if moment is not None:
            self._next[code] = moment


def _call(hook: Callable[[PassiveTask], Any], task: PassiveTask) -> None:
    try:
        if iscoroutine(answer := hook(task)):
            asyncio.run(answer)
    except BaseException:  # noqa: BLE001 - the hook's failure changes nothing
        logs.hook_failed("on_passive", task)
