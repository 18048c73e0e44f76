"""The object that ``handle`` gets, without a worker and without a row."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django_tasks import payloads
from django_tasks.client.arguments import check_queue
from django_tasks.clock import ClockReading, Tick
from django_tasks.exceptions import TaskTypeError
from django_tasks.handlers.registry import terms_for
from django_tasks.handlers.running_task import RunningTask
from django_tasks.host.clocks import ticks
from django_tasks.store.aliases import write_alias
from django_tasks.testing.clock import moment_of, present
from django_tasks.testing.codes import Code, code_of
from django_tasks.values.amounts import whole_number
from django_tasks.values.claimed import Claimed, Progress
from django_tasks.values.keys import check_number, check_priority
from django_tasks.values.options import NO_OPTIONS, TaskOptions, options_to_text

_TIMES = ("when", "create_time", "claim_time", "scheduled_time")
_COUNTS = ("id", "version", "attempts", "rescues", "runs", "claimed_by")
_MOST = 2**62
_NAMES = frozenset(
    {
        *(*_TIMES, *_COUNTS),
        *("biz_ext", "queue", "priority", "last_error", "schedule", "options", "attempt"),
        *("cancel_requested", "using"),
    }
)


class NoRow:
    """Answers in place of the row of a claim: it takes everything and keeps nothing."""

    def __init__(self, cancelled: bool | Callable[[], bool]) -> None:
        self._cancelled = cancelled

    def is_cancelled(self, claimed: Claimed, *, using: str) -> bool:
        return bool(self._cancelled() if callable(self._cancelled) else self._cancelled)

    def save_payload(self, claimed: Claimed, text: str | None, *, using: str) -> bool:
        return True

    def save_progress(self, claimed: Claimed, progress: Progress, *, using: str) -> None:
        """Nobody reads it."""


def running_task(code: Code, num: Any = "1", **attributes: Any) -> RunningTask:
    """The object that ``handle`` gets, to call a handler with: no row, no worker, no database.

    ``attributes`` are those of the running task: ``biz_ext``, ``when`` (default: now), ``attempt``
    or ``attempts`` and ``rescues``, ``queue``, ``priority``, ``schedule``, ``scheduled_time``,
    ``options``, ``runs``, ``last_error``, ``id``, ``version``, ``claimed_by``, ``create_time``,
    ``claim_time``, ``using``. ``cancel_requested`` is a bool, or a function that is asked each
    time. ``save`` and ``progress`` check what they get, and store nothing.

    Raises TaskTypeError or TaskValueError, naming field and value, for what no task can have.
    """
    for name in attributes.keys() - _NAMES:
        raise TaskTypeError(name, attributes[name], "is no attribute of a running task")
    using = attributes.get("using") or write_alias(None)
    now = present(using) if "when" not in attributes else moment_of(attributes["when"], "when")
    claimed = _claimed(code_of(code), check_number(num), now, attributes)
    row = NoRow(attributes.get("cancel_requested", False))
    tick = ticks()
    return RunningTask(claimed, using, Tick(ClockReading(claimed.claim_time, tick), tick), row)


def _claimed(code: str, number: str, when: datetime, given: dict[str, Any]) -> Claimed:
    terms = terms_for(code)
    counts = {name: whole_number(name, given.get(name, 0), 0, _MOST) for name in _COUNTS}
    if "attempt" in given:
        counts["attempts"] = whole_number("attempt", given["attempt"], 1, _MOST) - 1
        counts["attempts"] -= counts["rescues"]
    times = {name: moment_of(given[name], name) for name in _TIMES if given.get(name) is not None}
    return Claimed(
        id=counts["id"] or 1,
        version=counts["version"] or 1,
        biz_code=code,
        biz_num=number,
        when=when,
        biz_ext=payloads.encoded(given.get("biz_ext")),
        queue=check_queue(given.get("queue", terms.queue)),
        priority=check_priority(given.get("priority", terms.priority)),
        attempts=counts["attempts"],
        rescues=counts["rescues"],
        create_time=times.get("create_time", when),
        last_error=str(given.get("last_error", "")),
        schedule=given.get("schedule"),
        scheduled_time=times.get("scheduled_time"),
        options=_text_of(given.get("options")),
        runs=counts["runs"],
        worker_id=counts["claimed_by"] or 1,
        claim_time=times.get("claim_time", when),
    )


def _text_of(options: Any) -> str | None:
    if options is not None and not isinstance(options, TaskOptions):
        raise TaskTypeError("options", options, "must be TaskOptions")
    return options_to_text(options or NO_OPTIONS)
