"""Sentences about schedules: what handlers run by themselves, and times that were missed."""

import logging

from django_tasks.handlers.running_task import RunningTask
from django_tasks.logs.fields import Coded, fields_of
from django_tasks.logs.lines import say
from django_tasks.logs.phrases import InShort


def schedule_kept(biz_code: str, schedule: str | None, using: str) -> None:
    fields = {"biz_code": biz_code, "database": using}
    if schedule is None:
        text = "The handler of %s has no schedule any more; its row on %s goes"
        say("schedule_removed", logging.INFO, text, biz_code, using, **fields)
    else:
        text = "The handler of %s runs by itself on %s: %s"
        fields["schedule"] = schedule
        say("schedule_kept", logging.INFO, text, biz_code, using, schedule, **fields)


def schedule_replaced(biz_code: str, old: str | None, schedule: str | None, using: str) -> None:
    text = "The handler of %s runs by itself on %s: %s. Its row said: %s"
    fields = {"biz_code": biz_code, "database": using, "schedule": schedule, "old_schedule": old}
    say("schedule_replaced", logging.WARNING, text, biz_code, using, schedule, old, **fields)


def release_is_older(biz_code: str, own: str | None, schedule: str | None, using: str) -> None:
    text = (
        "The handler of %s runs by itself on %s as a newer release says: %s. This release is older,"
        " says %s and changes nothing"
    )
    fields = {"biz_code": biz_code, "database": using, "schedule": schedule, "own_schedule": own}
    say("release_is_older", logging.WARNING, text, biz_code, using, schedule, own, **fields)


def host_forgotten(biz_code: str, biz_num: str, using: str) -> None:
    text = "%s/%s on %s goes: no worker of its host has been seen for a day"
    fields = {"biz_code": biz_code, "biz_num": biz_num, "database": using}
    say("host_forgotten", logging.INFO, text, biz_code, biz_num, using, **fields)


def schedule_over(biz_code: str, error: Exception, using: str) -> None:
    text, reason = "The handler of %s does not run by itself: %s", InShort(error)
    fields = {"biz_code": biz_code, "database": using, "error": reason}
    say("schedule_over", logging.WARNING, text, biz_code, reason, **fields)


def schedules_not_kept(using: str, error: BaseException) -> None:
    reason = InShort(error)
    say(
        "schedules_not_kept",
        logging.WARNING,
        "The rows of handlers with a schedule on %s could not be brought up to date (%s); trying"
        " again",
        using,
        reason,
        database=using,
        error=reason,
    )


def unknown_trigger(task: RunningTask) -> None:
    text = "%s has a trigger that its handler here does not have; it waits"
    say("trigger_unknown", logging.WARNING, text, task, **fields_of(task))


def schedule_not_here(task: RunningTask, error: Exception) -> None:
    text, reason = "%s waits for a worker that can read its schedule: %s", InShort(error)
    say("schedule_not_here", logging.WARNING, text, task, reason, **fields_of(task), error=reason)


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
    text, fields = "%s, due %.3f s ago, %s", fields_of(task, using)
    fields |= {"lateness": lateness, "action": action}
    say("task_missed", logging.WARNING, text, task, lateness, _MISSED[action], **fields)
