"""Sentences about the threads of a worker: poller, heartbeat, executor, notifier."""

import logging
from collections.abc import Collection

from django_tasks.logs.lines import say
from django_tasks.logs.phrases import InShort, keys_of, named, quantity


def poller_failed(using: str) -> None:
    text = "A cycle of the poller on %s failed; it goes on"
    say("poller_failed", logging.ERROR, text, using, exc_info=True, database=using)


def poller_hangs(using: str, seconds: float) -> None:
    say(
        "poller_hangs",
        logging.ERROR,
        "The poller on %s has not finished a cycle for %.0f s although heartbeats go on; tasks that"
        " it has claimed and not started are given back",
        using,
        seconds,
        database=using,
        duration=seconds,
    )


def poller_died(using: str) -> None:
    text = "The poller on %s has ended by an error; its tasks will be rescued"
    say("poller_died", logging.ERROR, text, using, exc_info=True, database=using)


def lane_failed(
    using: str, biz_code: str, queue: str, error: BaseException, seconds: float
) -> None:
    reason = InShort(error)
    say(
        "claim_refused",
        logging.ERROR,
        "Tasks of code %r in queue %r on %s cannot be claimed (%s); trying again in %.0f s",
        biz_code,
        queue,
        using,
        reason,
        seconds,
        biz_code=biz_code,
        queue=queue,
        database=using,
        error=reason,
        delay=seconds,
    )


def claims_missing(using: str, tasks: Collection[str]) -> None:
    text = "Claims on %s were lost inside this worker and are given back%s"
    fields = {"database": using, "count": len(tasks), "tasks": keys_of(tasks)}
    say("claims_missing", logging.ERROR, text, using, named(tasks), **fields)


def thread_died(name: str) -> None:
    text = "Thread %s has died; another one takes its place"
    say("thread_died", logging.ERROR, text, name, dead_thread=name)


def heartbeat_failed(using: str) -> None:
    text = "A heartbeat on %s failed; it is tried again"
    say("heartbeat_failed", logging.ERROR, text, using, exc_info=True, database=using)


def heartbeat_late(using: str, error: BaseException) -> None:
    reason = InShort(error)
    say(
        "heartbeat_late",
        logging.ERROR,
        "No heartbeat of this worker on %s was possible for its whole lease (%s); it starts nothing"
        " until one is",
        using,
        reason,
        database=using,
        error=reason,
    )


def messages_dropped(using: str, count: int) -> None:
    say(
        "messages_dropped",
        logging.ERROR,
        "%s of the worker on %s could not be delivered: a receiver or a log handler is too slow",
        quantity(count, "signal or log line", "signals and log lines"),
        using,
        database=using,
        count=count,
    )


def receiver_failed() -> None:
    say("receiver_failed", logging.ERROR, "A receiver of a signal failed", exc_info=True)


def companion_failed() -> None:
    """Tell of one that goes along with runs, such as a tracker of errors."""
    text = "A companion of each run, such as a tracker of errors, has failed"
    say("companion_failed", logging.ERROR, text, exc_info=True)
