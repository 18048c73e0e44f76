"""The doors of the walk: the admin's pages, the commands, the checks."""

from contextlib import suppress
from io import StringIO
from typing import Any

import pytest
from django.contrib.admin import ModelAdmin
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from benchmarks.pages.addresses import PAGES, rows_to_look_at
from django_tasks import api
from django_tasks.admin import bulk, lists
from django_tasks.admin import runs as run_pages
from django_tasks.client import changes as many_changes
from django_tasks.client.changes import Step
from django_tasks.models import Pause, Task, WorkerRow
from django_tasks.reads import backlog, filters, looks
from django_tasks.values.status import Status
from tests.doors.test_admin import ADD, DELETE, LIST, NEW, PAUSE_ADD, RUNS, act, save, sent
from tests.doors.test_admin_bulk import TO, ask, go_to_the_end
from tests.doors.test_codes_page import address as of_code
from tests.doors.test_task_page import take
from tests.doors.test_workers_page import ask_of
from tests.factories import a_row, a_run, a_worker, later, rows, the_row

Patch = pytest.MonkeyPatch

# The codes and queues that PAGES name.
CODES, QUEUES = ("order_timeout", "mail", "legacy"), ("default", "mail")
# What they do not ask for.
TASKS = (
    *("q=order_timeout", "q=order_timeout/", "q=order_timeout/p", "biz_code=legacy&q=p", "o=3"),
    *("biz_num=p1", "queue=mail&status__exact=2", "recurring=0"),
    *("error=bank&status__exact=2", "status__exact=2&p=before-{middle}", "due=late&p=after-{late}"),
    *("biz_code=mail&p=after-{middle}", "worker={worker}&p=after-{middle}"),
)
OF_RUNS = (
    "q=run1",
    "q=mail",
    "q=mail/run1",
    "q=x/y",
    "exception=ConnectionError",
    "p=after-{run}",
    "biz_code=mail&biz_num=run1&q=nothing",
)


def crowd() -> None:
    """Some of everything: in each code and queue, in each state, on time and late."""
    worker = a_worker("web-1", host="web-1", version="1", codes=[*CODES])
    a_worker("gone", heartbeat=later(-900))
    failed = {
        "exception": "a.ConnectionError",
        "last_error": "bank.refund",
        "update_time": later(-5),
    }
    kinds: dict[str, dict[str, Any]] = {
        "p": {},
        "late": {"when": later(-900)},
        "future": {"when": later(900)},
        "every": {"schedule": "every 1h"},
        "paused": {"status": Status.PAUSED},
        "failed": {"status": Status.FAILED, **failed},
        "running": {"status": Status.RUNNING, "claimed_by": worker.pk},
        "stuck": {"status": Status.RUNNING, "claimed_by": worker.pk + 9},
    }
    for code in CODES:
        for queue in QUEUES:
            for name, fields in kinds.items():
                numbers = [f"{name}{number}{queue}" for number in range(3)]
                rows(numbers, biz_code=code, queue=queue, **fields)
        rows([1], biz_code=code, schedule="every 1h")
        for number in range(4):
            exception = "a.ConnectionError"
            a_run(biz_code=code, biz_num=f"run{number}", outcome="failed", exception=exception)
        a_run(biz_code=code)
    api.pause_tasks(biz_code="mail")
    api.set_limits("order_timeout", max_running=3, rate_limit="5/s")


def pages(boss: Client, patch: Patch) -> None:
    """Each page, with limits that are soon reached."""
    patch.setattr(ModelAdmin, "list_per_page", 2)
    for module, name in (
        *((lists, "LIST_LIMIT"), (run_pages, "STRETCH"), (looks, "LOOKED")),
        *((filters, "MOST_SEARCHED"), (many_changes, "FEW")),
    ):
        patch.setattr(module, name, 2)
    ids = rows_to_look_at()
    urls = [page.url(ids) for page in PAGES]
    for name, queries in ((LIST, TASKS), (RUNS, OF_RUNS)):
        urls += [f"{reverse(name)}?{query.format(**ids)}" for query in queries]
    for url in urls:
        assert boss.get(url).status_code == 200, url


def changes(boss: Client, patch: Patch) -> None:
    """Each change that the admin offers."""
    rows([f"{status:d}" for status in Status])
    for action in ("pause", "resume", "requeue", "run_now", "cancel"):
        act(boss, action, *Task.objects.filter(biz_code="order"))
    act(boss, "delete_selected", a_row("deleted"))
    patch.setattr(bulk, "SECONDS", 0)
    patch.setattr(bulk, "BATCH", 2)
    for step in Step:
        fit = {Step.RESUME: Status.PAUSED, Step.REQUEUE: Status.FAILED}.get(step, Status.PENDING)
        rows([f"{step}{number}" for number in range(3)], status=fit)
        go_to_the_end(boss, ask(boss, step.value, biz_code="order"), **TO)
    for name in ("pause", "reschedule", "run-now", "cancel"):
        assert take(boss, a_row(name), name).status_code == 302
    boss.post(reverse(ADD), NEW)
    task = the_row("42")
    save(boss, task, sent(boss, task) | {"queue": "slow"})
    boss.post(reverse(DELETE, args=[task.pk]), {"post": "yes"})
    boss.post(ask_of(a_worker("asked"), "stop"))
    boss.post(reverse(PAUSE_ADD), {"biz_code": "order", "queue": "a"})
    pause = Pause.objects.get(queue="a")
    boss.post(reverse("admin:django_tasks_pause_resume", args=[pause.pk]))
    boss.post(of_code("limits"), {"max_running": "2", "rate_limit": "1/s"})
    boss.get(of_code("limits"))
    for word in ("pause", "resume"):
        boss.post(of_code(word))


# Commands

FILTERS = (
    *("--failed", "--late", "--due", "--future", "--recurring", "--once", "--stuck", "--code=mail"),
    *("--number=p1", "--queue=mail", "--worker=web-1", "--exception=ConnectionError", "--search=p"),
    *("--error=bank", "--since=2h", "--status=running", "--late --number=p1"),
)
CHANGES = ("requeuetasks", "pausetasks", "resumetasks", "canceltasks", "movetasks --by=2h")


def commands(patch: Patch) -> None:
    for which in FILTERS:
        call(f"listtasks {which}")
    for change in CHANGES:
        for flag in ("--dry-run", "--no-input"):
            call(f"{change} --code=order_timeout --queue=mail {flag}")
    for flag in ("", "--dry-run"):
        call(f"prunetasks --history=1h --failed=1h {flag}")
    for command in ("addtask", "showtask", "runtask"):
        call(f"{command} new 1")
    call("checktasks")
    patch.setattr(backlog, "MOST_COUNTED", 1)
    call("taskstatus --check --max-failed=50")
    WorkerRow._base_manager.all().delete()
    api.pause_tasks()
    call("taskstatus")
    call("listtasks --late")


def checks() -> None:
    call("check --database default")


def call(line: str) -> None:
    """Call a command. That it has found something to complain of is fine."""
    with suppress(CommandError):
        call_command(*line.split(), stdout=StringIO(), stderr=StringIO())
