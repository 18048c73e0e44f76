"""The texts that the user of the demo reads."""

import os
import signal
from collections.abc import Sequence
from datetime import datetime

from django.conf import settings
from django.utils import timezone

from django_tasks.api import Task
from testproject.demo.narrator import HEADING, duration
from testproject.demo.scenes import LOGIN, PASSWORD, in_words


def say(text: str = "") -> None:
    try:
        print(text, flush=True)
    except BrokenPipeError:  # the reader has gone: "make demo | head"
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.kill(os.getpid(), signal.SIGTERM)


def show_programs(address: str) -> None:
    say("A small shop. Its data and its delayed tasks are in demo.sqlite3.")
    say()
    say("  manage.py starttask    runs each task when it is due; its log is demo.log")
    say(f"  manage.py runserver    {address}        the shop")
    say(f"                         {address}admin/  the admin")
    say(f"                         log in as {LOGIN}, password {PASSWORD} (only this machine can)")
    say()


def show_left(tasks: Sequence[Task], failed: Sequence[Task]) -> None:
    _show_tasks(f"{_count(tasks)} left from last time. What is overdue runs at once:", tasks)
    if failed:
        keys = ", ".join(map(str, failed))
        say(f"FAILED, and stays so until somebody requeues it in the admin: {keys}")
        say()


def show_added(tasks: Sequence[Task]) -> None:
    _show_tasks(f"{_count(tasks)} added, in one transaction with what they belong to:", tasks)


def show_heading() -> None:
    say(f"What happens (times of {settings.TIME_ZONE}; Ctrl-C stops):")
    say()
    say(HEADING)


def show_stopping() -> None:
    say("\nStopping: starttask starts nothing more, and lets what runs end.")


def show_end(left: Sequence[Task]) -> None:
    say(f"Stopped. Left in demo.sqlite3 for the next time: {_count(left)}.")
    say("make demo goes on from here; make demo ARGS=--fresh starts over.")


def _show_tasks(heading: str, tasks: Sequence[Task]) -> None:
    say(heading)
    say()
    for task in tasks:
        say(f"  {_relative(task.when):10}  {task!s:28}  {in_words(task)}".rstrip())
    say()


def _relative(when: datetime) -> str:
    seconds = (when - timezone.now()).total_seconds()
    text = f"{abs(seconds):.0f} s" if abs(seconds) < 60 else duration(abs(seconds))
    return f"{text} ago" if seconds < 0 else f"in {text}"


def _count(tasks: Sequence[Task]) -> str:
    return "1 task" if len(tasks) == 1 else f"{len(tasks)} tasks"
