"""Sentences about the run of a task: its end, its failures, its hooks, the time that it takes.

Of successes a person sees the first few of a minute, beside their counts.
"""

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django_tasks import signals
from django_tasks.handlers.running_task import PassiveTask, RunningTask
from django_tasks.host.clocks import ticks
from django_tasks.logs.fields import fields_of, fields_of_run
from django_tasks.logs.lines import logger, say
from django_tasks.logs.phrases import local_time, run_facts
from django_tasks.values.claimed import Claimed

# How many successes are told in a minute: of each code, and of all codes of a process.
EACH_SUCCESSES = 3
MOST_SUCCESSES = 30
SUCCESSES_SECONDS = 60.0


class Successes:
    """Picks the first successes of a minute, for a person to see. For all threads, without a lock:
    two that meet tell one line more.
    """

    def __init__(self) -> None:
        self._since = float("-inf")
        self._told: dict[str, int] = {}

    def told(self, biz_code: str) -> int:
        """The place of this success of a code among those to be told, from 1; 0: not told."""
        tick = ticks()
        if not 0 <= tick - self._since < SUCCESSES_SECONDS:
            self._since, self._told = tick, {}
        place = self._told.get(biz_code, 0) + 1
        if place > EACH_SUCCESSES or sum(self._told.values()) >= MOST_SUCCESSES:
            return 0
        self._told[biz_code] = place
        return place


_successes = Successes()


# These two are called and not signalled: a signal that nobody else listens to costs next to nothing
# as long as we do not either. Where nobody reads INFO they cost one question.


def succeeded(task: RunningTask, seconds: float) -> None:
    if logger.isEnabledFor(logging.INFO):
        _good("task_done", "%(task)s done %(run)s%(more)s", task, seconds)


def rescheduled(task: RunningTask, seconds: float, when: datetime) -> None:
    if logger.isEnabledFor(logging.INFO):
        text = "%(task)s done, again at %(again)s %(run)s%(more)s"
        _good("task_rescheduled", text, task, seconds, when)


def _good(
    event: str, text: str, task: RunningTask, seconds: float, when: datetime | None = None
) -> None:
    place = _successes.told(task.biz_code)
    if not place and not logger.isEnabledFor(logging.DEBUG):
        return
    fields = fields_of_run(task, seconds)
    more = "; further ones of this code and minute are counted" if place == EACH_SUCCESSES else ""
    words = {"run": run_facts(task, seconds), "more": more}
    if when is not None:
        fields["again_at"], words["again"] = when.isoformat(), local_time(when)
    say(event, logging.INFO if place else logging.DEBUG, text, words, **fields)


def _retried(
    *, task: RunningTask, seconds: float, when: datetime, exception: BaseException, **_: Any
) -> None:
    words = {"again": local_time(when), "run": run_facts(task, seconds)}
    fields = {"again_at": when.isoformat(), **fields_of_run(task, seconds)}
    text = "%(task)s failed, again at %(again)s %(run)s: %(error)s"
    say("task_retried", logging.WARNING, text, words, error=exception, **fields)


def _failed(
    *,
    task: Any,
    seconds: float | None = None,
    exception: BaseException | None = None,
    error: str = "",
    using: str = "",
    **_: Any,
) -> None:
    if exception is None or seconds is None:
        fields = {"error": error, **fields_of(task, using)}
        say("task_failed", logging.ERROR, "%(task)s FAILED: %(error)s", **fields)
        return
    text, words = "%(task)s FAILED for good %(run)s", {"run": run_facts(task, seconds)}
    fields = {"error": exception, **fields_of_run(task, seconds)}
    say("task_failed", logging.ERROR, text, words, exc_info=exception, **fields)


def _lost(*, task: Any, using: str = "", **_: Any) -> None:
    text = "%(task)s was lost: its row had gone to somebody else before the run ended"
    say("task_lost", logging.WARNING, text, **fields_of(task, using))


RECEIVERS = (
    (signals.task_retried, _retried),
    (signals.task_failed, _failed),
    (signals.task_lost, _lost),
)


def run_failed(task: RunningTask | Claimed) -> None:
    text = "The run of %(task)s failed outside its handler; it is tried again"
    say("run_broken", logging.ERROR, text, exc_info=True, **fields_of(task))


def transaction_left(
    task: RunningTask | Claimed | PassiveTask, databases: Sequence[str], who: str = ""
) -> None:
    text = "%(who)s%(task)s left a transaction open on %(names)s; it was rolled back"
    words = {"who": who, "names": ", ".join(databases)}
    fields = {"left_open": list(databases), **fields_of(task)}
    say("transaction_left", logging.WARNING, text, words, **fields)


def surroundings_changed(task: Claimed, before: Sequence[str], after: Sequence[str]) -> None:
    facts = zip(("working directory", "locale"), before, after, strict=True)
    changes = [f"{name} from {old!r} to {new!r}" for name, old, new in facts if old != new]
    text = "%(task)s, or what ran beside it, has changed its process: %(told)s"
    words = {"told": ", ".join(changes)}
    say("surroundings_changed", logging.WARNING, text, words, changes=changes, **fields_of(task))


def not_settled(task: RunningTask, error: BaseException) -> None:
    text = (
        "The database did not confirm the end of %(task)s (%(error)s); unless it went through, it"
        " runs again"
    )
    say("end_not_confirmed", logging.WARNING, text, error=error, **fields_of(task))


def end_not_written(task: Claimed, error: BaseException, using: str) -> None:
    text = "The end of %(task)s could not be written (%(error)s); it is FAILED"
    say("end_not_written", logging.ERROR, text, error=error, **fields_of(task, using))


def died_after_its_end(task: RunningTask, death: BaseException) -> None:
    text = "%(task)s has ended and this is written; its own process died afterwards: %(error)s"
    say("died_after_its_end", logging.WARNING, text, error=death, **fields_of(task))


def not_isolated(task: RunningTask, error: BaseException) -> None:
    text = (
        "%(task)s, whose worker died twice, is run beside others, for no process of its own can be"
        " had: %(error)s"
    )
    say("not_isolated", logging.WARNING, text, error=error, **fields_of(task))


def commit_hook_failed(task: RunningTask) -> None:
    text = "%(task)s is done; something that its commit set off failed"
    say("commit_hook_failed", logging.ERROR, text, exc_info=True, **fields_of(task))


def hook_failed(hook: str, task: RunningTask | PassiveTask) -> None:
    text = "%(hook)s of %(task)s failed"
    say("hook_failed", logging.ERROR, text, exc_info=True, hook=hook, **fields_of(task))


def backoff_failed(task: RunningTask) -> None:
    text = "The backoff of %(task)s failed; taking the default"
    say("backoff_failed", logging.ERROR, text, exc_info=True, **fields_of(task))


def loop_interrupted(error: BaseException) -> None:
    text = "An asyncio task of an async handler has raised %(kind)s; other runs go on"
    words = {"kind": type(error).__name__}
    say("loop_interrupted", logging.ERROR, text, words, exc_info=error, error=error)


def took_too_long(task: RunningTask, seconds: float, limit: float, count: int = 1) -> None:
    text = "%(task)s%(others)s took %(duration).3f s, more than its timeout of %(timeout)g s"
    fields = {"duration": seconds, "timeout": limit, **_fields(task, count)}
    say("task_took_too_long", logging.WARNING, text, _others(count), **fields)


def batch_failed(task: RunningTask, count: int, error: BaseException) -> None:
    text = "%(task)s%(others)s failed together (%(error)s); they are run again in halves"
    say("batch_failed", logging.INFO, text, _others(count), error=error, **_fields(task, count))


def batch_not_settled(task: RunningTask, count: int, error: BaseException) -> None:
    text = (
        "%(task)s%(others)s: the database did not take them, they took too long, or their starts"
        " are counted (%(error)s); each again by itself"
    )
    fields = {"error": error, **_fields(task, count)}
    say("batch_not_confirmed", logging.WARNING, text, _others(count), **fields)


def killing(task: RunningTask, error: BaseException, count: int = 1) -> None:
    text = "%(task)s%(others)s costs this process, which ends and is replaced: %(error)s"
    say("task_killed", logging.ERROR, text, _others(count), error=error, **_fields(task, count))


def still_running(
    task: Claimed, seconds: float, limit: float, count: int = 1, using: str = ""
) -> None:
    text = "%(task)s%(others)s has been running for %(duration).0f s; its timeout is %(timeout)g s"
    fields = {"duration": seconds, "timeout": limit, **_fields(task, count, using)}
    say("task_still_running", logging.WARNING, text, _others(count), **fields)


def _others(count: int) -> dict[str, str]:
    return {"others": f" and {count - 1} more" if count > 1 else ""}


def _fields(task: RunningTask | Claimed, count: int, using: str = "") -> dict[str, Any]:
    return {**fields_of(task, using), "count": count}
