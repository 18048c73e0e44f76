"""Sentences about workers: their start and stop, their death, and the sums of their work."""

import logging
from collections.abc import Collection
from typing import Any

from django_tasks import signals
from django_tasks.logs.lines import say
from django_tasks.logs.phrases import InShort, keys_of, named, quantity


def _worker_started(*, worker_id: int, name: str, using: str, **_: Any) -> None:
    text, fields = "Worker %d (%s) polls %s", {"worker": name, **_worker(worker_id, using)}
    say("worker_started", logging.INFO, text, worker_id, name, using, **fields)


def _worker_stopped(*, worker_id: int, using: str, name: str = "", **_: Any) -> None:
    text, fields = "Worker %d on %s has stopped", {"worker": name, **_worker(worker_id, using)}
    say("worker_stopped", logging.INFO, text, worker_id, using, **fields)


def _rescued(
    *, worker_id: int, count: int, using: str, tasks: Collection[object] = (), **_: Any
) -> None:
    say(
        "tasks_rescued",
        logging.WARNING,
        "Rescued %s of worker %d on %s, which is dead%s",
        quantity(count, "task"),
        worker_id,
        using,
        named(tasks, count),
        count=count,
        tasks=keys_of(tasks),
        **_worker(worker_id, using),
    )


def _worker(worker_id: int, using: str) -> dict[str, Any]:
    return {"worker_id": worker_id, "database": using}


RECEIVERS = (
    (signals.worker_started, _worker_started),
    (signals.worker_stopped, _worker_stopped),
    (signals.task_rescued, _rescued),
)


def not_rescued(using: str, worker_id: int, error: BaseException) -> None:
    reason = InShort(error)
    say(
        "rescue_failed",
        logging.ERROR,
        "The tasks of worker %d on %s, which is dead, cannot be freed (%s); it is tried again now"
        " and then",
        worker_id,
        using,
        reason,
        error=reason,
        **_worker(worker_id, using),
    )


def worker_replaced(using: str, old: int, new: int) -> None:
    say(
        "worker_replaced",
        logging.WARNING,
        "Worker %d on %s was taken for dead (no heartbeat for its whole lease); its claims are"
        " lost, it goes on as worker %d",
        old,
        using,
        new,
        former_worker_id=old,
        **_worker(new, using),
    )


def worker_failed(using: str) -> None:
    text = "The worker on %s has ended by an error, which is a defect: this process ends, too"
    say("worker_failed", logging.ERROR, text, using, database=using)


def asked_to_rest(using: str, worker_id: int) -> None:
    text = (
        "Worker %d on %s was asked to be quiet: it claims nothing until it is asked to work again"
    )
    say("asked_to_rest", logging.INFO, text, worker_id, using, **_worker(worker_id, using))


def asked_to_work(using: str, worker_id: int) -> None:
    text = "Worker %d on %s was asked to work again"
    say("asked_to_work", logging.INFO, text, worker_id, using, **_worker(worker_id, using))


def asked_to_stop(using: str, worker_id: int) -> None:
    text = "Worker %d on %s was asked to stop: it ends when nothing runs in it any more"
    say("asked_to_stop", logging.INFO, text, worker_id, using, **_worker(worker_id, using))


def shares_one_thread(using: str) -> None:
    say(
        "one_thread_shared",
        logging.WARNING,
        "gevent has replaced Python's threads: a handler that computes and a driver that waits in C"
        " (mysqlclient, sqlite3) hold up everything in this process, requests and the heartbeat of"
        " the worker on %s too",
        using,
        database=using,
    )


def nothing_is_killed(codes: Collection[str]) -> None:
    say(
        "nothing_is_killed",
        logging.WARNING,
        "The kill_after of %s has no effect here, for a worker of start() must not end"
        " its process; starttask does",
        ", ".join(codes),
        biz_codes=list(codes),
    )


def stopping(using: str, tasks: Collection[str], seconds: float) -> None:
    """``tasks`` still run, and have ``seconds`` to end."""
    say(
        "stopping",
        logging.INFO,
        "Stopping on %s: %s and %s %g s to end%s",
        using,
        quantity(len(tasks), "task still runs", "tasks still run"),
        "has" if len(tasks) == 1 else "have",
        seconds,
        named(tasks),
        timeout=seconds,
        **_left(using, tasks),
    )


def _left(using: str, tasks: Collection[str]) -> dict[str, Any]:
    return {"database": using, "count": len(tasks), "tasks": keys_of(tasks)}


def abandoned(using: str, tasks: Collection[str]) -> None:
    if not tasks:
        text = (
            "Stopped on %s without signing off: the database does not answer. Others will take"
            " this worker for dead and its claims for theirs"
        )
        say("not_signed_off", logging.WARNING, text, using, database=using)
        return
    say(
        "tasks_abandoned",
        logging.WARNING,
        "Stopped on %s while %s still ran; %s will be run again%s",
        using,
        quantity(len(tasks), "task"),
        "it" if len(tasks) == 1 else "they",
        named(tasks),
        **_left(using, tasks),
    )


def not_forgiven(using: str, error: BaseException) -> None:
    reason = InShort(error)
    say(
        "stop_not_told",
        logging.WARNING,
        "The database %s was not told that this stop is in order (%s): what still runs will count"
        " as rescued once",
        using,
        reason,
        database=using,
        error=reason,
    )


def receivers_unheard(using: str) -> None:
    say(
        "receivers_unheard",
        logging.WARNING,
        "Stopped on %s in order, before all receivers of signals and all log handlers had heard"
        " everything: one of them is too slow",
        using,
        database=using,
    )


def unknown_code(using: str, biz_code: str, due: str) -> None:
    is_one = due == "1"
    say(
        "unknown_code",
        logging.WARNING,
        "%s %s of code %r %s due on %s and no handler is known for it: %s",
        due,
        "task" if is_one else "tasks",
        biz_code,
        "is" if is_one else "are",
        using,
        "it waits" if is_one else "they wait",
        biz_code=biz_code,
        database=using,
        due=due,
    )


def not_imported(module: str, error: BaseException) -> None:
    say(
        "functions_not_imported",
        logging.ERROR,
        "%s cannot be imported; tasks of its functions wait",
        module,
        exc_info=error,
        imported=module,
        error=InShort(error),
    )


def search_failed(using: str, biz_code: str, error: BaseException) -> None:
    say(
        "handler_not_imported",
        logging.ERROR,
        "The handler of code %r, which has due tasks on %s, cannot be imported; its tasks wait",
        biz_code,
        using,
        exc_info=error,
        biz_code=biz_code,
        database=using,
        error=InShort(error),
    )


def paused(using: str, queue: str, biz_code: str) -> None:
    fields = {"database": using, "queue": queue, "biz_code": biz_code}
    say("paused", logging.INFO, "Paused on %s: %s", using, _scope(queue, biz_code), **fields)


def resumed(using: str, queue: str, biz_code: str) -> None:
    text = "No longer paused on %s: %s"
    fields = {"database": using, "queue": queue, "biz_code": biz_code}
    say("resumed", logging.INFO, text, using, _scope(queue, biz_code), **fields)


def _scope(queue: str, biz_code: str) -> str:
    code = f"code {biz_code!r}" if biz_code else "every code"
    return f"{code} in queue {queue!r}" if queue else f"{code} in every queue"


def tally(using: str, counters: dict[str, int], seconds: float) -> None:
    counts = {what: count for what, count in counters.items() if count}
    facts = ", ".join(f"{count} {what}" for what, count in counts.items())
    text, fields = "In the last %.0f s on %s: %s", {"database": using, "duration": seconds}
    say("tally", logging.INFO, text, seconds, using, facts, counts=counts, **fields)


def total(using: str, runs: int, seconds: float) -> None:
    """Tell how many runs have ended in all the ``seconds`` of a worker."""
    text, fields = "Altogether on %s: %s in %.0f s", {"database": using, "duration": seconds}
    say("total", logging.INFO, text, using, quantity(runs, "run"), seconds, runs=runs, **fields)
