"""Changes of all tasks that match a filter, and the page of failures."""

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from django_tasks.admin import bulk, columns, lists
from django_tasks.client.changes import Step
from django_tasks.models import Task
from django_tasks.reads import backlog, filters
from django_tasks.reads.filters import TaskFilter
from django_tasks.reads.many import steps
from django_tasks.timezones import for_django
from django_tasks.values.status import Status
from tests.doors.conftest import Staff, logged_in
from tests.doors.test_admin import LIST, act, said, text
from tests.factories import NOW, a_row, in_utc, later, rows, state, table, the_row, there_is

pytestmark = pytest.mark.usefixtures("now")

BULK = "admin:django_tasks_task_bulk"
FAILURES = "admin:django_tasks_failures"
NEEDED = {
    "run_now": "run_task",
    "requeue": "run_task",
    "move": "run_task",
    "pause": "pause_task",
    "resume": "pause_task",
    "cancel": "cancel_task",
}
TO = {"to_0": "2031-01-02", "to_1": "03:04:05"}


def ask(who: Client, step: str, **query: str) -> Any:
    return who.get(reverse(BULK), {"step": step} | query)


def signed(page: Any) -> str:
    (work,) = re.findall(r'name="work" value="([^"]*)"', page.content.decode())
    return str(work)


def go(who: Client, work: str, **more: str) -> Any:
    return who.post(reverse(BULK), {"work": work} | more)


def go_to_the_end(who: Client, page: Any, **more: str) -> tuple[list[str], int]:
    """Send the form as often as it comes back; returns what is said, and how often it was sent."""
    response, sent = go(who, signed(page), **more), 1
    while response.status_code == 200:
        assert b"data-task-goes-on" in response.content
        response, sent = go(who, signed(response)), sent + 1
    return said(who.get(response["Location"])), sent


def test_the_table_of_permissions_is_whole() -> None:
    assert {step.value for step in Step} == set(NEEDED)
    assert {step: f"{action}_task" for step, action in bulk.PERMISSIONS.items()} == {
        Step(name): permission for name, permission in NEEDED.items()
    }


# Asking


def test_the_first_page_counts_and_says_what_will_happen_and_does_nothing(boss: Client) -> None:
    rows(range(3), status=Status.PENDING)
    a_row("running", status=Status.RUNNING)
    a_row("other", biz_code="other")
    page = ask(boss, "cancel", biz_code="order")
    shown = text(page)
    assert "4 tasks : code order" in shown
    assert "Running now: 1." in shown
    assert "This cannot be undone." in shown
    assert Task.objects.count() == 5
    assert not LogEntry.objects.exists()


def test_only_what_the_step_changes_is_counted(boss: Client) -> None:
    a_row("p", status=Status.PAUSED)
    a_row("f", status=Status.FAILED)
    assert "1 task : code order" in text(ask(boss, "resume", biz_code="order"))
    assert "1 task : code order" in text(ask(boss, "requeue", biz_code="order"))
    none = ask(boss, "pause", biz_code="order")
    assert "There is nothing to change." in text(none)
    assert b'name="work"' not in none.content


def test_a_count_beyond_the_limit_says_so(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "LIST_LIMIT", 5)
    rows(range(9), status=Status.FAILED)
    page = ask(boss, "requeue", status__exact="2")
    assert "More than 5 tasks : failed" in text(page)
    messages, _sent = go_to_the_end(boss, page)
    assert messages == ["Requeue: 9 tasks changed."]


@pytest.mark.parametrize("step", sorted(set(NEEDED) - {"requeue"}))
def test_without_a_filter_nobody_means_all_tasks(step: str, boss: Client) -> None:
    a_row()
    response = ask(boss, step)
    assert response["Location"] == reverse(LIST)
    assert said(boss.get(reverse(LIST))) == ["Choose a filter first: that would be all tasks."]


@pytest.mark.parametrize("step", ["", "delete", "RUN_NOW", "'\"><script>"])
def test_an_unknown_step_is_told(step: str, boss: Client) -> None:
    response = ask(boss, step, biz_code="order")
    assert response["Location"] == f"{reverse(LIST)}?e=1"
    page = boss.get(response["Location"])
    assert said(page)
    assert b"<script>'" not in page.content


def test_the_list_leads_to_the_pages_that_ask(boss: Client, staff: Staff) -> None:
    a_row(status=Status.FAILED)
    for who, offered in (
        (boss, set(NEEDED)),
        (staff("view_task", "pause_task"), {"pause", "resume"}),
        (staff("view_task"), set()),
    ):
        page = who.get(reverse(LIST), {"status__exact": "2"}).content.decode()
        links = re.findall(r'href="([^"]*/bulk/[^"]*)"', page)
        found = [parse_qs(urlsplit(link.replace("&amp;", "&")).query) for link in links]
        assert {query["step"][0] for query in found} == offered
        assert all(query["status__exact"] == ["2"] for query in found)
    everything = boss.get(reverse(LIST)).content.decode()
    assert re.findall(r"/bulk/\?step=(\w+)", everything) == ["requeue"]


# Doing


@pytest.mark.parametrize(
    ("step", "after"),
    [
        ("run_now", {"p": Status.PENDING, "r": Status.RUNNING, "f": Status.PENDING}),
        ("requeue", {"p": Status.PENDING, "r": Status.RUNNING, "f": Status.PENDING}),
        ("move", {"p": Status.PENDING, "r": Status.RUNNING, "f": Status.PENDING}),
        ("pause", {"p": Status.PAUSED, "r": Status.PAUSING, "f": Status.FAILED}),
        ("cancel", {"r": Status.CANCELLING}),
    ],
)
def test_a_step_is_taken_with_all_that_match_and_one_line_tells_of_it(
    step: str, after: dict[str, Status], boss: Client
) -> None:
    a_row("p", when=later(99))
    a_row("r", status=Status.RUNNING)
    a_row("f", status=Status.FAILED)
    a_row("other", biz_code="other", status=Status.FAILED)
    more = TO if step == "move" else {}
    messages, _sent = go_to_the_end(boss, ask(boss, step, biz_code="order"), **more)
    found = {num: Status(status) for num, status in table().values_list("biz_num", "status")}
    assert found == after | {"other": Status.FAILED}
    (entry,) = LogEntry.objects.all()
    assert messages == [entry.change_message]
    assert entry.object_repr == "code order"
    assert (entry.user.username, entry.is_deletion()) == ("boss", step == "cancel")
    if step == "cancel":
        assert messages == [
            "Cancel tasks: 3 tasks changed. 1 of them run, and go when their runs end."
        ]


def test_a_paused_task_is_resumed(boss: Client) -> None:
    a_row(status=Status.PAUSED)
    assert go_to_the_end(boss, ask(boss, "resume", status="paused"))[0] == [
        "Resume: 1 task changed."
    ]
    assert state()[0] == Status.PENDING


def test_it_goes_on_a_while_at_a_time_and_the_line_grows(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "SECONDS", 0)
    monkeypatch.setattr(bulk, "BATCH", 2)
    rows(range(5), status=Status.FAILED)
    first = go(boss, signed(ask(boss, "requeue", status="failed")))
    assert "2 tasks changed." in text(first)
    assert "Continue" in first.content.decode()
    assert "Stop here" in text(first)
    assert b"bulk.js" in first.content
    assert LogEntry.objects.get().change_message == "Requeue: 2 tasks changed."
    messages, sent = go_to_the_end(boss, first)
    assert messages == ["Requeue: 5 tasks changed."]
    assert sent >= 2
    assert LogEntry.objects.get().change_message == "Requeue: 5 tasks changed."


@pytest.fixture
def bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "SECONDS", 0)
    monkeypatch.setattr(bulk, "BATCH", 2)


@pytest.mark.usefixtures("bit_by_bit")
def test_all_requests_mean_the_code_that_was_confirmed_though_it_goes_meanwhile(
    boss: Client,
) -> None:
    rows(range(3), biz_code="mail")
    rows(["mail-1", "mail-2"])
    page = ask(boss, "cancel", q="mail")
    assert "3 tasks : code mail" in text(page)
    messages, sent = go_to_the_end(boss, page)
    assert sent > 1
    assert messages == ["Cancel tasks: 3 tasks changed."]
    assert {task.biz_num for task in Task.objects.all()} == {"mail-1", "mail-2"}
    assert LogEntry.objects.get().object_repr == "code mail"


@pytest.mark.usefixtures("bit_by_bit")
def test_all_requests_mean_the_part_of_a_number_that_was_confirmed_though_the_code_gets_small(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "MOST_SEARCHED", 5)
    rows([*(f"eu-{number}" for number in range(4)), *(f"no-eu-{number}" for number in range(4))])
    page = ask(boss, "cancel", biz_code="order", q="eu-")
    assert "4 tasks : code order, whose number begins with “eu-”" in text(page)
    messages, sent = go_to_the_end(boss, page)
    assert sent > 1
    assert messages == ["Cancel tasks: 4 tasks changed."]
    assert {task.biz_num for task in Task.objects.all()} == {f"no-eu-{n}" for n in range(4)}


def test_the_list_passes_on_what_its_search_means(boss: Client) -> None:
    rows(range(3), biz_code="mail")
    rows(["mail-1", "mail-2"])
    shown = boss.get(reverse(LIST), {"q": "mail"})
    (address,) = [url for url, name in shown.context["for_all"] if name == bulk.NAMES[Step.CANCEL]]
    table(biz_code="mail").delete()
    page = boss.get(address)
    assert "There is nothing to change." in text(page)
    back = boss.get(page.context["back"])
    assert "0 tasks : code mail" in text(back)
    # Another search there has a meaning of its own.
    assert b'name="search_as"' not in back.content


def test_all_pages_of_a_list_show_what_the_first_one_means(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns.TaskColumns, "list_per_page", 2, raising=False)
    rows(range(3), biz_code="mail")
    rows(["mail-1", "mail-2"])
    first = boss.get(reverse(LIST), {"q": "mail"}).context["cl"]
    assert "search_as=code" in first.next_link
    second = boss.get(reverse(LIST) + first.next_link).context["cl"]
    assert [task.biz_num for task in second.result_list] == ["0"]
    assert "search_as=code" in second.first_link()


class Log:
    """The table of the admin's log, for users whose key is a text."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.objects = self

    def filter(self, **which: Any) -> "Log":
        assert which == {"pk": 7, "user_id": "anna-7f"}
        return self

    def update(self, **facts: Any) -> int:
        self.lines[-1] |= facts
        return 1

    def create(self, **facts: Any) -> LogEntry:
        self.lines.append(facts)
        return LogEntry(pk=7)


def test_a_user_with_a_text_for_a_key_has_a_line_in_the_log(
    monkeypatch: pytest.MonkeyPatch, rf: Any, db: None
) -> None:
    log = Log()
    monkeypatch.setattr(bulk, "LogEntry", log)
    request = rf.get("/")
    request.user = SimpleNamespace(pk="anna-7f")
    work = bulk.Work(Step.PAUSE, TaskFilter(code="order"), 2, False, changed=1)
    number = bulk._log(request, work)
    assert bulk._log(request, replace(work, changed=2, log=number)) == number == 7
    (line,) = log.lines
    assert (line["user_id"], line["change_message"]) == ("anna-7f", "Pause: 2 tasks changed.")


def test_what_does_not_match_any_more_is_left_alone_and_counted(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows(range(3), status=Status.FAILED)
    work = signed(ask(boss, "cancel", status="failed"))
    table(biz_num="1").update(status=Status.PENDING)
    go(boss, work)
    assert [task.biz_num for task in Task.objects.all()] == ["1"]


def test_a_time_that_is_none_is_asked_for_again(boss: Client) -> None:
    a_row()
    page = ask(boss, "move", biz_code="order")
    for wrong in ({}, {"to_0": "someday", "to_1": "x"}, {"to_0": "2031-01-02", "to_1": ""}):
        again = go(boss, signed(page), **wrong)
        assert again.status_code == 200
        assert b"errorlist" in again.content
        assert b"data-task-goes-on" not in again.content
    assert in_utc(the_row().when) == NOW
    go_to_the_end(boss, again, **TO)
    moved = in_utc(the_row().when)
    assert moved is not None
    assert moved.isoformat() == "2031-01-01T19:04:05+00:00"


def test_a_failure_in_the_middle_leaves_a_line_of_what_was_done(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows(range(4), status=Status.FAILED)
    monkeypatch.setattr(bulk, "BATCH", 2)
    real = steps

    def failing(*args: Any, **kwargs: Any) -> Any:
        going = real(*args, **kwargs)
        yield next(going)
        raise RuntimeError("no more")

    monkeypatch.setattr(bulk, "steps", failing)
    with pytest.raises(RuntimeError, match="no more"):
        go(boss, signed(ask(boss, "requeue", status="failed")))
    assert LogEntry.objects.get().change_message == "Requeue: 2 tasks changed."


# Who may


@pytest.mark.parametrize(("step", "permission"), NEEDED.items())
def test_each_step_wants_its_permission_on_each_page(
    step: str, permission: str, staff: Staff, boss: Client
) -> None:
    a_row(status=Status.PAUSED if step == "resume" else Status.FAILED)
    status = "paused" if step == "resume" else "failed"
    if step == "pause":
        table().update(status=Status.PENDING)
        status = "pending"
    before = list(Task.objects.values())
    others = staff(
        "view_task", "add_task", "change_task", "delete_task", *set(NEEDED.values()) - {permission}
    )
    for who in (others, staff(permission), staff()):
        assert ask(who, step, status=status).status_code == 403
    # A form of somebody who may, sent by somebody who may not, or no more.
    may = User.objects.create_user("may", is_staff=True)
    may.user_permissions.set(Permission.objects.filter(codename__in=["view_task", permission]))
    work = signed(ask(logged_in(may), step, status=status))
    assert go(others, work, **TO).status_code == 302
    may.user_permissions.set(Permission.objects.filter(codename="view_task"))
    assert go(logged_in(may), work, **TO).status_code == 403
    assert list(Task.objects.values()) == before
    assert not LogEntry.objects.exists()
    may.user_permissions.add(Permission.objects.get(codename=permission))
    go(logged_in(may), work, **TO)
    assert list(Task.objects.values()) != before


@pytest.mark.parametrize("name", [BULK, FAILURES])
def test_who_may_not_view_gets_nothing(name: str, staff: Staff) -> None:
    a_row("secret", status=Status.FAILED)
    who = staff("run_task", "cancel_task", "pause_task", "add_task")
    for response in (who.get(reverse(name)), who.post(reverse(name), {"work": "x"})):
        assert response.status_code == 403
    nobody = Client().get(reverse(name))
    assert reverse("admin:login") in nobody["Location"]


@pytest.mark.parametrize("forged", ["", "x", "e30:1abc:def", "\x00", "é" * 99])
def test_a_form_that_was_not_made_here_changes_nothing(forged: str, boss: Client) -> None:
    a_row(status=Status.FAILED)
    for work in (forged, signed(ask(boss, "requeue", status="failed"))[:-1] + "?"):
        response = go(boss, work)
        assert said(boss.get(response["Location"])) == [
            "This form is not valid any more. Nothing was changed."
        ]
    assert state()[0] == Status.FAILED


def test_a_form_of_long_ago_changes_nothing(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    a_row(status=Status.FAILED)
    work = signed(ask(boss, "requeue", status="failed"))
    monkeypatch.setattr(bulk, "GOOD_FOR", -1)
    go(boss, work)
    assert state()[0] == Status.FAILED


def test_a_form_without_its_token_changes_nothing(db: None) -> None:
    a_row(status=Status.FAILED)
    who = Client(enforce_csrf_checks=True)
    who.force_login(User.objects.create_superuser("boss"))
    assert go(who, signed(ask(who, "requeue", status="failed"))).status_code == 403
    assert state()[0] == Status.FAILED


# From the list


@pytest.mark.parametrize("action", ["run_now", "pause", "resume", "requeue", "cancel"])
def test_all_of_them_leads_to_the_page_that_asks(action: str, boss: Client) -> None:
    a_row(status=Status.PAUSED)
    chosen = {"action": action, "_selected_action": ["1"], "select_across": "1", "index": "0"}
    response = boss.post(f"{reverse(LIST)}?biz_code=order", chosen)
    assert response["Location"] == f"{reverse(BULK)}?step={action}&biz_code=order"
    boss.post(reverse(LIST), chosen | {"post": "yes"})
    assert state() == (Status.PAUSED, 0, None)


def test_ticked_tasks_are_cancelled_after_a_question(boss: Client) -> None:
    waits, runs = a_row("waits"), a_row("runs", status=Status.RUNNING)
    chosen = {"action": "cancel", "_selected_action": [waits.pk, runs.pk], "index": "0"}
    page = boss.post(f"{reverse(LIST)}?biz_code=order", chosen)
    assert page.status_code == 200
    assert there_is("waits")
    shown = text(page)
    assert "order waits: pending" in shown
    assert "1 of them is running" in shown
    assert 'action="/admin/django_tasks/task/?biz_code=order"' in page.content.decode()
    assert act(boss, "cancel", waits, runs) == [
        "1 task cancelled. 1 is running and goes when its run ends."
    ]
    lines = LogEntry.objects.order_by("object_repr").values_list("object_repr", flat=True)
    assert list(lines) == ["order/runs", "order/waits"]


# Failures


def failed(num: str, exception: str, ago: float, message: str, **fields: Any) -> None:
    error = f"Traceback\n{exception}: {message}"
    a_row(num, status=Status.FAILED, exception=exception, last_error=error, **fields)
    table(biz_num=num).update(update_time=for_django(later(-ago)))


def test_failures_are_grouped_by_code_and_exception(boss: Client) -> None:
    failed("1", "a.Timeout", 300, "first")
    failed("2", "a.Timeout", 100, "last")
    failed("3", "a.Timeout", 200, "between")
    failed("4", "a.Timeout", 0, "of push", biz_code="push")
    failed("5", "a.Refused", 50, "no")
    a_row("6", exception="a.Timeout", last_error="a.Timeout: to be tried again")
    page = boss.get(reverse(FAILURES))
    groups = [
        (each["group"].biz_code, each["group"].name, each["group"].count.number, each["message"])
        for each in page.context["groups"]
    ]
    assert groups[0] == ("order", "Timeout", 3, "last")
    assert set(groups[1:]) == {("push", "Timeout", 1, "of push"), ("order", "Refused", 1, "no")}
    group = page.context["groups"][0]["group"]
    assert (group.first, group.last) == (later(-300), later(-100))
    shown = text(page)
    assert "5 tasks failed and wait" in shown
    assert "5 minutes ago" in shown


def test_a_group_leads_to_its_tasks_and_to_its_requeue(boss: Client, staff: Staff) -> None:
    failed("1", "a.Timeout", 300, "x")
    failed("2", "a.Refused", 300, "x")
    failed("3", "", 300, "x")
    page = boss.get(reverse(FAILURES))
    (group,) = (each for each in page.context["groups"] if each["group"].name == "Timeout")
    found = boss.get(group["list"]).context["cl"].result_list
    assert [task.biz_num for task in found] == ["1"]
    messages, _sent = go_to_the_end(boss, boss.get(group["requeue"]))
    assert messages == ["Requeue: 1 task changed."]
    assert [state(num)[0] for num in "123"] == [Status.PENDING, Status.FAILED, Status.FAILED]
    (unknown,) = (each for each in page.context["groups"] if not each["group"].exception)
    assert not unknown["requeue"]
    assert "step=requeue" not in staff("view_task").get(reverse(FAILURES)).content.decode()


def test_a_code_with_thousands_of_failures_hides_no_other_one(
    boss: Client, monkeypatch: pytest.MonkeyPatch, queries: Any
) -> None:
    monkeypatch.setattr(backlog, "MOST_FAILED", 20)
    monkeypatch.setattr(backlog, "MOST_COUNTED", 20)
    rows(range(25), status=Status.FAILED, exception="a.Timeout", biz_code="aaa")
    rows(range(3), status=Status.FAILED, exception="a.Refused", biz_code="zzz")
    with queries() as asked:
        page = boss.get(reverse(FAILURES))
    assert [(each["group"].biz_code, each["count"]) for each in page.context["groups"]] == [
        ("aaa", "more than 10 tasks"),
        ("zzz", "3 tasks"),
    ]
    assert "More than 13 tasks failed" in text(page)
    assert any("LIMIT 10" in query["sql"] for query in asked)
    assert len([query for query in asked if "t_task" in query["sql"]]) <= 6


def test_codes_of_which_nothing_is_read_are_named(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "MOST_LANES", 1)
    a_row("1", status=Status.FAILED, biz_code="aaa")
    a_row("2", status=Status.FAILED, biz_code="zzz")
    page = boss.get(reverse(FAILURES))
    assert "Failed too, and not looked at: zzz" in text(page)
    ((code, address),) = page.context["others"]
    assert [task.biz_code for task in boss.get(address).context["cl"].result_list] == [code]


def test_where_nothing_has_failed_nothing_is_grouped(boss: Client) -> None:
    a_row()
    page = boss.get(reverse(FAILURES))
    assert "0 tasks failed" in text(page)
    assert page.context["groups"] == []


def test_the_filter_of_a_group_says_what_it_means() -> None:
    assert TaskFilter(status=Status.FAILED, code="a", exception="b.C").words()
