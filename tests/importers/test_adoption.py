"""``adopttasks``: the rows of the forerunner come over, whenever it is interrupted."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from io import StringIO
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connections, transaction
from django.test import override_settings

from django_tasks import api
from django_tasks.importers import adoption
from django_tasks.models import Task
from django_tasks.store import forerunner
from django_tasks.values.status import Status
from tests.factories import in_utc
from tests.importers.old import MADE, WHEN, Old, numbers, tables, tasks
from tests.integration.conftest import url_of
from tests.integration.process import ROOT
from tests.store.test_parameters import HOSTILE
from tests.vendor import MYSQL_FAMILY, VENDOR, only_on
from tests.waiting import DEADLINE

BERLIN = ZoneInfo("Europe/Berlin")
TEXTS = ["", "a,b,c", '{"a": 1}', "null", "中文 ✓ \\ ' \"", "x" * 3000]
ASIDE = "t_task_forerunner"


def adopted(alias: str, *flags: str) -> str:
    """The output of the command."""
    out = StringIO()
    call_command("adopttasks", *(flags or ("--apply",)), database=alias, stdout=out)
    return out.getvalue()


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forerunner, "BATCH", 2)
    monkeypatch.setattr(adoption, "PROGRESS", 2)


# All goes well


def test_every_row_comes_over_with_its_id_its_text_and_its_times(old: Old) -> None:
    for number, text in enumerate([None, *TEXTS], start=1):
        old.add(str(number), id=10 * number, biz_ext=text, version=number)
    before, here = old.rows(), ZoneInfo(settings.TIME_ZONE)
    adopted(old.alias)
    for task, text in zip(tasks(old.alias), [None, *TEXTS], strict=True):
        number = int(task.biz_num)
        assert (task.id, task.biz_code, task.version) == (10 * number, "order", number)
        assert task.biz_ext == text
        assert in_utc(task.when) == WHEN.replace(tzinfo=here)
        assert in_utc(task.create_time) == MADE.replace(tzinfo=here)
        assert in_utc(task.update_time) == MADE.replace(tzinfo=here)
        assert (task.status, task.queue, task.priority) == (Status.PENDING, "default", 0)
        assert (task.attempts, task.schedule, task.claimed_by) == (0, None, None)
    assert old.rows(ASIDE) == before


def test_afterwards_migrate_goes_through_and_tasks_are_added_behind_the_highest_id(
    old: Old,
) -> None:
    old.add("1", id=7)
    old.add("2", id=4000)
    adopted(old.alias)
    call_command("migrate", "django_tasks", database=old.alias, verbosity=0)
    call_command("makemigrations", "django_tasks", check=True, dry_run=True, verbosity=0)
    added = api.add_task(Task(biz_code="order", biz_num="new", when=WHEN), using=old.alias)
    assert added.id > 4000
    assert api.cancel_task("order", "1", using=old.alias) == "cancelled"


def test_the_new_table_has_its_indexes_and_the_old_one_keeps_its_own(old: Old) -> None:
    adopted(old.alias)
    with connections[old.alias].cursor() as cursor:
        ours, theirs = (
            connections[old.alias].introspection.get_constraints(cursor, table)
            for table in ("t_task", ASIDE)
        )
    assert {"t_task_key", "t_task_claim"} <= ours.keys()
    kept = [(each["columns"], each["unique"]) for each in theirs.values()]
    assert (["biz_num", "biz_code"], True) in kept
    assert (["when"], False) in kept


def test_an_empty_table_is_set_aside_too(old: Old) -> None:
    assert "0 tasks came over" in adopted(old.alias)
    assert tasks(old.alias) == []


def test_a_taken_row_waits_again_and_is_named(old: Old) -> None:
    old.add("waits")
    old.add("was-taken", status=1)
    assert "order/was-taken" in adopted(old.alias, "--dry-run")
    said = adopted(old.alias)
    assert "1 of them taken" in said
    assert "order/waits" not in said.split("taken one")[1].split("\n")[0]
    assert {task.status for task in tasks(old.alias)} == {Status.PENDING}


def test_times_are_read_in_the_zone_that_is_said(old: Old) -> None:
    old.add()
    said = adopted(old.alias, "--apply", "--timezone", "Europe/Berlin")
    assert "2030-05-17 07:30:00+00:00" in said
    assert in_utc(tasks(old.alias)[0].when) == WHEN.replace(tzinfo=BERLIN)


def test_a_handler_gives_its_queue_and_priority(old: Old, handlers: Callable[..., None]) -> None:
    @api.task_handler("order", queue="mail", priority=3)
    def order(task: Any) -> None: ...

    handlers(order)
    old.add()
    old.add(biz_code="nobodys")
    assert "takes nobodys:" in adopted(old.alias)
    assert {(task.queue, task.priority) for task in tasks(old.alias)} == {
        ("mail", 3),
        ("default", 0),
    }


@pytest.mark.usefixtures("small_batches")
def test_many_rows_come_over_in_batches_and_the_output_says_how_far_it_is(old: Old) -> None:
    for number in range(5):
        old.add(str(number))
    assert "2 of 5 rows" in adopted(old.alias)
    assert numbers(old.alias) == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_come_over_as_they_are(old: Old, text: str) -> None:
    old.add(text, biz_code=text, biz_ext=text)
    adopted(old.alias)
    (task,) = tasks(old.alias)
    assert (task.biz_code, task.biz_num, task.biz_ext) == (text, text, text)


# It is refused


@pytest.mark.parametrize("flags", [(), ("--dry-run", "--apply")], ids=str)
def test_without_one_word_nothing_is_done_and_the_reader_is_reminded(
    old: Old, flags: tuple[str, ...]
) -> None:
    with pytest.raises(CommandError, match="stop all processes of the old component"):
        call_command("adopttasks", *flags, database=old.alias)
    assert tables(old.alias) == {"t_task"}


def test_a_dry_run_changes_nothing(old: Old) -> None:
    old.add()
    before = old.rows()
    assert "Nothing was changed" in adopted(old.alias, "--dry-run")
    assert tables(old.alias) == {"t_task"}
    assert old.rows() == before


BAD: dict[str, dict[str, Any]] = {
    "a blank before the number": {"biz_num": " 1"},
    "a blank behind the code": {"biz_code": "order "},
    "an empty number": {"biz_num": ""},
    "the number of schedules": {"biz_num": "@schedule"},
    "a status of somebody else": {"status": 7},
    "a long payload": {"biz_ext": "x" * 101},
    "a NUL": {"biz_ext": "a\0b"},
}


@pytest.mark.parametrize("fields", BAD.values(), ids=BAD)
@override_settings(DJANGO_TASKS={"PAYLOAD_LIMIT": 100})
def test_a_row_that_our_rules_refuse_stops_all_before_anything_is_changed(
    old: Old, fields: dict[str, Any]
) -> None:
    if VENDOR == "postgresql" and "\0" in str(fields.get("biz_ext")):
        return  # it has no such texts
    old.add("good")
    old.add(**fields)
    before = old.rows()
    for flag in ("--dry-run", "--apply"):
        with pytest.raises(CommandError, match=r"\(1\):\n.*\(id 2\): .*\n.*by SQL"):
            adopted(old.alias, flag)
    assert tables(old.alias) == {"t_task"}
    assert old.rows() == before


def test_where_there_is_nothing_to_adopt_one_sentence_says_so(fresh: str) -> None:
    for _ in range(2):
        with pytest.raises(CommandError, match=r"has no table of the forerunner's: [^\n]*$"):
            adopted(fresh)
        call_command("migrate", "django_tasks", database=fresh, verbosity=0)


def test_two_tables_of_the_forerunners_are_not_told_apart(old: Old) -> None:
    adopted(old.alias)
    call_command("migrate", "django_tasks", "zero", database=old.alias, verbosity=0)
    old.execute("CREATE TABLE t_task AS SELECT * FROM t_task_forerunner")
    with pytest.raises(CommandError, match="two tables"):
        adopted(old.alias)


@only_on(*MYSQL_FAMILY, because="elsewhere all tables know transactions")
def test_a_table_without_transactions_is_refused_with_the_cure(old: Old) -> None:
    old.execute("ALTER TABLE t_task ENGINE=MyISAM")
    for flag in ("--dry-run", "--apply"):
        with pytest.raises(CommandError, match="ALTER TABLE t_task ENGINE=InnoDB"):
            adopted(old.alias, flag)
    assert tables(old.alias) == {"t_task"}


def test_inside_a_transaction_it_does_not_run(old: Old) -> None:
    with (
        transaction.atomic(using=old.alias),
        pytest.raises(CommandError, match="inside a transaction"),
    ):
        adopted(old.alias)


@pytest.mark.parametrize(
    ("flags", "problem"),
    [(["--database", "nowhere"], "--database must be one of"), (["--timezone", "Mars"], "Mars")],
)
def test_a_bad_flag_is_named(old: Old, flags: list[str], problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        call_command("adopttasks", "--dry-run", *flags)


# It is interrupted


class Killed(BaseException):
    """The process is gone: nothing catches it."""


@contextmanager
def killed_at(alias: str, number: int) -> Iterator[None]:
    """End the process, as it were, in place of its statement of that number."""
    sent = 0

    def count(execute: Any, *args: Any) -> Any:
        nonlocal sent
        sent += 1
        if sent >= number:
            raise Killed
        return execute(*args)

    with connections[alias].execute_wrapper(count):
        try:
            yield
        finally:
            connections[alias].close()
            del connections[alias]


def outcome(old: Old) -> list[Any]:
    fields = ("id", "biz_code", "biz_num", "when", "biz_ext", "status", "version")
    return [
        list(Task._base_manager.using(old.alias).order_by("id").values_list(*fields)),
        old.rows(ASIDE),
        tables(old.alias),
    ]


@pytest.mark.usefixtures("small_batches")
def test_an_interruption_at_any_statement_is_mended_by_the_next_run(
    old: Old, monkeypatch: pytest.MonkeyPatch
) -> None:
    if VENDOR == "mysql":
        # Django's own migrations cannot be interrupted there: each statement commits by itself.
        monkeypatch.setattr(adoption, "call_command", unwatched)
    for number in range(5):
        old.add(str(number), biz_ext=f"text {number}", status=number % 2)
    before, expected, point, is_killed = old.rows(), None, 0, True
    while is_killed:
        point += 1
        is_killed = False
        try:
            with killed_at(old.alias, point):
                adopted(old.alias)
        except Killed:
            is_killed = True
            adopted(old.alias)
        expected = expected or outcome(old)
        assert outcome(old) == expected
        assert old.rows(ASIDE) == before
        begin_again(old)
    assert point > 15
    assert expected
    assert len(expected[0]) == 5


def unwatched(*args: Any, **options: Any) -> None:
    """A command whose statements are not counted."""
    connection = connections[options["database"]]
    watching, connection.execute_wrappers[:] = connection.execute_wrappers[:], []
    try:
        call_command(*args, **options)
    finally:
        connection.execute_wrappers[:] = watching


def begin_again(old: Old) -> None:
    """The forerunner's table as it was, and no other."""
    call_command("migrate", "django_tasks", "zero", database=old.alias, verbosity=0)
    rows = old.rows(ASIDE)
    for table in (ASIDE, "django_migrations"):
        old.execute(f"DROP TABLE {table}")
    old.make()
    for row_id, code, number, when, text, status, version, created, updated in rows:
        fields = {"id": row_id, "biz_code": code, "when": when, "biz_ext": text, "status": status}
        times = {"create_time": created, "update_time": updated}
        old.add(number, version=version, **fields, **times)


KILLED = """
import os, signal, sys
import django; django.setup()
from django.core.management import call_command
from django_tasks.store import forerunner
forerunner.BATCH, copy, left = 2, forerunner.copy, int(sys.argv[1])
def copy_or_die(*args, **options):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return copy(*args, **options)
forerunner.copy = copy_or_die
call_command("adopttasks", "--apply")
"""


@pytest.mark.parametrize("batch", [1, 2])
def test_a_killed_process_has_lost_nothing_and_the_next_one_goes_on(old: Old, batch: int) -> None:
    for number in range(5):
        old.add(str(number))
    connections[old.alias].close()
    environment = {"DATABASE_URL": url_of(old.alias)}
    environment["DJANGO_SETTINGS_MODULE"] = "testproject.settings"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(batch)],
        cwd=ROOT,
        env={**os.environ, **environment, "PYTHONPATH": str(ROOT)},
        timeout=DEADLINE,
    )
    assert done.returncode == -9
    assert len(tasks(old.alias)) == 2 * (batch - 1)
    adopted(old.alias)
    assert numbers(old.alias) == ["0", "1", "2", "3", "4"]


@pytest.mark.usefixtures("small_batches")
def test_migrate_reminds_of_rows_that_an_interrupted_run_has_left(old: Old) -> None:
    def said() -> str:
        out = StringIO()
        call_command("migrate", "django_tasks", database=old.alias, stdout=out)
        return out.getvalue()

    for number in range(5):
        old.add(str(number))
    interrupted(old, copies=1)
    assert "t_task_forerunner in database fresh has 3 tasks that did not come over" in said()
    adopted(old.alias)
    assert "did not come over" not in said()


@pytest.mark.usefixtures("small_batches")
def test_what_has_run_between_two_runs_does_not_come_back(old: Old) -> None:
    for number in range(5):
        old.add(str(number))
    interrupted(old, copies=1)
    assert numbers(old.alias) == ["3", "4"]
    Task._base_manager.using(old.alias).all()._raw_delete(old.alias)
    adopted(old.alias)
    assert numbers(old.alias) == ["0", "1", "2"]
    assert api.add_task(Task(biz_code="x", biz_num="x", when=WHEN), using=old.alias).id > 5


def test_what_another_run_has_copied_meanwhile_does_not_come_twice(
    old: Old, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        old.add(str(number))
    copy, again = forerunner.copy, []

    def copied_by_both(*arguments: Any, using: str) -> Any:
        first = copy(*arguments, using=using)
        Task._base_manager.using(using).filter(biz_num="1")._raw_delete(using)  # it has run
        again.append(copy(*arguments, using=using))
        return first

    monkeypatch.setattr(forerunner, "copy", copied_by_both)
    assert "3 tasks came over" in adopted(old.alias)
    assert again == [(0, 0)]
    assert [task.biz_num for task in tasks(old.alias)] == ["0", "2"]


@pytest.mark.usefixtures("small_batches")
def test_a_task_that_was_added_meanwhile_stays_and_one_whose_id_is_taken_gets_another(
    old: Old,
) -> None:
    for number in range(3):
        old.add(str(number), biz_ext="old")
    interrupted(old, copies=0)
    for key, text in (("0", "newer"), ("other", "other")):
        task = Task(biz_code="order", biz_num=key, when=WHEN, biz_ext=text)
        api.add_task(task, using=old.alias)
    assert "1 were left there" in adopted(old.alias)
    there = {task.biz_num: task.biz_ext for task in tasks(old.alias)}
    assert there == {"0": "newer", "other": "other", "1": "old", "2": "old"}


def interrupted(old: Old, *, copies: int) -> None:
    """A run that ends after so many batches."""
    left, copy = copies, forerunner.copy

    def copy_or_end(*args: Any, **options: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed
        return copy(*args, **options)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(forerunner, "copy", copy_or_end)
        with pytest.raises(Killed):
            adopted(old.alias)


def test_a_second_run_finds_nothing_left(old: Old) -> None:
    old.add()
    adopted(old.alias)
    assert "0 rows to bring over" in adopted(old.alias, "--dry-run")
    assert "0 tasks came over" in adopted(old.alias)
    assert numbers(old.alias) == ["1"]


def test_a_time_of_the_hour_that_comes_twice_is_the_first_of_both(old: Old) -> None:
    twice = datetime(2030, 10, 27, 2, 30)
    old.add(when=twice)
    adopted(old.alias, "--apply", "--timezone", "Europe/Berlin")
    (task,) = tasks(old.alias)
    assert in_utc(task.when) == datetime(2030, 10, 27, 0, 30, tzinfo=timezone.utc)
