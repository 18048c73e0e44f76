"""English words of ours stand in no page, output or error in another language."""

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse

from django_tasks.admin.task_steps import STEPS, PageStep, seen_of
from django_tasks.api import pause_tasks, set_limits
from django_tasks.handlers import registry
from django_tasks.models import Lock, Pause, Task
from django_tasks.values.status import OWNED, Status
from tests.doors.test_admin import opened, save
from tests.factories import a_row, a_run, a_worker, later
from tests.translation import pseudo
from tests.translation.pseudo import read
from tests.translation.test_log import ALL_FIELDS

# What stands in the scene, or is a name or a word of the language of schedules: nothing of ours.
DATA = {
    *(
        "zzcode",
        "zzmail",
        "zzhost",
        "zzlock",
        "zzqueue",
        "zzname",
        "zzpause",
        "zzlate",
        "zznone",
        "zz",
    ),
    *("boss", "zz.ConnectionError", "ConnectionError", "default", "CST", "Asia/Shanghai"),
    *("every", "django_tasks", "p50", "p99", "zzversion", "host-1"),
    # The other app of the project, in the admin's menu.
    *("Shop", "Messages", "Orders", "Partners", "Products", "Promotions"),
    # Django's own pages say so in German too: of its search, its pages of a list, and its actions.
    *("Search", "Pagination", "entries", "Select", "Run"),
}


def unmarked(text: str) -> set[str]:
    """The words of a text that nobody can translate."""
    return pseudo.unmarked(text, DATA | set(registry.get_task_handlers()))


@pytest.fixture
def scene(db: None, bracketed: None) -> Task:
    """Something of everything that a page can show."""
    worker = a_worker("zzhost", host="zzhost", version="zzversion", codes=["zzcode"], queues=["q"])
    a_worker("zzhost2", heartbeat=later(-500), wish="quiet")
    a_worker("zzhost3", state="stopping", wish="stop", version="2")
    for number, status in enumerate(Status):
        owner = {"claimed_by": worker.pk} if status in (1, 4, 5) else {}
        a_row(f"{number}", biz_code="zzcode", status=status, when=later(-400), **owner)
    failed = {
        "exception": "zz.ConnectionError",
        "last_error": "  zz\nConnectionError: zz",
    }
    a_row("f", biz_code="zzcode", status=Status.FAILED, attempts=3, **failed)
    a_row("r", biz_code="zzcode", schedule="every 1h", when=later(4000), name="zzname")
    a_row("zzlate", biz_code="zzmail", queue="zzqueue", when=later(-9000), biz_ext=[1])
    for outcome in ("done", "rescheduled", "skipped", "retried", "failed", "lost", "rescued"):
        a_run(biz_code="zzcode", outcome=outcome, missed="3" if outcome == "skipped" else "")
    pause_tasks(biz_code="zzpause", by="boss")
    pause_tasks(queue="zzqueue")
    set_limits("zzcode", max_running=1, rate_limit="100/m")
    Lock.objects.create(name="zzlock", holder="zzhost:1:a", since=1, until=2, term=3)
    return a_row("1000", biz_code="zzcode", when=later(100), biz_ext={"zzname": 1})


ADDRESSES = [
    "dashboard",
    "codes",
    "task_changelist",
    "task_add",
    "taskrun_changelist",
    "workerrow_changelist",
    "lock_changelist",
    "pause_changelist",
    "pause_add",
    "recurring",
    "failures",
]


@pytest.mark.parametrize("name", ADDRESSES)
def test_pages(name: str, boss: Client, scene: Task) -> None:
    page = boss.get(reverse(f"admin:django_tasks_{name}"))
    assert page.status_code == 200
    assert unmarked(read(page)) == set()


def test_the_page_of_each_task(boss: Client, scene: Task) -> None:
    for task in Task._base_manager.all():
        page = boss.get(reverse("admin:django_tasks_task_change", args=[task.pk]))
        assert (task.biz_num, unmarked(read(page))) == (task.biz_num, set())


@pytest.mark.parametrize("step", STEPS, ids=lambda step: str(step.address))
def test_the_steps_of_a_task(step: PageStep, boss: Client, scene: Task) -> None:
    for task in Task._base_manager.all():
        address = _address(task, step.address.replace("-", "_"))
        sent = {"seen": seen_of(task), "wait": "1800"}
        for page in (boss.get(address, follow=True), boss.post(address, sent, follow=True)):
            assert (task.biz_num, unmarked(read(page))) == (task.biz_num, set())
        is_possible = Status(task.status) in step.means
        assert (task.biz_num, _is_in_log(task)) == (task.biz_num, is_possible)
        history = boss.get(_address(task, "history"), follow=True)
        assert (task.biz_num, unmarked(read(history))) == (task.biz_num, set())


def test_the_page_that_deletes_a_task(boss: Client, scene: Task) -> None:
    for task in Task._base_manager.all():
        address, sent = _address(task, "delete"), {"post": "yes"}
        for page in (boss.get(address), boss.post(address, sent, follow=True)):
            assert (task.biz_num, unmarked(read(page))) == (task.biz_num, set())
        left = Task._base_manager.filter(pk=task.pk).values_list("status", flat=True)
        assert list(left) == ([Status.CANCELLING] if task.status in OWNED else [])


def test_a_save_of_all_fields(boss: Client, scene: Task) -> None:
    assert save(boss, scene, opened(boss, scene) | ALL_FIELDS).status_code == 302
    history = boss.get(_address(scene, "history"))
    assert _is_in_log(scene)
    assert unmarked(read(history)) == set()


def _address(task: Task, page: str) -> str:
    return reverse(f"admin:django_tasks_task_{page}", args=[task.pk])


def _is_in_log(task: Task) -> bool:
    return LogEntry.objects.filter(object_id=str(task.pk)).exists()


def test_one_code(boss: Client, scene: Task) -> None:
    for name in ("code", "codes"):
        for code in ("zzcode", "zzmail", "zzpause", "zznone"):
            page = boss.get(reverse(f"admin:django_tasks_{name}"), {"code": code})
            assert unmarked(read(page)) == set()


def test_pages_of_rows(boss: Client, scene: Task) -> None:
    for model, name in ((Lock, "lock"), (Pause, "pause"), ("WorkerRow", "workerrow")):
        objects: Any = scene._meta.apps.get_model("django_tasks", name).objects
        for row in objects.all():
            for page in ("change", "history", "delete"):
                address = reverse(f"admin:django_tasks_{name}_{page}", args=[row.pk])
                found = boss.get(address, follow=True)
                if found.status_code == 200:
                    assert (address, unmarked(read(found))) == (address, set())
        assert model
