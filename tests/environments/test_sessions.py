"""Sessions as servers and projects set them up: the life of tasks is the same on each."""

from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client

from benchmarks.pages.addresses import PAGES
from django_tasks.api import (
    CancelResult,
    add_task,
    add_tasks,
    cancel_task,
    get_runs,
    lock,
    move_tasks,
    pause_task,
    pause_tasks,
    requeue_task,
    resume_task,
    resume_tasks,
    task_handler,
    update_task,
)
from django_tasks.models import Task, WorkerRow
from tests.doors.conftest import logged_in
from tests.environments.conftest import another_way
from tests.environments.workers import Start
from tests.vendor import MARIADB, MYSQL_FAMILY, POSTGRESQL, SQLITE, only_on
from tests.waiting import DEADLINE, eventually
from tests.worker.parts import added, ago, ahead, handler

if TYPE_CHECKING:
    from django.db.models import QuerySet

pytestmark = pytest.mark.django_db(transaction=True)

EVERYWHERE = (SQLITE, *MYSQL_FAMILY, POSTGRESQL)
# Of two sessions that mean different things by a quote, a backslash or a bar, one is wrong here.
HOSTILE = {"path": r"C:\new\"x\"", "said": "it's 100 %s || '' `when` ?", "名": "库存不足 🐘"}


class Habit(NamedTuple):
    """Settings that a project writes into DATABASES, and the databases that know them."""

    name: str
    databases: tuple[str, ...]
    settings: dict[str, Any]


def sql_mode(*modes: str) -> str:
    return f"SET SESSION sql_mode = CONCAT_WS(',', @@SESSION.sql_mode, '{','.join(modes)}')"


def at_first(name: str, statement: str, *databases: str) -> Habit:
    """A session that begins with a statement."""
    return Habit(name, databases or MYSQL_FAMILY, {"OPTIONS": {"init_command": statement}})


def option(name: str, text: str) -> Habit:
    """PostgreSQL's: a setting of its session."""
    return Habit(name, (POSTGRESQL,), {"OPTIONS": {"options": text}})


HABITS = [
    at_first("ANSI_QUOTES", sql_mode("ANSI_QUOTES")),
    at_first("NO_BACKSLASH_ESCAPES", sql_mode("NO_BACKSLASH_ESCAPES")),
    at_first("ANSI", sql_mode("ANSI")),
    at_first("TRADITIONAL", "SET SESSION sql_mode = 'TRADITIONAL'"),
    at_first("not strict", "SET SESSION sql_mode = ''"),
    at_first("ORACLE", "SET SESSION sql_mode = 'ORACLE'", MARIADB),
    at_first("SIMULTANEOUS_ASSIGNMENT", sql_mode("SIMULTANEOUS_ASSIGNMENT"), MARIADB),
    at_first("autocommit=0", "SET SESSION autocommit = 0"),
    at_first("a zone of the session", "SET SESSION time_zone = '+05:30'"),
    at_first("another collation", "SET NAMES utf8mb4 COLLATE utf8mb4_unicode_520_ci"),
    at_first("safe updates", "SET SESSION sql_safe_updates = 1"),
    *(
        Habit(level, MYSQL_FAMILY, {"OPTIONS": {"isolation_level": level}})
        for level in ("read uncommitted", "repeatable read", "serializable")
    ),
    option("old strings", "-c standard_conforming_strings=off -c backslash_quote=on"),
    option("intervals", "-c IntervalStyle=iso_8601 -c TimeZone=Asia/Kolkata"),
    option("Repeatable Read", r"-c default_transaction_isolation=repeatable\ read"),
    option("Serializable", "-c default_transaction_isolation=serializable"),
    Habit("TIME_ZONE", (SQLITE, *MYSQL_FAMILY), {"TIME_ZONE": "America/New_York"}),
    Habit("kept and tested", EVERYWHERE, {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True}),
]


@pytest.fixture(
    params=[
        pytest.param(each, id=each.name, marks=only_on(*each.databases, because="it is theirs"))
        for each in HABITS
    ]
)
def accustomed(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[None]:
    """Connections of every thread with the habit."""
    habit: Habit = request.param
    usual = connection.settings_dict
    options = {**usual["OPTIONS"], **habit.settings.get("OPTIONS", {})}
    with another_way({**usual, **habit.settings, "OPTIONS": options}):
        yield


# How often tasks of these codes run until all are gone.
ENDS = {"order": 5, "shaky": 2, "effect": 1, "limited": 1, "crowd": 5, "alone": 1}


class Life:
    """Handlers of many kinds, and the tasks that their runs have seen."""

    def __init__(self, register: Any) -> None:
        self.seen: list[tuple[str, Any]] = []
        self._lock = Lock()
        register(
            handler(self.note, "order", history="all"),
            handler(self.fail_once, "shaky", max_attempts=2, backoff=0),
            handler(self.fail, "poor", max_attempts=1),
            handler(self.come_again, "again"),
            handler(self.note, "daily", schedule="every 1d"),
            handler(self.write, "effect", atomic=True),
            handler(self.note, "limited", max_running=1, rate_limit="100/s"),
            task_handler("crowd", batch=5)(self.note_all),
            handler(self.alone, "alone"),
        )

    def note(self, task: Any) -> None:
        with self._lock:
            self.seen.append((str(task), task.biz_ext))

    def note_all(self, tasks: Any) -> None:
        for task in tasks:
            self.note(task)

    def fail_once(self, task: Any) -> None:
        self.note(task)
        if task.attempt == 1:
            self.fail(task)

    def fail(self, task: Any) -> None:
        raise ValueError(HOSTILE["path"], HOSTILE["名"])

    def come_again(self, task: Any) -> timedelta:
        self.note(task)
        task.save(HOSTILE)
        return timedelta(days=1)

    def write(self, task: Any) -> None:
        self.note(task)
        Group.objects.create(name=str(task))

    def alone(self, task: Any) -> None:
        with lock("report", lease=30) as held:
            held.check()
            self.note(task)

    def payloads(self, biz_code: str) -> list[Any]:
        """Those of its runs, as they came."""
        return [payload for key, payload in self.seen if key.startswith(f"{biz_code}/")]


def prepare() -> None:
    """Add tasks and change them in many ways, before there is a worker."""
    for code in ("shaky", "poor", "again", "effect", "limited", "alone"):
        added("1", code, biz_ext=HOSTILE)
    add_tasks(
        Task(biz_code="crowd", biz_num=str(number), when=ago(), biz_ext=HOSTILE)
        for number in range(5)
    )
    with transaction.atomic():
        added("twice", "order", biz_ext="the first")
        added("twice", "order", biz_ext=HOSTILE)
    for payload in ("the first", HOSTILE):
        task = Task(biz_code="order", biz_num="debounced", biz_ext=payload)
        add_task(task, on_conflict="debounce", wait=0.1, at_most=0.2)
    added("kept", "order", biz_ext=HOSTILE)
    add_task("order", "kept", biz_ext="the second", on_conflict="keep")
    added("cancelled", "order")
    assert cancel_task("order", "cancelled") is CancelResult.CANCELLED
    added("paused", "order", biz_ext=HOSTILE)
    assert pause_task("order", "paused")
    added("later", "order", when=ahead())
    assert update_task("order", "later", biz_ext=HOSTILE, name="it's later", priority=3)
    assert pause_tasks(biz_code="limited", by="them")


def go_on() -> None:
    """Have run what could not yet."""
    assert resume_task("order", "paused")
    assert resume_tasks(biz_code="limited")
    assert move_tasks(timedelta(0), biz_code="order", biz_num="later") == 1
    assert requeue_task("poor", "1")


def rows(*codes: str) -> "QuerySet[Task]":
    return Task.objects.filter(biz_code__in=codes)


def failures() -> list[str]:
    return [run.outcome for run in get_runs("poor", "1")]


def test_tasks_live_on_it_as_everywhere(
    accustomed: None, start_worker: Start, handlers: Any
) -> None:
    life = Life(handlers)
    prepare()
    worker = start_worker(lease=5)
    eventually(lambda: failures() == ["failed"], "one has failed")
    go_on()
    eventually(lambda: failures() == ["failed"] * 2, "it has failed again")
    eventually(lambda: not rows(*ENDS), "those that end are done")
    eventually(lambda: [row.runs for row in rows("again")] == [1], "it waits for its next time")
    eventually(lambda: rows("daily"), "the row of the schedule is there")
    see_them(logged_in(User.objects.create_superuser("boss")))
    call_command("taskstatus", stdout=StringIO())
    call_command("check", databases=["default"], stdout=StringIO(), stderr=StringIO())
    worker.stop()
    assert worker.join(DEADLINE)

    for code, count in (ENDS | {"again": 1}).items():
        assert life.payloads(code) == [HOSTILE] * count, code
    assert rows("again").get().biz_ext == HOSTILE
    assert repr((HOSTILE["path"], HOSTILE["名"])) in rows("poor").get().last_error
    assert [run.outcome for run in get_runs("order", "later")] == ["done"]
    assert Group.objects.get().name == "effect/1"
    assert not WorkerRow.objects.exists()


# One of each kind: what they show is looked at elsewhere.
PAGES_OF_ALL = {page.name: page for page in PAGES if not page.place and "{" not in page.query}


def see_them(client: Client) -> None:
    """Open the admin's pages."""
    for page in PAGES_OF_ALL.values():
        response = client.get(page.url({}))
        assert response.status_code == 200, page.title
