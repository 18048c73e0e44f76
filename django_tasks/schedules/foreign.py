"""Triggers of APScheduler, and whatever answers the same question."""

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.schedules.arguments import TICK, utc
from django_tasks.schedules.base import Asked, PlanOptions, Schedule
from django_tasks.sentences import sentence as _

if TYPE_CHECKING:
    from typing import Unpack

# How many missed fires a trigger may go through one by one.
TRIES = 100

LONGEST_TEXT = 200
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+")


def _text(trigger: Any) -> str:
    """Its own text, if that is the same in every process; else the name of its class."""
    with suppress(Exception):  # a stranger's may raise anything
        if not _ADDRESS.search(text := str(trigger)):
            return text[:LONGEST_TEXT]
    kind = type(trigger)
    return f"{kind.__module__}.{kind.__qualname__}"


@dataclass(frozen=True, repr=False, init=False)
class Foreign(Schedule):
    """An object with APScheduler's ``get_next_fire_time(previous_fire_time, now)``.

    What the trigger raises passes through ``next_after``. Its text says what it is, and cannot be
    read back: only the code knows it. ``from_apscheduler`` makes values with a text of a trigger.
    """

    trigger: Any

    def __init__(self, trigger: Any, /, **options: "Unpack[PlanOptions]") -> None:
        if isinstance(trigger, type) or not callable(getattr(trigger, "get_next_fire_time", None)):
            raise TaskTypeError(
                "trigger", trigger, _("must have get_next_fire_time(previous, now)")
            )
        self._become(options, trigger=trigger)

    # A trigger is equal to what it says it is equal to, and need not be hashable.
    def __hash__(self) -> int:
        return hash((Foreign, self.start, self.end, self.jitter, self.count))

    def _fire(self, asked: Asked) -> datetime | None:
        """Its next fire. It may give missed ones one by one, or leave them out."""
        previous = asked.previous
        for _try in range(TRIES):
            fire = self._asked(previous, asked.after)
            if fire is None or fire > asked.after:
                return fire
            previous = fire
        fire = self._asked(None, asked.after)
        if fire is None or fire > asked.after:
            return fire
        raise TaskValueError(
            "trigger", self.trigger, _("has nothing later than %(after)s", after=asked.after)
        )

    def _asked(self, previous: datetime | None, after: datetime) -> datetime | None:
        # APScheduler's "now" is included in the answer.
        fire = self.trigger.get_next_fire_time(previous, after + TICK)
        return None if fire is None else utc("trigger", fire)

    def _said(self) -> str:
        return f"trigger {' '.join(_text(self.trigger).split())}"

    def _shortest(self) -> None:
        return None

    def _check_that_it_fires(self) -> None:
        """Nothing: a stranger is asked when it is his turn."""
