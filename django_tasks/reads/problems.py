"""Sentences about what is wrong, each with the page that has its cure, the worst first."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from django.utils.text import capfirst
from django.utils.translation import gettext, ngettext

from django_tasks.reads import backlog
from django_tasks.reads.backlog import Group, Waiting
from django_tasks.reads.codes import Code, Seen, rate_text
from django_tasks.reads.words import (
    Amount,
    about,
    at,
    class_name,
    in_a_row,
    listed,
    scope_words,
    span,
    together,
)
from django_tasks.reads.workers import WorkerState, obstacle
from django_tasks.store.pauses import Scope, scope_of, scopes_over
from django_tasks.values.figures import Figures

ERROR, WARNING, INFO = "error", "warning", "info"
LEVELS = (ERROR, WARNING, INFO)
# Of one kind no more sentences than this; one more says how many others there are.
MOST_OF_A_KIND = 5

# Failures rise when so many runs of the last hour have failed, this part of them at least, and this
# many times the part of the day.
RISING_FAILURES, RISING_SHARE, RISING_TIMES = 10, 0.05, 2.0

TASKS = "django_tasks_task_changelist"
WORKERS = "django_tasks_workerrow_changelist"
WORKER = "django_tasks_workerrow_change"
PAUSES = "django_tasks_pause_changelist"
CODES = "django_tasks_codes"
FAILURES = "django_tasks_failures"


@dataclass(frozen=True)
class Problem:
    """One sentence, how bad it is, and the page of the admin that has its cure.

    ``cure_view`` is the name of a URL without the admin site's, with its ``cure_args`` and the
    ``cure_params`` of the query; ``cure`` is the text of the link.
    """

    kind: str
    level: str
    sentence: str
    cure: str
    cure_view: str
    cure_params: Mapping[str, str] = field(default_factory=dict)
    cure_args: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """All that problems are told from; ``speed`` has the figures of "hour" and "day".

    ``heartbeat`` is the last one of the workers that are known, ``counted`` about when the last run
    was, if no worker is known.
    """

    now: datetime
    seen: Seen
    codes: Sequence[Code]
    heartbeat: datetime | None
    counted: datetime | None
    speed: Mapping[str, Figures]

    @property
    def alive(self) -> list[WorkerState]:
        return [worker for worker in self.seen.workers if worker.is_alive]

    @property
    def working(self) -> list[WorkerState]:
        return [worker for worker in self.seen.workers if worker.is_working]

    @cached_property
    def untaken(self) -> Mapping[str, Mapping[str, Sequence[Waiting]]]:
        """The lanes that no worker takes although some work: by the kind of ``obstacle``, then by
        code, or for a "queue" by that.
        """
        found: dict[str, dict[str, list[Waiting]]] = defaultdict(lambda: defaultdict(list))
        alive = self.alive
        for each in self.seen.waiting if self.working else ():
            queue, code = each.lane.queue, each.lane.biz_code
            kind = obstacle(alive, queue, code)[0]
            found[kind][queue if kind == "queue" else code].append(each)
        return found

    @property
    def has_work(self) -> bool:
        """Tell if anything waits, or is claimed."""
        return bool(self.seen.waiting or self.seen.claims.rows)


def problems(facts: Evidence) -> list[Problem]:
    """All that is wrong now, in sentences of the current language and time zone."""
    found = [
        replace(problem, sentence=capfirst(problem.sentence))
        for tell in _TELLERS
        for problem in _few(list(tell(facts)))
    ]
    return sorted(found, key=lambda problem: LEVELS.index(problem.level))


def _few(found: list[Problem]) -> list[Problem]:
    if len(found) <= MOST_OF_A_KIND + 1:
        return found
    shown, left = found[:MOST_OF_A_KIND], len(found) - MOST_OF_A_KIND
    text = ngettext("%(count)d more of this kind.", "%(count)d more of this kind.", left)
    first = found[0]
    place, see_all = _WHOLE.get(first.kind, CODES), gettext("See all")
    return [*shown, Problem(first.kind, first.level, text % {"count": left}, see_all, place)]


def _no_worker(facts: Evidence) -> Iterator[Problem]:
    if facts.alive:
        return
    level = ERROR if facts.has_work else INFO
    if facts.heartbeat is not None:
        text = gettext("No worker has been alive since %(time)s.")
        text %= {"time": at(facts.heartbeat, facts.now)}
    elif facts.counted is not None:
        text = gettext("No worker is alive, and the last run was at about %(time)s.")
        text %= {"time": about(facts.counted, facts.now)}
    else:
        text = gettext("No worker has run yet: start one with “manage.py starttask”.")
    yield Problem("no_worker", level, text, gettext("See the workers"), WORKERS)


def _nobody_works(facts: Evidence) -> Iterator[Problem]:
    if facts.alive and not (facts.working or any(worker.is_rejected for worker in facts.alive)):
        text = gettext("No worker takes tasks: those that are alive are quiet or stop.")
        level = ERROR if facts.has_work else WARNING
        yield Problem("nobody_works", level, text, gettext("See the workers"), WORKERS)


def _silent(facts: Evidence) -> Iterator[Problem]:
    late = [worker for worker in facts.seen.workers if worker.is_late]
    for worker in sorted(late, key=lambda worker: worker.late, reverse=True):
        words = {"worker": worker.name, "time": span(worker.late)}
        text = gettext("Worker %(worker)s is %(time)s late with its heartbeat.") % words
        level = WARNING if worker.is_alive else ERROR
        cure = gettext("See the worker")
        yield Problem("silent", level, text, cure, WORKER, cure_args=(worker.id,))


def rejected_session(sentence: str) -> Problem:
    """The server rejects what sets up a worker's session: none could start."""
    return Problem("rejected", ERROR, sentence, gettext("See the workers"), WORKERS)


def _rejected(facts: Evidence) -> Iterator[Problem]:
    for worker in facts.alive:
        if worker.is_rejected:
            text = gettext(
                "Worker %(worker)s claims nothing: the server rejects a statement of django_tasks; "
                "the worker's log says which."
            ) % {"worker": worker.name}
            cure = gettext("See the worker")
            yield Problem("rejected", ERROR, text, cure, WORKER, cure_args=(worker.id,))


def _quiet(facts: Evidence) -> Iterator[Problem]:
    for worker in facts.alive:
        if worker.is_quiet and not worker.is_rejected:
            text = gettext("Worker %(worker)s claims nothing: %(reason)s.") % {
                "worker": worker.name,
                "reason": _reason(worker),
            }
            cure = gettext("See the worker")
            yield Problem("quiet", INFO, text, cure, WORKER, cure_args=(worker.id,))


def _reason(worker: WorkerState) -> str:
    if worker.wish == "quiet":
        return gettext("it was asked to be quiet")
    return gettext("it was asked to stop") if worker.wish else gettext("it stops")


def _stuck(facts: Evidence) -> Iterator[Problem]:
    stuck = facts.seen.claims.stuck(facts.seen.workers)
    if not stuck:
        return
    count = Amount(len(stuck), facts.seen.claims.is_more)
    text = ngettext(
        "%(count)s task is held by a worker that is gone or silent.",
        "%(count)s tasks are held by workers that are gone or silent.",
        count.number,
    )
    # Others take them over when the lease has passed: an error only if nobody is there to do it.
    level = WARNING if facts.alive else ERROR
    yield _of_tasks("stuck", level, text % {"count": count}, stuck="1")


def _no_handler(facts: Evidence) -> Iterator[Problem]:
    for code, waiting in sorted(facts.untaken["handler"].items()):
        due = together(*(each.due for each in waiting))
        names = {"count": due, "code": code}
        if due:
            text = ngettext(
                "%(count)s due task of “%(code)s” has no handler in any running worker.",
                "%(count)s due tasks of “%(code)s” have no handler in any running worker.",
                due.number,
            )
            level = WARNING if all(each.pause for each in waiting) else ERROR
            yield _of_tasks("no_handler", level, text % names, code=code)
        else:
            text = gettext("Tasks of “%(code)s” wait, and no running worker has a handler of it.")
            yield _of_tasks("no_handler", WARNING, text % names, code=code)


def _no_queue(facts: Evidence) -> Iterator[Problem]:
    for queue, waiting in sorted(facts.untaken["queue"].items()):
        due = together(*(each.due for each in waiting))
        text = ngettext(
            "No running worker serves the queue “%(queue)s”, in which %(count)s task is due.",
            "No running worker serves the queue “%(queue)s”, in which %(count)s tasks are due.",
            due.number,
        )
        level = ERROR if due else WARNING
        yield _of_tasks("no_queue", level, text % {"queue": queue, "count": due}, queue=queue)


def _late(facts: Evidence) -> Iterator[Problem]:
    # The worst first: of many, the others are not told.
    for code in sorted(facts.codes, key=lambda code: code.oldest or facts.now):
        # Without a handler they are told of with that, which is why they are late.
        untaken = facts.untaken["handler"].get(code.code, ())
        if code.late == together(*(each.late for each in untaken if each.pause is None)):
            continue
        text = ngettext(
            "%(count)s task of “%(code)s” is late, by %(time)s.",
            "%(count)s tasks of “%(code)s” are late, the oldest by %(time)s.",
            code.late.number,
        )
        waited = (facts.now - code.oldest).total_seconds() if code.oldest else 0.0
        words = {"count": code.late, "code": code.code, "time": span(waited)}
        yield _of_tasks("late", ERROR, text % words, due="late", code=code.code)


def _held_back(facts: Evidence) -> Iterator[Problem]:
    for code in facts.codes:
        if not (code.late and code.limits.is_full):
            continue
        most, rate = code.limits.in_force
        words = {"code": code.code, "running": code.running, "most": most, "rate": rate_text(rate)}
        if most is not None and code.running.number >= most:
            text = gettext(
                "The limit of “%(code)s” holds tasks back: %(running)s of %(most)s runs at once."
            )
        else:
            text = gettext("The limit of “%(code)s” holds tasks back: %(rate)s starts.")
        yield Problem(
            "limit", WARNING, text % words, gettext("See its limits"), CODES, {"code": code.code}
        )


def _all_busy(facts: Evidence) -> Iterator[Problem]:
    threads = sum(worker.threads for worker in facts.working)
    is_late = any(code.late for code in facts.codes)
    if is_late and threads and all(worker.free == 0 for worker in facts.working):
        text = gettext("Tasks are late and all %(count)d threads of the workers are busy.")
        cure = gettext("See the workers")
        yield Problem("all_busy", WARNING, text % {"count": threads}, cure, WORKERS)


def _failed(facts: Evidence) -> Iterator[Problem]:
    failures = facts.seen.failures
    for group in failures.groups[: 2 * MOST_OF_A_KIND]:
        yield _failed_group(group, facts.now)


def _failed_group(group: Group, now: datetime) -> Problem:
    text = ngettext(
        "%(count)s task of “%(code)s” has failed with %(error)s at %(last)s.",
        "%(count)s tasks of “%(code)s” have failed with %(error)s since %(first)s,"
        " the last one at %(last)s.",
        group.count.number,
    )
    words = {
        "count": group.count,
        "code": group.biz_code,
        "error": class_name(group.exception) or gettext("an error"),
        "first": at(group.first, now),
        "last": at(group.last, now),
    }
    params = {"status": "failed", "code": group.biz_code}
    if group.exception:
        params["exception"] = group.exception
    return _of_tasks("failed", WARNING, text % words, **params)


def _rising(facts: Evidence) -> Iterator[Problem]:
    hour, day = facts.speed["hour"], facts.speed["day"]
    failures = hour.failures
    if failures < RISING_FAILURES or failures < RISING_SHARE * hour.runs:
        return
    runs_before, failures_before = day.runs - hour.runs, day.failures - failures
    if runs_before <= 0:  # there is nothing that they could have risen from
        return
    before = failures_before / runs_before
    if failures / hour.runs <= RISING_TIMES * before:
        return
    text = gettext(
        "Failures rise: %(now)d %% of the runs in the last hour, %(before)d %% in the day before."
    )
    words = {"now": round(100 * failures / hour.runs), "before": round(100 * before)}
    yield _of_tasks("rising", ERROR, text % words, status="failed")


def _paused(facts: Evidence) -> Iterator[Problem]:
    under: dict[Scope, list[Amount]] = defaultdict(list)
    for each in facts.seen.waiting:
        for scope in scopes_over(each.lane.queue, each.lane.biz_code):
            under[scope].append(each.due)
    for pause in facts.seen.pauses:
        due = together(*under[scope_of(pause)])
        text = gettext("%(scope)s has been paused since %(time)s.")
        if pause.by:
            text = gettext("%(scope)s has been paused since %(time)s by %(by)s.")
        time = at(backlog.since(pause), facts.now)
        sentence = text % {"scope": scope_words(pause), "time": time, "by": pause.by}
        if due:
            waiting = ngettext("%(count)s due task waits.", "%(count)s due tasks wait.", due.number)
            sentence = in_a_row((sentence, waiting % {"count": due}))
        level = WARNING if due else INFO
        yield Problem("paused", level, sentence, gettext("See the pauses"), PAUSES)


def _versions(facts: Evidence) -> Iterator[Problem]:
    versions = sorted({worker.version for worker in facts.alive if worker.version})
    if len(versions) > 1:
        text = gettext("Workers of different versions are alive: %(versions)s.")
        words = {"versions": listed(versions)}
        yield Problem("versions", INFO, text % words, gettext("See the workers"), WORKERS)


def _of_tasks(kind: str, level: str, sentence: str, **params: str) -> Problem:
    return Problem(kind, level, sentence, gettext("See the tasks"), TASKS, params)


_TELLERS: tuple[Callable[[Evidence], Iterator[Problem]], ...] = (
    _no_worker,
    _rejected,
    _nobody_works,
    _silent,
    _no_handler,
    _no_queue,
    _stuck,
    _late,
    _rising,
    _held_back,
    _all_busy,
    _failed,
    _paused,
    _quiet,
    _versions,
)
# The page with all of a kind of which there are many.
_WHOLE = {
    **dict.fromkeys(("silent", "quiet", "rejected"), WORKERS),
    **dict.fromkeys(("no_handler", "late", "limit"), CODES),
    "no_queue": TASKS,
    "failed": FAILURES,
    "paused": PAUSES,
}
