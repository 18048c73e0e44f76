"""The life of a task as its page shows it: its runs, its error, its times."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext

from django_tasks.admin.display import (
    LONG_CELL,
    LONG_TEXT,
    as_json,
    cell,
    distance,
    duration,
    in_brackets,
    told,
)
from django_tasks.models import Task, TaskRun
from django_tasks.reads.recurring import coming_of
from django_tasks.reads.words import listed, message_of, progress_text
from django_tasks.schedules.policies import clauses
from django_tasks.timezones import aware
from django_tasks.values.status import Status

MOST_RUNS = 50
MOST_TIMES = 5

# The strip of runs, in units of its view box.
BAR, GAP, HEIGHT, LOWEST = 10, 2, 48, 3


@dataclass(frozen=True, kw_only=True)
class ErrorText:
    """The message of an error, and the whole of it or its end, which says most."""

    message: str
    whole: str
    length: int

    @property
    def is_cut(self) -> bool:
        return len(self.whole) < self.length


@dataclass(frozen=True, kw_only=True)
class RunLine:
    """One run that has ended."""

    pk: int
    outcome: str
    word: str
    missed: str
    started: str
    late: str
    took: str
    attempt: int
    worker: str
    exception: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One run in the strip: the longer it took, the higher."""

    x: int
    y: float
    height: float
    outcome: str
    title: str


@dataclass(frozen=True, kw_only=True)
class Life:
    """All that a task's page says above its form."""

    status: Status
    due: str
    away: str
    place: str
    since: str
    payload: ErrorText | None
    schedule: str
    options: str
    times: Sequence[str]
    times_error: str
    error: ErrorText | None
    progress: dict[str, Any]
    runs: Sequence[RunLine]
    bars: Sequence[Bar]

    @property
    def strip_width(self) -> int:
        return max(len(self.bars), 1) * (BAR + GAP)


def life_of(task: Task, runs: Sequence[TaskRun], now: datetime) -> Life:
    """The life of a task, with its last runs, the last one first."""
    coming = coming_of(task, now, MOST_TIMES) if task.schedule else None
    return Life(
        status=Status(task.status),
        due=told(task.when),
        away=distance(aware("when", task.when), now),
        place=listed((task.queue, str(task.priority))),
        since=_since(task, now),
        payload=_payload(task),
        schedule=task.schedule[:LONG_CELL] if task.schedule else "",
        options=listed(clauses(task.options)),
        times=[told(moment) for moment in coming.times] if coming else (),
        times_error=coming.error if coming else "",
        error=error_text(task.last_error, task.exception) if task.last_error else None,
        progress=_progress(task),
        runs=[_line(run) for run in runs],
        bars=_bars(runs[::-1]),
    )


def error_text(error: str, exception: str) -> ErrorText:
    whole = error[-LONG_TEXT:]
    return ErrorText(message=message_of(whole, exception), whole=whole, length=len(error))


def _since(task: Task, now: datetime) -> str:
    if task.claim_time is None or task.claimed_by is None:
        return ""
    claimed = aware("claim_time", task.claim_time)
    return gettext("since %(time)s, %(ago)s") % {
        "time": told(claimed),
        "ago": distance(claimed, now),
    }


def _payload(task: Task) -> ErrorText | None:
    if task.biz_ext is None:
        return None
    text = as_json(task.biz_ext, indent=2)
    if len(text) > LONG_TEXT:  # thirty levels deep, each number is a line of sixty blanks
        text = as_json(task.biz_ext)
    return ErrorText(message="", whole=text[:LONG_TEXT], length=len(text))


def _progress(task: Task) -> dict[str, Any]:
    facts = task.progress
    if not isinstance(facts, dict):
        return {}
    done, total = facts.get("done"), facts.get("total")
    measured = all(isinstance(each, int) and each >= 0 for each in (done, total)) and total
    bar = {"done": done, "total": total} if measured else {}
    return {"words": progress_text(facts), **bar}


def _line(run: TaskRun) -> RunLine:
    return RunLine(
        pk=run.pk,
        outcome=run.outcome,
        word=str(run.get_outcome_display()),
        missed=in_brackets(run.missed),
        started=told(run.started),
        late=duration(run.lateness),
        took=duration(run.duration),
        attempt=run.attempt,
        worker=run.worker,
        exception=run.exception.rpartition(".")[2],
        message=cell(_said(run)),
    )


def _said(run: TaskRun) -> str:
    line = message_of(run.error, run.exception).partition("\n")[0]
    head, colon, message = line.partition(":")
    name = run.exception.rpartition(".")[2]
    if not name or head.rpartition(".")[2] != name:
        return line
    return message.strip() if colon else ""


def _bars(runs: Sequence[TaskRun]) -> list[Bar]:
    longest = max((run.duration for run in runs), default=0.0)
    bars = []
    for place, run in enumerate(runs):
        share = max(run.duration, 0.0) / longest if longest > 0 else 0.0
        height = round(LOWEST + (HEIGHT - LOWEST) * share, 1)
        facts = {
            "outcome": run.get_outcome_display(),
            "time": told(run.started),
            "duration": duration(run.duration),
        }
        title = gettext("%(outcome)s, %(time)s, %(duration)s") % facts
        y = round(HEIGHT - height, 1)
        x = place * (BAR + GAP)
        bars.append(Bar(x=x, y=y, height=height, outcome=run.outcome, title=title))
    return bars
