"""The lists of tasks and of runs: what they find, say and reach."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from django_tasks import api
from django_tasks.admin import filters, lists, pages, runs
from django_tasks.admin.addresses import query_of, tasks_of
from django_tasks.admin.columns import CLAIM_ORDER, TaskColumns
from django_tasks.admin.pages import Anchor, Key, page_of, place_of
from django_tasks.exceptions import TaskValueError
from django_tasks.handlers.base import task_handler
from django_tasks.models import Gate
from django_tasks.reads.filters import MOST_SEARCHED, TaskFilter
from django_tasks.timezones import for_django
from django_tasks.values.status import Status
from tests.doors.conftest import Staff
from tests.doors.test_admin import LIST, RUNS, listed, said, text
from tests.factories import a_row, a_run, a_worker, later, rows, table

pytestmark = pytest.mark.usefixtures("now")

PER_PAGE = 100
HOSTILE = "\"'><script>alert(1)</script>%00\x00'; DROP TABLE t_task --"


def numbers(page: Any) -> list[str]:
    return [task.biz_num for task in page.context["cl"].result_list]


# Filters


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"status__exact": "2"}, {"failed"}),
        ({"status": "failed"}, {"failed"}),
        ({"biz_code": "push"}, {"push"}),
        ({"code": "push"}, {"push"}),
        ({"biz_code": "push", "biz_num": "push"}, {"push"}),
        ({"queue": "mail"}, {"running"}),
        ({"due": "late"}, {"late"}),
        ({"due": "due"}, {"late", "now"}),
        ({"due": "future"}, {"push"}),
        ({"recurring": "1"}, {"now"}),
        ({"worker": "7"}, {"running"}),
        ({"stuck": "1"}, {"running"}),
        ({"exception": "ConnectionError"}, {"failed"}),
        ({"error": "no ROUTE"}, {"failed"}),
        ({"biz_code": "order", "q": "aile"}, {"failed"}),
        ({"q": "order/fai"}, {"failed"}),
        ({"q": "aile"}, set()),
        ({"since": "2030-05-17T12:30:00+00:00", "status": "failed"}, {"failed"}),
        ({"since": "2031-05-17T12:30:00+00:00"}, set()),
    ],
)
def test_each_filter_of_the_url_finds_its_tasks(
    query: dict[str, str], found: set[str], boss: Client
) -> None:
    error = {"exception": "builtins.ConnectionError", "last_error": "ConnectionError: No route"}
    a_row("failed", status=Status.FAILED, **error)
    a_row("running", status=Status.RUNNING, queue="mail")
    a_row("late", when=later(-61))
    a_row("now", schedule="every 1h")
    a_row("push", biz_code="push", when=later(9))
    page = boss.get(reverse(LIST), query)
    assert set(numbers(page)) == found
    assert page.context["cl"].tasks == tasks_of(query).settled("default")


@pytest.mark.parametrize(
    "query",
    [
        {"status__exact": "99"},
        {"status__exact": HOSTILE},
        {"status": "x" * 5000},
        {"biz_code": HOSTILE},
        {"biz_code": "x" * 51},
        {"queue": "x" * 51},
        {"worker": "-1"},
        {"worker": "9" * 30},
        {"worker": HOSTILE},
        {"due": "yesterday"},
        {"recurring": "maybe"},
        {"stuck": "2"},
        {"exception": HOSTILE},
        {"error": HOSTILE},
        {"error": "x" * 5000},
        {"since": "0000-00-00"},
        {"since": "9999-12-31T23:59:59-23:59"},
        {"since": HOSTILE},
        {"q": HOSTILE},
        {"q": "x" * 5000},
        {"last_error__contains": "x"},
        {"id__gt": "0"},
        {"nothing": "1"},
    ],
)
@pytest.mark.parametrize("view", ["changelist", "bulk"])
def test_a_filter_that_nothing_can_have_is_told_and_shows_nothing(
    query: dict[str, str], view: str, boss: Client
) -> None:
    a_row()
    step = {"step": "requeue"} if view == "bulk" else {}
    response = boss.get(reverse(f"admin:django_tasks_task_{view}"), query | step)
    assert response.status_code == 302
    page = boss.get(response["Location"])
    assert page.status_code == 200
    assert said(page)
    assert numbers(page) == []


def test_the_query_of_a_filter_is_read_back() -> None:
    tasks = TaskFilter(
        status=Status.FAILED,
        due="late",
        recurring=False,
        code="a&b",
        number="=1",
        queue="q",
        worker=3,
        stuck=True,
        exception="E",
        search="s s",
        error="e?",
        since=later(0),
    )
    query = query_of(tasks)
    assert query["status__exact"] == "2"
    assert tasks_of(query) == tasks


def test_filters_stand_in_the_url_and_can_be_taken_out_again(boss: Client) -> None:
    a_row("failed", status=Status.FAILED)
    page = boss.get(reverse(LIST), {"status": "failed", "biz_code": "order", "q": "fai"})
    links = re.findall(r'href="(\?[^"]*)"', page.content.decode())
    assert "?biz_code=order&amp;due=late&amp;q=fai&amp;status__exact=2" in links
    assert "?biz_code=order&amp;q=fai" in links  # any status
    assert page.context["cl"].clear_all_filters_qs == "?"
    assert "failed, code order, whose number contains “fai”" in text(page)


def test_a_filter_that_offers_it_no_more_still_shows_its_choice(boss: Client) -> None:
    page = boss.get(reverse(LIST), {"worker": "4711", "since": "2030-05-17T12:30:00+00:00"})
    shown = {spec.parameter_name: spec.chosen() for spec in page.context["cl"].filter_specs}
    assert shown["worker"] == "4711"
    assert shown["since"].startswith("2030-05-17T12:30")


def test_spans_are_links_to_times(boss: Client) -> None:
    rows(range(3), status=Status.FAILED)
    table(biz_num="0").update(update_time=for_django(later(-7200)))
    (hour,) = (value for value, label in filters._spans() if "last hour" in label)
    assert set(numbers(boss.get(reverse(LIST), {"since": hour}))) == {"1", "2"}


# What a row says


def test_what_is_late_says_how_late_and_what_is_paused_is_not_late(boss: Client) -> None:
    a_row("late", when=later(-3 * 3600))
    a_row("held", biz_code="push", when=later(-3 * 3600))
    a_row("failed", status=Status.FAILED, when=later(-3 * 3600))
    api.pause_tasks(biz_code="push")
    page = boss.get(reverse(LIST)).content.decode()
    assert re.findall(r'task-late">([^<]*)<', page) == ["3\xa0hours late"]
    assert page.count("code paused") == 1


@pytest.mark.parametrize(
    ("scope", "words"),
    [
        ({}, "everything paused"),
        ({"queue": "default"}, "queue paused"),
        ({"biz_code": "order", "queue": "default"}, "code paused"),
        ({"queue": "other"}, ""),
    ],
)
def test_a_pause_of_a_whole_marks_what_waits(
    scope: dict[str, str], words: str, boss: Client
) -> None:
    a_row("1")
    a_row("2", status=Status.RUNNING)
    api.pause_tasks(**scope)
    page = boss.get(reverse(LIST)).content.decode()
    assert len(re.findall(r'task-held">', page)) == bool(words)
    assert words in page


def test_a_code_that_a_living_worker_serves_has_a_handler(boss: Client) -> None:
    a_row(biz_code="far", when=later(60))
    worker = a_worker(codes=["far"])
    assert "no handler" not in text(boss.get(reverse(LIST)))
    worker.heartbeat -= timedelta(hours=1)
    worker.save()
    assert "no handler" in text(boss.get(reverse(LIST)))


def test_a_code_at_its_limit_is_marked_where_it_waits(boss: Client, handlers: Any) -> None:
    handlers(task_handler("order", max_running=2)(lambda task: None))
    a_row("waits")
    a_row("runs", status=Status.RUNNING)
    assert "limit:" not in text(boss.get(reverse(LIST)))
    a_row("runs too", status=Status.RUNNING)
    assert text(boss.get(reverse(LIST))).count("limit: 2 at once") == 1
    Gate.objects.create(biz_code="order", max_running=3)
    assert "limit:" not in text(boss.get(reverse(LIST)))


def test_a_code_at_its_rate_is_marked(boss: Client, handlers: Any) -> None:
    handlers(task_handler("order", rate_limit="1/h")(lambda task: None))
    a_row()
    gate = Gate.objects.create(biz_code="order")
    assert "limit:" not in text(boss.get(reverse(LIST)))
    gate.full_until = 2**60
    gate.save()
    assert "limit: 1/h" in text(boss.get(reverse(LIST)))


def test_times_have_seconds_and_a_zone(boss: Client) -> None:
    a_row()
    a_run()
    for name in (LIST, RUNS):
        page = text(boss.get(reverse(name)))
        assert re.search(r"2030-05-17 20:30:1\d CST ", page), page


def test_the_lists_and_failures_show_the_first_line_of_a_message_of_several(boss: Client) -> None:
    text_of_it = f"Traceback\npsycopg.errors.UndefinedTable: no table\nLINE 1: {'x' * 300}\n    ^"
    error = {"exception": "psycopg.errors.UndefinedTable"}
    a_row(status=Status.FAILED, last_error=text_of_it, **error)
    run = a_run(outcome="failed", error=text_of_it, **error)
    for address in (
        reverse(LIST),
        reverse(RUNS),
        reverse("admin:django_tasks_taskrun_change", args=[run.pk]),
    ):
        assert "UndefinedTable: no table" in text(boss.get(address)), address
    page = boss.get(reverse("admin:django_tasks_failures"))
    assert [each["message"] for each in page.context["groups"]] == ["no table"]


def test_the_help_of_the_search_has_its_limit() -> None:
    assert f"more than {MOST_SEARCHED:,} tasks" in str(TaskColumns.search_help_text)


def test_a_part_of_a_number_that_is_not_sought_in_a_large_code_is_told(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows(["eu-1", "eu-2", "3"])
    hint = "only the beginning of a number is sought."
    query = {"biz_code": "order", "q": "u-1"}
    assert hint not in text(boss.get(reverse(LIST), query))
    monkeypatch.setattr("django_tasks.reads.filters.MOST_SEARCHED", 2)
    shown = text(boss.get(reverse(LIST), query))
    assert "0 tasks : code order, whose number begins with “u-1”" in shown
    assert f"Of a code with more than 2 tasks, {hint}" in shown


@pytest.mark.parametrize("name", [LIST, RUNS])
def test_a_filter_that_means_nothing_shows_nothing_that_an_action_could_change(
    name: str, boss: Client
) -> None:
    a_row()
    a_run()
    refused = boss.get(reverse(name), {"colour": "red"})
    page = boss.get(refused["Location"])
    assert (numbers(page), len(said(page))) == ([], 1)
    assert "for_all" not in page.context
    again = boss.get(refused["Location"])  # of which the sentence is gone
    assert (numbers(again), said(again)) == ([], [])
    assert "What was asked for was refused, so nothing is shown." in text(again)
    assert "1" in numbers(boss.get(reverse(name)))


@pytest.mark.parametrize("name", ["pause", "lock", "workerrow"])
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("since", "yesterday"),
        ("since", "0001-01-01T00:00:00+14:00"),
        ("started", "0001-01-01T00:00:00+14:00"),
        ("since__gte", "9999-12-31T23:59:59-14:00"),
        ("id__in", "9" * 30),
    ],
)
def test_a_list_without_filters_refuses_one_in_words(
    name: str, column: str, value: str, boss: Client
) -> None:
    address = reverse(f"admin:django_tasks_{name}_changelist")
    refused = boss.get(address, {column: value})
    assert refused["Location"] == f"{address}?e=1"
    assert said(boss.get(refused["Location"])) == [f"filter is not known: {column!r}"]
    assert boss.get(address, {"q": "x", "p": "1", "o": "1"}).status_code == 200


# Pages


def walk(who: Client, name: str, query: dict[str, str]) -> list[list[str]]:
    """The numbers on each page from the first to the last, by the links to the next."""
    found, address = [], f"{reverse(name)}?" + "&".join(f"{k}={v}" for k, v in query.items())
    while address:
        page = who.get(address)
        found.append(numbers(page))
        link = page.context["cl"].next_link
        address = reverse(name) + link if link else ""
    return found


@pytest.mark.parametrize("limit", [10, 10_000])
@pytest.mark.parametrize(
    "query", [{}, {"status__exact": "0"}, {"due": "due"}, {"o": "-3"}, {"biz_code": "order"}]
)
def test_all_rows_are_reached_page_by_page_and_back(
    limit: int, query: dict[str, str], boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "LIST_LIMIT", limit)
    monkeypatch.setattr(TaskColumns, "list_per_page", 10, raising=False)
    rows(range(25), when=later(-1))
    found = walk(boss, LIST, query)
    assert [len(page) for page in found] == [10, 10, 5]
    assert {num for page in found for num in page} == {str(num) for num in range(25)}
    by_time = query == {"due": "due"} or (limit == 10 and "status__exact" in query)
    by_number = limit == 10 and "biz_code" in query
    assert found[0][0] == ("0" if by_time or by_number else "24")
    page = boss.get(reverse(LIST), query)
    second = boss.get(reverse(LIST) + page.context["cl"].next_link)
    assert numbers(second) == found[1]
    assert numbers(boss.get(reverse(LIST) + second.context["cl"].previous_link)) == found[0]


def test_of_few_the_time_may_be_the_order_and_of_many_it_is_not(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, seconds in enumerate((30, 10, 20)):
        a_row(str(number), when=later(seconds))
    assert numbers(boss.get(reverse(LIST))) == ["2", "1", "0"]
    assert numbers(boss.get(reverse(LIST), {"o": "3"})) == ["1", "2", "0"]
    assert numbers(boss.get(reverse(LIST), {"o": "-3"})) == ["0", "2", "1"]
    assert numbers(boss.get(reverse(LIST), {"due": "future"})) == ["1", "2", "0"]
    for refused in ("1", "2", "4.3", "99", "-", HOSTILE):
        assert numbers(boss.get(reverse(LIST), {"o": refused})) == ["2", "1", "0"]
    monkeypatch.setattr(lists, "LIST_LIMIT", 2)
    assert numbers(boss.get(reverse(LIST), {"o": "3"})) == ["2", "1", "0"]


@pytest.mark.parametrize(
    "place",
    [
        *("", "1", "after", "after-", "after-x", "after-1-2-3", "before--1", "after-\u0663"),
        *(f"after-{2**63}", "after-" + "9" * 70, HOSTILE),
    ],
)
def test_a_place_that_is_none_is_the_first_page(place: str, boss: Client) -> None:
    a_row()
    for name in (LIST, RUNS):
        assert boss.get(reverse(name), {"p": place}).status_code == 200
    assert numbers(boss.get(reverse(LIST), {"p": place})) == ["1"]
    assert place_of(place, 1) is None


def test_a_page_goes_on_where_its_row_was_though_that_is_gone() -> None:
    keys: list[Key] = [(1,), (3,), (5,), (7,)]
    for gone in (4, 5):
        page = page_of(keys, Anchor(True, (gone,)), 2, descending=True)
        assert page == ([(3,), (1,)], True, False)
    assert page_of(keys, Anchor(False, (4,)), 2, descending=True).keys == [(7,), (5,)]
    assert page_of(keys, Anchor(False, (4,)), 2, descending=False).keys == [(1,), (3,)]
    assert page_of(keys, Anchor(True, (0,)), 2, descending=True).keys == [(7,), (5,)]


@pytest.mark.usefixtures("db")
@pytest.mark.parametrize("size", [1, 2, 7, 50])
def test_the_order_of_an_index_is_walked_there_and_back(size: int) -> None:
    for number in range(24):
        lane = {"queue": "ab"[number % 2], "priority": number % 3, "biz_code": "xyz"[number % 3]}
        a_row(str(number), status=Status.FAILED, when=later(number // 12), **lane)
    a_row("waits")
    failed = table(status=Status.FAILED)
    ordered = [(pk,) for pk in failed.order_by(*CLAIM_ORDER).values_list("id", flat=True)]
    page, there = pages.sought(failed, CLAIM_ORDER, None, size), []
    while page.keys:
        there += page.keys
        assert page.has_after == (len(there) < 24)
        if not page.has_after:
            break
        page = pages.sought(failed, CLAIM_ORDER, Anchor(True, page.keys[-1]), size)
        assert page.has_before
    assert there == ordered
    for start in range(size, 24):
        page = pages.sought(failed, CLAIM_ORDER, Anchor(False, ordered[start]), size)
        assert page == (ordered[start - size : start], start > size, True)
    first = pages.sought(failed, CLAIM_ORDER, None, size)
    if size > 1:
        assert pages.sought(failed, CLAIM_ORDER, Anchor(False, ordered[1]), size) == first
    assert pages.sought(failed, CLAIM_ORDER, Anchor(True, (10**9,)), size) == first


@pytest.mark.usefixtures("db")
@pytest.mark.parametrize("size", [1, 2, 7, 50])
def test_lanes_are_walked_there_and_back(size: int) -> None:
    lanes = [(0, "a", 0, "x"), (0, "a", 1, "x"), (0, "b", 0, "y"), (0, "c", 0, "none")]
    for number in range(24):
        _status, queue, priority, code = lanes[number % 3]
        when = later(number // 12)
        a_row(str(number), when=when, queue=queue, priority=priority, biz_code=code)
    pending = table(status=Status.PENDING)
    ordered = [(pk,) for pk in pending.order_by(*CLAIM_ORDER).values_list("id", flat=True)]
    first = page = pages.sought_in_lanes(pending, lanes, None, size)
    there = [*page.keys]
    while page.has_after:
        page = pages.sought_in_lanes(pending, lanes, Anchor(True, page.keys[-1]), size)
        assert page.has_before
        there += page.keys
    assert there == ordered
    for start in range(size, 24):
        page = pages.sought_in_lanes(pending, lanes, Anchor(False, ordered[start]), size)
        assert page == (ordered[start - size : start], start > size, True)
    if size > 1:
        back = Anchor(False, ordered[1])
        assert pages.sought_in_lanes(pending, lanes, back, size) == first
    for nowhere in (Anchor(True, (10**9,)), Anchor(True, ordered[-1])):
        assert pages.sought_in_lanes(pending, lanes, nowhere, size) == first


@pytest.mark.usefixtures("db")
def test_walking_back_to_the_beginning_shows_a_whole_page() -> None:
    rows(range(6))
    ids = sorted(table().values_list("id", flat=True), reverse=True)
    page = pages.walked(table(), Anchor(False, (ids[1],)), 3)
    assert page == ([(each,) for each in ids[:3]], False, True)
    page = pages.walked(table(), Anchor(False, (ids[4],)), 3)
    assert page == ([(each,) for each in ids[1:4]], True, True)
    assert pages.walked(table(), Anchor(True, (ids[5],)), 3).keys[0] == (ids[0],)


@pytest.mark.parametrize("query", [{}, {"status__exact": "0"}, {"due": "late"}, {"q": "order"}])
def test_many_rows_take_as_many_statements_as_one(
    query: dict[str, str], boss: Client, queries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_row("x", when=later(-99))
    boss.get(reverse(LIST), query)
    with queries() as for_one:
        assert len(listed(boss.get(reverse(LIST), query))) == 1
    rows(range(150), when=later(-99))
    with queries() as for_many:
        assert len(listed(boss.get(reverse(LIST), query))) == PER_PAGE
    assert len(for_many) == len(for_one)
    monkeypatch.setattr(lists, "LIST_LIMIT", 10)
    with queries() as for_more:
        boss.get(reverse(LIST), query)
    assert len(for_more) - len(for_one) == (2 if "due" in query else 1)
    assert not any("OFFSET" in query["sql"] for query in [*for_many, *for_more])


def test_there_is_no_inline_script_or_style(boss: Client, staff: Staff) -> None:
    a_row()
    a_run()
    for who in (boss, staff("view_task", "view_taskrun")):
        for name in (LIST, RUNS, "admin:django_tasks_failures"):
            page = who.get(reverse(name)).content.decode()
            assert "<style" not in page
            assert " style=" not in page
            assert not re.findall(r"<script(?![^>]*(?:src=|application/json))[^>]*>", page)


# Runs


def test_runs_say_their_error_and_are_found_by_it(boss: Client) -> None:
    a_run(biz_num="1", outcome="failed", exception="a.b.Boom", error="Traceback\na.b.Boom: bang")
    a_run(biz_num="2", outcome="failed", exception="a.b.Other", error="Other: no")
    a_run(biz_num="3")
    page = boss.get(reverse(RUNS))
    assert "Boom: bang" in text(page)
    assert "3 runs" in text(page)
    assert numbers(boss.get(reverse(RUNS), {"exception": "Boom"})) == ["1"]
    assert numbers(boss.get(reverse(RUNS), {"exception": "a.b.Other", "biz_code": "order"})) == [
        "2"
    ]
    assert numbers(boss.get(reverse(RUNS), {"outcome": "failed"})) == ["2", "1"]


@pytest.mark.parametrize(
    "query",
    [
        {"outcome": "nonsense"},
        {"outcome": HOSTILE},
        {"biz_code": HOSTILE},
        {"exception": "x" * 999},
        {"q": "x" * 999},
        {"error__contains": "x"},
    ],
)
def test_a_filter_of_runs_that_nothing_can_have_is_told(
    query: dict[str, str], boss: Client
) -> None:
    a_run()
    response = boss.get(reverse(RUNS), query)
    assert response.status_code == 302
    page = boss.get(response["Location"])
    assert said(page)
    assert numbers(page) == []


def test_all_runs_are_reached(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(250):
        a_run(biz_num=str(number))
    newest_first = [str(num) for num in reversed(range(250))]
    assert [num for page in walk(boss, RUNS, {}) for num in page] == newest_first
    monkeypatch.setattr(lists, "LIST_LIMIT", 10)
    assert [num for page in walk(boss, RUNS, {}) for num in page] == newest_first
    assert "more than 10 runs" in text(boss.get(reverse(RUNS)))


def test_what_no_index_has_is_looked_for_in_stretches(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "STRETCH", 10)
    for number in range(25):
        a_run(biz_num=str(number), outcome="failed" if number in (1, 12, 24) else "done")
    address, found, looks = f"{reverse(RUNS)}?outcome=failed", [], 0
    while address:
        page = boss.get(address)
        found += numbers(page)
        looks += 1
        further = page.context["cl"].further
        assert ("Look further back" in text(page)) == bool(further)
        address = reverse(RUNS) + further if further else ""
    assert (found, looks) == (["24", "12", "1"], 3)


def test_a_runs_page_has_its_message_first_and_its_detail(boss: Client) -> None:
    run = a_run(
        outcome="failed",
        exception="a.b.Boom",
        error="Traceback …\na.b.Boom: bang",
        detail='{"return_value": 42}',
    )
    page = text(boss.get(reverse("admin:django_tasks_taskrun_change", args=[run.pk])))
    assert page.index("Boom: bang") < page.index("Traceback …")
    assert "a.b.Boom" in page
    assert "return_value" in page


def test_a_filter_without_a_name_is_refused() -> None:
    """Its list would show, and its actions meet, all tasks."""
    with pytest.raises(TaskValueError, match="filter"):
        tasks_of({"": "x"})
