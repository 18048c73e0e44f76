"""The admin's log of changes: written in the project's language, read by all."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import translation

from django_tasks import api
from django_tasks.admin.task_steps import STEPS, PageStep, seen_of
from django_tasks.models import Pause, Task
from django_tasks.values.status import Status
from tests.doors.test_admin import act, opened, save, text
from tests.doors.test_admin_bulk import ask, go_to_the_end
from tests.factories import a_row, a_worker, the_row
from tests.translation.marks import CHINESE

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

LOCALE = "django.middleware.locale.LocaleMiddleware"
ALL_FIELDS = {
    "name": "Offer",
    "when_0": "2031-01-02",
    "when_1": "03:04:05",
    "schedule": "every 2h",
    "biz_ext": "[1]",
    "queue": "mail",
    "priority": "7",
}


def take(who: Client, task: Task, step: PageStep) -> None:
    address = reverse(f"admin:django_tasks_task_{step.address.replace('-', '_')}", args=[task.pk])
    who.post(address, {"seen": seen_of(task), "wait": "1800"})


def steps(who: Client) -> None:
    """Take each step that a task's page offers."""
    for step in STEPS:
        take(who, a_row(step.address, status=next(iter(step.means))), step)


def actions(who: Client) -> None:
    """Take each action of the list."""
    for name, status in (("run_now", 0), ("pause", 0), ("resume", 3), ("requeue", 2)):
        act(who, name, a_row(name, status=status))
    act(who, "cancel", a_row("cancel"), post="yes")


def on_all(who: Client) -> None:
    """Change all that match a filter, and leave one that runs."""
    a_row("1", status=Status.RUNNING)
    go_to_the_end(who, ask(who, "cancel", biz_code="order"))


def a_schedule(who: Client) -> None:
    """Save a schedule on its own page."""
    task = a_row(schedule="every 1h")
    sent = {"task": str(task.pk), "schedule": "every 2h", "seen": seen_of(task)}
    who.post(reverse("admin:django_tasks_recurring_schedule"), sent)


def a_workers_wish(who: Client) -> None:
    """Ask a worker to go quiet."""
    who.post(reverse("admin:django_tasks_workerrow_ask", args=[a_worker().pk, "quiet"]))


def a_code(who: Client) -> None:
    """Set the limits of a code, pause it, and resume it."""
    code = "?code=order"
    limits = {"max_running": "2", "rate_limit": "9/m"}
    who.post(reverse("admin:django_tasks_code_limits") + code, limits)
    who.post(reverse("admin:django_tasks_code_pause") + code)
    who.post(reverse("admin:django_tasks_code_resume") + code)


def pauses(who: Client) -> None:
    """End one pause by its button, and two by an action."""
    for queue in ("a", "b", "c"):
        api.pause_tasks(queue=queue)
    first, *others = (pause.pk for pause in Pause.objects.order_by("pk"))
    who.post(reverse("admin:django_tasks_pause_resume", args=[first]))
    chosen = {"action": "resume_selected", "_selected_action": others}
    who.post(reverse("admin:django_tasks_pause_changelist"), chosen)


DEEDS: dict[Callable[[Client], None], int] = {
    steps: len(STEPS),
    actions: 5,
    on_all: 1,
    a_schedule: 1,
    a_workers_wish: 1,
    a_code: 3,
    pauses: 3,
}


@pytest.fixture
def in_languages(settings: Any) -> Iterator[Callable[[str, str], Client]]:
    """Log in as a superuser of a project in one language, with a browser in another."""
    settings.MIDDLEWARE = [LOCALE, *settings.MIDDLEWARE]

    def come(project: str, person: str) -> Client:
        settings.LANGUAGE_CODE = project
        client = Client(headers={"accept-language": person})
        client.force_login(User.objects.create_superuser("boss"))
        return client

    with translation.override(translation.get_language()):
        yield come


@pytest.mark.parametrize(("project", "person"), [("zh-hans", "en"), ("en-us", "zh-hans")])
@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.__name__)
def test_it_is_written_in_the_projects_language_whoever_acts(
    deed: Callable[[Client], None],
    project: str,
    person: str,
    in_languages: Callable[[str, str], Client],
) -> None:
    deed(in_languages(project, person))
    words = list(LogEntry.objects.values_list("change_message", flat=True))
    assert len(words) == DEEDS[deed]
    # Each sentence of ours in English begins with a capital letter.
    spoken = [(bool(re.search(CHINESE, each)), bool(re.match("[A-Z]", each))) for each in words]
    assert set(spoken) == {(project == "zh-hans", project == "en-us")}, words


@pytest.mark.parametrize(
    ("project", "person", "is_said"),
    [
        ("zh-hans", "zh-hans", False),
        ("zh-hans", "en", True),
        ("en-us", "en-gb", False),
        ("en-us", "zh-hans", True),
    ],
)
def test_its_page_says_so_to_those_who_read_another_one(
    project: str, person: str, is_said: bool, in_languages: Callable[[str, str], Client]
) -> None:
    who = in_languages(project, person)
    for name, row in (("task", a_row()), ("workerrow", a_worker())):
        page = text(who.get(reverse(f"admin:django_tasks_{name}_history", args=[row.pk])))
        said = "Steps are told in the language of the project." in page
        assert (said or "操作步骤以项目的语言记录。" in page) == is_said


def test_a_save_of_all_fields_is_read_in_chinese(boss: Client, chinese: None) -> None:
    task = a_row(schedule="every 1h")
    assert save(boss, task, opened(boss, task) | ALL_FIELDS).status_code == 302
    page = text(boss.get(reverse("admin:django_tasks_task_history", args=[task.pk])))
    # The marks and the last word but one are Django's.
    assert "已修改名称，执行时间，周期规则，任务数据，队列 和 优先级。" in page
    assert the_row(task.biz_num).name == "Offer"
