"""Filters of tasks: each against the plain truth about all rows."""

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from django_tasks.api import pause_tasks
from django_tasks.exceptions import TaskValueError
from django_tasks.models import Pause, Task
from django_tasks.reads import filters
from django_tasks.reads.filters import LATE_SECONDS, TaskFilter
from django_tasks.timezones import for_django
from django_tasks.values.status import OWNED, Status
from tests.factories import NOW, a_row, a_worker, in_utc, later

pytestmark = pytest.mark.django_db

CODES = ("mail", "refund", "Refund")
NUMBERS = ("1", "12", "42", "a-42", "A-42", "%", "x_y", *map(str, range(200, 230)))
EXCEPTIONS = (
    "",
    "builtins.ConnectionError",
    "shop.errors.ConnectionError",
    "a.OtherConnectionError",
)


@pytest.fixture
def crowd() -> dict[str, int]:
    """Rows of every kind; the ids of a living worker and of a silent one."""
    alive = a_worker("alive").pk
    silent = a_worker("silent", heartbeat=later(-100)).pk
    dice = random.Random(17)
    for code in CODES:
        for number in NUMBERS:
            status = dice.choice([*Status, *[Status.PENDING, Status.FAILED] * 2])
            owner = {"claimed_by": dice.choice([alive, silent, 10**6])} if status in OWNED else {}
            exception = dice.choice(EXCEPTIONS)
            a_row(
                number,
                biz_code=code,
                status=status,
                queue=dice.choice(["default", "slow"]),
                priority=dice.choice([0, 5]),
                when=later(dice.choice([-3600, -LATE_SECONDS, -10, 0, 10, 7200])),
                update_time=later(dice.choice([-7200, -60, 0])),
                schedule=dice.choice([None, None, "every 5m"]),
                exception=exception,
                last_error=exception and f"Traceback\n{exception}: no route to 10.0.0.1",
                **owner,
            )
    return {"alive": alive, "silent": silent}


def found(given: TaskFilter) -> set[tuple[str, str]]:
    rows = given.rows(using="default", now=NOW)
    return set(rows.values_list("biz_code", "biz_num"))


def expected(matches: Callable[[Task], bool]) -> set[tuple[str, str]]:
    keys = {(row.biz_code, row.biz_num) for row in Task.objects.all() if matches(row)}
    assert 0 < len(keys) < Task.objects.count(), "a filter that tells nothing apart"
    return keys


def when(row: Task) -> datetime:
    moment = in_utc(row.when)
    assert moment
    return moment


def updated(row: Task) -> datetime:
    moment = in_utc(row.update_time)
    assert moment
    return moment


FILTERS: dict[str, tuple[dict[str, Any], Callable[[Task], bool]]] = {
    "status": ({"status": Status.FAILED}, lambda row: row.status == Status.FAILED),
    "due": ({"due": "due"}, lambda row: row.status == Status.PENDING and when(row) <= NOW),
    "late": (
        {"due": "late"},
        lambda row: row.status == Status.PENDING and when(row) < later(-LATE_SECONDS),
    ),
    "future": ({"due": "future"}, lambda row: row.status == Status.PENDING and when(row) > NOW),
    "due of a code": (
        {"due": "due", "code": "mail"},
        lambda row: row.status == Status.PENDING and when(row) <= NOW and row.biz_code == "mail",
    ),
    "recurring": ({"recurring": True}, lambda row: row.schedule is not None),
    "not recurring": ({"recurring": False}, lambda row: row.schedule is None),
    "code": ({"code": "refund"}, lambda row: row.biz_code == "refund"),
    "number": ({"number": "a-42"}, lambda row: row.biz_num == "a-42"),
    "key": (
        {"code": "mail", "number": "42"},
        lambda row: (row.biz_code, row.biz_num) == ("mail", "42"),
    ),
    "queue": ({"queue": "slow"}, lambda row: row.queue == "slow"),
    "exception": (
        {"exception": "ConnectionError"},
        lambda row: row.status == Status.FAILED and row.exception in EXCEPTIONS[1:3],
    ),
    "path of an exception": (
        {"exception": "builtins.ConnectionError", "status": Status.PENDING},
        lambda row: row.status == Status.PENDING and row.exception == EXCEPTIONS[1],
    ),
    "error": (
        {"error": "NO route", "code": "mail"},
        lambda row: row.status == Status.FAILED and row.biz_code == "mail" and row.last_error != "",
    ),
    "since": (
        {"since": later(-60)},
        lambda row: row.status == Status.FAILED and updated(row) >= later(-60),
    ),
    "since, due": (
        {"since": later(-60), "due": "due"},
        lambda row: (
            row.status == Status.PENDING and when(row) <= NOW and updated(row) >= later(-60)
        ),
    ),
    "part of a number": (
        {"search": "42", "code": "mail"},
        lambda row: row.biz_code == "mail" and "42" in row.biz_num,
    ),
    "a sign of LIKE": (
        {"search": "%", "code": "mail"},
        lambda row: row.biz_code == "mail" and "%" in row.biz_num,
    ),
    "beginning of a number": ({"search": "1"}, lambda row: row.biz_num.startswith("1")),
    "a code": ({"search": "Refund"}, lambda row: row.biz_code == "Refund"),
    "a code and its slash": ({"search": "mail/"}, lambda row: row.biz_code == "mail"),
    "code and beginning": (
        {"search": "mail/4"},
        lambda row: row.biz_code == "mail" and row.biz_num.startswith("4"),
    ),
}


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_finds_what_it_says(name: str, crowd: dict[str, int]) -> None:
    given, matches = FILTERS[name]
    assert found(TaskFilter(**given)) == expected(matches)


@pytest.mark.parametrize("name", FILTERS)
def test_many_lanes_and_codes_change_nothing(
    name: str, crowd: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "MOST_PLACES", 1)
    given, matches = FILTERS[name]
    assert found(TaskFilter(**given)) == expected(matches)


def test_tasks_of_a_worker(crowd: dict[str, int]) -> None:
    assert found(TaskFilter(worker=crowd["silent"])) == expected(
        lambda row: row.claimed_by == crowd["silent"]
    )


def test_stuck_ones_belong_to_workers_that_are_gone_or_silent(crowd: dict[str, int]) -> None:
    assert found(TaskFilter(stuck=True)) == expected(
        lambda row: row.status in OWNED and row.claimed_by != crowd["alive"]
    )


@pytest.mark.parametrize(
    "scope", [{"biz_code": "mail"}, {"queue": "slow"}, {"biz_code": "mail", "queue": "slow"}]
)
def test_what_is_paused_as_a_whole_is_not_late(
    scope: dict[str, str], crowd: dict[str, int]
) -> None:
    pause_tasks(**scope)
    assert found(TaskFilter(due="late")) == expected(
        lambda row: (
            row.status == Status.PENDING
            and when(row) < later(-LATE_SECONDS)
            and any(getattr(row, name) != value for name, value in scope.items())
        )
    )


def test_many_pauses_change_nothing(crowd: dict[str, int]) -> None:
    before = found(TaskFilter(due="late"))
    scopes = [{"queue": f"q{number}", "biz_code": f"c{number % 2}"} for number in range(2000)]
    for first in range(0, 2000, 200):
        Pause._base_manager.bulk_create(
            Pause(**scope, since=for_django(NOW)) for scope in scopes[first : first + 200]
        )
    assert before
    assert found(TaskFilter(due="late")) == before


def test_nothing_is_late_while_everything_is_paused(crowd: dict[str, int]) -> None:
    pause_tasks()
    assert not found(TaskFilter(due="late"))
    assert found(TaskFilter(due="due"))


EVERYTHING = TaskFilter(
    status=Status.FAILED,
    due="late",
    recurring=False,
    code="refund",
    number="42",
    queue="slow",
    worker=7,
    stuck=True,
    exception="ConnectionError",
    search="4",
    search_as="contains",
    error="a b",
    since=NOW,
)


@pytest.mark.parametrize("given", [EVERYTHING, TaskFilter(), TaskFilter(recurring=True)])
def test_a_filter_lives_in_a_url(given: TaskFilter) -> None:
    assert TaskFilter.from_params(given.params() | {"p": "2", "o": "1"}) == given


def test_only_what_is_set_stands_in_a_url() -> None:
    assert TaskFilter().params() == {}
    assert not TaskFilter()
    assert TaskFilter(code="refund", status=Status.FAILED).params() == {
        "status": "failed",
        "code": "refund",
    }


MEANINGS: list[tuple[TaskFilter, str, str]] = [
    (TaskFilter(search="mail"), "code", "code mail"),
    (TaskFilter(search="mai"), "begins", "whose number begins with “mai”"),
    (TaskFilter(search="mail/4"), "begins", "found by “mail/4”"),
    (TaskFilter(code="mail", search="42"), "contains", "code mail, whose number contains “42”"),
]


@pytest.mark.parametrize(("given", "meaning", "words"), MEANINGS)
def test_a_search_is_settled_once_for_all(
    given: TaskFilter, meaning: str, words: str, crowd: dict[str, int]
) -> None:
    settled = given.settled("default")
    assert (settled.search_as, settled.words()) == (meaning, words)
    assert not settled.hint()
    assert found(settled) == found(given)
    assert TaskFilter.from_params(settled.params()) == settled
    Task.objects.all()._raw_delete("default")
    assert settled.settled("default") == settled


def test_of_a_large_code_the_beginning_is_sought_and_that_is_said(
    crowd: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "MOST_SEARCHED", len(NUMBERS) - 1)
    settled = TaskFilter(code="mail", search="42").settled("default")
    assert settled.words() == "code mail, whose number begins with “42”"
    assert found(settled) == {("mail", "42")}
    assert settled.hint() == (
        f"Of a code with more than {len(NUMBERS) - 1} tasks, only the beginning of a number is"
        " sought."
    )


@pytest.mark.parametrize(
    "given",
    [
        {"search_as": "begins"},
        {"search": "4", "search_as": "contains"},
        {"search": "4", "code": "mail", "search_as": "code"},
        {"search": "4", "search_as": "ends"},
    ],
)
def test_a_meaning_that_a_search_cannot_have_is_named(given: dict[str, str]) -> None:
    with pytest.raises(TaskValueError) as caught:
        TaskFilter.from_params(given)
    assert caught.value.field == "search_as"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status", "broken"),
        ("status", "9"),
        ("due", "soon"),
        ("recurring", "perhaps"),
        ("stuck", "yes"),
        ("worker", "w2"),
        ("worker", "²"),
        ("worker", "9" * 30),
        ("worker", "9" * 5000),
        ("since", "yesterday"),
        ("since", "2026-02-31"),
        ("since", "0001-01-01T00:00"),
        ("code", "x" * 51),
        ("number", "\0"),
        ("queue", "\ud800"),
        ("search", "x" * 200),
        ("error", "x" * 2000),
        ("exception", "x" * 300),
    ],
)
def test_a_bad_value_is_named(name: str, value: str) -> None:
    with pytest.raises(TaskValueError) as caught:
        TaskFilter.from_params({name: value})
    assert caught.value.field == name


@pytest.mark.parametrize("given", [{"since": "now"}, {"due": None}, {"stuck": 1}, {"code": 5}])
def test_a_value_of_another_kind_is_named(given: dict[str, Any]) -> None:
    with pytest.raises(TaskValueError):
        TaskFilter(**given)


def test_words_for_people() -> None:
    assert TaskFilter().words() == "all tasks"
    assert (
        TaskFilter(code="refund", exception="ConnectionError").words()
        == "failed, code refund, ConnectionError"
    )
    assert "since 2030-05-17" in TaskFilter(since=NOW, due="due").words()
    assert TaskFilter(since=NOW + timedelta(days=1)).words().startswith("failed, since 2030-05-18")
