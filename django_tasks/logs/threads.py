"""Sentences about the threads of a worker: poller, heartbeat, executor, notifier."""

import logging
from collections.abc import Collection

from django_tasks.logs.lines import say
from django_tasks.logs.phrases import InShort, named, quantity


def poller_failed(using: str) -> None:
    say(logging.ERROR, "A cycle of the poller on %s failed; it goes on", using, exc_info=True)


def poller_hangs(using: str, seconds: float) -> None:
    say(
        logging.ERROR,
        "The poller on %s has not finished a cycle for %.0f s although heartbeats go on; tasks that"
        " it has claimed and not started are given back",
        using,
        seconds,
    )


def poller_died(using: str) -> None:
    text = "The poller on %s has ended by an error; its tasks will be rescued"
    say(logging.ERROR, text, using, exc_info=True)


def lane_failed(
    using: str, biz_code: str, queue: str, error: BaseException, seconds: float
) -> None:
    say(
        logging.ERROR,
        "Tasks of code %r in queue %r on %s cannot be claimed (%s); trying again in %.0f s",
        biz_code,
        queue,
        using,
        InShort(error),
        seconds,
    )


def claims_missing(using: str, tasks: Collection[str]) -> None:
    text = "Claims on %s were lost inside this worker and are given back%s"
    say(logging.ERROR, text, using, named(tasks))


def thread_died(name: str) -> None:
    say(logging.ERROR, "Thread %s has died; another one takes its place", name)


def heartbeat_failed(using: str) -> None:
    say(logging.ERROR, "A heartbeat on %s failed; it is tried again", using, exc_info=True)


def heartbeat_late(using: str, error: BaseException) -> None:
    say(
        logging.ERROR,
        "No heartbeat of this worker on %s was possible for its whole lease (%s); it starts nothing"
        " until one is",
        using,
        InShort(error),
    )


def messages_dropped(using: str, count: int) -> None:
    say(
        logging.ERROR,
        "%s of the worker on %s could not be delivered: a receiver or a log handler is too slow",
        quantity(count, "signal or log line", "signals and log lines"),
        using,
    )


def receiver_failed() -> None:
    say(logging.ERROR, "A receiver of a signal failed", exc_info=True)
