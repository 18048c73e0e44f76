"""Sentences about the run of a task: its end, its failures, its hooks, the time that it takes."""

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django_tasks import signals
from django_tasks.handlers.passive_task import PassiveTask
from django_tasks.handlers.running_task import RunningTask
from django_tasks.logs.fields import fields_of, fields_of_run
from django_tasks.logs.lines import logger, say
from django_tasks.logs.phrases import InShort, local_time, run_facts
from django_tasks.logs.successes import EACH_SUCCESSES, Successes
from django_tasks.values.claimed import Claimed

_successes = Successes()


# These two are called and not signalled: a signal that nobody else listens to costs next to nothing
# as long as we do not either. Where nobody reads INFO they cost one question.


def succeeded(task: RunningTask, seconds: float) -> None:
    if logger.isEnabledFor(logging.INFO):
        _good("task_done", "%s done %s%s", task, seconds)


def rescheduled(task: RunningTask, seconds: float, when: datetime) -> None:
    if logger.isEnabledFor(logging.INFO):
        _good("task_rescheduled", "%s done, again at %s %s%s", task, seconds, when)


def _good(event: str, text: str, task: RunningTask, seconds: float, *times: datetime) -> None:
    place = _successes.told(task.biz_code)
    if not place and not logger.isEnabledFor(logging.DEBUG):
        return
    fields = fields_of_run(task, seconds)
    for when in times:
        fields["again_at"] = when.isoformat()
    more = "; further ones of this code and minute are counted" if place == EACH_SUCCESSES else ""
    words = task, *map(local_time, times), run_facts(task, seconds), more
    say(event, logging.INFO if place else logging.DEBUG, text, *words, **fields)


def _retried(
    *, task: RunningTask, seconds: float, when: datetime, exception: BaseException, **_: Any
) -> None:
    reason = InShort(exception)
    words = task, local_time(when), run_facts(task, seconds), reason
    fields = {"again_at": when.isoformat(), "error": reason, **fields_of_run(task, seconds)}
    say("task_retried", logging.WARNING, "%s failed, again at %s %s: %s", *words, **fields)


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
        say("task_failed", logging.ERROR, "%s FAILED: %s", task, error, **fields)
        return
    text, facts = "%s FAILED for good %s", run_facts(task, seconds)
    fields = {"error": InShort(exception), **fields_of_run(task, seconds)}
    say("task_failed", logging.ERROR, text, task, facts, exc_info=exception, **fields)


def _lost(*, task: Any, using: str = "", **_: Any) -> None:
    text = "%s was lost: its row had gone to somebody else before the run ended"
    say("task_lost", logging.WARNING, text, task, **fields_of(task, using))


RECEIVERS = (
    (signals.task_retried, _retried),
    (signals.task_failed, _failed),
    (signals.task_lost, _lost),
)


def run_failed(task: RunningTask | Claimed) -> None:
    text = "The run of %s failed outside its handler; it is tried again"
    say("run_broken", logging.ERROR, text, task, exc_info=True, **fields_of(task))


def transaction_left(
    task: RunningTask | Claimed | PassiveTask, databases: Sequence[str], who: str = ""
) -> None:
    text, names = "%s%s left a transaction open on %s; it was rolled back", ", ".join(databases)
    fields = {"left_open": list(databases), **fields_of(task)}
    say("transaction_left", logging.WARNING, text, who, task, names, **fields)


def surroundings_changed(task: Claimed, before: Sequence[str], after: Sequence[str]) -> None:
    facts = zip(("working directory", "locale"), before, after, strict=True)
    changes = [f"{name} from {old!r} to {new!r}" for name, old, new in facts if old != new]
    text, told = "%s, or what ran beside it, has changed its process: %s", ", ".join(changes)
    fields = {"changes": changes, **fields_of(task)}
    say("surroundings_changed", logging.WARNING, text, task, told, **fields)


def not_settled(task: RunningTask, error: BaseException) -> None:
    text = "The database did not confirm the end of %s (%s); unless it went through, it runs again"
    fields = {"error": InShort(error), **fields_of(task)}
    say("end_not_confirmed", logging.WARNING, text, task, InShort(error), **fields)


def end_not_written(task: Claimed, error: BaseException, using: str) -> None:
    text = "The end of %s could not be written (%s); it is FAILED"
    fields = {"error": InShort(error), **fields_of(task, using)}
    say("end_not_written", logging.ERROR, text, task, InShort(error), **fields)


def died_after_its_end(task: RunningTask, death: BaseException) -> None:
    text = "%s has ended and this is written; its own process died afterwards: %s"
    fields = {"error": InShort(death), **fields_of(task)}
    say("died_after_its_end", logging.WARNING, text, task, InShort(death), **fields)


def not_isolated(task: RunningTask, error: BaseException) -> None:
    text = "%s, whose worker died twice, is run beside others, for no process of its own can be had"
    fields = {"error": InShort(error), **fields_of(task)}
    say("not_isolated", logging.WARNING, f"{text}: %s", task, InShort(error), **fields)


def commit_hook_failed(task: RunningTask) -> None:
    text = "%s is done; something that its commit set off failed"
    say("commit_hook_failed", logging.ERROR, text, task, exc_info=True, **fields_of(task))


def hook_failed(hook: str, task: RunningTask | PassiveTask) -> None:
    text, fields = "%s of %s failed", {"hook": hook, **fields_of(task)}
    say("hook_failed", logging.ERROR, text, hook, task, exc_info=True, **fields)


def backoff_failed(task: RunningTask) -> None:
    text = "The backoff of %s failed; taking the default"
    say("backoff_failed", logging.ERROR, text, task, exc_info=True, **fields_of(task))


def loop_interrupted(error: BaseException) -> None:
    text = "An asyncio task of an async handler has raised %s; other runs go on"
    name, reason = type(error).__name__, InShort(error)
    say("loop_interrupted", logging.ERROR, text, name, exc_info=error, error=reason)


def took_too_long(task: RunningTask, seconds: float, limit: float, count: int = 1) -> None:
    text = "%s%s took %.3f s, more than its timeout of %g s"
    words = task, _and_others(count), seconds, limit
    fields = {"duration": seconds, "timeout": limit, **_fields(task, count)}
    say("task_took_too_long", logging.WARNING, text, *words, **fields)


def batch_failed(task: RunningTask, count: int, error: BaseException) -> None:
    text = "%s%s failed together (%s); they are run again in halves"
    fields = {"error": InShort(error), **_fields(task, count)}
    say("batch_failed", logging.INFO, text, task, _and_others(count), InShort(error), **fields)


def batch_not_settled(task: RunningTask, count: int, error: BaseException) -> None:
    text = (
        "%s%s: the database did not take them, they took too long, or their starts are counted"
        " (%s); each again by itself"
    )
    words = task, _and_others(count), InShort(error)
    fields = {"error": InShort(error), **_fields(task, count)}
    say("batch_not_confirmed", logging.WARNING, text, *words, **fields)


def _and_others(count: int) -> str:
    return f" and {count - 1} more" if count > 1 else ""


def killing(task: RunningTask, error: BaseException, count: int = 1) -> None:
    text = "%s%s costs this process, which ends and is replaced: %s"
    fields = {"error": InShort(error), **_fields(task, count)}
    say("task_killed", logging.ERROR, text, task, _and_others(count), InShort(error), **fields)


def still_running(
    task: Claimed, seconds: float, limit: float, count: int = 1, using: str = ""
) -> None:
    text = "%s%s has been running for %.0f s; its timeout is %g s"
    words = task, _and_others(count), seconds, limit
    fields = {"duration": seconds, "timeout": limit, **_fields(task, count, using)}
    say("task_still_running", logging.WARNING, text, *words, **fields)


def _fields(task: RunningTask | Claimed, count: int, using: str = "") -> dict[str, Any]:
    return {**fields_of(task, using), "count": count}
