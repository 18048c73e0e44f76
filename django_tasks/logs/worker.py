"""Sentences about workers: their start and stop, their death, and the sums of their work."""

import logging
from collections.abc import Collection
from typing import Any

from django_tasks import signals
from django_tasks.logs.lines import say
from django_tasks.logs.phrases import InShort, named, quantity


def _worker_started(*, worker_id: int, name: str, using: str, **_: Any) -> None:
    say(logging.INFO, "Worker %d (%s) polls %s", worker_id, name, using)


def _worker_stopped(*, worker_id: int, using: str, **_: Any) -> None:
    say(logging.INFO, "Worker %d on %s has stopped", worker_id, using)


def _rescued(
    *, worker_id: int, count: int, using: str, tasks: Collection[object] = (), **_: Any
) -> None:
    say(
        logging.WARNING,
        "Rescued %s of worker %d on %s, which is dead%s",
        quantity(count, "task"),
        worker_id,
        using,
        named(tasks, count),
    )


RECEIVERS = (
    (signals.worker_started, _worker_started),
    (signals.worker_stopped, _worker_stopped),
    (signals.task_rescued, _rescued),
)


def not_rescued(using: str, worker_id: int, error: BaseException) -> None:
    say(
        logging.ERROR,
        "The tasks of worker %d on %s, which is dead, cannot be freed (%s); it is tried again now"
        " and then",
        worker_id,
        using,
        InShort(error),
    )


def worker_replaced(using: str, old: int, new: int) -> None:
    say(
        logging.WARNING,
        "Worker %d on %s was taken for dead (no heartbeat for its whole lease); its claims are"
        " lost, it goes on as worker %d",
        old,
        using,
        new,
    )


def worker_failed(using: str) -> None:
    text = "The worker on %s has ended by an error, which is a defect: this process ends, too"
    say(logging.ERROR, text, using)


def shares_one_thread(using: str) -> None:
    say(
        logging.WARNING,
        "gevent has replaced Python's threads: a handler that computes and a driver that waits in C"
        " (mysqlclient, sqlite3) hold up everything in this process, requests and the heartbeat of"
        " the worker on %s too",
        using,
    )


def nothing_is_killed(codes: Collection[str]) -> None:
    say(
        logging.WARNING,
        "The kill_after of %s has no effect here, for a worker of start() must not end"
        " its process; starttask does",
        ", ".join(codes),
    )


def stopping(using: str, tasks: Collection[str], seconds: float) -> None:
    """``tasks`` still run, and have ``seconds`` to end."""
    say(
        logging.INFO,
        "Stopping on %s: %s and %s %g s to end%s",
        using,
        quantity(len(tasks), "task still runs", "tasks still run"),
        "has" if len(tasks) == 1 else "have",
        seconds,
        named(tasks),
    )


def abandoned(using: str, tasks: Collection[str]) -> None:
    if not tasks:
        text = (
            "Stopped on %s without signing off: the database does not answer. Others will take"
            " this worker for dead and its claims for theirs"
        )
        say(logging.WARNING, text, using)
        return
    say(
        logging.WARNING,
        "Stopped on %s while %s still ran; %s will be run again%s",
        using,
        quantity(len(tasks), "task"),
        "it" if len(tasks) == 1 else "they",
        named(tasks),
    )


def not_forgiven(using: str, error: BaseException) -> None:
    say(
        logging.WARNING,
        "The database %s was not told that this stop is in order (%s): what still runs will count"
        " as rescued once",
        using,
        InShort(error),
    )


def receivers_unheard(using: str) -> None:
    say(
        logging.WARNING,
        "Stopped on %s in order, before all receivers of signals and all log handlers had heard"
        " everything: one of them is too slow",
        using,
    )


def unknown_code(using: str, biz_code: str, due: str) -> None:
    is_one = due == "1"
    say(
        logging.WARNING,
        "%s %s of code %r %s due on %s and no handler is known for it: %s",
        due,
        "task" if is_one else "tasks",
        biz_code,
        "is" if is_one else "are",
        using,
        "it waits" if is_one else "they wait",
    )


def paused(using: str, queue: str, biz_code: str) -> None:
    say(logging.INFO, "Paused on %s: %s", using, _scope(queue, biz_code))


def resumed(using: str, queue: str, biz_code: str) -> None:
    say(logging.INFO, "No longer paused on %s: %s", using, _scope(queue, biz_code))


def _scope(queue: str, biz_code: str) -> str:
    code = f"code {biz_code!r}" if biz_code else "every code"
    return f"{code} in queue {queue!r}" if queue else f"{code} in every queue"


def tally(using: str, counters: dict[str, int], seconds: float) -> None:
    facts = ", ".join(f"{count} {what}" for what, count in counters.items() if count)
    say(logging.INFO, "In the last %.0f s on %s: %s", seconds, using, facts)


def total(using: str, runs: int, seconds: float) -> None:
    """Tell how many runs have ended in all the ``seconds`` of a worker."""
    say(logging.INFO, "Altogether on %s: %s in %.0f s", using, quantity(runs, "run"), seconds)
