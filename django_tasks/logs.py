"""Every sentence that this package logs, and its level. Logger: ``django_tasks``.

One line a task stands at DEBUG (``starttask -v 2``): at tens of thousands of tasks a second it
would be the work itself. What somebody should look at is INFO and above.

Reasons in a line are masked. Tracebacks (``exc_info``) are not: they belong to the project's own
logging, which formats them, and to whoever it lets read them.
"""

import logging
from datetime import datetime
from typing import Any

from django_tasks import sensitive, signals
from django_tasks.running import RunningTask

logger = logging.getLogger("django_tasks")

LONGEST_REASON = 300


def connect() -> None:
    """Listen to the package's own signals. Called once, at ready."""
    for signal, receiver in (
        (signals.task_retried, _retried),
        (signals.task_failed, _failed),
        (signals.task_lost, _lost),
        (signals.task_rescued, _rescued),
        (signals.worker_started, _worker_started),
        (signals.worker_stopped, _worker_stopped),
    ):
        signal.connect(receiver, dispatch_uid="django_tasks.logs")


# Runs


# These two are called and not signalled: a signal that nobody else listens to costs next to nothing
# as long as we do not either.


def succeeded(task: RunningTask, seconds: float) -> None:
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug("%s done %s", task, _facts(task, seconds), extra=_extra(task, seconds))


def rescheduled(task: RunningTask, seconds: float, when: datetime) -> None:
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug(
            "%s done, again at %s %s",
            task,
            _local(when),
            _facts(task, seconds),
            extra=_extra(task, seconds),
        )


def _retried(
    *, task: RunningTask, seconds: float, when: datetime, exception: BaseException, **_: Any
) -> None:
    logger.warning(
        "%s failed, again at %s %s: %s",
        task,
        _local(when),
        _facts(task, seconds),
        _in_short(exception),
        extra=_extra(task, seconds),
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
        logger.error("%s FAILED: %s", task, error)
        return
    logger.error(
        "%s FAILED for good %s",
        task,
        _facts(task, seconds),
        exc_info=exception,
        extra=_extra(task, seconds),
    )


def _lost(*, task: Any, **_: Any) -> None:
    logger.warning("%s was lost: its row had gone to somebody else before the run ended", task)


def _rescued(*, worker_id: int, count: int, using: str, **_: Any) -> None:
    logger.warning("Rescued %d tasks of worker %d on %s, which is dead", count, worker_id, using)


def run_failed(task: Any) -> None:
    logger.exception("The run of %s failed outside its handler; it is tried again", task)


def not_settled(task: RunningTask, error: BaseException) -> None:
    logger.warning(
        "The database did not confirm the end of %s (%s); unless it went through, it runs again",
        task,
        _in_short(error),
    )


def commit_hook_failed(task: RunningTask) -> None:
    logger.exception("%s is done; something that its commit set off failed", task)


def hook_failed(hook: str, task: RunningTask) -> None:
    logger.exception("%s of %s failed", hook, task)


def backoff_failed(task: RunningTask) -> None:
    logger.exception("The backoff of %s failed; taking the default", task)


def schedule_kept(biz_code: str, schedule: str | None, using: str) -> None:
    if schedule is None:
        logger.info(
            "The handler of %s has no schedule any more; its row on %s goes", biz_code, using
        )
    else:
        logger.info("The handler of %s runs by itself on %s: %s", biz_code, using, schedule)


def schedule_over(biz_code: str, error: Exception) -> None:
    logger.warning("The handler of %s does not run by itself: %s", biz_code, error)


def unknown_trigger(task: Any) -> None:
    logger.warning("%s has a trigger that its handler here does not have; it waits", task)


_MISSED = {
    "coalesce": "missed more than one of its times; it runs once, for the last of them",
    "overrun": "left out times of its schedule that passed meanwhile",
    "run": "is a misfire, and runs all the same",
    "skip": "is a misfire: this time it is skipped",
    "fail": "is a misfire: it is parked as FAILED",
}


def missed(task: RunningTask, lateness: float, action: str) -> None:
    logger.warning("%s, due %.3f s ago, %s", task, lateness, _MISSED[action])


def took_too_long(task: RunningTask, seconds: float, limit: float) -> None:
    logger.warning("%s took %.3f s, more than its timeout of %g s", task, seconds, limit)


def still_running(task: Any, seconds: float, limit: float) -> None:
    logger.warning("%s has been running for %.0f s; its timeout is %g s", task, seconds, limit)


# The worker


def _worker_started(*, worker_id: int, name: str, using: str, **_: Any) -> None:
    logger.info("Worker %d (%s) polls %s", worker_id, name, using)


def _worker_stopped(*, worker_id: int, using: str, **_: Any) -> None:
    logger.info("Worker %d on %s has stopped", worker_id, using)


def worker_replaced(using: str, old: int, new: int) -> None:
    logger.warning(
        "Worker %d on %s was taken for dead (no heartbeat for its whole lease); its claims are"
        " lost, it goes on as worker %d",
        old,
        using,
        new,
    )


def stopping(using: str, running: int) -> None:
    logger.info("Stopping on %s: %d tasks still run", using, running)


def abandoned(using: str, tasks: list[str]) -> None:
    if not tasks:
        logger.warning(
            "Stopped on %s without signing off: the database does not answer. Others will take"
            " this worker for dead and its claims for theirs",
            using,
        )
        return
    logger.warning(
        "Stopped on %s while %d tasks still ran; they will be run again: %s",
        using,
        len(tasks),
        ", ".join(tasks[:20]),
    )


def unknown_code(using: str, biz_code: str, due: str) -> None:
    logger.warning(
        "%s tasks of code %r are due on %s and no handler is known for it: they wait",
        due,
        biz_code,
        using,
    )


def paused(using: str, queue: str, biz_code: str) -> None:
    logger.info("Paused on %s: %s", using, _scope(queue, biz_code))


def resumed(using: str, queue: str, biz_code: str) -> None:
    logger.info("No longer paused on %s: %s", using, _scope(queue, biz_code))


def _scope(queue: str, biz_code: str) -> str:
    code = f"code {biz_code!r}" if biz_code else "every code"
    return f"{code} in queue {queue!r}" if queue else f"{code} in every queue"


def tally(using: str, counters: dict[str, int], seconds: float) -> None:
    facts = ", ".join(f"{count} {what}" for what, count in counters.items() if count)
    logger.info("In the last %.0f s on %s: %s", seconds, using, facts)


def end_not_written(task: Any, error: BaseException) -> None:
    logger.error("The end of %s could not be written (%s); it is FAILED", task, _in_short(error))


# The database


def database_down(using: str, error: BaseException, kept: int) -> None:
    logger.error(
        "Database %s does not answer (%s); %d ends are kept, trying again until it is back",
        using,
        _in_short(error),
        kept,
    )


def database_back(using: str, seconds: float) -> None:
    logger.warning("Database %s is back after %.1f s", using, seconds)


def hints_lost(using: str, error: BaseException) -> None:
    logger.warning("No hints from %s (%s); polling goes on", using, _in_short(error))


def hints_back(using: str) -> None:
    logger.info("Hints from %s are back", using)


def no_doorbell(host: str, error: BaseException) -> None:
    logger.warning("No doorbell at %s (%s); polling goes on", host, _in_short(error))


def poller_failed(using: str) -> None:
    logger.exception("A cycle of the poller on %s failed; it goes on", using)


# Locks


def lock_not_renewed(name: str, error: BaseException) -> None:
    logger.warning(
        "Lock %r could not be renewed (%s); trying again until its lease has passed",
        name,
        _in_short(error),
    )


def lock_lost(name: str, term: int) -> None:
    logger.error(
        "Lock %r (term %d) was lost while its section ran: somebody else may hold it", name, term
    )


def lock_not_freed(name: str, error: BaseException) -> None:
    logger.warning(
        "Lock %r could not be freed (%s); it is free when its lease has passed",
        name,
        _in_short(error),
    )


# Processes


def child_ended(number: int, pid: int, code: int | None, delay: float) -> None:
    logger.error(
        "Process %d (pid %d) ended with code %s; starting another in %.1f s",
        number,
        pid,
        code,
        delay,
    )


def retiring(reached: str) -> None:
    logger.info(
        "This process has reached its limit, %s: ending when nothing runs any more", reached
    )


def second_signal() -> None:
    logger.warning("Second signal: ending at once; what still runs will be rescued")


def supervisor_died() -> None:
    logger.error("The supervisor is gone: stopping")


def _facts(task: RunningTask, seconds: float) -> str:
    return (
        f"(attempt {task.attempt}, took {seconds * 1000:.1f} ms,"
        f" {task.lateness * 1000:.1f} ms late)"
    )


def _extra(task: RunningTask, seconds: float) -> dict[str, Any]:
    """For structured logs: the same facts by name."""
    return {
        "task_id": task.id,
        "biz_code": task.biz_code,
        "biz_num": task.biz_num,
        "attempt": task.attempt,
        "duration": seconds,
        "lateness": task.lateness,
    }


def _in_short(error: BaseException) -> str:
    text = str(error).strip().split("\n")[0].replace("\0", "\\0")
    text = sensitive.beginning(text, LONGEST_REASON)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _local(when: datetime) -> str:
    return when.astimezone().isoformat(sep=" ", timespec="milliseconds")
