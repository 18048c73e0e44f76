"""The one reason why a task does not run now, in a sentence.

Asked in the order in which a worker would meet the obstacles: what is wrong with the task, then who
could take it, then what keeps those from it. A look and no promise: all of it may change meanwhile.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isinf
from typing import NamedTuple

from django.utils.translation import gettext, ngettext

from django_tasks.client.pauses import paused
from django_tasks.client.queries import get_active
from django_tasks.handlers.finders import has_handler
from django_tasks.handlers.registry import terms_for
from django_tasks.models import Gate, Task
from django_tasks.reads.codes import limit_of, opening
from django_tasks.reads.filters import LATE_SECONDS
from django_tasks.reads.words import (
    attempts_text,
    class_name,
    counted_rows,
    listed,
    scope_words,
    span,
    stamp,
)
from django_tasks.reads.workers import WorkerState, name_of, obstacle, workers
from django_tasks.store import clock
from django_tasks.store.pauses import PauseIndex
from django_tasks.timezones import aware, for_django
from django_tasks.values.limits import NO_LIMIT
from django_tasks.values.status import OWNED, Status

# More tasks than this that are due earlier are not counted to the end.
MOST_AHEAD = 1000


class Reason(NamedTuple):
    """``kind`` is for programs and marks: it is a word, and does not change with the language.

    "running", "stuck", "failed", "paused", "future", "paused code", "no worker", "queue",
    "handler", "quiet", "sticky", "limit", "rate", "busy", "behind" or "due".
    """

    kind: str
    sentence: str


@dataclass(frozen=True)
class _Case:
    task: Task
    using: str
    now: datetime
    workers: Sequence[WorkerState]
    named: bool


def why(task: Task, *, using: str, now: datetime | None = None, named: bool = True) -> Reason:
    """The reason why ``task``, as it was read, does not run at ``now`` by the database's clock.

    ``named``: with the names of workers.
    """
    now = now or clock.now(using)
    case = _Case(task, using, now, workers(using=using, now=now), named)
    if task.status in OWNED:
        return _claimed(case)
    if task.status == Status.FAILED:
        return _failed(case)
    if task.status == Status.PAUSED:
        return Reason("paused", gettext("It is paused itself, until somebody resumes it."))
    for check in (_future, _paused_as_part, _nobody, _kept_back):
        if (reason := check(case)) is not None:
            return reason
    return Reason("due", _due(case))


def _due(case: _Case) -> str:
    seconds = (case.now - aware("when", case.task.when)).total_seconds()
    if seconds <= LATE_SECONDS:
        return gettext("It is due, and a worker is about to take it.")
    return gettext(
        "It has been due for %(span)s, and nothing that can be seen from here keeps a worker from"
        " it: see the logs of the workers."
    ) % {"span": span(seconds)}


def _claimed(case: _Case) -> Reason:
    task = case.task
    owner = next((each for each in case.workers if each.id == task.claimed_by), None)
    if owner is None:
        return Reason(
            "stuck",
            gettext("Worker %(id)s, which ran it, is gone: a living worker takes it over.")
            % {"id": task.claimed_by},
        )
    facts = {"worker": name_of(owner, case.named), "silence": span(owner.silent)}
    if not owner.is_alive:
        return Reason(
            "stuck",
            gettext(
                "Worker %(worker)s, which runs it, has been silent for %(silence)s:"
                " a living worker takes it over."
            )
            % facts,
        )
    since = aware("claim_time", task.claim_time) if task.claim_time else case.now
    facts["since"] = stamp(since)
    facts["span"] = span((case.now - since).total_seconds())
    sentences = {
        Status.RUNNING: gettext(
            "It has been running for %(span)s, since %(since)s, on %(worker)s."
        ),
        Status.CANCELLING: gettext(
            "It has been running for %(span)s on %(worker)s, and is gone when this run ends: it was"
            " cancelled."
        ),
        Status.PAUSING: gettext(
            "It has been running for %(span)s on %(worker)s, and is paused when this run ends."
        ),
    }
    return Reason("running", sentences[Status(task.status)] % facts)


def _failed(case: _Case) -> Reason:
    task = case.task
    facts = {
        "attempts": attempts_text(task.attempts),
        "when": stamp(aware("update_time", task.update_time)),
        "exception": class_name(task.exception),
    }
    if task.exception:
        sentence = gettext(
            "It has failed at %(when)s with %(exception)s, after %(attempts)s, and waits to be"
            " requeued."
        )
    else:
        sentence = gettext(
            "It has failed at %(when)s, after %(attempts)s, and waits to be requeued."
        )
    return Reason("failed", sentence % facts)


def _future(case: _Case) -> Reason | None:
    task = case.task
    when = aware("when", task.when)
    if when <= case.now:
        return None
    facts = {
        "when": stamp(when),
        "span": span((when - case.now).total_seconds()),
        "count": task.attempts,
        "exception": class_name(task.exception),
    }
    sentence = gettext("It is due in %(span)s, at %(when)s.")
    if task.attempts and task.exception:
        sentence = ngettext(
            "It is tried again in %(span)s, at %(when)s: its first run ended with %(exception)s.",
            "It is tried again in %(span)s, at %(when)s: %(count)d runs have failed, the last one"
            " with %(exception)s.",
            task.attempts,
        )
    return Reason("future", sentence % facts)


def _paused_as_part(case: _Case) -> Reason | None:
    task = case.task
    pause = PauseIndex(paused(using=case.using)).widest(task.queue, task.biz_code)
    if pause is None:
        return None
    facts = {
        "scope": scope_words(pause),
        "since": stamp(aware("since", pause.since)),
        "by": pause.by,
    }
    sentence = gettext("%(scope)s has been paused since %(since)s.")
    if pause.by:
        sentence = gettext("%(scope)s has been paused since %(since)s, by %(by)s.")
    return Reason("paused code", sentence % facts)


def _nobody(case: _Case) -> Reason | None:
    task = case.task
    kind, able = obstacle(case.workers, task.queue, task.biz_code)
    if kind == "no worker":
        return Reason(kind, _no_worker(case))
    if kind == "queue":
        sentence = gettext("No running worker serves its queue, %(queue)s.")
        return Reason(kind, sentence % {"queue": task.queue})
    if kind == "handler":
        sentence = gettext("No running worker has a handler of its code, %(code)s.")
        if has_handler(task.biz_code):
            sentence = gettext(
                "No running worker has a handler of its code, %(code)s, although this project has"
                " one: workers of this release are missing."
            )
        return Reason(kind, sentence % {"code": task.biz_code})
    if kind == "quiet":
        names = listed(name_of(worker, case.named) for worker in able[:3])
        sentence = ngettext(
            "The only worker that could run it claims nothing now: %(names)s.",
            "All workers that could run it claim nothing now: %(names)s.",
            len(able),
        )
        return Reason(kind, sentence % {"names": names})
    return None


def _no_worker(case: _Case) -> str:
    if not case.workers:
        return gettext("No worker is running.")
    last = max(worker.heartbeat for worker in case.workers)
    sentence = gettext("No worker is alive: the last heartbeat came %(span)s ago, at %(when)s.")
    facts = {"span": span((case.now - last).total_seconds()), "when": stamp(last)}
    return sentence % facts


def _kept_back(case: _Case) -> Reason | None:
    task = case.task
    _kind, able = obstacle(case.workers, task.queue, task.biz_code)
    able = [each for each in able if not each.is_quiet]
    checks: tuple[Callable[[_Case, list[WorkerState]], Reason | None], ...]
    checks = (_elsewhere, _limited, _busy, _behind)
    return next((reason for check in checks if (reason := check(case, able))), None)


def _elsewhere(case: _Case, able: list[WorkerState]) -> Reason | None:
    if not terms_for(case.task.biz_code).sticky:
        return None
    state = get_active(case.task.biz_code, using=case.using)
    if state is None:
        return Reason(
            "sticky", gettext("Its handler is sticky, and no worker is active for it yet.")
        )
    if any(worker.name == state.holder for worker in able):
        return None
    until = stamp(state.until) if state.until else ""
    names = {worker.name: name_of(worker, case.named) for worker in case.workers}
    holder = names.get(state.holder, state.holder if case.named else "#?")
    sentence = gettext(
        "Its handler is sticky, and %(holder)s, which does not serve it now, is the active worker"
        " until %(until)s."
    )
    return Reason("sticky", sentence % {"holder": holder, "until": until})


def _limited(case: _Case, able: list[WorkerState]) -> Reason | None:
    code = case.task.biz_code
    gate = Gate._base_manager.using(case.using).filter(biz_code=code).first()
    limit = limit_of(code, gate)
    if limit == NO_LIMIT:
        return None
    running = 0
    if limit.max_running is not None:
        owned = Task._base_manager.using(case.using).filter(status__in=OWNED, biz_code=code)
        running = owned.values("pk").count()
    found = opening(limit, gate, running, case.now)
    if found.starts:
        return None
    if isinf(found.closed_for):
        sentence = ngettext(
            "%(count)d task of %(code)s runs, and no more may at once.",
            "%(count)d tasks of %(code)s run, and no more may at once.",
            running,
        )
        return Reason("limit", sentence % {"count": running, "code": code})
    sentence = gettext("The rate limit of %(code)s lets the next one start in %(span)s.")
    facts = {"code": code, "span": span(max(1.0, found.closed_for))}
    return Reason("rate", sentence % facts)


def _busy(case: _Case, able: list[WorkerState]) -> Reason | None:
    if not all(worker.busy >= worker.threads for worker in able):
        return None
    threads = sum(worker.threads for worker in able)
    sentence = ngettext(
        "The only thread that could run it is busy.",
        "All %(count)d threads that could run it are busy.",
        threads,
    )
    return Reason("busy", sentence % {"count": threads})


def _behind(case: _Case, able: list[WorkerState]) -> Reason | None:
    task = case.task
    lane = Task._base_manager.using(case.using).filter(
        status=Status.PENDING, queue=task.queue, priority=task.priority, biz_code=task.biz_code
    )
    earlier = lane.filter(when__lt=for_django(aware("when", task.when)))
    ahead, is_more = counted_rows(earlier, MOST_AHEAD)
    if not ahead:
        return None
    sentence = ngettext(
        "It waits for its turn: %(count)d task of its code is due earlier.",
        "It waits for its turn: %(count)d tasks of its code are due earlier.",
        ahead,
    )
    if is_more:
        sentence = gettext("It waits for its turn: more than %(count)d are due earlier.")
    return Reason("behind", sentence % {"count": ahead})
