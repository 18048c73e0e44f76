"""The pages of what repeats: every schedule, and one tried before it is saved."""

import re
import time
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from django_tasks import api
from django_tasks.admin import recurring as recurring_pages
from django_tasks.admin.display import told_with_day
from django_tasks.admin.task_steps import seen_of
from django_tasks.handlers.base import TaskHandler, task_handler
from django_tasks.models import Task
from django_tasks.reads import recurring
from django_tasks.values.hosts import number_of, queue_of
from django_tasks.values.keys import SCHEDULE_NUM
from django_tasks.values.options import TaskOptions
from django_tasks.values.status import OWNED, Status
from tests.doors.conftest import Staff
from tests.doors.test_admin import CHANGE, said, text
from tests.factories import NOW, a_row, a_run, a_worker, in_utc, later, rows, state, the_row

pytestmark = pytest.mark.usefixtures("now")

PAGE = "admin:django_tasks_recurring"
SCHEDULE = "admin:django_tasks_recurring_schedule"


class Report(TaskHandler):
    biz_code = "report"
    schedule = "every 2h"

    def handle(self, task: Any) -> None: ...


class Sweep(TaskHandler):
    biz_code = "sweep"
    schedule = "every 10m"
    each_host = True

    def handle(self, task: Any) -> None: ...


def listed(page: Any) -> list[str]:
    assert page.status_code == 200
    return [str(row.task) for row in page.context["rows"]]


def look(who: Client, **query: str) -> Any:
    return who.get(reverse(PAGE), query)


# Finding them


def test_rows_of_handlers_and_other_tasks_are_found(boss: Client, handlers: Any) -> None:
    handlers(Report, Sweep)
    a_worker("web-1:7", host="web-1")
    a_row(SCHEDULE_NUM, biz_code="report", schedule="every 2h")
    a_row(number_of("web-1"), biz_code="sweep", schedule="every 10m", queue=queue_of("web-1"))
    # Of a host whose worker has gone, but whose row waits.
    a_row(number_of("web-2"), biz_code="sweep", schedule="every 10m", queue=queue_of("web-2"))
    a_row("anna", biz_code="digest", schedule="every monday at 09:00")
    a_row("7", biz_code="report", schedule="every 1h")
    a_row(SCHEDULE_NUM, biz_code="unknown", schedule="every 1h")
    a_row("once", biz_code="digest")
    assert listed(look(boss)) == [
        "report/@schedule",
        "sweep/@schedule:web-1",
        "sweep/@schedule:web-2",
        "digest/anna",
        "report/7",
        "unknown/@schedule",
    ]


def test_a_row_of_a_handler_is_met_once(
    boss: Client, handlers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers(Report, Sweep)
    monkeypatch.setattr(recurring, "CODES", 1)
    a_row(SCHEDULE_NUM, biz_code="report", schedule="every 2h")
    a_row("zzz", biz_code="report", schedule="every 2h")
    # Of a host of which nothing else is known: it is found like any other task.
    gone = number_of("gone")
    a_row(gone, biz_code="sweep", schedule="every 10m", status=Status.FAILED)
    assert listed(look(boss)) == ["report/@schedule", "report/zzz"]
    assert listed(look(boss, after="report")) == [f"sweep/{gone}"]
    assert listed(look(boss, code="report")) == ["report/@schedule", "report/zzz"]
    assert listed(look(boss, code="report", after=SCHEDULE_NUM)) == ["report/zzz"]
    assert listed(look(boss, code="sweep")) == [f"sweep/{gone}"]


def test_a_handler_whose_row_is_missing_is_named(boss: Client, handlers: Any) -> None:
    handlers(Report, Sweep, task_handler("plain")(lambda task: None))
    assert "The handlers of report, sweep have schedules and no rows" in text(look(boss))
    a_row(SCHEDULE_NUM, biz_code="report", schedule="every 2h")
    assert "The handler of sweep has a schedule and no row" in text(look(boss))


def test_a_row_that_is_not_among_the_first_ones_is_not_missing(
    boss: Client, handlers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers(Report, Sweep)
    monkeypatch.setattr(recurring, "MOST_HANDLERS", 1)
    for code in ("report", "sweep"):
        a_row(SCHEDULE_NUM, biz_code=code, schedule="every 2h")
    assert listed(look(boss)) == ["report/@schedule", "sweep/@schedule"]
    assert "no row" not in text(look(boss))


def test_a_code_without_schedules_ends_the_look(
    boss: Client, monkeypatch: pytest.MonkeyPatch, queries: Any
) -> None:
    monkeypatch.setattr(recurring, "LOOK", 10)
    monkeypatch.setattr(recurring, "LOOK_FURTHER", 20)
    rows([f"{number:04}" for number in range(45)])
    a_row("0044x", schedule="every 1h")
    a_row("after", biz_code="zebra", schedule="every 1h")
    with queries() as asked:
        page = look(boss)
    assert listed(page) == ["zebra/after"]
    assert "Of order, the first 10 tasks were looked at, and there are more." in text(page)
    looks = [
        query["sql"] for query in asked if "schedule" in query["sql"] and "ORDER" in query["sql"]
    ]
    assert looks
    assert all("LIMIT" in sql for sql in looks if "biz_num` >" in sql or '"biz_num" >' in sql)

    (link,) = re.findall(r'href="(\?code=order[^"]*)"', page.content.decode())
    found: list[str] = []
    for _ in range(5):
        page = boss.get(reverse(PAGE) + link.replace("&amp;", "&"))
        found += listed(page)
        links = re.findall(r'href="(\?code=order[^"]*)"', page.content.decode())
        if not links:
            break
        (link,) = links
    assert found == ["order/0044x"]


def test_many_schedules_of_a_code_are_paged(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurring, "LISTED", 3)
    rows([f"{number:02}" for number in range(8)], schedule="every 1h")
    found: list[str] = []
    after: dict[str, str] = {}
    for _ in range(3):
        page = look(boss, code="order", **after)
        found += listed(page)
        after = {"after": page.context["more"]}
    assert found == [f"order/{number:02}" for number in range(8)]
    assert after == {"after": ""}


def test_many_codes_are_paged(boss: Client, monkeypatch: pytest.MonkeyPatch, queries: Any) -> None:
    monkeypatch.setattr(recurring, "CODES", 3)
    codes = [f"code {number}" for number in range(7)]
    for code in codes:
        a_row(biz_code=code, schedule="every 1h")
    found: list[str] = []
    after = ""
    for _ in range(3):
        with queries() as asked:
            page = look(boss, **({"after": after} if after else {}))
        found += listed(page)
        assert len(asked) <= 24
        after = page.context["more"]
    assert found == [f"{code}/1" for code in codes]
    assert after == ""


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_a_look_ends_where_the_rows_end(most: int, db: None) -> None:
    rows(["a", "b", "c"], schedule="every 1h")
    seen = recurring.look("order", most=most + 1, using="default")
    assert seen.looked == min(most + 1, 3)
    assert len(seen.ids) == seen.looked
    assert seen.further == ("" if most >= 2 else "ab"[most])


def test_the_list_takes_as_many_statements_for_many_rows_as_for_one(
    boss: Client, queries: Any
) -> None:
    a_row("0", schedule="every 1h")
    a_run(biz_num="0")
    look(boss)
    with queries() as for_one:
        look(boss)
    rows(range(1, 40), schedule="every 1h")
    for number in range(1, 40):
        a_run(biz_num=str(number))
    with queries() as for_many:
        assert len(listed(look(boss))) == 40
    assert len(for_many) == len(for_one)
    assert not any("last_error" in query["sql"] for query in for_many)


@pytest.mark.parametrize(
    "query",
    [
        {"code": "x" * 51},
        {"code": "a\0b"},
        {"code": "order", "after": "\0"},
        {"code": "order", "after": "x" * 101},
        {"after": "x" * 51},
        {"after": "\0"},
        {"after": " "},
    ],
)
def test_a_bad_place_is_one_sentence(query: dict[str, str], boss: Client) -> None:
    response = look(boss, **query)
    assert response["Location"] == reverse(PAGE)
    assert len(said(boss.get(response["Location"]))) == 1


def test_markup_is_text(boss: Client) -> None:
    bad = "<script>alert(1)</script>"
    a_row(bad, biz_code=bad, schedule=bad, name=bad)
    for page in (look(boss), look(boss, code=bad), boss.get(reverse(SCHEDULE), {"schedule": bad})):
        assert "<script>alert" not in page.content.decode()
    assert listed(look(boss, code=bad)) == [f"{bad}/{bad}"]


# What they say


def test_each_row_says_how_its_schedule_stands(boss: Client, settings: Any) -> None:
    settings.TIME_ZONE = "UTC"
    a_row("1", schedule="every 1h", options=TaskOptions(timeout=30), when=later(3600))
    a_row("2", schedule="every 1h", status=Status.PAUSED, name="Offers")
    a_row("3", schedule="every 1h", status=Status.FAILED, last_run=later(-7200))
    a_row("4", schedule="every now and then")
    a_row("5", schedule="every 1h", biz_code="push")
    api.pause_tasks(biz_code="push")
    a_run(biz_num="1", outcome="retried")
    a_run(biz_num="1")
    page = look(boss)
    shown = text(page)
    for word in (
        *("timeout 30s", "2030-05-17 13:30:15 UTC", "in 1 hour", "Offers"),
        *("stands still until it is resumed", "stands still until it is requeued"),
        *("its schedule cannot be read here", "its code or queue is paused"),
        "2030-05-17 10:30:15 UTC",
    ):
        assert word in shown, word
    last = {row.task.biz_num: row.last and row.last.outcome for row in page.context["rows"]}
    assert last == {"1": "done", "2": None, "3": None, "4": None, "5": None}


@pytest.mark.parametrize(
    ("after", "outcome", "ended"),
    [
        (None, "lost", "10:00:00"),  # added again, or never counted
        (-1, "lost", "10:00:00"),  # a loss is no run that has ended
        (0, "lost", "10:00:00"),
        (1, None, "10:00:01"),  # it went well, and the history keeps problems alone
    ],
)
def test_the_last_run_is_not_that_of_an_older_line(
    after: int | None, outcome: str | None, ended: str, boss: Client, settings: Any
) -> None:
    settings.TIME_ZONE = "UTC"
    moment = datetime(2030, 5, 17, 10, tzinfo=ZoneInfo("UTC"))
    a_run(outcome="lost", ended=moment)
    a_row(schedule="every 1h", last_run=after if after is None else moment + timedelta(0, after))
    (row,) = look(boss).context["rows"]
    assert (row.last and row.last.outcome, row.ended[11:19]) == (outcome, ended)


def test_runs_and_steps_are_for_those_who_may(staff: Staff) -> None:
    a_row(schedule="every 1h")
    run = a_run()
    who = staff("view_task")
    body = look(who).content.decode()
    assert f"taskrun/{run.pk}/" not in body
    assert '<form method="post"' not in body.split('id="content-main"')[1]
    assert f"taskrun/{run.pk}/" in look(staff("view_task", "view_taskrun")).content.decode()
    assert staff("run_task", "pause_task").get(reverse(PAGE)).status_code == 403
    assert staff("run_task", "pause_task").get(reverse(SCHEDULE)).status_code == 403


@pytest.mark.parametrize("status", Status)
def test_a_schedule_is_paused_and_resumed_from_the_list(status: Status, staff: Staff) -> None:
    task = a_row(schedule="every 1h", status=status)
    who = staff("view_task", "pause_task")
    (row,) = look(who, code="order").context["rows"]
    step = {0: "pause", 1: "pause", 3: "resume", 5: "resume"}.get(status.value)
    assert (row.step and row.step.address) == step
    if step is None:
        return
    back = f"{reverse(PAGE)}?code=order"
    response = who.post(row.address, {"seen": row.seen, "back": back})
    assert response["Location"] == back
    assert state()[0] != status
    # A second click on the page that was opened before.
    again = who.post(row.address, {"seen": row.seen, "back": back})
    assert "Nothing was done" in said(who.get(again["Location"]))[-1]
    assert LogEntry.objects.get().object_id == str(task.pk)


@pytest.mark.parametrize(
    "back", ["https://evil.example/", "//evil.example", "/admin/", "x\r\nSet-Cookie: a=b", "\0"]
)
def test_nobody_is_led_elsewhere(back: str, boss: Client) -> None:
    task = a_row(schedule="every 1h")
    path = reverse("admin:django_tasks_task_pause", args=[task.pk])
    response = boss.post(path, {"seen": seen_of(task), "back": back})
    assert response["Location"] == reverse(CHANGE, args=[task.pk])


# One schedule


def preview(who: Client, schedule: str, **more: Any) -> Any:
    response = who.get(reverse(SCHEDULE), {"schedule": schedule, **more})
    assert response.status_code == 200
    return response


@pytest.mark.parametrize(
    ("fields", "first"),
    [
        ({"when": later(2 * 86_400)}, [(2, 0), (3, 0)]),
        ({"when": later(2 * 86_400), "status": Status.PAUSED}, [(2, 0), (3, 0)]),
        # It is tried again at noon, and then waits for the next time of its schedule.
        ({"when": later(600), "scheduled_time": NOW}, [(0, 600), (1, 0)]),
        ({"when": later(-60)}, [(0, -60), (1, -60)]),
        ({"when": later(-60), "status": Status.RUNNING}, [(1, -60), (2, -60)]),
        ({"when": later(-60), "status": Status.FAILED}, [(1, -60), (2, -60)]),
    ],
)
def test_the_times_of_a_task_begin_with_the_one_it_waits_for(
    fields: dict[str, Any], first: list[tuple[int, int]], boss: Client
) -> None:
    task = a_row(schedule="every 1d", **fields)
    page = boss.get(reverse(SCHEDULE), {"task": task.pk})
    times = [moment for moment, _away in page.context["times"]]
    assert len(times) == recurring_pages.MOST_TIMES
    expected = [later(86_400 * days + seconds) for days, seconds in first]
    assert times[:2] == [told_with_day(moment) for moment in expected]


def test_a_text_is_shown_with_ten_times_in_the_readers_zone(staff: Staff) -> None:
    who = staff("view_task")
    with timezone.override(ZoneInfo("America/New_York")):
        page = preview(who, "cron 0 9 * * 1-5 Asia/Shanghai | timeout 30s")
    times = [moment for moment, _away in page.context["times"]]
    assert len(times) == 10
    assert times[0] == "Sun 2030-05-19 21:00:00 EDT"
    shown = text(page)
    assert "timeout 30s" in shown
    assert "Times are those of America/New_York." in shown


@pytest.mark.parametrize(
    "schedule",
    [
        "",
        "   ",
        "cron 0 0 1--100000000 * *",
        "cron 0 0 1-100000000 * *",
        "every 99999999999999999999999999d",
        "(" * 900,
        "any of (" * 100,
        "x" * 100_000,
        "every 1h\0",
        "cron 0 0 30 2 *",
        "trigger apscheduler.triggers.date",
        "every 1h | grace",
        "every 1s | catch up 999999999",
        "all of (cron 0 0 1 1 *; cron 1 0 * * *)",
        "<b>every</b>",
        "every 1h from 2020-01-01T00:00:00+00:00 until 2020-01-02T00:00:00+00:00",
    ],
)
def test_a_hostile_text_is_refused_fast_in_one_sentence(schedule: str, boss: Client) -> None:
    started = time.process_time()
    page = preview(boss, schedule)
    assert time.process_time() - started < 2
    (problem,) = page.context["form"].errors["schedule"]
    assert problem
    assert "times" not in page.context or not page.context["times"]
    assert "<b>every" not in page.content.decode()


def test_a_schedule_of_few_times_shows_those(boss: Client) -> None:
    page = preview(boss, "at 2031-01-01T00:00:00+00:00")
    assert len(page.context["times"]) == 1


def test_a_tasks_own_schedule_is_shown_from_its_next_run_on(
    boss: Client, handlers: Any, settings: Any
) -> None:
    settings.TIME_ZONE = "UTC"
    handlers(Report)
    task = a_row(schedule="every 1h", when=later(60))
    page = boss.get(reverse(SCHEDULE), {"task": str(task.pk)})
    assert page.context["times"][0][0] == "Fri 2030-05-17 12:31:15 UTC"
    assert "Save this schedule" not in page.content.decode()
    own = a_row(SCHEDULE_NUM, biz_code="report", schedule="trigger of the code")
    assert len(boss.get(reverse(SCHEDULE), {"task": str(own.pk)}).context["times"]) == 10


def saved(who: Client, task: Task, schedule: str, **data: str) -> Any:
    given = {"task": str(task.pk), "seen": seen_of(task), "schedule": schedule}
    return who.post(reverse(SCHEDULE), given | data)


AFTER = {
    Status.FAILED: Status.PENDING,
    Status.CANCELLING: Status.RUNNING,
}


@pytest.mark.parametrize("status", Status)
def test_a_schedule_is_saved_in_each_status(status: Status, boss: Client) -> None:
    task = a_row(schedule="every 1h", status=status, biz_ext={"a": 1}, name="Offer")
    page = preview(boss, "every 2h | attempts 4", task=task.pk)
    assert "Save this schedule" in page.content.decode()
    assert ("It is running" in text(page)) == (status in (Status.RUNNING, Status.PAUSING))
    response = saved(boss, task, "every 2h | attempts 4")
    assert response["Location"] == reverse(CHANGE, args=[task.pk])
    row = the_row()
    assert (row.schedule, row.options.max_attempts) == ("every 2h", 4)
    assert (row.biz_ext, row.name) == ({"a": 1}, "Offer")
    assert in_utc(row.when) == later(7200)
    assert state()[0] == AFTER.get(status, status)
    assert LogEntry.objects.get().change_message == (
        "Schedule changed from “every 1h” to “every 2h | attempts 4”."
    )


def test_the_first_time_of_the_preview_is_that_of_the_task(boss: Client, settings: Any) -> None:
    settings.TIME_ZONE = "UTC"
    task = a_row(schedule="every 1h", when=later(1))
    first = preview(boss, "every monday at 09:00 UTC", task=task.pk).context["times"][0][0]
    saved(boss, task, "every monday at 09:00 UTC")
    assert f"Mon {in_utc(the_row().when):%Y-%m-%d %H:%M:%S} UTC" == first


def test_a_task_that_moved_since_the_preview_is_left_alone(boss: Client) -> None:
    task = a_row(schedule="every 1h")
    api.reschedule_task("order", "1", later(5))
    response = saved(boss, task, "every 2h")
    assert "Nothing was done" in said(boss.get(response["Location"]))[0]
    assert the_row().schedule == "every 1h"


def test_a_bad_text_is_not_saved(boss: Client) -> None:
    task = a_row(schedule="every 1h")
    page = saved(boss, task, "every now and then")
    assert page.status_code == 200
    assert page.context["form"].errors["schedule"]
    assert the_row().schedule == "every 1h"


def test_options_that_do_not_go_together_are_one_sentence(boss: Client) -> None:
    task = a_row(schedule="every 1h", options=TaskOptions(expires=later(99_999)))
    response = saved(boss, task, "every 2h | late run")
    assert response.status_code == 302
    (sentence,) = said(boss.get(response["Location"]))
    assert "expires" in sentence
    assert the_row().schedule == "every 1h"


def test_saving_wants_the_permission_to_change_and_a_task(staff: Staff, boss: Client) -> None:
    task = a_row(schedule="every 1h")
    own = a_row(SCHEDULE_NUM, schedule="every 1h")
    others = ("view_task", "run_task", "pause_task", "cancel_task", "add_task")
    assert saved(staff(*others), task, "every 2h").status_code == 403
    assert saved(boss, own, "every 2h").status_code == 403
    assert boss.post(reverse(SCHEDULE), {"schedule": "every 2h"}).status_code == 403
    assert "changed in the code" in text(preview(boss, "every 2h", task=own.pk))
    assert saved(staff("change_task"), task, "every 2h").status_code == 302
    assert the_row().schedule == "every 2h"


@pytest.mark.parametrize("pk", ["0", "-1", "x", "9" * 40, "\0"])
def test_the_schedule_of_no_task_is_no_error(pk: str, boss: Client) -> None:
    assert boss.get(reverse(SCHEDULE), {"task": pk}).status_code == 302
    assert boss.post(reverse(SCHEDULE), {"task": pk, "schedule": "every 1h"}).status_code == 302


def test_a_task_that_does_not_repeat_can_be_given_a_schedule(boss: Client) -> None:
    task = a_row(when=NOW)
    assert "It does not repeat." in text(boss.get(reverse(SCHEDULE), {"task": str(task.pk)}))
    saved(boss, task, "every 2h")
    assert the_row().schedule == "every 2h"


def test_no_page_needs_inline_style_or_script(boss: Client) -> None:
    task = a_row(schedule="every 1h", status=Status.RUNNING)
    assert task.status in OWNED
    for page in (look(boss), preview(boss, "every 1h", task=task.pk)):
        body = page.content.decode()
        assert re.findall(r"<style|\sstyle=|\son\w+=\"|<script(?![^>]*\b(src|type)=)", body) == []
