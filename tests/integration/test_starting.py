"""Starts of ``starttask``, and the one sentence that says why not."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, ManagementUtility, call_command
from django.db import connections

from django_tasks.api import CannotStart, TaskHandler, shutdown, start
from django_tasks.host.stop_signals import Notes
from django_tasks.management.commands import starttask
from django_tasks.models import Task
from django_tasks.worker.config import worker_config
from tests.conftest import Elsewhere
from tests.integration.conftest import Start, url_of
from tests.integration.process import ROOT, Journal, StartTask
from tests.integration.settings import TASK_HANDLERS
from tests.integration.tasks import add, count, needs_a_server, rows
from tests.proxy import Proxy
from tests.waiting import DEADLINE, eventually
from tests.worker.parts import added, handler

USAGE = [
    (["--threads", "0"], "must be a whole number from 1 to 1000"),
    (["--threads", "many"], "must be a number"),
    (["--processes", "-1"], "must be a whole number from 1 to 256"),
    (["--batch-size", "1.5"], "must be a whole number"),
    (["--poll-interval", "0"], "must be from 0.01"),
    (["--lease", "0.1"], "must be from 1 to"),
    (["--lease", "nan"], "must be"),
    (["--max-tasks", "0"], "must be a whole number from 1"),
    (["--max-tasks", "²"], "must be a whole number from 1"),
    (["--max-memory-per-child", "9" * 5000], "must be a whole number from 1"),
    (["--queues", "a,,b"], "must be names with commas between"),
    (["--codes", "nonesuch,run"], "--codes nonesuch, run: there is only"),
    (["--database", "nowhere"], "--database nowhere: there is only default"),
    (["--reload", "--processes", "2"], "--reload works with one process only"),
    (["--health-port", "http"], "must be PORT or HOST:PORT with a port from 1 to 65535"),
    (["--metrics-port", "[::1]"], "must be PORT or HOST:PORT with a port from 1 to 65535"),
    (["--reload", "--health-file", "x"], "--reload is for development: it answers no probes"),
    (["--nonesuch"], "unrecognized arguments"),
    (["--queue", "mail"], "unrecognized arguments: --queue mail"),
    (["--thread", "2"], "unrecognized arguments: --thread 2"),
    (["extra"], "unrecognized arguments"),
]


def finished(environment: dict[str, str], *flags: str) -> subprocess.CompletedProcess[str]:
    """A ``starttask`` that ends by itself."""
    return subprocess.run(
        [sys.executable, "manage.py", "starttask", *flags],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )


SETTINGS = {"DJANGO_SETTINGS_MODULE": "tests.integration.settings", "TEST_JOURNAL": os.devnull}


@pytest.mark.each_database
@pytest.mark.parametrize(("flags", "sentence"), USAGE, ids=lambda value: " ".join(value)[:30])
def test_a_wrong_flag_is_a_usage_error_with_one_sentence(
    flags: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        ManagementUtility(["manage.py", "starttask", *flags]).execute()
    printed, said = capsys.readouterr()
    assert ended.value.code == 2
    assert sentence in said
    assert printed == ""
    lines = said.strip().splitlines()
    assert len([line for line in lines if not line.startswith(("usage:", " "))]) == 1, said


def test_a_usage_error_is_the_exit_code_of_the_process(tmp_path: Path) -> None:
    result = finished(SETTINGS | {"DATABASE_URL": f"sqlite:///{tmp_path / 'none'}"}, "--codes", "x")
    assert result.returncode == 2
    assert result.stdout == ""
    (line,) = result.stderr.strip().splitlines()
    assert "--codes x: there is only again, effect" in line


HANDLERS = [
    ([], 2, "There is no handler: name some in settings.TASK_HANDLERS"),
    (["tests.integration.nonesuch.Handler"], 1, "TASK_HANDLERS names"),
    (["tests.integration.handlers.note"], 1, "is not a TaskHandler"),
]


def test_handlers_that_cannot_work_are_said_without_a_traceback(tmp_path: Path) -> None:
    def run(case: tuple[list[str], int, str]) -> subprocess.CompletedProcess[str]:
        return finished(
            SETTINGS
            | {
                "DATABASE_URL": f"sqlite:///{tmp_path / 'none'}",
                "TEST_HANDLERS": ",".join(case[0]),
            }
        )

    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(run, HANDLERS))
    for case, result in zip(HANDLERS, results, strict=True):
        assert result.returncode == case[1], (case, result.stderr)
        assert case[2] in result.stderr, (case, result.stderr)
        assert "Traceback" not in result.stderr, (case, result.stderr)


def test_tables_that_were_not_migrated_are_one_sentence(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "empty.sqlite3").close()
    result = finished(SETTINGS | {"DATABASE_URL": f"sqlite:///{tmp_path / 'empty.sqlite3'}"})
    assert result.returncode == 1
    (line,) = result.stderr.strip().splitlines()
    assert "(t_task, t_task_run, t_task_worker," in line
    assert "manage.py migrate --database default" in line


def test_tables_of_an_older_version_are_one_sentence(tmp_path: Path) -> None:
    environment = SETTINGS | {"DATABASE_URL": f"sqlite:///{tmp_path / 'old.sqlite3'}"}
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "django_tasks", "--verbosity", "0"],
        cwd=ROOT,
        env={**os.environ, **environment},
        check=True,
        timeout=DEADLINE,
    )
    with closing(sqlite3.connect(tmp_path / "old.sqlite3")) as database:
        database.execute("ALTER TABLE t_task DROP COLUMN latest_time")
    result = finished(environment)
    assert result.returncode == 1
    (line,) = result.stderr.strip().splitlines()
    assert "(t_task.latest_time missing)" in line


def test_it_says_in_one_line_what_it_serves(start: Start, journal: Journal) -> None:
    add("run", 1)
    worker = start("--threads", "3")
    journal.wait("end")
    first, *rest = worker.log().splitlines()
    vendor = connections["default"].vendor
    assert "1 x 3 threads" in first
    assert f"default ({vendor}), all queues, {len(TASK_HANDLERS)} handlers (again, " in first
    assert not [line for line in rest if "WARNING" in line or "ERROR" in line]
    assert worker.stop() == 0


def test_it_names_the_queues_and_codes_that_it_serves_and_asks_about_strange_ones(
    start: Start, journal: Journal
) -> None:
    add("run", 1, queue="mial")
    worker = start("--queues", "default,mial", "--codes", "run")
    journal.wait("end")
    assert ", 2 queues (default, mial), 1 handler (run). " in worker.log()
    sentence = "No handler has the queue 'mial'; tasks that were added to it by its name are served"
    assert worker.log().count(sentence) == 1
    assert "No handler has the queue 'default'" not in worker.log()
    assert worker.stop() == 0


def test_the_first_runs_and_the_sum_of_all_can_be_seen(start: Start, journal: Journal) -> None:
    add("run", *range(20))
    worker = start("--until-empty")
    assert worker.ended() == 0
    assert worker.log().count(" done (attempt 1, took ") == 3
    assert worker.log().count("further ones of this code and minute are counted") == 1
    assert "Altogether on default: 20 runs in " in worker.log()


def test_nothing_is_said_at_verbosity_0(start: Start, journal: Journal) -> None:
    add("run", 1)
    worker = start("--until-empty", "-v", "0")
    assert worker.ended() == 0
    assert worker.log() == ""
    assert journal.keys("end") == ["run/1"]


def test_a_log_that_the_project_has_configured_gets_the_introduction_too(
    start: Start, journal: Journal
) -> None:
    add("run", 1)
    worker = start("--until-empty", TEST_LOGGING="yes")
    assert worker.ended() == 0
    first, *rest = map(json.loads, worker.log().splitlines())
    assert first["message"].startswith("django_tasks ")
    assert first["level"] == "INFO"
    assert "run/1 done" in " ".join(line["message"] for line in rest)


def test_it_reads_in_one_sentence_why_it_cannot_run_in_a_transaction(db: None) -> None:
    with pytest.raises(CommandError, match=r"cannot run inside a transaction .*default.*atomic"):
        call_command("starttask", until_empty=True)
    assert count() == 0  # the connection still works


def test_it_says_that_it_wants_the_main_thread(elsewhere: Elsewhere) -> None:
    future = elsewhere(call_command, "starttask", until_empty=True)
    with pytest.raises(CommandError, match="runs in the main thread only"):
        future.result(DEADLINE)


def test_a_database_on_which_no_worker_can_work_is_refused(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    starttask._refuse_unfit_databases([worker_config("default")])
    monkeypatch.setattr("django_tasks.requirements.driver_problem", lambda using: "Not with it.")
    with pytest.raises(CommandError, match=r"^Not with it\.$"):
        call_command("starttask", until_empty=True)
    with pytest.raises(CannotStart, match=r"^Not with it\.$"):
        start()


@pytest.mark.parametrize("by", ["starttask", "start"])
def test_a_database_in_memory_is_warned_of(
    transactional_db: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    handlers: Any,
    by: str,
) -> None:
    handlers(handler(lambda task: None))
    monkeypatch.setattr(
        "django_tasks.requirements.memory_problem", lambda using: f"{using!r} is in memory."
    )
    if by == "starttask":
        call_command("starttask", until_empty=True, processes=1)
    else:
        start()
        start()
        assert shutdown(timeout=DEADLINE)
    warnings = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert warnings == ["'default' is in memory."]


def test_a_stop_that_comes_right_after_its_first_line_is_in_order(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, handlers: Any
) -> None:
    handlers(handler(lambda task: None))
    ended_it: list[int] = []
    stops: list[bool] = []

    def run(*_: Any) -> int:
        with Notes.taken() as notes:
            stops.append(notes.wait(DEADLINE))
        return 0

    monkeypatch.setattr(
        starttask.Command, "_introduce", lambda *_: os.kill(os.getpid(), signal.SIGTERM)
    )
    monkeypatch.setattr(starttask, "_run", run)
    before = signal.signal(signal.SIGTERM, lambda number, frame: ended_it.append(number))
    try:
        call_command("starttask")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (stops, ended_it) == ([True], [])


def test_a_full_disk_behind_its_first_line_keeps_no_task_from_running(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, handlers: Any
) -> None:
    ran: list[Any] = []
    monkeypatch.setattr(starttask, "_show_log", lambda verbosity: True)
    handlers(handler(ran.append))
    added()
    with open("/dev/full", "w", encoding="utf-8") as full:
        call_command("starttask", until_empty=True, processes=1, stdout=full)
    assert len(ran) == 1


def test_it_warns_once_of_an_attribute_that_means_nothing(
    transactional_db: None, caplog: pytest.LogCaptureFixture, handlers: Any
) -> None:
    base = type("Base", (TaskHandler,), {"__module__": "shop.base", "max_attempt": 3})
    members = {"handle": lambda self, task: None}
    handlers(*(type(code, (base,), {"biz_code": code, **members}) for code in ("a", "b")))
    call_command("starttask", until_empty=True, processes=1)
    warnings = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert [each for each in warnings if "in memory" not in each] == [
        "shop.base.Base has 'max_attempt', which means nothing to django_tasks. "
        "Did you mean 'max_attempts'?"
    ]


# A database that is not there yet


def test_it_waits_for_its_database_and_starts_when_that_is_there(
    start: Start, journal: Journal, tmp_path: Path
) -> None:
    add("run", 1)
    if connections["default"].vendor == "sqlite":
        name = tmp_path / "later" / "db.sqlite3"
        worker = start(DATABASE_URL=f"sqlite:///{name}")
        worker.says("Database default cannot be opened")
        name.parent.mkdir()
        copied(Path(connections["default"].settings_dict["NAME"]), name)
        journal.wait("end", "run/1")
        worker.says("Database default is back after")
        assert worker.log().count("cannot be opened") == 1
        assert "Traceback" not in worker.log()
        assert worker.stop() == 0
        return
    with Proxy.before(connections["default"].settings_dict) as proxy:
        proxy.close()
        worker = start(DATABASE_URL=url_of(port=proxy.port))
        worker.says("Database default does not answer")
        proxy.open()
        journal.wait("end", "run/1")
        worker.says("Database default is back after")
        assert worker.log().count("does not answer") == 1
        assert "Traceback" not in worker.log()
        assert worker.stop() == 0


def copied(source: Path, target: Path) -> None:
    """A copy of a SQLite database that appears complete."""
    half = target.with_suffix(".half")
    with sqlite3.connect(source) as here, sqlite3.connect(half) as there:
        here.backup(there)
    here.close()
    there.close()
    half.rename(target)


def test_it_can_be_stopped_while_it_waits_for_its_database(start: Start, tmp_path: Path) -> None:
    if connections["default"].vendor == "sqlite":
        url = f"sqlite:///{tmp_path / 'never' / 'db.sqlite3'}"
        worker = start(DATABASE_URL=url)
        worker.says("cannot be opened")
        assert worker.stop() == 0
        return
    with Proxy.before(connections["default"].settings_dict) as proxy:
        proxy.close()
        worker = start(DATABASE_URL=url_of(port=proxy.port))
        worker.says("does not answer")
        assert worker.stop() == 0


@needs_a_server
@pytest.mark.parametrize("wrong", ["password", "database"])
def test_a_wrong_password_or_name_is_said_as_what_it_is(start: Start, wrong: str) -> None:
    right, values = url_of(), connections["default"].settings_dict
    if wrong == "password":
        url = right.replace("@", "x@")
        words = f"refuses the user {values['USER']} or the password"
    else:
        url, words = f"{right}_nowhere", f"is not known to its server as {values['NAME']}_nowhere"
    assert url != right
    worker = start(DATABASE_URL=url)
    worker.says(f"Database default {words} (OperationalError: ")
    assert "does not answer" not in worker.log()
    assert "kept" not in worker.log()
    assert worker.stop() == 0


# What it serves


def test_until_empty_ends_by_itself_and_leaves_what_is_not_due(
    start: Start, journal: Journal
) -> None:
    add("run", *range(30))
    add("again", 1, biz_ext={"times": 3})
    add("run", "future", seconds=600)
    add("unheard-of", *range(3))
    assert start("--until-empty").ended() == 0
    assert sorted(journal.keys("end")) == sorted(
        [f"run/{number}" for number in range(30)] + ["again/1"] * 3
    )
    assert rows() == {"run/future": 0, **{f"unheard-of/{number}": 0 for number in range(3)}}


def test_max_tasks_ends_after_exactly_so_many(start: Start, journal: Journal) -> None:
    add("run", *range(40))
    assert start("--max-tasks", "7", "--threads", "2").ended() == 0
    assert len(journal.keys("end")) == 7
    assert count() == 33
    assert set(Task.objects.values_list("status", flat=True)) == {0}


def test_queues_and_codes_narrow_what_it_serves(start: Start, journal: Journal) -> None:
    add("run", "a", queue="mail")
    add("run", "b", queue="push")
    add("slow", "c", queue="mail")
    add("slow", "d", queue="push")
    assert start("--until-empty", "--queues", "mail,other", "--codes", "run,gated").ended() == 0
    assert journal.keys("end") == ["run/a"]
    assert sorted(rows()) == ["run/b", "slow/c", "slow/d"]


def test_a_code_nobody_knows_is_left_alone_and_said_once(start: Start, journal: Journal) -> None:
    add("unheard-of", *range(3))
    worker = start()
    worker.says("no handler is known")
    add("run", 1)
    journal.wait("end", "run/1")
    add("run", 2)
    journal.wait("end", "run/2")
    assert worker.stop() == 0
    assert worker.log().count("no handler is known") == 1
    assert "3 tasks of code 'unheard-of' are due" in worker.log()
    assert count() == 3


def test_two_databases_are_served_by_one_process(
    start: Start, journal: Journal, tmp_path: Path
) -> None:
    second = f"sqlite:///{tmp_path / 'second.sqlite3'}"
    environment = {
        "SECOND_DATABASE_URL": second,
        "DATABASE_URL": url_of(),
        **SETTINGS,
    }
    script = (
        "import django; django.setup()\n"
        "from django.core.management import call_command\n"
        "from django.utils import timezone\n"
        "from django_tasks.api import Task, add_task\n"
        "call_command('migrate', database='second', verbosity=0)\n"
        "when = timezone.now()\n"
        "add_task(Task(biz_code='run', biz_num='there', when=when), using='second')\n"
    )
    subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env={**os.environ, **environment}, check=True
    )
    add("run", "here")
    worker = start("--database", "default,second", SECOND_DATABASE_URL=second)
    journal.wait("end", times=2)
    assert worker.stop() == 0
    assert {(line["key"], line["using"]) for line in journal.lines("end")} == {
        ("run/here", "default"),
        ("run/there", "second"),
    }
    assert count() == 0
    with sqlite3.connect(tmp_path / "second.sqlite3") as connection:
        left = connection.execute("SELECT count(*) FROM t_task").fetchone()
        workers = connection.execute("SELECT count(*) FROM t_task_worker").fetchone()
    connection.close()
    assert (left, workers) == ((0,), (0,))


# --reload


PROJECT = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "its_settings"
sys.path.insert(0, os.environ["TEST_ROOT"])
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""
ITS_SETTINGS = """
from tests.integration.settings import *
TASK_HANDLERS = ["its_handlers.Only"]
"""
ITS_HANDLERS = """
from tests.integration.handlers import Run
class Only(Run):
    biz_code = "{code}"
"""


def test_reload_starts_again_when_code_changes(
    journal: Journal, tmp_path: Path, transactional_db: None
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "manage.py").write_text(PROJECT)
    (project / "its_settings.py").write_text(ITS_SETTINGS)
    (project / "its_handlers.py").write_text(ITS_HANDLERS.format(code="before"))
    environment = {
        "DATABASE_URL": url_of(),
        "TEST_JOURNAL": str(journal.path),
        "TEST_ROOT": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    add("before", 1)
    worker = StartTask("--reload", log=tmp_path / "log", environment=environment, cwd=project)
    try:
        journal.wait("end", "before/1")
        assert worker.log().count("1 handler (before). ") == 1
        add("after", 1)
        (project / "its_handlers.py").write_text(ITS_HANDLERS.format(code="after"))

        def changed_again() -> bool:
            # The reloader's first look takes whatever it finds for unchanged.
            os.utime(project / "its_handlers.py")
            return "after/1" in journal.keys("end")

        eventually(changed_again, "the new handler has run", log=worker.log)
        assert "Traceback" not in worker.log()
        worker.send_all(signal.SIGINT)
        worker.ended()
        eventually(lambda: not worker.children(), "no process is left")
    finally:
        worker.end()
        shutil.rmtree(project)
