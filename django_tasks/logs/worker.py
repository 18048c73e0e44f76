"""Sentences about workers: their start and stop, their death, and the sums of their work.

And about codes without a handler, where one is added and where one is due; locks; sticky handlers.
"""

import logging
from collections.abc import Collection, Sequence
from typing import Any

from django_tasks import signals
from django_tasks.logs.lines import say
from django_tasks.logs.phrases import keys_of, named, quantity
from django_tasks.sentences import Sentence


def _worker_started(*, worker_id: int, name: str, using: str, **_: Any) -> None:
    text = "Worker %(worker_id)d (%(worker)s) polls %(database)s"
    say("worker_started", logging.INFO, text, worker=name, **_worker(worker_id, using))


def _worker_stopped(*, worker_id: int, using: str, name: str = "", **_: Any) -> None:
    text = "Worker %(worker_id)d on %(database)s has stopped"
    say("worker_stopped", logging.INFO, text, worker=name, **_worker(worker_id, using))


def _rescued(
    *, worker_id: int, count: int, using: str, tasks: Collection[object] = (), **_: Any
) -> None:
    text = "Rescued %(rescued)s of worker %(worker_id)d on %(database)s, which is dead%(named)s"
    words = {"rescued": quantity(count, "task"), "named": named(tasks, count)}
    fields = {"count": count, "tasks": keys_of(tasks), **_worker(worker_id, using)}
    say("tasks_rescued", logging.WARNING, text, words, **fields)


def _worker(worker_id: int, using: str) -> dict[str, Any]:
    return {"worker_id": worker_id, "database": using}


RECEIVERS = (
    (signals.worker_started, _worker_started),
    (signals.worker_stopped, _worker_stopped),
    (signals.task_rescued, _rescued),
)


def not_rescued(using: str, worker_id: int, error: BaseException) -> None:
    text = (
        "The tasks of worker %(worker_id)d on %(database)s, which is dead, cannot be freed"
        " (%(error)s); it is tried again now and then"
    )
    say("rescue_failed", logging.ERROR, text, error=error, **_worker(worker_id, using))


def worker_replaced(using: str, old: int, new: int) -> None:
    text = (
        "Worker %(former_worker_id)d on %(database)s was taken for dead (no heartbeat for its"
        " whole lease); its claims are lost, it goes on as worker %(worker_id)d"
    )
    say("worker_replaced", logging.WARNING, text, former_worker_id=old, **_worker(new, using))


def worker_failed(using: str) -> None:
    text = (
        "The worker on %(database)s has ended by an error, which is a defect: this process ends,"
        " too"
    )
    say("worker_failed", logging.ERROR, text, database=using)


def asked_to_rest(using: str, worker_id: int) -> None:
    text = (
        "Worker %(worker_id)d on %(database)s was asked to be quiet: it claims nothing until it is"
        " asked to work again"
    )
    say("asked_to_rest", logging.INFO, text, **_worker(worker_id, using))


def asked_to_work(using: str, worker_id: int) -> None:
    text = "Worker %(worker_id)d on %(database)s was asked to work again"
    say("asked_to_work", logging.INFO, text, **_worker(worker_id, using))


def asked_to_stop(using: str, worker_id: int) -> None:
    text = (
        "Worker %(worker_id)d on %(database)s was asked to stop: it ends when nothing runs in it"
        " any more"
    )
    say("asked_to_stop", logging.INFO, text, **_worker(worker_id, using))


def shares_one_thread(using: str) -> None:
    text = (
        "gevent has replaced Python's threads: a handler that computes and a driver that waits in C"
        " (mysqlclient, sqlite3) hold up everything in this process, requests and the heartbeat of"
        " the worker on %(database)s too"
    )
    say("one_thread_shared", logging.WARNING, text, database=using)


def nothing_is_killed(codes: Collection[str]) -> None:
    text = (
        "The kill_after of %(codes)s has no effect here, for a worker of start() must not end its"
        " process; starttask does"
    )
    words = {"codes": ", ".join(codes)}
    say("nothing_is_killed", logging.WARNING, text, words, biz_codes=list(codes))


def stopping(using: str, tasks: Collection[str], seconds: float) -> None:
    """``tasks`` still run, and have ``seconds`` to end."""
    text = "Stopping on %(database)s: %(runs)s %(timeout)g s to end%(named)s"
    runs = quantity(len(tasks), "task still runs and has", "tasks still run and have")
    words = {"runs": runs, "named": named(tasks)}
    say("stopping", logging.INFO, text, words, timeout=seconds, **_left(using, tasks))


def _left(using: str, tasks: Collection[str]) -> dict[str, Any]:
    return {"database": using, "count": len(tasks), "tasks": keys_of(tasks)}


def abandoned(using: str, tasks: Collection[str]) -> None:
    if not tasks:
        text = (
            "Stopped on %(database)s without signing off: the database does not answer. Others"
            " will take this worker for dead and its claims for theirs"
        )
        say("not_signed_off", logging.WARNING, text, database=using)
        return
    text = "Stopped on %(database)s while %(ran)s still ran; %(they)s will be run again%(named)s"
    they = "it" if len(tasks) == 1 else "they"
    words = {"ran": quantity(len(tasks), "task"), "they": they, "named": named(tasks)}
    say("tasks_abandoned", logging.WARNING, text, words, **_left(using, tasks))


def not_forgiven(using: str, error: BaseException) -> None:
    text = (
        "The database %(database)s was not told that this stop is in order (%(error)s): what still"
        " runs will count as rescued once"
    )
    say("stop_not_told", logging.WARNING, text, database=using, error=error)


def receivers_unheard(using: str) -> None:
    text = (
        "Stopped on %(database)s in order, before all receivers of signals and all log handlers"
        " had heard everything: one of them is too slow"
    )
    say("receivers_unheard", logging.WARNING, text, database=using)


def no_handler_here(biz_code: str, near: str | None) -> None:
    """Tell of an add; ``near`` is the code of a handler that may have been meant."""
    text = (
        "A task of code %(biz_code)r was added, and no handler of this project has that code: it"
        " waits until a worker has one (setting STRICT_CODES)%(question)s"
    )
    words = {"question": f". Did you mean {near!r}?" if near else ""}
    say("no_handler_here", logging.WARNING, text, words, biz_code=biz_code, near=near)


def names_doubted(doubts: Sequence[Sentence], biz_code: str, queue: str = "") -> None:
    """Tell of names that were given for a pause or a limit."""
    if doubts:
        words = {"doubts": " ".join(doubt.english for doubt in doubts)}
        facts = {"biz_code": biz_code, "queue": queue}
        say("names_doubted", logging.WARNING, "%(doubts)s", words, **facts)


def unknown_code(using: str, biz_code: str, due: str) -> None:
    text = (
        "%(due)s %(tasks)s of code %(biz_code)r %(are)s due on %(database)s and no handler is known"
        " for it: %(they)s"
    )
    words = {"tasks": "tasks", "are": "are", "they": "they wait"}
    if due == "1":
        words = {"tasks": "task", "are": "is", "they": "it waits"}
    say("unknown_code", logging.WARNING, text, words, biz_code=biz_code, database=using, due=due)


def not_imported(module: str, error: BaseException) -> None:
    text = "%(imported)s cannot be imported; tasks of its functions wait"
    fields = {"imported": module, "error": error}
    say("functions_not_imported", logging.ERROR, text, exc_info=error, **fields)


def search_failed(using: str, biz_code: str, error: BaseException) -> None:
    text = (
        "The handler of code %(biz_code)r, which has due tasks on %(database)s, cannot be imported;"
        " its tasks wait"
    )
    fields = {"biz_code": biz_code, "database": using, "error": error}
    say("handler_not_imported", logging.ERROR, text, exc_info=error, **fields)


def paused(using: str, queue: str, biz_code: str) -> None:
    text, words = "Paused on %(database)s: %(scope)s", _scope(queue, biz_code)
    fields = {"database": using, "queue": queue, "biz_code": biz_code}
    say("paused", logging.INFO, text, words, **fields)


def resumed(using: str, queue: str, biz_code: str) -> None:
    text, words = "No longer paused on %(database)s: %(scope)s", _scope(queue, biz_code)
    fields = {"database": using, "queue": queue, "biz_code": biz_code}
    say("resumed", logging.INFO, text, words, **fields)


def _scope(queue: str, biz_code: str) -> dict[str, str]:
    code = f"code {biz_code!r}" if biz_code else "every code"
    return {"scope": f"{code} in queue {queue!r}" if queue else f"{code} in every queue"}


def tally(using: str, counters: dict[str, int], seconds: float) -> None:
    counts = {what: count for what, count in counters.items() if count}
    text = "In the last %(duration).0f s on %(database)s: %(told)s"
    words = {"told": ", ".join(f"{count} {what}" for what, count in counts.items())}
    say("tally", logging.INFO, text, words, database=using, duration=seconds, counts=counts)


def total(using: str, runs: int, seconds: float) -> None:
    """Tell how many runs have ended in all the ``seconds`` of a worker."""
    text = "Altogether on %(database)s: %(told)s in %(duration).0f s"
    words = {"told": quantity(runs, "run")}
    say("total", logging.INFO, text, words, database=using, duration=seconds, runs=runs)


def lock_not_renewed(name: str, error: BaseException, using: str) -> None:
    text = "Lock %(lock)r could not be renewed (%(error)s); trying again until its lease has passed"
    say("lock_not_renewed", logging.WARNING, text, lock=name, database=using, error=error)


def lock_lost(name: str, term: int, using: str) -> None:
    text = "Lock %(lock)r (term %(term)d) was lost while its section ran: somebody else may hold it"
    say("lock_lost", logging.ERROR, text, lock=name, term=term, database=using)


def lock_not_freed(name: str, error: BaseException, using: str) -> None:
    text = "Lock %(lock)r could not be freed (%(error)s); it is free when its lease has passed"
    say("lock_not_freed", logging.WARNING, text, lock=name, database=using, error=error)


def became_active(biz_code: str, term: int, using: str) -> None:
    text = "This worker is now the active one of %(biz_code)s on %(database)s (term %(term)d)"
    say("became_active", logging.INFO, text, biz_code=biz_code, database=using, term=term)


def no_longer_active(biz_code: str, term: int, using: str) -> None:
    text = (
        "This worker is not the active one of %(biz_code)s on %(database)s any more: its term"
        " %(term)d was lost"
    )
    say("no_longer_active", logging.WARNING, text, biz_code=biz_code, database=using, term=term)


def terms_failed(using: str) -> None:
    text = "The terms of sticky handlers on %(database)s met an error; trying again"
    say("terms_failed", logging.ERROR, text, exc_info=True, database=using)


def not_passive(biz_code: str, using: str) -> None:
    text = (
        "The row of %(biz_code)s on %(database)s could not be read for on_passive; trying again at"
        " the next heartbeat"
    )
    say("row_not_read", logging.ERROR, text, exc_info=True, biz_code=biz_code, database=using)
