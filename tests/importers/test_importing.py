"""``importtasks``: what other schedulers have stored comes over, or is named with a reason."""

import json
import sqlite3
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_tasks.importers import importing
from django_tasks.management.commands import importtasks
from django_tasks.models import Task
from django_tasks.schedules import parse
from django_tasks.store import clock
from django_tasks.timezones import for_django
from django_tasks.values.options import TaskOptions
from django_tasks.values.status import Status
from tests.factories import in_utc
from tests.importers import jobs
from tests.importers.conftest import FRESH
from tests.importers.old import tasks
from tests.importers.stores import installed, jobs_in_a_file, need, scheduler

UTC = timezone.utc
SOON = datetime(2031, 3, 4, 5, 6, 7, tzinfo=UTC)


def imported(*arguments: str, **options: Any) -> str:
    """The output of the command."""
    out = StringIO()
    call_command("importtasks", *arguments, stdout=out, **options)
    return out.getvalue()


def reason(said: str, name: str) -> str:
    """The reason why a job cannot come over."""
    (line,) = (line for line in said.splitlines() if line.startswith(f"Cannot come over: {name}:"))
    return line.split(": ", 2)[2]


# APScheduler's own store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.sqlite"


@pytest.fixture
def ours(fresh: str) -> str:
    """A database with our tables and nothing in them."""
    call_command("migrate", "django_tasks", database=fresh, verbosity=0)
    return fresh


def from_file(path: Path, *more: str) -> str:
    url = f"--url=sqlite:///{path}"
    return imported("apscheduler", url, "--trust-pickles", "--database", FRESH, *more)


def the_task(biz_num: str) -> Task:
    (task,) = (task for task in tasks(FRESH) if task.biz_num == biz_num)
    return task


def test_jobs_come_over_with_arguments_times_and_policies(ours: str, path: Path) -> None:
    with jobs_in_a_file(path) as apscheduler:
        add = apscheduler.add_job
        add(jobs.push, "date", id="once", run_date=SOON, misfire_grace_time=None)
        add(jobs.push, "date", id="graced", run_date=SOON, misfire_grace_time=90)
        add(
            *(jobs.push, "interval", ["a", 1], {"b": [None, 2.5]}),
            id="often",
            minutes=90,
            misfire_grace_time=30,
            coalesce=False,
        )
        add(jobs.pull, "cron", id="daily", hour=9, timezone="Europe/Berlin", max_instances=3)
        due = {job.id: job.next_run_time for job in apscheduler.get_jobs()}
    said = from_file(path)
    assert "4 added, 0 were there already, 0 cannot come over." in said
    assert "runs once at a time, not 3 times" in said
    assert {task.biz_num: in_utc(task.when) for task in tasks(FRESH)} == due
    once, graced, often, daily = map(the_task, ("once", "graced", "often", "daily"))
    assert (once.biz_code, once.schedule) == ("push", None)
    assert once.biz_ext == {"args": [], "kwargs": {}}
    assert (graced.schedule, graced.options) == (None, TaskOptions(misfire_grace_time=90))
    start = due["often"].isoformat()
    assert often.schedule == f"every 1h30m from {start}"
    assert often.options == TaskOptions(misfire_grace_time=30, coalesce=False)
    assert often.biz_ext == {"args": ["a", 1], "kwargs": {"b": [None, 2.5]}}
    assert (daily.biz_code, daily.schedule) == ("pull", "cron hour=9 minute=0 Europe/Berlin")
    assert daily.options == TaskOptions(misfire_grace_time=1)


def test_a_second_run_changes_nothing(ours: str, path: Path) -> None:
    with jobs_in_a_file(path, "others") as apscheduler:
        apscheduler.add_job(jobs.push, "interval", id="often", hours=1)
        apscheduler.add_job(jobs.pull, "interval", id="seldom", hours=9)
    from_file(path, "--table", "others")
    before = list(Task._base_manager.using(ours).order_by("id").values())
    said = from_file(path, "--table", "others")
    assert "Is there already: push/often." in said
    assert "0 added, 2 were there already, 0 cannot come over." in said
    assert list(Task._base_manager.using(ours).order_by("id").values()) == before


def test_a_dry_run_shows_all_and_adds_nothing(ours: str, path: Path) -> None:
    with jobs_in_a_file(path) as apscheduler:
        apscheduler.add_job(jobs.push, "date", id="once", run_date=SOON, args=["a"])
    said = from_file(path, "--dry-run")
    assert (
        "once (tests.importers.jobs:push) → push/once: once | grace 1s, at 2031-03-04 05:" in said
    )
    assert '{"args": ["a"], "kwargs": {}}' in said
    assert "1 would be added" in said
    assert "No handler of this project takes push yet." in said
    assert tasks(FRESH) == []


def test_jobs_that_cannot_come_over_are_named_with_the_reason(ours: str, path: Path) -> None:
    with jobs_in_a_file(path) as apscheduler:
        add = apscheduler.add_job
        add(jobs.push, "interval", id="opaque", hours=1, args=[jobs.Opaque()])
        add(jobs.push, "interval", id="tuples", hours=1, args=[(1, 2)])
        add(jobs.Shop().close, "interval", id="method", hours=1)
        add(jobs.push, "interval", id="x" * 101, hours=1)
        add(jobs.push, "interval", id=" blank", hours=1)
    said = from_file(path)
    assert "0 added, 0 were there already, 5 cannot come over." in said
    assert "not JSON" in reason(said, "opaque")
    assert "JSON would change its arguments" in reason(said, "tuples")
    assert "not JSON" in reason(said, "method")
    assert "101 characters long" in reason(said, "x" * 101)
    assert "blanks" in reason(said, " blank")


def test_a_paused_job_comes_over_paused(ours: str, path: Path) -> None:
    with jobs_in_a_file(path) as apscheduler:
        add = apscheduler.add_job
        add(jobs.push, "interval", id="often", hours=1, next_run_time=None)
        add(jobs.push, "date", id="once", run_date=SOON, next_run_time=None)
    assert "; paused" in from_file(path, "--dry-run")
    assert "2 added" in from_file(path)
    assert {task.status for task in tasks(FRESH)} == {Status.PAUSED}
    assert in_utc(the_task("once").when) == SOON
    assert the_task("often").when > for_django(clock.now(FRESH))
    assert "2 were there already" in from_file(path)


def test_without_trust_no_pickle_is_read(ours: str, path: Path) -> None:
    with pytest.raises(CommandError, match=r"runs the code .*--trust-pickles"):
        imported("apscheduler", f"--url=sqlite:///{path}", "--dry-run", database=ours)


def test_a_pickle_that_cannot_be_read_leaves_the_others_alone(ours: str, path: Path) -> None:
    with jobs_in_a_file(path) as apscheduler:
        apscheduler.add_job(jobs.push, "interval", id="good", hours=1)
        apscheduler.add_job(jobs.push, "interval", id="bad", hours=1)

    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE apscheduler_jobs SET job_state = 'x' WHERE id = 'bad'")
    connection.close()
    said = from_file(path)
    assert "its pickle cannot be read" in reason(said, "bad")
    assert [task.biz_num for task in tasks(FRESH)] == ["good"]


def test_two_functions_of_one_name_need_a_code_of_their_own(ours: str, path: Path) -> None:
    with jobs_in_a_file(path) as apscheduler:
        apscheduler.add_job(jobs.push, "interval", id="one", hours=1)
        apscheduler.add_job(jobs.Shop.push, "interval", id="two", hours=1)
    said = from_file(path)
    assert "would both be 'push'" in reason(said, "one")
    assert "would both be 'push'" in reason(said, "two")
    said = from_file(path, "--code", "tests.importers.jobs:Shop.push=shop_push", "--code", "x:y=z")
    assert "--code x:y: no job that can come over calls it." in said
    codes = {(task.biz_code, task.biz_num) for task in tasks(FRESH)}
    assert codes == {("push", "one"), ("shop_push", "two")}


def test_many_come_over_in_batches_and_the_output_says_how_far_it_is(
    ours: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "BATCH", 2)
    monkeypatch.setattr(importtasks, "PROGRESS", 4)
    with jobs_in_a_file(path) as apscheduler:
        for number in range(5):
            apscheduler.add_job(jobs.push, "interval", id=str(number), hours=1)
    said = from_file(path)
    assert "4 of 5 added" in said
    assert "5 added, 0 were" in said


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["apscheduler"], "--url goes with the store apscheduler"),
        (["celery-beat", "--url=sqlite:///x"], "--url goes with the store apscheduler"),
        (["celery-beat"], "django_celery_beat is not in INSTALLED_APPS"),
        (["celery-beat", "--code", "x"], "--code must be FUNCTION=CODE, not 'x'"),
        (["celery-beat", "--database", "nowhere"], "--database must be one of"),
    ],
)
def test_a_bad_argument_is_one_sentence(ours: str, arguments: list[str], problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        imported(*arguments)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("sqlite:////nowhere/jobs.sqlite", "there is no file /nowhere/jobs.sqlite"),
        ("nonsense", "Could not parse"),
        ("nosuch://x", "plugin"),
        ("mysql://u:secret@h:port/db", "it is no URL: its port is no number"),
        ("mysql://u:secret", "it is no URL"),
        ("mysql://u:secret@[::1/db", "it is no URL"),
        ("postgresql://u:very@secret@127.0.0.1:1/db", "has an @, : or / that is not quoted"),
        ("sqlite://u:secret@h/x", "Invalid SQLite URL"),
    ],
)
def test_a_store_that_cannot_be_opened_is_one_sentence(ours: str, url: str, problem: str) -> None:
    need("sqlalchemy")
    with pytest.raises(CommandError, match=problem) as caught:
        imported("apscheduler", "--trust-pickles", "--url", url, database=ours)
    assert "secret" not in str(caught.value)


def test_a_table_that_is_not_there_is_one_sentence(ours: str, path: Path) -> None:
    with jobs_in_a_file(path):
        pass
    with pytest.raises(CommandError, match="no such table: nowhere"):
        from_file(path, "--table", "nowhere")


def test_tables_of_ours_that_are_not_there_are_one_sentence(fresh: str, path: Path) -> None:
    with jobs_in_a_file(path) as apscheduler:
        apscheduler.add_job(jobs.push, "interval", id="often", hours=1)
    with pytest.raises(CommandError, match=r"\(t_task, .*run manage.py migrate --database fresh$"):
        from_file(path)


# django-apscheduler


def test_jobs_of_django_apscheduler_come_over(fresh: str) -> None:
    with installed("django_apscheduler", "apscheduler"):
        from django_apscheduler.jobstores import DjangoJobStore

        with scheduler(DjangoJobStore()) as apscheduler:
            apscheduler.add_job(jobs.push, "interval", ["a"], id="often", hours=1)
            apscheduler.add_job(jobs.pull, "date", id="once", run_date=SOON)
        for source in ([], ["--from-database", fresh]):
            said = imported("django-apscheduler", "--trust-pickles", "--database", fresh, *source)
        assert "2 were there already" in said
        with pytest.raises(CommandError, match="--trust-pickles"):
            imported("django-apscheduler", database=fresh)
        with pytest.raises(CommandError, match="--from-database nowhere: there is only"):
            imported(
                "django-apscheduler",
                *("--trust-pickles", "--from-database", "nowhere"),
                database=fresh,
            )
        assert {task.biz_code for task in tasks(fresh)} == {"push", "pull"}
        assert the_task("often").biz_ext == {"args": ["a"], "kwargs": {}}


# django-celery-beat


@pytest.fixture
def beat(fresh: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The models of django-celery-beat; our clock stands still."""
    monkeypatch.setattr(clock, "now", lambda using: NOW)
    with installed("django_celery_beat", "celery"):
        from django_celery_beat import models

        yield models


NOW = datetime(2030, 5, 17, 12, 30, 15, tzinfo=UTC)


def from_beat(*more: str) -> str:
    return imported("celery-beat", "--database", FRESH, *more)


def periodic(models: Any, name: str, **fields: Any) -> None:
    """A periodic task, each hour unless it is said otherwise."""
    schedules = {"interval", "crontab", "clocked", "solar"}
    if not fields.keys() & schedules:
        fields["interval"] = models.IntervalSchedule.objects.create(every=1, period="hours")
    values = {"task": "shop.tasks.push"} | {each: stored(fields[each]) for each in fields}
    models.PeriodicTask.objects.create(name=name, **values)


def stored(value: Any) -> Any:
    """A time as models hold it, with USE_TZ or without."""
    return for_django(value) if isinstance(value, datetime) else value


def a_crontab(models: Any, **fields: Any) -> Any:
    return models.CrontabSchedule.objects.create(**({"timezone": "Europe/Berlin"} | fields))


def test_periodic_tasks_come_over_with_arguments_times_and_policies(beat: Any) -> None:
    later = NOW + timedelta(days=9)
    periodic(
        *(beat, "hourly"),
        args='["a", 1]',
        kwargs='{"b": null}',
        queue="mail",
        priority=7,
        expire_seconds=90,
        last_run_at=NOW - timedelta(minutes=20),
    )
    periodic(beat, "ends", expires=later)
    periodic(beat, "late", last_run_at=NOW - timedelta(hours=3))
    periodic(beat, "begins", start_time=later)
    periodic(beat, "next", one_off=True)
    clocked = beat.ClockedSchedule.objects.create(clocked_time=stored(later))
    periodic(beat, "clocked", clocked=clocked, one_off=True)
    daily = a_crontab(beat, minute="30", hour="9", day_of_week="mon-fri")
    periodic(beat, "daily", crontab=daily)
    said = from_beat()
    assert "7 added, 0 were there already, 0 cannot come over." in said
    hourly = the_task("hourly")
    assert (hourly.biz_code, hourly.queue, hourly.priority) == ("push", "mail", 7)
    assert hourly.biz_ext == {"args": ["a", 1], "kwargs": {"b": None}}
    assert hourly.schedule == "every 1h from 2030-05-17T12:10:15+00:00"
    assert hourly.options == TaskOptions(misfire_grace_time=90)
    assert the_task("ends").schedule == "every 1h until 2030-05-26T12:30:15+00:00"
    assert in_utc(hourly.when) == NOW + timedelta(minutes=40)
    assert in_utc(the_task("late").when) == NOW - timedelta(hours=2)
    assert in_utc(the_task("begins").when) == later
    assert (in_utc(the_task("next").when), the_task("next").schedule) == (
        NOW + timedelta(hours=1),
        None,
    )
    assert (in_utc(the_task("clocked").when), the_task("clocked").schedule) == (later, None)
    assert (
        the_task("daily").schedule
        == "cron day_of_week=mon,tue,wed,thu,fri hour=9 minute=30 Europe/Berlin"
    )
    assert "Is there already: push/hourly." in from_beat()


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"minute": "*/15"}, "cron hour=* minute=*/15 UTC"),
        ({"minute": "0", "hour": "22-2"}, "cron hour=0,1,2,22,23 minute=0 UTC"),
        (
            {"minute": "0", "hour": "*/4", "month_of_year": "3-5"},
            "cron month=3,4,5 hour=*/4 minute=0 UTC",
        ),
        (
            {"minute": "5", "hour": "1", "day_of_week": "0,6"},
            "cron day_of_week=sun,sat hour=1 minute=5 UTC",
        ),
        (
            {"minute": "*/60", "hour": "9", "day_of_month": "*/31", "month_of_year": "*/12"},
            "cron month=1 day=1 hour=9 minute=0 UTC",
        ),
    ],
    ids=str,
)
def test_a_crontab_keeps_its_meaning(beat: Any, fields: dict[str, str], text: str) -> None:
    periodic(beat, "one", crontab=a_crontab(beat, timezone="UTC", **fields))
    from_beat()
    assert the_task("one").schedule == text


def test_days_of_month_and_of_week_both_match_as_in_celery(beat: Any) -> None:
    fields = {"minute": "0", "hour": "9", "day_of_month": "1-7", "day_of_week": "1"}
    periodic(beat, "first", crontab=a_crontab(beat, timezone="UTC", **fields))
    from_beat()
    schedule = parse(str(the_task("first").schedule))
    first = schedule.next_after(None, NOW)
    assert first == datetime(2030, 6, 3, 9, tzinfo=UTC)  # a Monday
    assert schedule.next_after(first, first) == datetime(2030, 7, 1, 9, tzinfo=UTC)


def test_periodic_tasks_that_cannot_come_over_are_named_with_the_reason(beat: Any) -> None:
    sun = beat.SolarSchedule.objects.create(event="sunset", latitude=1, longitude=2)
    periodic(beat, "sunset", solar=sun)
    periodic(beat, "gone", expires=NOW - timedelta(days=1))
    periodic(beat, "own", task="celery.backend_cleanup")
    periodic(beat, "x" * 120)
    said = from_beat()
    assert "0 added" in said
    assert "sun" in reason(said, "sunset")
    assert "expired" in reason(said, "gone")
    assert "Celery itself" in reason(said, "own")
    assert "120 characters long" in reason(said, "x" * 120)


def test_one_that_is_not_enabled_comes_over_paused(beat: Any) -> None:
    periodic(beat, "off", enabled=False)
    assert "; paused" in from_beat()
    assert the_task("off").status == Status.PAUSED


def test_broken_arguments_are_named(beat: Any) -> None:
    periodic(beat, "broken", args="[1", kwargs="{}")
    periodic(beat, "text", args=json.dumps("abc"))
    said = from_beat("--dry-run")
    assert "not JSON" in reason(said, "broken")
    assert "no list" in reason(said, "text")


def test_headers_and_the_like_are_noted(beat: Any) -> None:
    periodic(beat, "routed", headers='{"x": 1}', routing_key="a.b")
    assert "has no routing key, headers here" in from_beat("--dry-run")


def test_a_code_that_the_project_refuses_is_one_sentence(beat: Any, settings: Any) -> None:
    settings.DJANGO_TASKS = {"STRICT_CODES": "raise"}
    periodic(beat, "hourly")
    with pytest.raises(CommandError, match="has no handler in this project"):
        from_beat()
    assert not Task.objects.using(FRESH).exists()
