"""No column that nobody edited changes, in whatever language a form was opened and sent back."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import django
import pytest
from django.conf import global_settings
from django.test import Client
from django.urls import reverse
from django.utils.formats import get_format, reset_format_cache
from django.utils.translation import to_locale

from django_tasks.admin.task_steps import ANEW, seen_of
from django_tasks.client.operating import limits, set_limits
from django_tasks.models import Task, WorkerRow
from django_tasks.timezones import for_django
from django_tasks.values.status import Status
from tests.doors.test_admin import text
from tests.factories import UTC, a_row, a_worker, table, the_row

pytestmark = pytest.mark.usefixtures("now")

LOCALES = Path(django.__file__).parent / "conf" / "locale"
FORMATS = (
    *("DECIMAL_SEPARATOR", "THOUSAND_SEPARATOR", "NUMBER_GROUPING"),
    *("DATE_INPUT_FORMATS", "TIME_INPUT_FORMATS", "DATETIME_INPUT_FORMATS"),
)


def languages() -> list[str]:
    """One of all languages that write numbers and times alike.

    Django 6.0 names one that it has no words of, which cannot be the language of a project.
    """
    found = {
        tuple(str(get_format(name, code)) for name in FORMATS): code
        for code, _name in global_settings.LANGUAGES
        if (LOCALES / to_locale(code) / "LC_MESSAGES" / "django.mo").exists()
    }
    return sorted(found.values())


LANGUAGES = languages()
WHEN = datetime(2130, 3, 4, 15, 26, 37, 123456, tzinfo=UTC)
# Columns that every change writes, and those that a real one clears: it is an add, and says so.
OF_A_CHANGE = {"version", "update_time"}
CLEARED = {"attempts", "rescues", "last_error", "exception", "scheduled_time"}


class Form(HTMLParser):
    """The values that a browser sends of the forms of a page."""

    def __init__(self, page: Any) -> None:
        super().__init__()
        self.values: dict[str, str] = {}
        self._area = ""
        self.feed(page.content.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        name = given.get("name") or ""
        if tag == "textarea":
            self._area = name
            self.values[name] = ""
        elif tag == "input" and name and given.get("type") != "submit":
            # In a field of one line there are no line ends.
            self.values[name] = re.sub("[\r\n]", "", given.get("value") or "")

    def handle_data(self, data: str) -> None:
        if self._area:
            self.values[self._area] = data.removeprefix("\n").replace("\n", "\r\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self._area = ""


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest, settings: Any) -> Iterator[str]:
    """The language of the project, with all that a locale can do to numbers and times."""
    settings.LANGUAGE_CODE, settings.USE_THOUSAND_SEPARATOR = request.param, True
    reset_format_cache()
    yield request.param
    reset_format_cache()


@pytest.fixture
def task(db: None) -> Task:
    task = a_row(
        "12345678",
        name=" 1,234.5\u3000",
        priority=-12345,
        queue="1.000",
        biz_ext={"a": [1234567.125, 12345678901234567890, "\u2028 x\ny", None]},
        attempts=1234,
        rescues=1,
        last_error="ConnectionError: 1,234.5",
        exception="builtins.ConnectionError",
        scheduled_time=WHEN - timedelta(hours=1),
    )
    table(pk=task.pk).update(when=for_django(WHEN), schedule="every 1h30m jitter 1.5s")
    return the_row(task.biz_num)


def columns(task: Task) -> dict[str, Any]:
    return dict(Task.objects.values().get(pk=task.pk))


def changed(before: dict[str, Any], task: Task) -> set[str]:
    """The columns that are others now, but for those that every change writes."""
    after = columns(task)
    return {name for name in before if before[name] != after[name]} - OF_A_CHANGE


EDITS = [
    ("name", {"name": "Offer"}),
    ("biz_ext", {"biz_ext": "[1234.5]"}),
    ("queue", {"queue": "mail"}),
    ("priority", {"priority": "-12344"}),
]


def test_the_page_of_a_task(language: str, boss: Client, task: Task) -> None:
    address = reverse("admin:django_tasks_task_change", args=[task.pk])
    before = columns(task)
    response = boss.post(address, Form(boss.get(address)).values)
    assert (response.status_code, columns(task)) == (302, before)
    # One edit a language: pages are many, and so are the languages that write numbers alike.
    column, edit = EDITS[LANGUAGES.index(language) % len(EDITS)]
    page = boss.get(address)
    assert str(ANEW) in text(page)
    response = boss.post(address, Form(page).values | edit)
    assert (response.status_code, changed(before, task)) == (302, {column, *CLEARED})


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("name", "Summer sale "),
        ("name", " Summer sale"),
        ("name", "\u3000Summer\r\nsale\n"),
        ("schedule", " every 1h\u3000"),
    ],
)
def test_a_text_that_comes_back_as_it_was_shown(
    column: str, value: str, boss: Client, db: None
) -> None:
    task = a_row(status=Status.FAILED, attempts=5)
    table(pk=task.pk).update(**{column: value})
    before = columns(task)
    address = reverse("admin:django_tasks_task_change", args=[task.pk])
    page = boss.get(address)
    assert boss.post(address, Form(page).values).status_code == 302
    assert columns(task) == before
    boss.post(address, Form(page).values | {"queue": "mail", "name": "Summer sale"})
    after = columns(task)
    assert (after["status"], after["name"]) == (Status.PENDING, "Summer sale")


def test_its_time_in_a_form_of_its_own(language: str, boss: Client, task: Task) -> None:
    before = columns(task)
    address = reverse("admin:django_tasks_task_reschedule", args=[task.pk])
    sent = Form(boss.get(address)).values | {"seen": seen_of(task), "wait": ""}
    # Nothing to be done, as the page says.
    assert boss.post(address, sent).status_code == 200
    assert columns(task) == before


def test_its_schedule_in_a_form_of_its_own(language: str, boss: Client, task: Task) -> None:
    before = columns(task)
    address = reverse("admin:django_tasks_recurring_schedule")
    page = boss.get(address, {"task": str(task.pk), "schedule": "every 2h"})
    assert str(ANEW) in text(page)
    for edited, moved in ({}, set()), ({"schedule": "every 2h"}, {"when", "schedule", *CLEARED}):
        sent = Form(boss.get(address, {"task": task.pk})).values
        assert boss.post(address, sent | {"task": str(task.pk), **edited}).status_code == 302
        # Another one begins with its first time; the same one, in whatever language, moves nothing.
        assert changed(before, task) == moved


def test_limits(language: str, boss: Client, task: Task) -> None:
    set_limits("order", max_running=1234, rate_limit="1000/m")
    page = boss.get(reverse("admin:django_tasks_code"), {"code": "order"})
    sent = Form(page).values
    assert {"max_running", "rate_limit"} <= sent.keys()
    address = f"{reverse('admin:django_tasks_code_limits')}?code=order"
    assert boss.post(address, sent).status_code == 302
    assert limits() == {"order": (1234, "1000/m")}
    boss.post(address, sent | {"rate_limit": "2000/m"})
    assert limits() == {"order": (1234, "2000/m")}


def test_a_worker(language: str, boss: Client, db: None) -> None:
    worker = a_worker(lease=1234.5, threads=1234, memory=12345678901)
    rows = WorkerRow.objects.filter(pk=worker.pk)
    before: dict[str, Any] = dict(rows.values().get())
    address = reverse("admin:django_tasks_workerrow_ask", args=[worker.pk, "quiet"])
    boss.post(address, Form(boss.get(address)).values)
    after: dict[str, Any] = dict(rows.values().get())
    assert {name for name in before if before[name] != after[name]} == {"wish"}
