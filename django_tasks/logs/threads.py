"""Sentences about the threads of a worker: poller, heartbeat, executor, notifier, and the one that
listens for hints and doorbells.
"""

import logging
from collections.abc import Collection

from django_tasks.logs.lines import say
from django_tasks.logs.phrases import keys_of, named, quantity


def poller_failed(using: str) -> None:
    text = "A cycle of the poller on %(database)s failed; it goes on"
    say("poller_failed", logging.ERROR, text, exc_info=True, database=using)


def poller_hangs(using: str, seconds: float) -> None:
    text = (
        "The poller on %(database)s has not finished a cycle for %(duration).0f s although"
        " heartbeats go on; tasks that it has claimed and not started are given back"
    )
    say("poller_hangs", logging.ERROR, text, database=using, duration=seconds)


def poller_died(using: str) -> None:
    text = "The poller on %(database)s has ended by an error; its tasks will be rescued"
    say("poller_died", logging.ERROR, text, exc_info=True, database=using)


def lane_failed(
    using: str, biz_code: str, queue: str, error: BaseException, seconds: float
) -> None:
    text = (
        "Tasks of code %(biz_code)r in queue %(queue)r on %(database)s cannot be claimed"
        " (%(error)s); trying again in %(delay).0f s"
    )
    lane = {"biz_code": biz_code, "queue": queue, "database": using}
    say("claim_refused", logging.ERROR, text, error=error, delay=seconds, **lane)


def claims_missing(using: str, tasks: Collection[str]) -> None:
    text = "Claims on %(database)s were lost inside this worker and are given back%(named)s"
    fields = {"database": using, "count": len(tasks), "tasks": keys_of(tasks)}
    say("claims_missing", logging.ERROR, text, {"named": named(tasks)}, **fields)


def thread_died(name: str) -> None:
    text = "Thread %(dead_thread)s has died; another one takes its place"
    say("thread_died", logging.ERROR, text, dead_thread=name)


def heartbeat_failed(using: str) -> None:
    text = "A heartbeat on %(database)s failed; it is tried again"
    say("heartbeat_failed", logging.ERROR, text, exc_info=True, database=using)


def heartbeat_late(using: str, error: BaseException) -> None:
    text = (
        "No heartbeat of this worker on %(database)s was possible for its whole lease (%(error)s);"
        " it starts nothing until one is"
    )
    say("heartbeat_late", logging.ERROR, text, database=using, error=error)


def messages_dropped(using: str, count: int) -> None:
    text = (
        "%(messages)s of the worker on %(database)s could not be delivered: a receiver or a log"
        " handler is too slow"
    )
    words = {"messages": quantity(count, "signal or log line", "signals and log lines")}
    say("messages_dropped", logging.ERROR, text, words, database=using, count=count)


def receiver_failed() -> None:
    say("receiver_failed", logging.ERROR, "A receiver of a signal failed", exc_info=True)


def companion_failed() -> None:
    """Tell of one that goes along with runs, such as a tracker of errors."""
    text = "A companion of each run, such as a tracker of errors, has failed"
    say("companion_failed", logging.ERROR, text, exc_info=True)


def hints_lost(using: str, error: BaseException) -> None:
    text = "No hints from %(database)s (%(error)s); polling goes on"
    say("hints_lost", logging.WARNING, text, database=using, error=error)


def hints_back(using: str) -> None:
    say("hints_back", logging.INFO, "Hints from %(database)s are back", database=using)


def no_doorbell(host: str, error: BaseException) -> None:
    text = "No doorbell at %(host)s (%(error)s); polling goes on"
    say("no_doorbell", logging.WARNING, text, host=host, error=error)
