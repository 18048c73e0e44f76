"""Sentences about schedules: what handlers run by themselves, and times that were missed."""

import logging
from datetime import datetime

from django_tasks.handlers.running_task import RunningTask
from django_tasks.logs.fields import Coded, fields_of
from django_tasks.logs.lines import say
from django_tasks.logs.phrases import local_time


def schedule_kept(biz_code: str, schedule: str | None, using: str) -> None:
    fields = {"biz_code": biz_code, "database": using}
    if schedule is None:
        text = "The handler of %(biz_code)s has no schedule any more; its row on %(database)s goes"
        say("schedule_removed", logging.INFO, text, **fields)
    else:
        text = "The handler of %(biz_code)s runs by itself on %(database)s: %(schedule)s"
        say("schedule_kept", logging.INFO, text, schedule=schedule, **fields)


def schedule_replaced(biz_code: str, old: str | None, schedule: str | None, using: str) -> None:
    text = (
        "The handler of %(biz_code)s runs by itself on %(database)s: %(schedule)s. Its row said:"
        " %(old_schedule)s"
    )
    fields = {"biz_code": biz_code, "database": using, "schedule": schedule, "old_schedule": old}
    say("schedule_replaced", logging.WARNING, text, **fields)


def release_is_older(biz_code: str, own: str | None, schedule: str | None, using: str) -> None:
    text = (
        "The handler of %(biz_code)s runs by itself on %(database)s as a newer release says:"
        " %(schedule)s. This release is older, says %(own_schedule)s and changes nothing"
    )
    fields = {"biz_code": biz_code, "database": using, "schedule": schedule, "own_schedule": own}
    say("release_is_older", logging.WARNING, text, **fields)


def host_forgotten(biz_code: str, biz_num: str, using: str) -> None:
    text = (
        "%(biz_code)s/%(biz_num)s on %(database)s goes: no worker of its host has been seen for a"
        " day"
    )
    say("host_forgotten", logging.INFO, text, biz_code=biz_code, biz_num=biz_num, database=using)


def schedule_over(biz_code: str, error: Exception, using: str) -> None:
    text = "The handler of %(biz_code)s does not run by itself: %(error)s"
    say("schedule_over", logging.WARNING, text, biz_code=biz_code, database=using, error=error)


def schedules_not_kept(using: str, error: BaseException) -> None:
    text = (
        "The rows of handlers with a schedule on %(database)s could not be brought up to date"
        " (%(error)s); trying again"
    )
    say("schedules_not_kept", logging.WARNING, text, database=using, error=error)


def unknown_trigger(task: RunningTask) -> None:
    text = "%(task)s has a trigger that its handler here does not have; it waits"
    say("trigger_unknown", logging.WARNING, text, **fields_of(task))


def schedule_not_here(task: RunningTask, error: Exception) -> None:
    text = "%(task)s waits for a worker that can read its schedule: %(error)s"
    say("schedule_not_here", logging.WARNING, text, **fields_of(task), error=error)


def zone_changed(biz_code: str, biz_num: str, when: datetime, using: str) -> None:
    text = (
        "%(biz_code)s/%(biz_num)s on %(database)s is due at %(time)s now: the rules of its time"
        " zone are others than they were"
    )
    fields = {"biz_code": biz_code, "biz_num": biz_num, "database": using, "when": when.isoformat()}
    say("zone_changed", logging.WARNING, text, {"time": local_time(when)}, **fields)


_MISSED = {
    "coalesce": "missed more than one of its times; it runs once, for the last of them",
    "overrun": "left out times of its schedule that passed meanwhile",
    "catch_up": "left out times of its schedule: more have passed than it is to catch up",
    "run": "is a misfire, and runs all the same",
    "skip": "is a misfire: this time it is skipped",
    "fail": "is a misfire: it is parked as FAILED",
    "replaced": "comes no more: its handler has got another schedule",
}


def missed(task: Coded, lateness: float, action: str, using: str = "") -> None:
    text, words = "%(task)s, due %(lateness).3f s ago, %(end)s", {"end": _MISSED[action]}
    fields = {**fields_of(task, using), "lateness": lateness, "action": action}
    say("task_missed", logging.WARNING, text, words, **fields)
