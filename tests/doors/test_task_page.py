"""A task's own page: its life, what holds it back, and the steps that a person takes with it."""

import re
from concurrent.futures import Future
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone, translation

from django_tasks import api
from django_tasks.admin import task_steps
from django_tasks.admin.task_steps import STEPS, PageStep, seen_of
from django_tasks.models import Task
from django_tasks.reads.words import message_of
from django_tasks.timezones import for_django
from django_tasks.values.keys import SCHEDULE_NUM
from django_tasks.values.options import TaskOptions
from django_tasks.values.status import OWNED, Status
from tests.conftest import DEADLINE
from tests.doors.conftest import Staff, logged_in
from tests.doors.test_admin import CHANGE, DELETE, opened, said, save, text
from tests.factories import (
    NOW,
    UTC,
    a_row,
    a_run,
    a_worker,
    in_utc,
    later,
    state,
    table,
    the_row,
    there_is,
)
from tests.vendor import SQLITE, only_on

pytestmark = pytest.mark.usefixtures("now")

P, R, F, H, C, G = (
    *(Status.PENDING, Status.RUNNING, Status.FAILED),
    *(Status.PAUSED, Status.CANCELLING, Status.PAUSING),
)
# The steps in the order of their buttons, and the status after each; None: the row has gone.
AFTER: dict[str, dict[Status, Status | None]] = {
    "run-now": {P: P, R: R, F: P, H: P, C: R, G: R},
    "reschedule": {P: P, R: R, H: H, C: R, G: G},
    "requeue": {F: P},
    "pause": {P: H, R: G},
    "resume": {H: P, G: R},
    "cancel": {P: None, R: C, F: None, H: None, G: C},
}
STEP = {step.address: step for step in STEPS}


def address(task: Task, step: PageStep | str) -> str:
    name = step if isinstance(step, str) else step.address
    return reverse(f"admin:django_tasks_task_{name.replace('-', '_')}", args=[task.pk])


def page_of(who: Client, task: Task) -> Any:
    response = who.get(reverse(CHANGE, args=[task.pk]))
    assert response.status_code == 200
    return response


def take(who: Client, task: Task, step: str, **data: str) -> Any:
    """Take a step as the page that was seen just now offers it."""
    seen = {"seen": seen_of(the_row(task.biz_num, task.biz_code)), "wait": "1800"}
    return who.post(address(task, step), seen | data)


def told_after(who: Client, response: Any) -> str:
    assert response.status_code == 302
    (sentence,) = said(who.get(response["Location"]))
    return sentence


# The steps


@pytest.mark.parametrize("status", Status)
def test_the_page_offers_the_steps_that_make_sense(status: Status, boss: Client) -> None:
    offered = page_of(boss, a_row(status=status)).context["buttons"]
    expected = [name for name, after in AFTER.items() if status in after]
    assert [button.step.address for button in offered] == expected
    asking = {button.step.address for button in offered if button.asks}
    assert asking == {
        name
        for name in expected
        if name in ("cancel", "reschedule") or (name == "run-now" and status in OWNED)
    }


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("name", AFTER)
def test_each_step_in_each_status(name: str, status: Status, boss: Client) -> None:
    task = a_row(status=status, attempts=2, last_error="ValueError: no")
    after = AFTER[name].get(status, status)
    sentence = told_after(boss, take(boss, task, name))
    assert there_is() == (after is not None)
    if after is not None:
        assert state()[0] == after
    entries = LogEntry.objects.count()
    if status in AFTER[name]:
        assert sentence.startswith("Task order/1 ")
        assert entries == 1
    else:
        assert sentence == task_steps.MOVED % {"task": task}
        assert entries == 0
        assert state() == (status, 0, 7 if status in OWNED else None)


PERMISSION = {
    "run-now": "run_task",
    "reschedule": "run_task",
    "requeue": "run_task",
    "pause": "pause_task",
    "resume": "pause_task",
    "cancel": "cancel_task",
}


@only_on(SQLITE, because="a permission allows the same on each")
@pytest.mark.parametrize("permission", ["view_task", "change_task", *set(PERMISSION.values())])
def test_each_permission_has_its_buttons_and_no_others(permission: str, staff: Staff) -> None:
    who = staff(*{"view_task", permission})
    for status in Status:
        task = a_row(str(status.value), status=status)
        offered = {button.step.address for button in page_of(who, task).context["buttons"]}
        possible = {name for name, after in AFTER.items() if status in after}
        assert offered == {name for name in possible if PERMISSION[name] == permission}
        for name in AFTER:
            allowed = PERMISSION[name] == permission
            assert who.get(address(task, name)).status_code == (200 if allowed else 403)
            if not allowed:
                assert take(who, task, name).status_code == 403
        assert state(str(status.value))[:2] == (status, 0)


@pytest.mark.parametrize("name", AFTER)
def test_who_may_not_look_takes_no_step(name: str, staff: Staff) -> None:
    task = a_row(status=next(iter(AFTER[name])))
    who = staff(PERMISSION[name])
    assert who.get(address(task, name)).status_code == 403
    assert take(who, task, name).status_code == 403
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize("name", AFTER)
def test_a_step_without_a_token_is_refused(name: str, boss: Client) -> None:
    status = next(iter(AFTER[name]))
    task = a_row(status=status)
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = boss.cookies
    assert take(strict, task, name).status_code == 403
    assert state() == (status, 0, None)


@pytest.mark.parametrize("name", AFTER)
def test_a_look_at_a_step_asks_and_changes_nothing(name: str, boss: Client) -> None:
    for status in Status:
        task = a_row(str(status.value), status=status)
        shown = text(boss.get(address(task, name), {"seen": seen_of(task)}, follow=True))
        if status in AFTER[name]:
            assert str(STEP[name].means[status]) in shown
        assert state(str(status.value))[:2] == (status, 0)


@pytest.mark.parametrize("name", AFTER)
def test_a_task_that_moved_since_its_page_was_opened_is_left_alone(name: str, boss: Client) -> None:
    status = next(iter(AFTER[name]))
    task = a_row(status=status)
    seen = seen_of(task)
    table(pk=task.pk).update(version=5)
    for knock in (boss.post, boss.get):
        response = knock(address(task, name), {"seen": seen, "wait": "1800"})
        assert response["Location"] == reverse(CHANGE, args=[task.pk])
        assert "Nothing was done" in told_after(boss, response)
    assert state() == (status, 5, None)
    assert not LogEntry.objects.exists()


def test_a_pause_of_a_run_is_noticed_although_the_version_stays(boss: Client) -> None:
    task = a_row(status=R)
    seen = seen_of(task)
    api.pause_task("order", "1")
    assert the_row().version == 0
    told = told_after(boss, boss.post(address(task, "cancel"), {"seen": seen}))
    assert "Nothing was done" in told
    assert state()[0] == G


def test_a_task_that_moves_while_the_step_is_taken_is_left_alone(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = a_row(status=F)
    guarded = task_steps.guarded

    def overtaken(*args: Any, **kwargs: Any) -> bool:
        api.add_task(Task(biz_code="order", biz_num="1", when=later(60)))
        return guarded(*args, **kwargs)

    monkeypatch.setattr("django_tasks.admin.task_views.guarded", overtaken)
    assert "Nothing was done" in told_after(boss, take(boss, task, "cancel"))
    assert state() == (P, 1, None)


def test_of_two_people_who_take_a_step_at_once_one_is_refused(
    elsewhere: Any, boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = a_row(status=F)
    other = logged_in(User.objects.get())
    seen = {"seen": seen_of(task)}
    theirs: list[Future[Any]] = []

    def let_them_step_too(*key: str, using: str) -> bool:
        # Here the row has been compared, and nothing has been written.
        if not theirs:
            theirs.append(elsewhere(other.post, address(task, "cancel"), seen))
        return requeue(*key, using=using)

    requeue = api.requeue_task
    monkeypatch.setattr(api, "requeue_task", let_them_step_too)
    mine = boss.post(address(task, "requeue"), seen)
    assert "waits again" in told_after(boss, mine)
    assert "Nothing was done" in told_after(other, theirs[0].result(DEADLINE))
    assert state() == (P, 1, None)


def test_a_task_that_has_gone_is_told_on_the_list(boss: Client) -> None:
    task = a_row()
    seen = seen_of(task)
    api.cancel_task("order", "1")
    for knock in (boss.post, boss.get):
        response = knock(address(task, "cancel"), {"seen": seen})
        assert response["Location"] == reverse("admin:django_tasks_task_changelist")
        assert told_after(boss, response) == "This task has ended, or there never was one."


@pytest.mark.parametrize(
    "seen", ["", "x", "0", "0.0.0", "-1.0", "0.99", "9" * 5000, "0.0\0", " 0.0"]
)
def test_a_step_with_nonsense_for_what_was_seen_does_nothing(seen: str, boss: Client) -> None:
    task = a_row()
    assert "Nothing was done" in told_after(boss, boss.post(address(task, "pause"), {"seen": seen}))
    assert boss.get(address(task, "cancel"), {"seen": seen}).status_code in (200, 302)
    assert state() == (P, 0, None)


@pytest.mark.parametrize("pk", ["0", "-1", "x", "9" * 40, "1/2", "%00"])
def test_the_step_of_no_task_is_no_error(pk: str, boss: Client) -> None:
    path = f"{reverse('admin:django_tasks_task_changelist')}{pk}/pause/"
    assert boss.get(path).status_code in (302, 404)
    assert boss.post(path, {"seen": "0.0"}).status_code in (302, 404)


def test_a_cancel_of_a_running_task_says_what_happens_to_the_run(boss: Client) -> None:
    task = a_row(status=R)
    assert "Nobody stops this run" in text(boss.get(address(task, "cancel")))
    told = told_after(boss, take(boss, task, "cancel"))
    assert told == "Task order/1 is running, and is gone when this run ends."


def test_a_cancel_of_a_schedule_says_so(boss: Client) -> None:
    task = a_row(schedule="every 1h")
    own = a_row(SCHEDULE_NUM, schedule="every 1h")
    for name in ("cancel", DELETE):
        paths = [
            reverse(name, args=[each.pk]) if name == DELETE else address(each, name)
            for each in (task, own)
        ]
        assert "its schedule ends with it" in text(boss.get(paths[0]))
        assert "the next worker that starts adds it again" in text(boss.get(paths[1]))


@pytest.mark.parametrize("status", Status)
def test_the_delete_page_says_that_it_is_a_cancel(status: Status, boss: Client) -> None:
    task = a_row(status=status)
    shown = text(boss.get(reverse(DELETE, args=[task.pk])))
    assert "To delete a task is to cancel it: order/1" in shown
    assert ("It is running." in shown) == (status in (R, G))
    assert ("being cancelled already" in shown) == (status == C)
    assert ("gone at once" in shown) == (status not in OWNED)


# Another time


@pytest.mark.parametrize(("wait", "seconds"), [("300", 300), ("1800", 1800), ("86400", 86_400)])
def test_a_task_is_moved_by_one_click(
    wait: str, seconds: float, boss: Client, settings: Any
) -> None:
    settings.TIME_ZONE = "UTC"
    task = a_row(biz_ext={"a": 1})
    told = told_after(boss, take(boss, task, "reschedule", wait=wait))
    entry = LogEntry.objects.get()
    assert in_utc(the_row().when) == later(seconds)
    assert the_row().biz_ext == {"a": 1}
    assert told == f"Task order/1 is due at {later(seconds):%Y-%m-%d %H:%M:%S} UTC."
    assert entry.change_message == (
        f"Rescheduled from {NOW:%Y-%m-%d %H:%M:%S} UTC to {later(seconds):%Y-%m-%d %H:%M:%S} UTC."
    )


def test_a_time_is_that_of_the_reader(boss: Client) -> None:
    task = a_row()
    with timezone.override(ZoneInfo("America/New_York")):
        given = {"wait": "", "when_0": "2030-06-01", "when_1": "10:00:00"}
        page = text(boss.get(address(task, "reschedule")))
        told = told_after(boss, take(boss, task, "reschedule", **given))
    assert "In the time zone America/New_York." in page
    assert told == "Task order/1 is due at 2030-06-01 10:00:00 EDT."
    assert in_utc(the_row().when) == datetime(2030, 6, 1, 14, tzinfo=UTC)


@pytest.mark.parametrize("language", ["en", "de", "fi", "zh-hans", "ar"])
def test_the_time_that_the_form_shows_is_the_tasks_in_every_language(
    language: str, boss: Client, settings: Any
) -> None:
    settings.LANGUAGE_CODE = language
    task = a_row(when=datetime(2030, 3, 4, 15, 26, 37, 123456, tzinfo=UTC))
    with translation.override(language):
        page = boss.get(address(task, "reschedule")).content.decode()
        given = dict(re.findall(r'name="(when_\d)" value="([^"]*)"', page))
        assert len(given) == 2
        response = take(boss, task, "reschedule", wait="", **given)
    # Sent back as it was: there is nothing to be done, to the microsecond.
    assert response.status_code == 200
    assert in_utc(the_row().when) == datetime(2030, 3, 4, 15, 26, 37, 123456, tzinfo=UTC)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"when_0": "someday", "when_1": "10:00"},
        {"when_0": "2030-06-01", "when_1": ""},
        {"when_0": "0700-01-01", "when_1": "10:00"},
        {"when_0": "9999-12-31", "when_1": "23:59:59"},
        {"when_0": "2030-06-01\0", "when_1": "10:00"},
        {"wait": "1e9"},
        {"wait": "-300"},
    ],
)
def test_a_bad_time_is_told_on_the_form(given: dict[str, str], boss: Client) -> None:
    task = a_row()
    response = take(boss, task, "reschedule", **({"wait": ""} | given))
    assert response.status_code == 200
    assert response.context["form"].errors["when"]
    assert state() == (P, 0, None)


@pytest.mark.parametrize("date", ["2026-10-25", "2026-03-29"])
def test_an_hour_that_comes_twice_or_never_is_refused_where_times_have_zones(
    date: str, boss: Client, settings: Any
) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    given = {"wait": "", "when_0": date, "when_1": "02:30:00"}
    response = take(boss, a_row(), "reschedule", **given)
    # Without USE_TZ Django takes any local time.
    assert response.status_code == (200 if settings.USE_TZ else 302)


# Its life


TRACEBACK = """Traceback (most recent call last):
  File "a.py", line 1, in handle
    first()
a.b.Refused: the first: no

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 2, in handle
    second()
a.b.Refused: the second
with a line more"""


@pytest.mark.parametrize(
    ("error", "exception", "message"),
    [
        (TRACEBACK, "a.b.Refused", "a.b.Refused: the second\nwith a line more"),
        (TRACEBACK, "", "with a line more"),
        (TRACEBACK, "x.Other", "with a line more"),
        ("ValueError", "builtins.ValueError", "ValueError"),
        ("ValueError: a\n\n", "builtins.ValueError", "ValueError: a"),
        ("", "", ""),
        ("\n", "", ""),
        ("x" * 5000, "", "x" * 999 + "…"),
    ],
)
def test_the_message_of_an_error(error: str, exception: str, message: str) -> None:
    assert message_of(error, exception) == message


def test_the_message_stands_before_the_whole_error(boss: Client) -> None:
    task = a_row(status=F, last_error=TRACEBACK, exception="a.b.Refused")
    body = page_of(boss, task).content.decode()
    bold = body.index("<strong>a.b.Refused: the second\nwith a line more</strong>")
    assert bold < body.index('<pre class="task-text">Traceback')


def test_the_page_says_what_holds_it_back(boss: Client) -> None:
    assert "No worker is running." in text(page_of(boss, a_row()))
    api.pause_task("order", "1")
    assert "It is paused itself" in text(page_of(boss, the_row()))


def test_runs_are_shown_with_what_became_of_them(boss: Client) -> None:
    task = a_row(runs=2)
    a_run(
        biz_num="1", outcome="retried", error=TRACEBACK, exception="a.b.Refused", worker="web-1:7"
    )
    a_run(biz_num="1", ended=later(2), attempt=2)
    a_run(biz_num="2", worker="another")
    page = page_of(boss, task)
    shown = text(page)
    for word in ("retried", "web-1:7", "2.0 s", "1.0 s", "Refused : the second", "done"):
        assert word in shown
    assert "another" not in shown
    assert page.content.decode().count("<rect") == 2
    heights = [bar.height for bar in page.context["life"].bars]
    assert heights == [12.0, 48.0]


def test_of_many_runs_the_last_ones_are_shown(
    boss: Client, monkeypatch: pytest.MonkeyPatch, queries: Any
) -> None:
    monkeypatch.setattr("django_tasks.admin.task_page.MOST_RUNS", 3)
    task = a_row()
    for attempt in range(1, 6):
        a_run(biz_num="1", attempt=attempt)
    with queries() as asked:
        page = page_of(boss, task)
    assert [run.attempt for run in page.context["life"].runs] == [5, 4, 3]
    assert "The last 3 are shown" in text(page)
    looks = [query["sql"] for query in asked if "t_task_run" in query["sql"]]
    assert len(looks) == 1
    assert "LIMIT 3" in looks[0]


def test_runs_of_no_length_have_a_bar(boss: Client) -> None:
    a_run(started=later(-2), ended=later(-2))
    a_run(started=later(-2), ended=later(-3))  # a clock was set back
    heights = [bar.height for bar in page_of(boss, a_row()).context["life"].bars]
    assert heights == [3, 3]


def test_no_link_leads_to_a_page_that_is_forbidden(staff: Staff) -> None:
    worker = a_worker("web-1:4711")
    task = a_row(status=R, claimed_by=worker.pk, schedule="every 1h", last_error="no")
    a_run(worker="secret-worker", exception="SecretError")
    for permissions in (
        {"view_task"},
        {"view_task", "view_taskrun"},
        {"view_task", "view_workerrow"},
        {"view_task", "view_taskrun", "view_workerrow"},
        {"view_task", "run_task", "pause_task", "cancel_task"},
        {"change_task", "delete_task"},
    ):
        who = staff(*permissions)
        page = page_of(who, task)
        assert ("SecretError" in text(page)) == ("view_taskrun" in permissions)
        both = {"view_taskrun", "view_workerrow"} <= permissions
        assert ("secret-worker" in text(page)) == both
        links = re.findall(r'<a [^>]*href="(/admin/django_tasks/[^"#]*)"', page.content.decode())
        for link in links:
            assert who.get(link.replace("&amp;", "&")).status_code in (200, 302), link


def test_progress_is_a_bar_with_its_text(boss: Client) -> None:
    task = a_row(status=R, progress={"done": 3, "total": 10, "text": "printing"})
    body = page_of(boss, task).content.decode()
    assert re.search(r'<progress max="10" value="3"', body)
    assert "3 / 10 printing" in body


@pytest.mark.parametrize(
    "progress",
    [
        {"done": 3, "total": None, "text": ""},
        {"done": -3, "total": 10, "text": ""},
        {"done": "<b>", "total": [], "text": {}},
        {"done": 3, "total": 0, "text": None},
        {},
        [],
        7,
    ],
)
def test_progress_that_is_no_share_has_no_bar(progress: Any, boss: Client) -> None:
    body = page_of(boss, a_row(status=R, progress=progress)).content.decode()
    assert "<progress" not in body
    assert "<b>" not in body


def test_numbers_are_written_plainly_in_every_language(boss: Client, settings: Any) -> None:
    settings.USE_THOUSAND_SEPARATOR = True
    settings.LANGUAGE_CODE = "de"
    worker = a_worker("web-1:4711", id=1_234_567)
    task = a_row(
        id=7_654_321,
        status=R,
        claimed_by=worker.pk,
        progress={"done": 3000, "total": 10_000, "text": ""},
        schedule="every 1h",
        priority=-1234,
    )
    for seconds in (1, 2):
        a_run(ended=later(seconds))
    with translation.override("de"):
        body = page_of(boss, task).content.decode()
        assert 'max="10000" value="3000"' in body
        assert "7.654.321" not in body
        assert "1.234.567" not in body
        for shape in re.findall(r"<rect[^>]*>", body):
            assert "," not in shape


def test_the_schedule_is_shown_with_its_next_times(boss: Client, settings: Any) -> None:
    settings.TIME_ZONE = "UTC"
    task = a_row(schedule="every 1h", options=TaskOptions(timeout=30))
    shown = text(page_of(boss, task))
    assert "Schedule: every 1h" in shown
    assert "timeout 30s" in shown
    for hour in range(13, 18):
        assert f"2030-05-17 {hour}:30:15 UTC" in shown


@pytest.mark.parametrize("schedule", ["every now and then", "trigger <b>x", "x" * 5000, "("])
def test_a_schedule_that_cannot_be_read_is_told(schedule: str, boss: Client) -> None:
    page = page_of(boss, a_row(schedule=schedule))
    assert page.context["life"].times_error
    assert "<b>x" not in page.content.decode()


def test_a_payload_is_readable(boss: Client, staff: Staff) -> None:
    task = a_row(biz_ext={"note": "你好 <script>", "order": 42})
    for who in (boss, staff("view_task")):
        body = page_of(who, task).content.decode()
        assert (
            "{\n  &quot;note&quot;: &quot;你好 &lt;script&gt;&quot;,\n  &quot;order&quot;: 42\n}"
            in body
        )


def test_the_page_takes_a_few_statements_however_long_its_history(
    boss: Client, queries: Any
) -> None:
    task = a_row(schedule="every 1h")
    page_of(boss, task)
    with queries() as for_none:
        page_of(boss, task)
    for _ in range(60):
        a_run()
    with queries() as for_many:
        page_of(boss, task)
    assert len(for_many) == len(for_none)
    assert len(for_many) <= 12


def test_what_was_edited_by_whom_is_the_log_of_changes(boss: Client) -> None:
    task = a_row()
    assert ">Log of changes<" in page_of(boss, task).content.decode()
    take(boss, task, "pause")
    save(boss, task, opened(boss, task) | {"priority": "9"})
    save(boss, task, opened(boss, task))
    messages = LogEntry.objects.order_by("id").values_list("change_message", flat=True)
    assert list(messages) == ["Paused.", '[{"changed": {"fields": ["Priority"]}}]']
    log = text(boss.get(reverse("admin:django_tasks_task_history", args=[task.pk])))
    assert "Log of changes: order/1" in log
    assert "Changed Priority." in log


@pytest.mark.parametrize("language", ["en", "de", "zh-hans", "fa"])
def test_times_of_the_row_are_exact_in_every_language(
    language: str, boss: Client, settings: Any
) -> None:
    settings.LANGUAGE_CODE = language
    columns = (
        *("last_run", "claim_time", "scheduled_time"),
        *("latest_time", "create_time", "update_time"),
    )
    times: dict[str, Any] = {name: later(61 * number) for number, name in enumerate(columns, 1)}
    task = a_row(status=R, claimed_by=7, **times)
    with timezone.override(ZoneInfo("Asia/Shanghai")):
        body = page_of(boss, task).content.decode()
    row = body.partition('name="seen_version"')[2]  # the life above the form tells times as well
    for moment in times.values():
        local = moment.astimezone(ZoneInfo("Asia/Shanghai"))
        assert f"{local:%Y-%m-%d %H:%M:%S} CST" in row


# Save


@pytest.mark.parametrize("status", Status)
def test_the_button_says_what_save_does(status: Status, boss: Client) -> None:
    page = page_of(boss, a_row(status=status))
    (label,) = re.findall(r'<input type="submit" value="([^"]*)"', page.content.decode())
    assert label.startswith("Save: ")


@pytest.mark.parametrize(
    ("fields", "label"),
    [
        ({}, "Save: add the task again"),
        ({"attempts": 2}, "Save: add the task again, with all its attempts"),
        ({"rescues": 1}, "Save: add the task again"),
        ({"last_error": "ValueError: no"}, "Save: add the task again"),
    ],
)
def test_a_save_that_clears_something_says_so(
    fields: dict[str, Any], label: str, boss: Client
) -> None:
    page = page_of(boss, a_row(**fields)).content.decode()
    assert f'value="{label}"' in page
    assert (str(task_steps.ANEW) in page) == bool(fields)


@pytest.mark.parametrize("status", OWNED)
def test_a_save_during_a_run_clears_nothing_of_it(status: Status, boss: Client) -> None:
    task = a_row(status=status, attempts=2, last_error="ValueError: no")
    assert str(task_steps.ANEW) not in page_of(boss, task).content.decode()
    save(boss, task, opened(boss, task) | {"name": "Offer"})
    assert (the_row().attempts, the_row().last_error) == (2, "ValueError: no")


def test_a_form_that_was_not_edited_says_that_nothing_was_changed(boss: Client) -> None:
    task = a_row()
    response = save(boss, task, opened(boss, task) | {"_continue": "1"})
    assert told_after(boss, response) == "Nothing was edited, so nothing was changed."
    assert state() == (P, 0, None)


def test_a_form_that_is_refused_shows_the_life_of_the_row_as_it_is(boss: Client) -> None:
    task = a_row(biz_ext={"old": 1})
    wrong = {"when_0": "", "when_1": "", "biz_ext": '{"new": 2}', "priority": "x"}
    page = save(boss, task, opened(boss, task) | wrong)
    assert page.status_code == 200
    assert "&quot;old&quot;: 1" in page.content.decode().split('class="life-json"')[1]
    api.cancel_task("order", "1")
    assert save(boss, task, opened(boss, a_row("2")) | wrong).status_code == 302


def test_after_save_the_page_is_shown_again(boss: Client) -> None:
    task = a_row()
    response = save(boss, task, opened(boss, task) | {"priority": "9", "_continue": "1"})
    assert response["Location"] == reverse(CHANGE, args=[task.pk])
    assert the_row().priority == 9


@pytest.mark.parametrize("language", ["en", "zh-hans", "fa"])
def test_a_save_keeps_the_second_hour_of_autumn_and_microseconds(
    language: str, boss: Client, settings: Any
) -> None:
    settings.LANGUAGE_CODE, settings.TIME_ZONE = language, "Europe/Berlin"
    when = datetime(2026, 10, 25, 1, 30, 1, 5, tzinfo=UTC)  # 02:30 for the second time
    task = a_row()
    table(pk=task.pk).update(when=for_django(when), schedule="every 1h")
    before = Task.objects.values("when", "schedule").get()
    with translation.override(language):
        response = save(boss, task, opened(boss, task) | {"name": "Offer"})
    assert response.status_code == 302
    assert the_row().name == "Offer"
    assert Task.objects.values("when", "schedule").get() == before


def test_no_page_of_a_task_needs_inline_style_or_script(boss: Client) -> None:
    task = a_row(status=R, schedule="every 1h", progress={"done": 1, "total": 2, "text": ""})
    a_run()
    paths = [address(task, name) for name in AFTER]
    for path in (reverse(CHANGE, args=[task.pk]), reverse(DELETE, args=[task.pk]), *paths):
        body = boss.get(path).content.decode()
        assert re.findall(r"<style|\sstyle=|\son\w+=\"|<script(?![^>]*\b(src|type)=)", body) == []
