"""The admin's pages: who may, what they show, and that they write through the API alone."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import datetime, timedelta
from html import unescape
from html.parser import HTMLParser
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.conf import global_settings
from django.contrib import messages
from django.contrib.admin import options
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connections
from django.db.models import Model, QuerySet
from django.forms.utils import to_current_timezone
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.formats import get_format, reset_format_cache

from django_tasks import api, signals
from django_tasks.admin import columns, filters, forms, lists, task_page
from django_tasks.client.arguments import checked_task
from django_tasks.handlers.base import TaskHandler, task_handler
from django_tasks.host.clocks import EPOCH
from django_tasks.models import Lock, Task
from django_tasks.store import clock
from django_tasks.timezones import for_django
from django_tasks.values.keys import SCHEDULE_NUM, lock_of
from django_tasks.values.options import TaskOptions
from django_tasks.values.status import Status
from tests.conftest import DEADLINE
from tests.doors.conftest import Staff, logged_in
from tests.factories import (
    NOW,
    UTC,
    a_row,
    a_run,
    a_worker,
    in_utc,
    later,
    rows,
    state,
    table,
    the_row,
    there_is,
)
from tests.vendor import SQLITE, only_on

pytestmark = pytest.mark.usefixtures("now", "no_side_door")

LIST = "admin:django_tasks_task_changelist"
ADD = "admin:django_tasks_task_add"
CHANGE = "admin:django_tasks_task_change"
DELETE = "admin:django_tasks_task_delete"
WORKERS = "admin:django_tasks_workerrow_changelist"
WORKER = "admin:django_tasks_workerrow_change"
LOCKS = "admin:django_tasks_lock_changelist"
RUNS = "admin:django_tasks_taskrun_changelist"
LOCK = "admin:django_tasks_lock_change"


@pytest.fixture
def no_side_door(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Call it, and from then on no task is written or deleted by Django's own ways."""

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the admin wrote around the API")

    def close() -> None:
        monkeypatch.setattr(Task, "save", refuse)
        monkeypatch.setattr(Task, "delete", refuse)
        for name in ("delete", "bulk_update"):
            real = getattr(QuerySet, name)
            monkeypatch.setattr(QuerySet, name, _unless_tasks(real, refuse))

    return close


def _unless_tasks(real: Callable[..., Any], refuse: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(self: "QuerySet[Model]", *args: Any, **kwargs: Any) -> Any:
        return (refuse if self.model is Task else real)(self, *args, **kwargs)

    return guarded


@pytest.fixture
def added() -> Iterator[list[Task]]:
    """The tasks that the API announces as added."""
    heard: list[Task] = []

    def hear(task: Task, **kwargs: Any) -> None:
        heard.append(task)

    signals.task_added.connect(hear)
    yield heard
    signals.task_added.disconnect(hear)


def text(response: Any) -> str:
    """The text of a page, without its tags."""
    body = re.sub(r"<[^>]*>", " ", response.content.decode())
    return re.sub(r"\s+", " ", unescape(body)).replace("\xa0", " ")


def said(response: Any) -> list[str]:
    return [str(message) for message in messages.get_messages(response.wsgi_request)]


def act(who: Client, action: str, *tasks: Task, **data: Any) -> list[str]:
    """Choose an action for some tasks, and mean it; returns what the next page says."""
    chosen = {"action": action, "_selected_action": [task.pk for task in tasks], "post": "yes"}
    response = who.post(reverse(LIST), chosen | data)
    assert response.status_code == 302
    return said(who.get(response["Location"]))


def fields(response: Any) -> dict[str, Any]:
    """The form of a page, as a browser would send it back."""
    sent: dict[str, Any] = {}
    for bound in response.context["adminform"].form:
        value = bound.value()
        if bound.name == "when":
            parts = value if isinstance(value, list) else bound.field.widget.decompress(value)
            sent |= zip(("when_0", "when_1"), parts, strict=True)
        else:
            sent[bound.name] = "" if value is None else value
    return sent


def opened(who: Client, task: Task) -> dict[str, Any]:
    return fields(who.get(reverse(CHANGE, args=[task.pk])))


def save(who: Client, task: Task, form: dict[str, Any]) -> Any:
    return who.post(reverse(CHANGE, args=[task.pk]), form)


def errors(response: Any) -> dict[str, list[str]]:
    assert response.status_code == 200
    return dict(response.context["adminform"].form.errors)


ODD = "a\nb\x9b\u2028c"

NEW = {
    "biz_code": "order",
    "biz_num": "42",
    "when_0": "2030-06-01",
    "when_1": "10:00:00",
    "biz_ext": '{"amount": "19.90"}',
    "queue": "",
    "priority": "",
}


# Who may


@pytest.mark.parametrize("page", [LIST, ADD, WORKERS, LOCKS])
@pytest.mark.parametrize("person", ["nobody", "a user who is not staff"])
def test_who_is_not_staff_is_sent_to_the_login_page(page: str, person: str, db: None) -> None:
    who = Client() if person == "nobody" else logged_in(User.objects.create_user("user"))
    response = who.get(reverse(page))
    assert response.status_code == 302
    assert response["Location"].startswith(reverse("admin:login"))


def test_staff_without_a_permission_gets_nothing(staff: Staff) -> None:
    task, worker = a_row(), a_worker()
    who = staff()
    pages = [reverse(LIST), reverse(ADD), reverse(WORKERS), reverse(WORKER, args=[worker.pk])]
    pages += [reverse(name, args=[task.pk]) for name in (CHANGE, DELETE)]
    for page in pages:
        assert who.get(page).status_code == 403
        assert who.post(page, {"post": "yes"}).status_code == 403
    assert "Delayed tasks" not in text(who.get(reverse("admin:index")))
    assert state() == (Status.PENDING, 0, None)


def test_who_may_only_view_sees_everything_and_changes_nothing(staff: Staff) -> None:
    task = a_row("42", last_error="ValueError: no", biz_ext={"amount": 7})
    who = staff("view_task")
    page = who.get(reverse(CHANGE, args=[task.pk]))
    assert not re.search(r'name="(biz_|when|queue|priority|seen_version)', page.content.decode())
    for word in ("42", "ValueError: no", "amount"):
        assert word in text(page)
    assert save(who, task, NEW).status_code == 403
    assert who.get(reverse(ADD)).status_code == 403
    assert not page.context["has_delete_permission"]


@pytest.mark.parametrize(
    ("permission", "actions"),
    [
        ("view_task", set()),
        ("change_task", set()),
        ("run_task", {"run_now", "requeue"}),
        ("pause_task", {"pause", "resume"}),
        ("operate_task", set()),
        ("cancel_task", {"cancel"}),
        ("delete_task", {"delete_selected"}),
    ],
)
def test_each_action_wants_its_permission(permission: str, actions: set[str], staff: Staff) -> None:
    task = a_row(status=Status.PAUSED)
    who = staff(*{"view_task", permission})
    form = who.get(reverse(LIST)).context["action_form"]
    offered = {name for name, _label in form.fields["action"].choices if name} if form else set()
    assert offered == actions
    for action in {"run_now", "pause", "resume", "requeue", "cancel", "delete_selected"} - actions:
        who.post(reverse(LIST), {"action": action, "_selected_action": [task.pk], "post": "yes"})
    assert state() == (Status.PAUSED, 0, None)


# The list


def test_the_list_shows_how_each_task_stands(boss: Client) -> None:
    worker = a_worker("web-1:4711", codes=["mail"])
    a_row(
        "42",
        biz_code="refund",
        status=Status.RUNNING,
        when=later(-3 * 60),
        claimed_by=worker.pk,
        attempts=3,
        queue="mail",
        priority=17,
    )
    page = text(boss.get(reverse(LIST)))
    for word in ("refund 42", "running no handler on web-1:4711", "3 minutes ago", "mail 17"):
        assert word in page


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (3 * 86_400 + 7200, "in 3 days, 2 hours"),
        (59.9, "in 59 seconds"),
        (1, "in 1 second"),
        (0, "0 seconds ago"),
        (-1, "1 second ago"),
        (-60, "1 minute ago"),
        (-61, "1 minute late"),
    ],
)
def test_times_are_also_told_as_a_distance_from_the_databases_clock(
    seconds: float, words: str, boss: Client
) -> None:
    a_row(when=later(seconds))
    assert f" {words} " in text(boss.get(reverse(LIST)))


def test_a_worker_that_has_gone_is_shown_by_its_id(boss: Client) -> None:
    a_row(status=Status.RUNNING, claimed_by=4711)
    assert "4711 (gone)" in text(boss.get(reverse(LIST)))


def test_the_list_takes_as_many_statements_for_many_rows_as_for_one(
    boss: Client, queries: Any
) -> None:
    worker = a_worker()
    a_row("0", status=Status.RUNNING, claimed_by=worker.pk)
    boss.get(reverse(LIST))
    with queries() as for_one:
        boss.get(reverse(LIST))
    rows(range(1, 40), status=Status.RUNNING, claimed_by=worker.pk)
    with queries() as for_many:
        boss.get(reverse(LIST))
    assert len(for_many) == len(for_one)


def test_the_list_reads_no_payloads_and_of_errors_the_ends(boss: Client, queries: Any) -> None:
    a_row(biz_ext={"long": "x"}, last_error=f"begins{'x' * 1000}\nValueError: ends")
    with queries() as asked:
        page = text(boss.get(reverse(LIST)))
    assert not any("biz_ext" in query["sql"] for query in asked)
    assert "ValueError: ends" in page
    assert "begins" not in page


def listed(page: Any) -> set[str]:
    return {str(task) for task in page.context["cl"].result_list}


@pytest.mark.parametrize(
    ("term", "tasks"),
    [
        ("refund", {"refund/order-1", "refund/9"}),
        ("order-1", {"refund/order-1", "push/order-12"}),
        ("refund/order", {"refund/order-1"}),
        ("  9 ", {"refund/9"}),
        ("rder", set()),
        ("refun", set()),
        ("a/b", {"push/a/b"}),
        ("push/a/b", {"push/a/b"}),
        ("%", set()),
    ],
)
def test_search_finds_codes_and_the_beginnings_of_numbers(
    term: str, tasks: set[str], boss: Client
) -> None:
    a_row("order-1", biz_code="refund")
    a_row("9", biz_code="refund")
    a_row("order-12", biz_code="push")
    a_row("a/b", biz_code="push")
    assert listed(boss.get(reverse(LIST), {"q": term})) == tasks


@pytest.mark.parametrize(
    ("query", "nums"),
    [
        ({"status__exact": Status.FAILED.value}, {"failed"}),
        ({"biz_code": "push"}, {"push"}),
        ({"queue": "mail"}, {"mail"}),
    ],
)
def test_the_list_is_filtered(query: dict[str, Any], nums: set[str], boss: Client) -> None:
    a_row("failed", status=Status.FAILED)
    a_row("push", biz_code="push")
    a_row("mail", queue="mail", status=Status.PAUSED)
    page = boss.get(reverse(LIST), query)
    assert {task.biz_num for task in page.context["cl"].result_list} == nums


def test_filters_offer_every_value_that_exists(boss: Client) -> None:
    for number, status in enumerate(Status):
        a_row(str(number), biz_code=f"code {number % 4}", queue=f"q{number}", status=status)
    filters = boss.get(reverse(LIST)).context["cl"].filter_specs
    offered = {spec.title: [value for value, _label in spec.lookup_choices] for spec in filters[1:]}
    assert offered["code"] == ["code 0", "code 1", "code 2", "code 3"]
    assert offered["queue"] == ["q0", "q1", "q2", "q3", "q4", "q5"]


def test_a_filter_offers_no_more_than_its_limit(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "MOST_CHOICES", 2)
    for code in "abc":
        a_row(biz_code=code)
    code_filter = boss.get(reverse(LIST)).context["cl"].filter_specs[1]
    assert [value for value, _label in code_filter.lookup_choices] == ["a", "b"]


def test_the_list_counts_up_to_its_limit_and_says_so(
    boss: Client, monkeypatch: pytest.MonkeyPatch, queries: Any
) -> None:
    monkeypatch.setattr(lists, "LIST_LIMIT", 5)
    rows(range(5))
    assert "ore than 5" not in text(boss.get(reverse(LIST)))
    rows(range(5, 9))
    with queries() as asked:
        page = boss.get(reverse(LIST))
    assert "More than 5 tasks" in text(page)
    counts = [
        query["sql"] for query in asked if "COUNT(" in query["sql"] and "GROUP" not in query["sql"]
    ]
    assert not counts
    assert any("LIMIT 6" in query["sql"] for query in asked)


# Actions


def test_run_now_makes_due_whatever_waits(boss: Client, no_side_door: Any) -> None:
    far = a_row("far", when=later(99_999))
    failed = a_row("failed", when=later(9), status=Status.FAILED, attempts=5)
    no_side_door()
    assert act(boss, "run_now", far, failed) == ["2 tasks are due now."]
    assert {in_utc(task.when) for task in Task.objects.all()} == {NOW}
    assert state("failed")[0] == Status.PENDING


def test_cancel_tells_what_is_gone_and_what_goes_later(boss: Client, no_side_door: Any) -> None:
    waiting = [a_row(str(number)) for number in range(3)]
    running = a_row("running", status=Status.RUNNING)
    no_side_door()
    assert act(boss, "cancel", *waiting, running) == [
        "3 tasks cancelled. 1 is running and goes when its run ends."
    ]
    assert [str(task) for task in Task.objects.all()] == ["order/running"]
    assert state("running")[0] == Status.CANCELLING


@pytest.mark.parametrize(
    ("action", "before", "after", "done", "left"),
    [
        ("pause", Status.PENDING, Status.PAUSED, "1 task paused.", "only waiting and running"),
        ("pause", Status.RUNNING, Status.PAUSING, "1 task paused.", "only waiting and running"),
        ("resume", Status.PAUSED, Status.PENDING, "1 task resumed.", "it is not paused"),
        ("resume", Status.PAUSING, Status.RUNNING, "1 task resumed.", "it is not paused"),
        ("requeue", Status.FAILED, Status.PENDING, "1 task requeued.", "it has not failed"),
    ],
)
def test_each_action_counts_what_it_changed_and_what_it_left(
    action: str,
    before: Status,
    after: Status,
    done: str,
    left: str,
    boss: Client,
    no_side_door: Any,
) -> None:
    task, other = a_row("1", status=before), a_row("2", status=Status.CANCELLING)
    no_side_door()
    (message,) = act(boss, action, task, other)
    assert message.startswith(f"{done} 1 left as it was: {left}")
    assert (state("1")[0], state("2")[0]) == (after, Status.CANCELLING)
    (message,) = act(boss, action, other)
    assert message.startswith("1 left as it was")


@pytest.mark.parametrize("action", ["run_now", "cancel", "pause", "resume", "requeue"])
def test_an_action_on_tasks_that_have_just_gone_changes_nothing(action: str, boss: Client) -> None:
    gone = a_row()
    a_row("stays")
    table(pk=gone.pk).delete()
    assert act(boss, action, gone) == ["Nothing was changed."]
    assert state("stays") == (Status.PENDING, 0, None)


def test_actions_are_written_into_the_admins_history(boss: Client) -> None:
    paused, gone = a_row("1", status=Status.PAUSED), a_row("2")
    act(boss, "resume", paused)
    act(boss, "resume", paused)
    act(boss, "cancel", gone)
    entries = LogEntry.objects.order_by("id").values_list("object_repr", "change_message")
    assert list(entries) == [("order/1", "Resume"), ("order/2", "Cancel")]


def test_a_tasks_own_page_offers_what_leaves_it_there(boss: Client) -> None:
    task = a_row(status=Status.PAUSED)
    page = reverse(CHANGE, args=[task.pk])
    context = boss.get(page).context
    if not hasattr(options, "ActionLocation"):  # from Django 6.1 on a page has actions
        assert "action_form" not in context
        return
    choices = context["action_form"].fields["action"].choices
    assert [name for name, _label in choices if name] == ["run_now", "pause", "resume", "requeue"]
    response = boss.post(page, {"CHANGE_FORM-action": "resume", "_selected_action": [task.pk]})
    assert response["Location"] == page
    assert state()[0] == Status.PENDING


# Deleting


def test_the_delete_action_cancels(boss: Client, no_side_door: Any) -> None:
    waiting, running = a_row("waiting"), a_row("running", status=Status.RUNNING)
    no_side_door()
    said_ = act(boss, "delete_selected", waiting, running, post="yes")
    assert "1 is running and goes when its run ends." in said_
    assert not there_is("waiting")
    assert state("running")[0] == Status.CANCELLING


@pytest.mark.parametrize("status", Status)
def test_the_delete_button_cancels(status: Status, boss: Client, no_side_door: Any) -> None:
    task = a_row(status=status)
    no_side_door()
    response = boss.post(reverse(DELETE, args=[task.pk]), {"post": "yes"})
    owned = status in (Status.RUNNING, Status.CANCELLING, Status.PAUSING)
    told = said(boss.get(response["Location"]))
    assert ("1 is running and goes when its run ends." in told) == owned
    assert there_is() == owned
    if owned:
        assert state()[0] == Status.CANCELLING


def test_deleting_wants_the_delete_permission(staff: Staff) -> None:
    task = a_row()
    who = staff("view_task", "change_task", "run_task", "cancel_task")
    assert who.post(reverse(DELETE, args=[task.pk]), {"post": "yes"}).status_code == 403
    staff("delete_task").post(reverse(DELETE, args=[task.pk]), {"post": "yes"})
    assert not there_is()


# Adding


def test_a_task_is_added_through_the_api(
    boss: Client, added: list[Task], no_side_door: Any, handlers: Any
) -> None:
    handlers(task_handler("order", queue="slow", priority=3)(lambda task: None))
    no_side_door()
    response = boss.post(reverse(ADD), NEW)
    row = the_row("42")
    assert added == [row]
    assert (row.biz_ext, row.queue, row.priority) == ({"amount": "19.90"}, "slow", 3)
    local = row.when if row.when.tzinfo is None else row.when.astimezone(client_zone())
    assert local.strftime("%Y-%m-%d %H:%M") == "2030-06-01 10:00"
    assert LogEntry.objects.get().object_id == str(row.pk)
    (message,) = said(boss.get(response["Location"]))
    assert "order/42" in message


def client_zone() -> Any:
    from django.utils import timezone

    return timezone.get_current_timezone()


def test_who_may_only_add_adds(staff: Staff) -> None:
    assert staff("add_task").post(reverse(ADD), NEW).status_code == 302
    assert there_is("42")


def test_adding_a_code_without_a_handler_says_that_it_waits(boss: Client, handlers: Any) -> None:
    response = boss.post(reverse(ADD), NEW)
    assert any(
        "No handler of 'order'" in message for message in said(boss.get(response["Location"]))
    )


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"biz_code": ""}, "biz_code"),
        ({"biz_code": "x" * 51}, "biz_code"),
        ({"biz_num": "x" * 101}, "biz_num"),
        ({"biz_code": "a\nb"}, "biz_code"),
        ({"biz_num": "a\x9bb"}, "biz_num"),
        ({"name": "a\u2028b"}, "name"),
        ({"queue": "a\x1bb"}, "queue"),
        ({"when_0": "0700-01-01"}, "when"),
        ({"when_0": "someday"}, "when"),
        ({"when_0": ""}, "when"),
        ({"biz_ext": "{"}, "biz_ext"),
        ({"biz_ext": '{"a": NaN}'}, "biz_ext"),
        ({"biz_ext": '"\\u0000"'}, "biz_ext"),
        ({"biz_ext": "[" * 33 + "]" * 33}, "biz_ext"),
        ({"biz_ext": "[" * 500 + "]" * 500}, "biz_ext"),
        ({"biz_ext": "[" * 100_000 + "]" * 100_000}, "biz_ext"),
        ({"biz_ext": "9" * 5000}, "biz_ext"),
        ({"biz_ext": "18446744073709551616"}, "biz_ext"),
        ({"biz_ext": "1e400"}, "biz_ext"),
        ({"biz_ext": '"\\ud800"'}, "biz_ext"),
        ({"queue": "x" * 51}, "queue"),
        ({"priority": "40000"}, "priority"),
    ],
)
def test_what_the_api_refuses_is_told_at_its_field(
    wrong: dict[str, str], field: str, boss: Client
) -> None:
    response = boss.post(reverse(ADD), NEW | wrong)
    assert list(errors(response)) == [field]
    assert not Task.objects.exists()


def test_of_a_key_of_the_payload_that_comes_twice_the_last_stands(boss: Client) -> None:
    boss.post(reverse(ADD), NEW | {"biz_ext": '{"a": 1, "b": 1e16, "a": 2}'})
    assert repr(the_row("42").biz_ext) in ("{'a': 2, 'b': 1e+16}", "{'b': 1e+16, 'a': 2}")


def test_a_payload_that_was_refused_stays_as_it_was_typed(boss: Client) -> None:
    typed = '{"b":1e16,\n"a":18446744073709551616}'
    page = boss.post(reverse(ADD), NEW | {"biz_ext": typed})
    assert page.context["adminform"].form["biz_ext"].value() == typed
    assert typed.replace('"', "&quot;") in page.content.decode()


def test_a_key_that_exists_is_not_overwritten(boss: Client) -> None:
    a_row("42")
    assert errors(boss.post(reverse(ADD), NEW))
    assert state("42") == (Status.PENDING, 0, None)


def test_a_key_that_somebody_adds_meanwhile_is_not_overwritten(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:

    def check_and_be_overtaken(task: Task, using: str) -> Any:
        a_row("42", version=7)
        return checked_task(task, using)

    monkeypatch.setattr(forms, "checked_task", check_and_be_overtaken)
    response = boss.post(reverse(ADD), NEW)
    assert response.status_code == 302
    assert "exists already" in said(boss.get(response["Location"]))[0]
    # Their row was added inside our transaction, which is rolled back as a whole.
    assert not there_is("42")
    assert not LogEntry.objects.exists()


def test_an_empty_payload_is_an_empty_field_and_none(boss: Client) -> None:
    assert fields(boss.get(reverse(ADD)))["biz_ext"] == ""
    boss.post(reverse(ADD), NEW | {"biz_ext": ""})
    assert the_row("42").biz_ext is None


# Changing


def test_a_change_is_an_add(boss: Client, added: list[Task], no_side_door: Any) -> None:
    task = a_row("42", status=Status.FAILED, attempts=5, last_error="no", version=3)
    form = opened(boss, task)
    no_side_door()
    save(boss, task, form | {"biz_ext": "[1]", "queue": "mail", "priority": "-2"})
    row = the_row("42")
    assert added == [row]
    assert (row.biz_ext, row.queue, row.priority) == ([1], "mail", -2)
    assert (row.status, row.attempts, row.last_error, row.version) == (0, 0, "", 4)


def test_a_task_of_old_with_control_characters_is_found_changed_and_run(boss: Client) -> None:
    task = a_row(ODD, biz_code=ODD, queue=ODD, name=ODD)
    assert listed(boss.get(reverse(LIST), {"q": f"{ODD}/{ODD}"})) == {str(task)}
    assert save(boss, task, sent(boss, task) | {"priority": "9"}).status_code == 302
    row = the_row(ODD, ODD)
    assert (row.priority, row.queue, row.name) == (9, ODD, ODD)
    response = save(boss, task, sent(boss, task) | {"queue": f"{ODD}!"})
    assert list(errors(response)) == ["queue"]
    for action in ("run_now", "pause", "cancel"):
        form = {"action": action, "_selected_action": [task.pk], "post": "yes"}
        boss.post(reverse(LIST), form)
    assert not Task.objects.exists()


def test_a_change_to_another_field_moves_the_time_by_no_microsecond(boss: Client) -> None:
    task = a_row(when=later(0.000001))
    save(boss, task, opened(boss, task) | {"priority": "9"})
    assert in_utc(the_row().when) == later(0.000001)


class Sent(HTMLParser):
    """The values that a browser sends of a page's form."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.form: dict[str, str] = {}
        self._area = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        names = dict(attrs)
        if tag == "textarea":
            self._area = names["name"]
            self.form[self._area] = ""
        elif tag == "input" and names.get("type") != "submit" and names.get("name"):
            self.form[names["name"]] = names.get("value") or ""

    def handle_data(self, data: str) -> None:
        if self._area:
            # The first line break after the tag belongs to it; others are sent as two characters.
            self.form[self._area] = data.removeprefix("\n").replace("\n", "\r\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self._area = ""


def sent(who: Client, task: Task) -> dict[str, str]:
    return Sent(who.get(reverse(CHANGE, args=[task.pk])).content.decode()).form


def formats_of(language: str) -> tuple[Any, ...]:
    kinds = ("DATE_INPUT_FORMATS", "TIME_INPUT_FORMATS", "DECIMAL_SEPARATOR", "THOUSAND_SEPARATOR")
    return tuple(str(get_format(kind, language)) for kind in kinds)


# Of languages that write everything alike, one.
LANGUAGES = sorted({formats_of(code): code for code, _ in global_settings.LANGUAGES}.values())


@pytest.fixture
def project_formats(settings: Any) -> None:
    """A project's own formats, with a year that loses its century and a time without seconds."""
    settings.FORMAT_MODULE_PATH = ["tests.doors.formats"]
    reset_format_cache()


@pytest.fixture(autouse=True)
def _formats() -> Iterator[None]:
    yield
    reset_format_cache()


def check_nothing_moves_unless_it_is_edited(boss: Client, added: list[Task]) -> None:
    when = datetime(2130, 3, 4, 15, 26, 37, 123456, tzinfo=UTC)
    task = a_row(when=when, biz_ext={"a": [1.5, "\u2028 x\ny", None]}, priority=-1234, queue="mail")
    table(pk=task.pk).update(schedule="every 1h", scheduled_time=for_django(when))
    before = Task.objects.values().get(pk=task.pk)

    assert save(boss, task, sent(boss, task)).status_code == 302
    assert added == []
    assert Task.objects.values().get(pk=task.pk) == before

    assert save(boss, task, sent(boss, task) | {"biz_ext": "[1]"}).status_code == 302
    after = Task.objects.values().get(pk=task.pk)
    assert after["biz_ext"] == [1]
    for name in ("when", "schedule", "queue", "priority"):
        assert after[name] == before[name], name


@only_on(SQLITE, because="a language writes the same forms on each")
@pytest.mark.parametrize("language", LANGUAGES)
def test_no_language_changes_what_nobody_edited(
    language: str, boss: Client, added: list[Task], settings: Any
) -> None:
    settings.LANGUAGE_CODE = language
    with translation.override(language):
        check_nothing_moves_unless_it_is_edited(boss, added)


def test_nor_do_a_projects_own_formats(
    boss: Client, added: list[Task], project_formats: None
) -> None:
    with translation.override("en"):
        check_nothing_moves_unless_it_is_edited(boss, added)


def test_a_language_keeps_its_own_way_to_write_a_time(boss: Client, settings: Any) -> None:
    task = a_row(when=datetime(2030, 3, 4, 5, 6, 7, tzinfo=UTC))
    shown = {}
    for language in ("de", "fi", "zh-hans"):
        with timezone.override(UTC), translation.override(language):
            form = sent(boss, task)
            shown[language] = form["when_0"], form["when_1"]
    assert shown == {
        "de": ("04.03.2030", "05:06:07"),
        "fi": ("04.03.2030", "05.06.07"),
        "zh-hans": ("2030/03/04", "05:06:07"),
    }


def test_a_new_tasks_time_is_empty_and_a_bad_one_stays_as_it_was_typed(boss: Client) -> None:
    page = Sent(boss.get(reverse(ADD)).content.decode())
    assert (page.form["when_0"], page.form["when_1"]) == ("", "")
    refused = boss.post(reverse(ADD), NEW | {"when_1": "ten"})
    assert Sent(refused.content.decode()).form["when_1"] == "ten"


def test_a_time_in_the_hour_that_comes_twice_is_kept_and_the_rest_is_saved(boss: Client) -> None:
    when = datetime(2026, 10, 25, 0, 30, 1, 5, tzinfo=UTC)
    task = a_row(when=when)
    with timezone.override(ZoneInfo("Europe/Berlin")):
        response = save(boss, task, sent(boss, task) | {"biz_ext": "[1]"})
        assert response.status_code == 302
        assert the_row().biz_ext == [1]
        assert in_utc(the_row().when) == when
        edited = save(boss, task, sent(boss, task) | {"when_1": "02:30:02"})
        assert "when" in errors(edited)


def test_a_changed_time_is_stored(boss: Client) -> None:
    task = a_row()
    save(boss, task, opened(boss, task) | {"when_0": "2031-01-02", "when_1": "03:04:05"})
    assert in_utc(the_row().when) == in_utc(api.get_task("order", "1").when)  # type: ignore[union-attr]
    assert fields(boss.get(reverse(CHANGE, args=[task.pk])))["when_1"].isoformat() == "03:04:05"


def test_a_change_of_a_running_task_makes_it_run_again(boss: Client) -> None:
    task = a_row(status=Status.RUNNING, version=4)
    save(boss, task, opened(boss, task) | {"priority": "9"})
    assert state() == (Status.RUNNING, 5, 7)


def test_saving_without_a_change_writes_nothing(boss: Client, added: list[Task]) -> None:
    task = a_row(status=Status.FAILED, biz_ext={"b": 1, "a": [1.5, None]})
    assert save(boss, task, opened(boss, task)).status_code == 302
    assert added == []
    assert state() == (Status.FAILED, 0, None)


@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda: api.reschedule_task("order", "1", later(60)),
        lambda: api.pause_task("order", "1"),
        lambda: api.add_task(Task(biz_code="order", biz_num="1", when=NOW, biz_ext="new")),
    ],
)
def test_a_task_that_moved_since_the_form_was_opened_is_not_overwritten(
    meanwhile: Callable[[], Any], boss: Client
) -> None:
    task = a_row()
    form = opened(boss, task)
    meanwhile()
    moved = the_row()
    response = save(boss, task, form | {"biz_ext": '"mine"'})
    assert "Nothing was saved" in errors(response)["__all__"][0]
    assert the_row().version == moved.version
    assert the_row().biz_ext == moved.biz_ext
    # Sending the same form again does not help either.
    assert errors(save(boss, task, fields(response)))


@pytest.mark.parametrize("version", ["", "x", "99"])
def test_a_form_without_the_version_it_was_opened_with_is_refused(
    version: str, boss: Client
) -> None:
    task = a_row()
    form = opened(boss, task) | {"priority": "9", "seen_version": version}
    assert errors(save(boss, task, form))
    assert the_row().priority == 0


def test_a_task_that_ends_while_its_form_is_sent_is_not_added_again(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = a_row()
    form = opened(boss, task)
    refuse_if_moved = forms.TaskForm._refuse_if_moved

    def end_and_refuse(self: forms.TaskForm) -> None:
        api.cancel_task("order", "1")
        refuse_if_moved(self)

    monkeypatch.setattr(forms.TaskForm, "_refuse_if_moved", end_and_refuse)
    response = save(boss, task, form | {"priority": "9"})
    assert "has ended" in errors(response)["__all__"][0]
    assert not there_is()


def test_a_task_that_has_ended_before_its_form_was_sent_is_not_added_again(boss: Client) -> None:
    task = a_row()
    form = opened(boss, task)
    api.cancel_task("order", "1")
    response = save(boss, task, form | {"priority": "9"})
    assert response.status_code == 302
    assert not there_is()


def test_the_versions_are_compared_under_the_rows_lock(boss: Client, queries: Any) -> None:
    task = a_row()
    form = opened(boss, task)
    with queries() as asked:
        save(boss, task, form | {"priority": "9"})
    locks = [query["sql"] for query in asked if "FOR UPDATE" in query["sql"]]
    assert bool(locks) == connections["default"].features.has_select_for_update


def test_of_two_people_who_save_at_once_one_is_refused(
    elsewhere: Any, boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = a_row()
    mine, theirs = (opened(boss, task) | {"queue": queue} for queue in ("mine", "theirs"))
    other = logged_in(User.objects.get())
    saves: list[Future[Any]] = []

    def let_them_save_too(task: Task, using: str) -> Any:
        # Here the versions have been compared, and nothing has been written.
        if not saves:
            saves.append(elsewhere(save, other, task, theirs))
        return checked_task(task, using)

    monkeypatch.setattr(forms, "checked_task", let_them_save_too)
    assert save(boss, task, mine).status_code == 302
    assert "Nothing was saved" in errors(saves[0].result(DEADLINE))["__all__"][0]
    assert (the_row().queue, the_row().version) == ("mine", 1)


def test_key_and_bookkeeping_cannot_be_changed(boss: Client) -> None:
    task = a_row("42", status=Status.PAUSED, attempts=2)
    forged = {"biz_num": "43", "biz_code": "x", "status": "0", "attempts": "0", "version": "9"}
    save(boss, task, opened(boss, task) | forged | {"priority": "1", "claimed_by": "1"})
    row = the_row("42")
    assert Task.objects.count() == 1
    assert (row.status, row.version, row.claimed_by) == (Status.PAUSED, 1, None)


@pytest.mark.parametrize("status", Status)
def test_the_form_says_what_saving_will_do(status: Status, boss: Client) -> None:
    page = boss.get(reverse(CHANGE, args=[a_row(status=status).pk]))
    assert str(task_page.SAVING[status]) in text(page)


def test_an_error_is_shown_whole_line_by_line_and_escaped(boss: Client) -> None:
    error = "Traceback:\n" + "  deep & deeper\n" * 5000 + "<script>alert('x')</script>"
    page = boss.get(reverse(CHANGE, args=[a_row(last_error=error).pk]))
    body = page.content.decode()
    assert "<script>alert" not in body
    (shown,) = re.findall(r'<pre class="task-text">(.*?)</pre>', body, re.DOTALL)
    assert unescape(shown) == error


def test_keys_are_escaped(boss: Client) -> None:
    task = a_row("<b>1</b>", biz_code="<script>")
    for page in (reverse(LIST), reverse(CHANGE, args=[task.pk])):
        body = boss.get(page).content.decode()
        assert "<b>1</b>" not in body
        assert "<script>1" not in body
        assert "&lt;b&gt;1" in body


def test_no_page_needs_inline_style_or_script(boss: Client) -> None:
    worker = a_worker()
    task = a_row(status=Status.RUNNING, claimed_by=worker.pk, last_error="no")
    pages = [reverse(LIST), reverse(ADD), reverse(CHANGE, args=[task.pk])]
    pages += [reverse(RUNS), reverse("admin:django_tasks_taskrun_change", args=[a_run().pk])]
    pages += [reverse(WORKERS), reverse(WORKER, args=[worker.pk])]
    for page in pages:
        body = boss.get(page).content.decode()
        inline = r"<style|\sstyle=|\son\w+=\"|<script(?![^>]*\b(src|type)=)"
        assert re.findall(inline, body) == []


# Workers


def test_workers_are_shown_with_their_pulse(boss: Client) -> None:
    a_worker("web-1:4711", heartbeat=later(-4), counters={"done": 12}, threads=6)
    a_worker("batch-2:88", heartbeat=later(-31), queues=["mail", "slow"], state="draining")
    page = boss.get(reverse(WORKERS))
    shown = text(page)
    for word in ("web-1:4711", "4 s ago", "all", "6 of 6 are free"):
        assert word in shown
    for word in ("batch-2:88", "31 s ago", "mail, slow", "silent"):
        assert word in shown
    alive = re.findall(r'field-alive"><img[^>]*alt="(\w+)"', page.content.decode())
    assert alive == ["True", "False"]


def test_staff_with_the_view_permission_sees_workers(staff: Staff) -> None:
    a_worker("web-1:4711")
    assert "web-1:4711" in text(staff("view_workerrow").get(reverse(WORKERS)))


# Runs


def test_runs_are_shown_with_what_became_of_them(boss: Client) -> None:
    a_run(biz_num="fine")
    a_run(biz_num="worse", outcome="failed", attempt=5, error="ValueError: oh", worker="web-2:7")
    a_run(biz_num="late", outcome="skipped", missed="skip", when=later(-3603))
    page = boss.get(reverse(RUNS))
    shown = text(page)
    for word in ("fine", "done", "5 seconds ago", "2.0 s", "1.0 s", "host-1"):
        assert word in shown
    for word in ("worse", "failed", " 5 ", "web-2:7", "skipped (skip)", "1:00:00"):
        assert word in shown
    numbers = [run.biz_num for run in page.context["cl"].result_list]
    assert numbers == ["late", "worse", "fine"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"outcome__exact": "failed"}, ["42"]),
        ({"biz_code": "push"}, ["43"]),
        ({"q": "order/42"}, ["421", "42"]),
        ({"q": "43"}, ["43"]),
        ({"q": "push"}, ["43"]),
        ({"biz_code": "order", "biz_num": "42"}, ["42"]),
    ],
)
def test_runs_are_found_by_their_key(query: dict[str, str], found: list[str], boss: Client) -> None:
    a_run(biz_num="42", outcome="failed")
    a_run(biz_num="421")
    a_run(biz_num="43", biz_code="push")
    page = boss.get(reverse(RUNS), query)
    assert [run.biz_num for run in page.context["cl"].result_list] == found


def test_a_runs_page_shows_its_error(boss: Client) -> None:
    run = a_run(outcome="retried", error="Traceback …\nValueError: oh", scheduled_time=later(-60))
    shown = text(boss.get(reverse("admin:django_tasks_taskrun_change", args=[run.pk])))
    started = to_current_timezone(later(-3)).isoformat(" ", "milliseconds")
    for word in ("retried", "ValueError: oh", "2.0 s", "host-1", started):
        assert word in shown


def test_a_tasks_page_leads_to_its_runs(boss: Client) -> None:
    task = a_row("4 2&", biz_code="order")
    a_run(biz_num="4 2&", outcome="retried")
    a_run(biz_num="4 2&3", outcome="failed")
    page = boss.get(reverse(CHANGE, args=[task.pk])).content.decode()
    (address,) = re.findall(r'href="([^"]*taskrun[^"]*biz_num[^"]*)"', page)
    shown = text(boss.get(unescape(address)))
    assert "1 run" in shown
    assert "retried" in shown


# Locks


def a_lock(name: str, seconds: float, holder: str = "web-1:4711:ab") -> Lock:
    """A lock that was taken 40 seconds before NOW, and whose lease ends so many seconds from NOW;
    nobody holds it without a ``holder``.
    """
    times = [(later(each) - EPOCH) // timedelta(microseconds=1) for each in (-40, seconds)]
    since, until = times if holder else (0, 0)
    return Lock.objects.create(name=name, term=7, holder=holder, since=since, until=until)


def test_locks_are_shown_with_their_holders(boss: Client) -> None:
    a_lock("free", 0, holder="")
    a_lock("held", 20)
    a_lock("passed", -4)
    page = boss.get(reverse(LOCKS))
    shown = text(page)
    for word in (
        "free",
        "held",
        "passed",
        "web-1:4711:ab",
        " 7 ",
        "40 s ago",
        "in 20 s",
        "4 s ago",
        "20:29:35 CST",
    ):
        assert word in shown
    held = re.findall(r'field-held"><img[^>]*alt="(\w+)"', page.content.decode())
    assert held == ["False", "True", "False"]
    found = text(boss.get(reverse(LOCKS), {"q": "pass"}))
    assert "passed" in found
    assert "in 20 s" not in found


def test_the_task_of_a_sticky_handler_says_which_worker_is_active(
    boss: Client, staff: Staff, handlers: Any
) -> None:
    class Steady(TaskHandler):
        biz_code = "steady"
        schedule = "every 1h"
        sticky = True

        def handle(self, task: Any) -> None: ...

    handlers(Steady)
    steady, plain = a_row(SCHEDULE_NUM, biz_code="steady"), a_row()

    def shown(task: Task) -> str:
        return text(boss.get(reverse(CHANGE, args=[task.pk])))

    assert "Active worker: none now" in shown(steady)
    a_lock(lock_of("steady"), 20)
    assert "Active worker: web-1:4711:ab, took over 40 seconds ago" in shown(steady)
    assert "Active worker" not in shown(plain)
    page = text(staff("view_task").get(reverse(CHANGE, args=[steady.pk])))
    assert "Active worker" not in page
    assert "web-1:4711" not in page


@pytest.mark.parametrize(
    "make",
    [a_worker, lambda: a_lock("report", 20), lambda: a_run(outcome="failed")],
    ids=["worker", "lock", "run"],
)
def test_what_workers_write_cannot_be_changed_by_anybody(
    make: Callable[[], Any], boss: Client
) -> None:
    row = make()
    name = f"admin:django_tasks_{row._meta.model_name}"
    page = reverse(f"{name}_change", args=[row.pk])
    assert boss.get(page).status_code == 200
    assert boss.post(page, {"name": "mine", "holder": ""}).status_code == 403
    for action, arguments in (("add", []), ("delete", [row.pk])):
        url = reverse(f"{name}_{action}", args=arguments)
        assert boss.post(url, {"post": "yes"}).status_code == 403


# Other databases, other settings


def test_everything_happens_on_the_database_that_holds_the_tasks(
    boss: Client, task_database: str, queries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks: list[str] = []

    def now(using: str) -> datetime:
        clocks.append(using)
        return NOW

    monkeypatch.setattr(clock, "now", now)
    a_worker("web-1:4711")
    with queries() as elsewhere:
        boss.post(reverse(ADD), NEW)
        task = Task.objects.using(task_database).get()
        boss.get(reverse(LIST), {"q": "42", "biz_code": "order"})
        save(boss, task, opened(boss, task) | {"priority": "9"})
        assert Task.objects.using(task_database).get().priority == 9
        act(boss, "pause", task)
        assert Task.objects.using(task_database).get().status == Status.PAUSED
        assert "web-1:4711" in text(boss.get(reverse(WORKERS)))
        boss.post(reverse(DELETE, args=[task.pk]), {"post": "yes"})
        assert not Task.objects.using(task_database).exists()
    assert set(clocks) == {task_database}
    assert not any("t_task" in query["sql"] for query in elsewhere)


# Pauses

PAUSES = "admin:django_tasks_pause_changelist"
PAUSE_ADD = "admin:django_tasks_pause_add"
PAUSE_DELETE = "admin:django_tasks_pause_delete"


def scopes() -> list[tuple[str, str]]:
    return [(pause.queue, pause.biz_code) for pause in api.paused()]


def test_a_pause_is_added_and_deleted_by_those_who_may_pause_tasks(staff: Staff) -> None:
    alone, who = staff("pause_task"), staff("view_task", "pause_task")
    order = {"biz_code": "order", "queue": ""}
    assert alone.post(reverse(PAUSE_ADD), order).status_code == 403
    assert alone.get(reverse(PAUSES)).status_code == 403
    assert scopes() == []
    assert who.post(reverse(PAUSE_ADD), order).status_code == 302
    assert scopes() == [("", "order")]
    assert "Code order" in text(who.get(reverse(PAUSES)))

    (pause,) = api.paused()
    page = reverse(PAUSE_DELETE, args=[pause.pk])
    resume = reverse("admin:django_tasks_pause_resume", args=[pause.pk])
    for address in (page, resume):
        assert alone.post(address, {"post": "yes"}).status_code == 403
    bulk = {"action": "resume_selected", "_selected_action": [pause.pk]}
    assert alone.post(reverse(PAUSES), bulk).status_code == 403
    assert scopes() == [("", "order")]
    assert who.post(page, {"post": "yes"}).status_code == 302
    assert scopes() == []


@pytest.mark.parametrize("digits", ["9" * 5000, "9" * 20])
def test_an_address_of_thousands_of_digits_is_nowhere(boss: Client, digits: str) -> None:
    for name in (PAUSE_DELETE, "admin:django_tasks_pause_change"):
        assert boss.get(reverse(name, args=[digits])).status_code in (302, 404)


def test_selected_pauses_are_ended_through_the_api(boss: Client) -> None:
    for queue in ("a", "b", "c"):
        api.pause_tasks(queue=queue)
    chosen = [pause.pk for pause in api.paused()][:2]
    resumed: list[str] = []

    def hear(queue: str, **kwargs: Any) -> None:
        resumed.append(queue)

    signals.tasks_resumed.connect(hear)
    try:
        data = {"action": "resume_selected", "_selected_action": chosen}
        boss.post(reverse(PAUSES), data)
    finally:
        signals.tasks_resumed.disconnect(hear)
    assert scopes() == [("c", "")]
    assert resumed == ["a", "b"]
    assert said(boss.get(reverse(PAUSES))) == ["Resumed: queue a; queue b."]


def test_a_pause_of_a_name_that_nothing_has_is_made_and_doubted(boss: Client) -> None:
    a_row("1", queue="letters")
    boss.post(reverse(PAUSE_ADD), {"biz_code": "", "queue": "lettesr"})
    boss.post(reverse(PAUSE_ADD), {"biz_code": "", "queue": "letters"})
    assert scopes() == [("letters", ""), ("lettesr", "")]
    assert said(boss.get(reverse(PAUSES))) == [
        "Paused: queue lettesr."
        " No handler and no task is in the queue 'lettesr'; did you mean 'letters'?",
        "Paused: queue letters.",
    ]


def test_a_pause_that_is_there_already_and_a_bad_name_are_refused_on_the_form(
    boss: Client,
) -> None:
    api.pause_tasks(queue="mail")
    assert boss.post(reverse(PAUSE_ADD), {"biz_code": "", "queue": "mail"}).status_code == 200
    page = boss.post(reverse(PAUSE_ADD), {"biz_code": "x" * 51, "queue": ""})
    assert page.status_code == 200
    assert scopes() == [("mail", "")]


def test_a_pause_that_somebody_else_was_quicker_with_is_no_error(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause_tasks = api.pause_tasks

    def overtaken(**scope: Any) -> bool:
        pause_tasks(**scope)
        return pause_tasks(**scope)

    monkeypatch.setattr(api, "pause_tasks", overtaken)
    assert boss.post(reverse(PAUSE_ADD), {"biz_code": "", "queue": "a"}).status_code == 302
    assert scopes() == [("a", "")]


def test_a_pause_that_somebody_resumes_at_once_is_no_error(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause_tasks = api.pause_tasks

    def overtaken(**scope: Any) -> bool:
        changed = pause_tasks(**scope)
        del scope["by"]
        api.resume_tasks(**scope)
        return changed

    monkeypatch.setattr(api, "pause_tasks", overtaken)
    assert boss.post(reverse(PAUSE_ADD), {"biz_code": "", "queue": "a"}).status_code == 302
    assert scopes() == []


def test_the_list_of_tasks_says_what_is_paused_now(staff: Staff) -> None:
    who = staff("view_task")
    assert "Paused now" not in text(who.get(reverse(LIST)))
    api.pause_tasks(biz_code="order")
    api.pause_tasks(biz_code="push", queue="mail")
    page = text(who.get(reverse(LIST)))
    assert "Paused now: code order; code push in queue mail." in page
    api.pause_tasks()
    assert "Paused now: everything; code order;" in text(who.get(reverse(LIST)))


def test_of_many_pauses_the_list_of_tasks_names_some(boss: Client) -> None:
    for number in range(columns.MOST_NAMED + 3):
        api.pause_tasks(biz_code=f"code{number:02}")
    assert "code code09; 3 more." in text(boss.get(reverse(LIST)))


# What a task says of itself


def test_a_code_without_a_handler_is_marked_unless_nobody_is_to_ask(
    boss: Client, handlers: Any
) -> None:
    class Refund(TaskHandler):
        biz_code = "refund"

        def handle(self, task: Any) -> None:
            pass

    handlers(Refund)
    a_row("1", biz_code="refund", when=later(60))
    a_row("2", biz_code="refunt", when=later(60))
    page = text(boss.get(reverse(LIST)))
    assert "refund 1" in page
    assert "refunt 2 pending no handler" in page
    with override_settings(DJANGO_TASKS={"STRICT_CODES": "off"}):
        assert "no handler" not in text(boss.get(reverse(LIST)))


def test_its_page_shows_name_options_runs_and_progress(boss: Client) -> None:
    progress = {"done": 3, "total": 10, "text": "printing"}
    task = a_row(
        name="Offer", options=TaskOptions(timeout=30, max_attempts=2), runs=41, progress=progress
    )
    page = text(boss.get(reverse(CHANGE, args=[task.pk])))
    for word in ("timeout 30s, attempts 2", "41", "3 / 10 printing"):
        assert word in page
    assert f"{task.biz_num} Offer" in text(boss.get(reverse(LIST)))


def test_options_behind_a_schedule_that_was_edited_come_over_those_there_were(
    boss: Client,
) -> None:
    task = api.add_task("refund", "1", when=later(60), timeout=5, expires=later(9999))
    edited = {"schedule": "every 2h | timeout 9s | attempts 4", "name": "Offer"}
    save(boss, task, opened(boss, task) | edited)
    row = the_row("1", "refund")
    assert (row.schedule, row.name) == ("every 2h", "Offer")
    assert row.options == TaskOptions(timeout=9, max_attempts=4, expires=later(9999))


@pytest.mark.parametrize(
    ("edited", "minutes"),
    [
        ({"schedule": "every 2h"}, 120),
        ({"schedule": "every 2h", "when_0": "2030-05-17", "when_1": "23:00:00"}, None),
        ({"schedule": ""}, 59),
        ({"name": "Offer"}, 59),
    ],
    ids=["schedule", "both", "none any more", "neither"],
)
def test_a_schedule_that_was_edited_begins_with_its_first_time(
    boss: Client, edited: dict[str, str], minutes: int | None
) -> None:
    api.add_task("refund", "1", when=timedelta(minutes=59), schedule="every 1h")
    before = the_row("1", "refund")
    save(boss, before, opened(boss, before) | edited)
    after = the_row("1", "refund")
    moved = {59: timedelta(0), 120: timedelta(minutes=61)}
    if minutes is None:
        assert timezone.localtime(after.when).hour == 23
    else:
        assert abs(after.when - before.when - moved[minutes]) < timedelta(seconds=30)
