"""Sentences about the run of a task: its end, its failures, its hooks, the time that it takes."""

import logging
from datetime import datetime
from typing import Any

from django_tasks import signals
from django_tasks.handlers.passive_task import PassiveTask
from django_tasks.handlers.running_task import RunningTask
from django_tasks.logs.lines import logger, say
from django_tasks.logs.phrases import InShort, local_time, run_extra, run_facts
from django_tasks.logs.successes import EACH_SUCCESSES, Successes

_successes = Successes()


# These two are called and not signalled: a signal that nobody else listens to costs next to nothing
# as long as we do not either. Where nobody reads INFO they cost one question.


def succeeded(task: RunningTask, seconds: float) -> None:
    if logger.isEnabledFor(logging.INFO):
        _good("%s done %s%s", task, seconds)


def rescheduled(task: RunningTask, seconds: float, when: datetime) -> None:
    if logger.isEnabledFor(logging.INFO):
        _good("%s done, again at %s %s%s", task, seconds, when)


def _good(text: str, task: RunningTask, seconds: float, *times: datetime) -> None:
    place = _successes.told(task.biz_code)
    if not place and not logger.isEnabledFor(logging.DEBUG):
        return
    say(
        logging.INFO if place else logging.DEBUG,
        text,
        task,
        *map(local_time, times),
        run_facts(task, seconds),
        "; further ones of this code and minute are counted" if place == EACH_SUCCESSES else "",
        extra=run_extra(task, seconds),
    )


def _retried(
    *, task: RunningTask, seconds: float, when: datetime, exception: BaseException, **_: Any
) -> None:
    say(
        logging.WARNING,
        "%s failed, again at %s %s: %s",
        task,
        local_time(when),
        run_facts(task, seconds),
        InShort(exception),
        extra=run_extra(task, seconds),
    )


def _failed(
    *,
    task: Any,
    seconds: float | None = None,
    exception: BaseException | None = None,
    error: str = "",
    **_: Any,
) -> None:
    if exception is None or seconds is None:
        say(logging.ERROR, "%s FAILED: %s", task, error)
        return
    say(
        logging.ERROR,
        "%s FAILED for good %s",
        task,
        run_facts(task, seconds),
        exc_info=exception,
        extra=run_extra(task, seconds),
    )


def _lost(*, task: Any, **_: Any) -> None:
    say(
        logging.WARNING,
        "%s was lost: its row had gone to somebody else before the run ended",
        task,
    )


RECEIVERS = (
    (signals.task_retried, _retried),
    (signals.task_failed, _failed),
    (signals.task_lost, _lost),
)


def run_failed(task: Any) -> None:
    text = "The run of %s failed outside its handler; it is tried again"
    say(logging.ERROR, text, task, exc_info=True)


def not_settled(task: RunningTask, error: BaseException) -> None:
    say(
        logging.WARNING,
        "The database did not confirm the end of %s (%s); unless it went through, it runs again",
        task,
        InShort(error),
    )


def end_not_written(task: Any, error: BaseException) -> None:
    text = "The end of %s could not be written (%s); it is FAILED"
    say(logging.ERROR, text, task, InShort(error))


def died_after_its_end(task: Any, death: BaseException) -> None:
    text = "%s has ended and this is written; its own process died afterwards: %s"
    say(logging.WARNING, text, task, InShort(death))


def not_isolated(task: Any, error: BaseException) -> None:
    say(
        logging.WARNING,
        "%s, whose worker died twice, is run beside others, for no process of its own can be had:"
        " %s",
        task,
        InShort(error),
    )


def commit_hook_failed(task: RunningTask) -> None:
    text = "%s is done; something that its commit set off failed"
    say(logging.ERROR, text, task, exc_info=True)


def hook_failed(hook: str, task: RunningTask | PassiveTask) -> None:
    say(logging.ERROR, "%s of %s failed", hook, task, exc_info=True)


def backoff_failed(task: RunningTask) -> None:
    say(logging.ERROR, "The backoff of %s failed; taking the default", task, exc_info=True)


def loop_interrupted(error: BaseException) -> None:
    say(
        logging.ERROR,
        "An asyncio task of an async handler has raised %s; other runs go on",
        type(error).__name__,
        exc_info=error,
    )


def took_too_long(task: RunningTask, seconds: float, limit: float, count: int = 1) -> None:
    text = "%s%s took %.3f s, more than its timeout of %g s"
    say(logging.WARNING, text, task, _and_others(count), seconds, limit)


def batch_failed(task: RunningTask, count: int, error: BaseException) -> None:
    text = "%s%s failed together (%s); they are run again in halves"
    say(logging.INFO, text, task, _and_others(count), InShort(error))


def batch_not_settled(task: RunningTask, count: int, error: BaseException) -> None:
    text = "%s%s: the database did not take them, or they took too long (%s); each again by itself"
    say(logging.WARNING, text, task, _and_others(count), InShort(error))


def _and_others(count: int) -> str:
    return f" and {count - 1} more" if count > 1 else ""


def killing(task: RunningTask, error: BaseException, count: int = 1) -> None:
    text = "%s%s costs this process, which ends and is replaced: %s"
    say(logging.ERROR, text, task, _and_others(count), InShort(error))


def still_running(task: Any, seconds: float, limit: float, count: int = 1) -> None:
    text = "%s%s has been running for %.0f s; its timeout is %g s"
    say(logging.WARNING, text, task, _and_others(count), seconds, limit)
