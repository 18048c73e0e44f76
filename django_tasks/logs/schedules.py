"""Sentences about schedules: what handlers run by themselves, and times that were missed."""

import logging
from typing import Any

from django_tasks.handlers.running_task import RunningTask
from django_tasks.logs.lines import say
from django_tasks.logs.phrases import InShort


def schedule_kept(biz_code: str, schedule: str | None, using: str) -> None:
    if schedule is None:
        text = "The handler of %s has no schedule any more; its row on %s goes"
        say(logging.INFO, text, biz_code, using)
    else:
        text = "The handler of %s runs by itself on %s: %s"
        say(logging.INFO, text, biz_code, using, schedule)


def host_forgotten(biz_code: str, biz_num: str, using: str) -> None:
    text = "%s/%s on %s goes: no worker of its host has been seen for a day"
    say(logging.INFO, text, biz_code, biz_num, using)


def schedule_over(biz_code: str, error: Exception) -> None:
    say(logging.WARNING, "The handler of %s does not run by itself: %s", biz_code, InShort(error))


def schedules_not_kept(using: str, error: BaseException) -> None:
    say(
        logging.WARNING,
        "The rows of handlers with a schedule on %s could not be brought up to date (%s); trying"
        " again",
        using,
        InShort(error),
    )


def unknown_trigger(task: Any) -> None:
    text = "%s has a trigger that its handler here does not have; it waits"
    say(logging.WARNING, text, task)


_MISSED = {
    "coalesce": "missed more than one of its times; it runs once, for the last of them",
    "overrun": "left out times of its schedule that passed meanwhile",
    "catch_up": "left out times of its schedule: more have passed than it is to catch up",
    "run": "is a misfire, and runs all the same",
    "skip": "is a misfire: this time it is skipped",
    "fail": "is a misfire: it is parked as FAILED",
}


def missed(task: RunningTask, lateness: float, action: str) -> None:
    say(logging.WARNING, "%s, due %.3f s ago, %s", task, lateness, _MISSED[action])
