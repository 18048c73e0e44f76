"""The times of sticky handlers' schedules, in the workers that are not the active one.

A thread of its own reads the rows as often as a heartbeat comes, counts the times of their
schedules in between without asking the database, and calls ``on_passive``. It runs code of the
project: no lease and no claim depends on it.
"""

import asyncio
from copy import deepcopy
from datetime import datetime
from inspect import iscoroutine
from threading import Event
from typing import Any

from django.db import Error

from django_tasks import logs
from django_tasks.clock import Clock
from django_tasks.handlers.registry import handler_for, sticky_codes, terms_for
from django_tasks.handlers.running_task import PassiveTask
from django_tasks.host.clocks import ticks
from django_tasks.schedules import as_schedule
from django_tasks.store import search
from django_tasks.store.connection import close_connections, own_connections
from django_tasks.values.keys import SCHEDULE_NUM
from django_tasks.worker.active import Active
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.rejected import Rejected
from django_tasks.worker.run import leave
from django_tasks.worker.threads import LastingThread

# The longest sleep: a clock that was set is noticed then.
LONGEST_SLEEP = 1.0


class Times:
    """The times of one handler's schedule, counted on from its row as it was last seen."""

    def __init__(self, code: str, clock: Clock, using: str) -> None:
        self._code = code
        self._using = using
        self._clock = clock
        self._told: datetime | None = None
        self._next: datetime | None = None
        self.payload: Any = None

    def seconds_left(self) -> float:
        """Seconds until the next time, as far as it is known."""
        return LONGEST_SLEEP if self._next is None else self._clock.seconds_to(self._next)

    def take_due(self) -> datetime | None:
        """The time that has come, once. Times that have passed since are left out."""
        if self._next is None or self.seconds_left() > 0:
            return None
        self._told = self._next
        self._next = self._after(self._told)
        return self._told

    def note(self, planned: datetime, payload: Any) -> None:
        """The row has this time, which may be one that was told of: its run is late then."""
        self.payload = payload
        if self._told is None or planned > self._told:
            self._next = planned
        else:
            self._next = self._after(self._told)

    def stop(self) -> None:
        """The row does not wait or run now."""
        self._next = None

    def _after(self, told: datetime) -> datetime | None:
        handler = handler_for(self._code)
        if handler is None or handler.schedule is None:
            return None
        try:
            return as_schedule(handler.schedule).next_after(told, max(told, self._clock.now()))
        except Exception as error:  # noqa: BLE001 - a stranger's trigger may raise anything
            logs.schedule_over(self._code, error, self._using)
            return None


class Passive:
    """``ensure`` and ``close`` are for the poller's thread, all the rest for its own."""

    def __init__(self, config: WorkerConfig, active: Active, clock: Clock) -> None:
        self._config = config
        self._active = active
        self._clock = clock
        self.rejected = Rejected(config.using, config.lease)
        self._next_look = float("-inf")
        self._times: dict[str, Times] = {}
        self._closing = Event()
        self._thread: LastingThread | None = None

    def ensure(self) -> None:
        """Have a thread if there are hooks to call; replace it if it has died."""
        if self._thread is not None:
            self._thread.ensure()
        elif self._codes():
            self._thread = LastingThread(f"django_tasks-passive-{self._config.using}", self._main)
            self._thread.start()

    def close(self) -> None:
        """End after the call that is under way, for which nobody waits."""
        self._closing.set()

    def _codes(self) -> list[str]:
        serves = self._config.serves
        heard = [code for code in sticky_codes() if terms_for(code).has_passive_hook]
        return [code for code in heard if serves(terms_for(code).queue, code)]

    # The thread

    def _main(self) -> None:
        own_connections()
        while not self._closing.is_set():
            self._closing.wait(self._guardedly())

    def _guardedly(self) -> float:
        """One cycle that survives the errors of the database; returns how long to sleep."""
        try:
            delay = self.cycle()
            self.rejected.is_over()
            return delay
        except Error as error:  # the heartbeat's thread tells of outages
            self.rejected.note(error)
            return LONGEST_SLEEP
        finally:
            close_connections()

    def cycle(self) -> float:
        """Look at the rows if it is time, and attend to each time that has come; seconds to sleep.

        Errors of the database pass.
        """
        is_look = ticks() >= self._next_look
        if is_look:
            self._next_look = ticks() + self._config.heartbeat_interval
        codes = self._codes()
        for code in codes:
            times = self._times.setdefault(code, Times(code, self._clock, self._config.using))
            try:
                self._attend(code, times, is_look=is_look)
            except Error:
                raise
            except Exception:  # noqa: BLE001 - one payload that cannot be read silences no other
                logs.not_passive(code, self._config.using)
        left = [self._times[code].seconds_left() for code in codes]
        return max(0.0, min([LONGEST_SLEEP, *left]))

    def _attend(self, code: str, times: Times, *, is_look: bool) -> None:
        """Look at the row, or go by the last look; and tell of the time that has come.

        Race: the active worker has just run one, and its row has the time after. So what came
        before that answer is attended to before the answer is taken over.
        """
        if is_look and (row := search.at_work(code, using=self._config.using)) is None:
            times.stop()
            return
        if moment := times.take_due():
            self._tell(code, moment, deepcopy(times.payload))
        if is_look and row is not None:
            times.note(*row)

    def _tell(self, code: str, moment: datetime, payload: Any) -> None:
        handler, state = handler_for(code), self._active.others.get(code)
        if handler is None or state is None or state.since is None:
            return
        seen = (payload, state.holder, state.since, state.term)
        task = PassiveTask(code, SCHEDULE_NUM, moment, *seen, self._config.using)
        try:
            hook: Any = handler.on_passive  # it may be async
            if iscoroutine(answer := hook(task)):
                asyncio.run(answer)
        except BaseException:  # noqa: BLE001 - the hook's failure changes nothing
            logs.hook_failed("on_passive", task)
        leave(task, "on_passive of ")
