"""The pages of codes: what they show, and limits and pauses that are set there."""

import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client, override_settings
from django.urls import reverse
from django.utils.html import escape

from django_tasks import api
from django_tasks.client.operating import limits, set_limits
from django_tasks.handlers.base import task_handler
from django_tasks.models import TaskMinute
from django_tasks.values.status import Status
from tests.doors.conftest import Staff
from tests.doors.test_admin import said, text
from tests.factories import a_row, a_worker, later, rows

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

CODES = "admin:django_tasks_codes"
HOSTILE = "<b>&\"'%s{0}</b><i>"


def one(code: str = "order") -> str:
    return f"{reverse('admin:django_tasks_code')}?code={code}"


def address(word: str, code: str = "order") -> str:
    return f"{reverse(f'admin:django_tasks_code_{word}')}?code={code}"


def row_of(page: Any, code: str) -> str:
    """The row of one code, as text."""
    body = page.content.decode()
    found = re.search(rf"<tr>\s*<th[^>]*><a [^>]*>{re.escape(code)}</a>.*?</tr>", body, re.DOTALL)
    assert found, f"no row of {code}"
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", found[0])).strip()


@pytest.fixture
def order(handlers: Any) -> None:
    @task_handler("order", max_running=9, rate_limit="100/m")
    def handle(task: Any) -> None: ...

    handlers(handle)


@pytest.mark.usefixtures("order")
def test_each_handler_and_each_code_of_a_row_has_its_line(boss: Client) -> None:
    worker = a_worker("w1", version="1.0", codes=["order"])
    rows(range(3), when=later(-200))
    rows(range(3, 5), when=later(-5))
    a_row("r", status=Status.RUNNING, claimed_by=worker.pk)
    rows(range(4), biz_code="refund", status=Status.FAILED)
    a_row("w", biz_code="refund", when=later(900))
    minute = int(later(-600).timestamp()) // 60
    TaskMinute.objects.create(biz_code="order", minute=minute, done=120, late_1=120, worker=1)
    page = boss.get(reverse(CODES))
    assert row_of(page, "order") == (
        "order 5 3 3 min 20 s ago 1 0 2 runs in the last hour 150 ms 248 ms 9 at once, 100/m"
    )
    refund = row_of(page, "refund")
    assert refund.startswith("refund no worker has a handler 0 0 - 0 4 0")
    assert page.content.decode().count("<polyline") == 1


@pytest.mark.usefixtures("order")
def test_codes_are_found_by_a_part_of_their_name(boss: Client) -> None:
    a_row("1", biz_code="refund")
    page = text(boss.get(reverse(CODES), {"q": "fun"}))
    assert "refund" in page
    assert "order" not in page


def test_without_any_code_it_says_so(boss: Client, handlers: Any) -> None:
    assert "No code is known" in text(boss.get(reverse(CODES)))


def test_it_takes_as_many_statements_for_many_codes(boss: Client, queries: Any) -> None:
    a_row("1", when=later(-100))
    a_row("f", status=Status.FAILED)
    boss.get(reverse(CODES))
    with queries() as few:
        boss.get(reverse(CODES))
    for number in range(30):
        rows(range(3), biz_code=f"code{number}", when=later(-100))
        a_row("f", biz_code=f"code{number}", status=Status.FAILED)
    with queries() as many:
        boss.get(reverse(CODES))
    assert len(many) == len(few) <= 20


@pytest.mark.usefixtures("order")
@pytest.mark.parametrize("use_tz", [True, False])
def test_a_codes_own_page_tells_all_of_it(use_tz: bool, boss: Client) -> None:
    with override_settings(USE_TZ=use_tz, TIME_ZONE="Europe/Berlin"):
        a_row("1", when=later(-200))
        set_limits("order", max_running=3)
        api.pause_tasks(queue="default", by="anna")
        api.pause_tasks(queue="elsewhere")
        page = text(boss.get(one()))
    for words in (
        "first due 14:26:55 CEST",
        "Its handler says: 9 at once, 100/m.",
        "Queue “default” is paused. By anna.",
        "handler in this process yes",
        "All its tasks",
        "Runs in the last hour",
    ):
        assert words in page
    assert "elsewhere" not in page


def test_a_code_that_nobody_knows_can_be_limited_and_paused_beforehand(
    boss: Client, handlers: Any
) -> None:
    page = boss.get(one("refund"))
    assert "Nothing is known of this code" in text(page)
    boss.post(address("limits", "refund"), {"max_running": "2", "rate_limit": ""})
    assert dict(limits())["refund"] == (2, None)


@pytest.mark.parametrize("code", ["", " ", "x" * 200, "a\0b"])
@pytest.mark.parametrize("name", ["code", "code_limits", "code_pause", "code_resume"])
def test_a_name_that_no_code_can_have_is_no_error(name: str, code: str, boss: Client) -> None:
    page = reverse(f"admin:django_tasks_{name}")
    method = boss.post if name in ("code_limits", "code_resume") else boss.get
    response = method(f"{page}?{'code=' + code.replace(chr(0), '%00') if code else ''}")
    assert response.status_code == 302
    assert response["Location"] == reverse(CODES)
    assert api.paused() == []


def test_names_that_are_markup_are_shown_as_text(boss: Client, handlers: Any) -> None:
    a_row("1", biz_code=HOSTILE, queue=HOSTILE, when=later(-100))
    api.pause_tasks(biz_code=HOSTILE, by=HOSTILE)
    for page in (reverse(CODES), one("%3Cb%3E%26%22%27%25s%7B0%7D%3C%2Fb%3E%3Ci%3E")):
        body = boss.get(page).content.decode()
        assert HOSTILE not in body
        assert escape(HOSTILE) in body


# Limits


@pytest.mark.usefixtures("order")
def test_limits_are_set_and_taken_back_and_noted(boss: Client) -> None:
    response = boss.post(address("limits"), {"max_running": "4", "rate_limit": " 10/s "})
    assert response["Location"] == one()
    assert said(boss.get(one())) == ["Of “order” at most 4 run at once, and 10/s start."]
    assert limits() == {"order": (4, "10/s")}
    body = boss.get(one()).content.decode()
    assert 'value="4"' in body
    assert 'value="10/s"' in body

    boss.post(address("limits"), {"max_running": "4", "rate_limit": "10/s"})
    assert said(boss.get(one())) == ["The limits of “order” are as they were."]
    boss.post(address("limits"), {"max_running": "", "rate_limit": ""})
    assert said(boss.get(one())) == ["The limits of “order” are those of its handler again."]
    assert not {code: found for code, found in limits().items() if any(found)}
    assert [entry.get_change_message() for entry in LogEntry.objects.order_by("id")] == [
        "Of “order” at most 4 run at once, and 10/s start.",
        "The limits of “order” are those of its handler again.",
    ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"max_running": "0"}, "greater than or equal to 1"),
        ({"max_running": "x"}, "Enter a whole number"),
        ({"rate_limit": "10"}, "Must be a number, a slash and one of s, m, h, d"),
        ({"rate_limit": "0/s"}, "Must allow from 1 to"),
    ],
)
def test_a_bad_limit_is_told_at_its_field(given: dict[str, str], words: str, boss: Client) -> None:
    response = boss.post(address("limits"), {"max_running": "", "rate_limit": ""} | given)
    assert response.status_code == 200
    assert words in text(response)
    assert limits() == {}


# Pauses


def test_a_code_is_paused_after_a_question_and_resumed_by_a_button(boss: Client) -> None:
    page = boss.get(address("pause"))
    assert "Pause “order”?" in text(page)
    assert api.paused() == []
    boss.post(address("pause"))
    (pause,) = api.paused()
    assert (pause.biz_code, pause.queue, pause.by) == ("order", "", "boss")
    page = boss.get(one())
    assert said(page) == ["Code “order” is paused."]
    assert "It is paused. By boss." in text(page)
    boss.post(address("pause"))
    assert said(boss.get(one())) == ["Code “order” was paused already."]
    boss.post(address("resume"))
    assert api.paused() == []
    assert said(boss.get(one())) == ["Code “order” is resumed."]
    boss.post(address("resume"))
    assert said(boss.get(one())) == ["Code “order” was not paused."]
    notes = [entry.get_change_message() for entry in LogEntry.objects.order_by("id")]
    assert notes == ["Code “order” is paused.", "Code “order” is resumed."]


# Who may


@pytest.mark.parametrize(
    ("name", "permission"),
    [("limits", "operate_task"), ("pause", "pause_task"), ("resume", "pause_task")],
)
def test_each_change_wants_its_permission(name: str, permission: str, staff: Staff) -> None:
    api.pause_tasks(biz_code="held")
    everything = ["view_task", "operate_task", "pause_task", "change_task", "run_task"]
    others = [each for each in everything if each != permission]
    refused = staff(*others)
    assert refused.post(address(name), {"max_running": "1"}).status_code == 403
    assert staff(permission).post(address(name), {"max_running": "1"}).status_code == 403
    assert len(api.paused()) == 1
    assert limits() == {}
    allowed = staff("view_task", permission)
    assert allowed.post(address(name), {"max_running": "1"}).status_code == 302


@pytest.mark.parametrize("name", ["limits", "resume"])
def test_what_changes_something_is_never_done_by_a_link(name: str, boss: Client) -> None:
    api.pause_tasks(biz_code="order")
    assert boss.get(address(name))["Location"] == one()
    assert len(api.paused()) == 1


def test_who_may_only_see_tasks_sees_codes_without_forms(staff: Staff) -> None:
    a_row("1")
    set_limits("order", max_running=3)
    who = staff("view_task")
    page = who.get(one())
    assert "Set by an operator: 3 at once." in text(page)
    main = page.content.decode().partition('id="content-main"')[2]
    assert "<form" not in main
    assert address("pause") not in main
    nobody = staff("view_lock")
    for place in (reverse(CODES), one()):
        assert nobody.get(place).status_code == 403
