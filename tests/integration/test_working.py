"""Workers at work while clients, and other workers, do what they do."""

import os
import random
from datetime import datetime, timedelta, timezone
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connections
from django.test import override_settings
from django.utils import timezone as django_timezone

from django_tasks.client.adding import add_task, add_tasks
from django_tasks.client.control import cancel_task, pause_task, resume_task
from django_tasks.client.queries import get_task
from django_tasks.models import Task
from django_tasks.values.status import Status
from tests.integration.conftest import Start, url_of
from tests.integration.process import Journal
from tests.integration.tasks import add, count, needs_a_server, payload_of, row, rows, workers
from tests.proxy import Proxy
from tests.waiting import DEADLINE, eventually, never


def test_two_workers_run_each_of_5000_tasks_exactly_once(start: Start, journal: Journal) -> None:
    running = [start() for _ in range(2)]
    # Both are up before anything is due: one alone needs a tenth of a second for all of it.
    eventually(lambda: workers() == 2, "both have joined", log=running[0].log)
    add("run", *range(5000), seconds=1.0)
    eventually(lambda: count() == 0, "all are done", deadline=60)
    for worker in running:
        assert worker.stop() == 0, worker.log()
    keys = journal.keys("end")
    assert len(keys) == 5000
    assert len(set(keys)) == 5000
    assert {line["attempt"] for line in journal.lines("end")} == {1}
    assert len({line["pid"] for line in journal.lines("end")}) == 2
    assert workers() == 0
    for worker in running:
        assert "lost" not in worker.log()


def test_a_task_added_during_its_run_runs_again_and_never_twice_at_once(
    start: Start, journal: Journal, gate: Path
) -> None:
    add("gated", 1, biz_ext={"gate": str(gate), "run": "first"})
    running = [start() for _ in range(2)]
    journal.wait("start", "gated/1")
    add("gated", 1, biz_ext={"gate": str(gate), "run": "second"})
    never(lambda: len(journal.lines("start")) > 1, "a second run beside the first", seconds=0.5)
    gate.touch()
    journal.wait("end", "gated/1", times=2)
    eventually(lambda: count() == 0, "it is done")
    assert [line["payload"]["run"] for line in journal.lines("end")] == ["first", "second"]
    assert journal.overlaps() == []
    for worker in running:
        assert worker.stop() == 0


def test_cancels_and_pauses_during_a_run_are_heard_and_kept(
    start: Start, journal: Journal, gate: Path
) -> None:
    add("until", 1)
    add("again", "cancelled", biz_ext={"gate": str(gate), "times": 9})
    add("again", "paused", biz_ext={"gate": str(gate), "times": 2})
    worker = start()
    journal.wait("start", times=3)
    assert cancel_task("until", "1") == "cancelling"
    assert cancel_task("again", "cancelled") == "cancelling"
    assert pause_task("again", "paused")
    journal.wait("end", "until/1")
    gate.touch()
    eventually(lambda: rows() == {"again/paused": Status.PAUSED}, "what is left", log=worker.log)
    assert payload_of("again/paused")["times"] == 1
    add("run", 1)
    journal.wait("end", "run/1")
    assert len(journal.lines("start", "again/paused")) == 1
    assert len(journal.lines("start", "again/cancelled")) == 1
    assert resume_task("again", "paused")
    journal.wait("end", "again/paused", times=2)
    assert worker.stop() == 0
    assert count() == 0


def test_clients_that_add_cancel_and_pause_at_random_lose_nothing(
    start: Start, journal: Journal
) -> None:
    """After the last change: what was added last has run, what was cancelled is gone."""
    running = [start("--threads", "4") for _ in range(2)]
    eventually(lambda: workers() == 2, "both have joined")
    chance = random.Random(7)
    last: dict[str, Any] = {}
    for turn in range(400):
        number = str(chance.randrange(12))
        action = chance.choice(["add", "add", "add", "cancel", "pause"])
        if action == "add":
            when = datetime.now(timezone.utc)
            add_task(Task(biz_code="slow", biz_num=number, when=when, biz_ext={"turn": turn}))
            resume_task("slow", number)
            last[number] = turn
        elif action == "cancel":
            cancel_task("slow", number)
            last.pop(number, None)
        else:
            pause_task("slow", number)
            resume_task("slow", number)
    eventually(lambda: count() == 0, "everything has come to its end", log=running[0].log)
    for worker in running:
        assert worker.stop() == 0
        assert "was lost" not in worker.log()
    ran = {(line["key"], line["payload"]["turn"]) for line in journal.lines("end")}
    assert {(f"slow/{number}", turn) for number, turn in last.items()} <= ran
    assert journal.overlaps() == []


def test_effects_in_the_same_database_happen_exactly_once(start: Start, journal: Journal) -> None:
    add("effect", *range(100))
    running = [start("--until-empty", "--threads", "2") for _ in range(2)]
    for worker in running:
        assert worker.ended() == 0, worker.log()
    assert count() == 0
    assert Group.objects.filter(name__startswith="effect ").count() == 100


def test_a_task_that_always_fails_is_kept_with_its_error(start: Start, journal: Journal) -> None:
    add("fail", 1)
    add("run", 1)
    assert start("--until-empty").ended() == 0
    assert rows() == {"fail/1": Status.FAILED}
    assert len(journal.lines("end", "fail/1")) == 2
    assert "ValueError: this one always fails" in row("fail/1").last_error


# Time


def test_what_is_due_fires_and_what_is_an_hour_away_does_not(
    start: Start, journal: Journal
) -> None:
    """In any zone of the server's clock: MariaDB's private server stands at +08:00."""
    if connections["default"].vendor == "mysql":
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT TIMESTAMPDIFF(HOUR, UTC_TIMESTAMP(), NOW())")
            if os.environ.get("SERVERS_DIR"):
                assert cursor.fetchone() == (8,)
    add("run", "past", seconds=-3600)
    add("run", "now")
    add("run", "soon", seconds=1)
    add("run", *[f"in {hours} h" for hours in (1, 7, 9)], seconds=3600)
    worker = start()
    journal.wait("end", "run/soon")
    assert worker.stop() == 0
    assert sorted(journal.keys("end")) == ["run/now", "run/past", "run/soon"]
    assert sorted(rows()) == ["run/in 1 h", "run/in 7 h", "run/in 9 h"]
    late = {line["key"]: line["lateness"] for line in journal.lines("end")}
    assert 3600 <= late["run/past"] < 3660
    assert 0 <= late["run/soon"] < 5


def test_without_time_zones_everything_is_on_time_all_the_same(
    start: Start, journal: Journal
) -> None:
    with override_settings(USE_TZ=False, TIME_ZONE="Asia/Shanghai"):
        forget_time_zones()
        try:
            assert django_timezone.is_naive(django_timezone.now())
            here = django_timezone.now()
            times = {"past": -60, "soon": 1.0, "later": 3600}
            add_tasks(
                Task(biz_code="run", biz_num=name, when=here + timedelta(seconds=seconds))
                for name, seconds in times.items()
            )
            aware = datetime.now(timezone.utc) + timedelta(hours=1)
            add_task(Task(biz_code="run", biz_num="aware", when=aware))
            found = get_task("run", "aware")
            assert found is not None
            assert abs(found.when - (here + timedelta(hours=1))) < timedelta(minutes=1)
            worker = start(USE_TZ="0")
            journal.wait("end", "run/soon")
            assert worker.stop() == 0
            assert "Traceback" not in worker.log()
            late = {line["key"]: line["lateness"] for line in journal.lines("end")}
            assert 60 <= late["run/past"] < 120
            assert 0 <= late["run/soon"] < 60  # a zone is an hour, a slow start some seconds
            assert sorted(rows()) == ["run/aware", "run/later"]
        finally:
            connections["default"].close()
    forget_time_zones()


def forget_time_zones() -> None:
    """A connection keeps the time zone that it was opened with."""
    connection = connections["default"]
    connection.close()
    for name in ("timezone", "timezone_name"):
        connection.__dict__.pop(name, None)


# Connections


def other_connections() -> list[int]:
    """The server's ids of the connections to this database, but for ours."""
    connection = connections["default"]
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid <> pg_backend_pid()"
            )
        else:
            cursor.execute(
                "SELECT id FROM information_schema.processlist WHERE db = database()"
                " AND id <> connection_id()"
            )
        return [row[0] for row in cursor.fetchall()]


def kill(connection_id: int) -> None:
    connection = connections["default"]
    postgres = connection.vendor == "postgresql"
    statement = "SELECT pg_terminate_backend(%s)" if postgres else "KILL CONNECTION %s"
    with connection.cursor() as cursor:
        try:
            cursor.execute(statement, [connection_id])
        except Exception as error:
            if "Unknown thread" not in str(error):
                raise


@needs_a_server
def test_single_connections_killed_by_the_server_lose_and_repeat_nothing(
    start: Start, journal: Journal
) -> None:
    # Apart: an atomic handler's transaction mends its thread's connection, which others must not
    # need. Every thread meets a broken one.
    running = [start("--threads", "2", "--codes", codes) for codes in ("slow,run", "effect")]
    total = 0
    for _ in range(6):
        add("slow", *range(total, total + 60))
        add("effect", *range(total, total + 20))
        total += 60
        eventually(lambda: len(other_connections()) > 2, "they are connected")
        for each in other_connections():
            kill(each)
    eventually(lambda: count() == 0, "all have run", log=running[0].log)
    add("run", "after")
    journal.wait("end", "run/after")
    for worker in running:
        assert worker.stop() == 0
    assert Group.objects.filter(name__startswith="effect ").count() == 6 * 20
    assert Group.objects.values("name").distinct().count() == 6 * 20
    ran = journal.keys("end")
    assert {f"slow/{number}" for number in range(total)} <= set(ran)
    assert journal.overlaps() == []


@needs_a_server
def test_an_outage_is_said_once_and_survived(start: Start, journal: Journal) -> None:
    with Proxy.before(connections["default"].settings_dict) as proxy:
        worker = start("--threads", "2", DATABASE_URL=url_of(port=proxy.port))
        add("run", "before")
        journal.wait("end", "run/before")
        proxy.close()
        worker.says("does not answer")
        add("run", "meanwhile")
        proxy.open()
        journal.wait("end", "run/meanwhile")
        worker.says("is back after")
        assert worker.log().count("does not answer") == 1
        assert worker.log().count("is back after") == 1
        assert worker.stop() == 0
    assert (count(), workers()) == (0, 0)


@needs_a_server
def test_an_end_that_could_not_be_written_is_written_when_the_database_is_back(
    start: Start, journal: Journal, gate: Path
) -> None:
    with Proxy.before(connections["default"].settings_dict) as proxy:
        worker = start(DATABASE_URL=url_of(port=proxy.port))
        add("gated", 1, biz_ext={"gate": str(gate)})
        journal.wait("start", "gated/1")
        proxy.close()
        gate.touch()
        journal.wait("end", "gated/1")
        worker.says("does not answer")
        proxy.open()
        eventually(lambda: count() == 0, "the end is written", log=worker.log)
        assert worker.stop() == 0
    assert len(journal.lines("start")) == 1


@needs_a_server
def test_stopped_during_an_outage_it_ends_at_its_deadline_and_says_what_is_true(
    start: Start, journal: Journal
) -> None:
    with Proxy.before(connections["default"].settings_dict) as proxy:
        worker = start("--shutdown-timeout", "1", DATABASE_URL=url_of(port=proxy.port))
        add("run", 1)
        journal.wait("end", "run/1")
        eventually(lambda: count() == 0, "its end is written")
        proxy.close()
        worker.says("does not answer")
        assert worker.stop() == 1
    assert "Traceback" not in worker.log()
    assert "0 tasks still ran; they will be run again" not in worker.log()


class Client:
    """A thread that adds tasks as fast as it can, through outages, until it is stopped."""

    def __init__(self) -> None:
        self.acknowledged: list[str] = []
        self._stopping = Event()
        self._thread = Thread(target=self._main)
        self._thread.start()

    def stop(self) -> list[str]:
        self._stopping.set()
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive()
        return self.acknowledged

    def _main(self) -> None:
        number = 0
        while not self._stopping.wait(0.002):
            number += 1
            code = "effect" if number % 4 == 0 else "slow"
            try:
                add(code, number)
            except Exception:
                connections["default"].close()
            else:
                self.acknowledged.append(f"{code}/{number}")
        connections.close_all()


@pytest.mark.parametrize("how", [(), ("--kill",)], ids=["restarted", "killed"])
@needs_a_server
def test_a_database_restarted_under_load_loses_and_repeats_nothing(
    start: Start, journal: Journal, how: tuple[str, ...], restart_server: Any
) -> None:
    running = [start("--threads", "4", "--lease", "20") for _ in range(2)]
    eventually(lambda: workers() == 2, "both have joined")
    client = Client()
    try:
        journal.wait("end", times=100)
        connections["default"].close()
        restart_server(*how)
        before = len(journal.keys("end"))
        eventually(lambda: len(journal.keys("end")) > before + 100, "they go on", deadline=60)
    finally:
        acknowledged = client.stop()
    eventually(lambda: count() == 0, "all have run", log=running[0].log, deadline=60)
    ran = journal.keys("end")
    assert set(acknowledged) <= set(ran)
    effects = list(Group.objects.values_list("name", flat=True))
    assert len(effects) == len(set(effects))
    wanted = {f"effect {key.partition('/')[2]}" for key in acknowledged if key.startswith("eff")}
    assert wanted <= set(effects)
    assert journal.overlaps() == []
    for worker in running:
        assert worker.stop() == 0, worker.log()
        assert "Rescued" not in worker.log()
    assert workers() == 0
