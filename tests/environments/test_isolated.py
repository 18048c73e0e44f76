"""A run in a process of its own, in odd deployments: it is to run as it would in the worker.

A row that is run apart is innocent as a rule. So nothing may fail it that
would not fail it in the worker.
"""

import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError, connections
from django.test import override_settings

from django_tasks import signals
from django_tasks.host.clocks import utc_now
from django_tasks.models import Task
from django_tasks.store.claim import Claimer, claim_alone
from django_tasks.store.finish import Ended
from django_tasks.values.claimed import Claimed
from django_tasks.values.outcomes import Again, Done, Fail, GiveBack, Retry, Settled, Unsettled
from django_tasks.values.status import Status
from django_tasks.worker import execution
from django_tasks.worker.isolated import parent
from django_tasks.worker.isolated.parent import NoProcess, NotRun, ProcessDied, run_apart
from tests.conftest import Elsewhere
from tests.environments.isolated import Effect, Place
from tests.factories import lanes, table
from tests.leader import is_alive
from tests.vendor import SERVERS, only_on
from tests.waiting import DEADLINE, eventually, never
from tests.worker.parts import added, heard, joined, runner

pytestmark = pytest.mark.django_db(transaction=True)

NOW = datetime(2030, 5, 17, 12, 30, tzinfo=timezone.utc)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path))


@pytest.fixture
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Apart":
    """Run a claim apart, in a project that knows the handlers of ``apart``."""
    monkeypatch.setenv("TEST_HANDLERS", "tests.environments.isolated.Apart")
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "tests.integration.settings")
    monkeypatch.setattr(settings, "SETTINGS_MODULE", "tests.integration.settings")
    monkeypatch.setattr(parent, "LINGER_SECONDS", 0.1)

    def run(does: str, may_start: bool = True, options: str | None = None) -> Ended:
        payload = json.dumps({"does": does, "folder": str(tmp_path)})
        values: dict[str, Any] = dict.fromkeys(Claimed._fields)
        values |= {"id": 1, "version": 2, "biz_code": "apart", "biz_num": "1", "when": NOW}
        values |= {"biz_ext": payload, "queue": "default", "priority": 0, "attempts": 0}
        values |= {"options": options}
        values |= {"rescues": 2, "create_time": NOW, "claim_time": NOW, "last_error": "", "runs": 0}
        return run_apart(
            Claimed(**values | {"worker_id": 7}), 7, "worker", lambda: may_start, using="default"
        )

    return run


Apart = Callable[..., Ended]


def test_it_ends_at_its_timeout(apart: Apart) -> None:
    outcome = apart("lasts_for_ever", options='{"timeout": 0.05}').outcome
    assert isinstance(outcome, Retry)
    assert (
        "handle() took longer than its timeout of 0.05 s (at tests/environments/isolated.py:"
        in outcome.error
    )


def test_it_ends_by_its_kill_after_with_its_process(
    apart: Apart, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And stays as suspect as it was."""
    monkeypatch.setenv("TEST_HANDLERS", "tests.environments.isolated.Impatient")
    outcome = apart("waits_for_ever").outcome
    assert isinstance(outcome, Retry)
    assert outcome.is_suspect
    assert "handle() had not ended" in outcome.error
    assert " in waits_for_ever)" in outcome.error
    pid = place.told()["pid"]
    eventually(lambda: not is_alive(pid), "its process has ended")


@pytest.mark.parametrize("does", ["hangs", "ends_when_it_is_given_up"])
def test_its_end_is_told_after_on_failure_has_ended_and_nothing_cuts_that_off(
    apart: Apart,
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    elsewhere: Elsewhere,
    does: str,
) -> None:
    monkeypatch.setenv("TEST_HANDLERS", "tests.environments.isolated.Mourned")
    running: Future[Ended] = elsewhere(apart, does)
    assert place.told() == {"pid": place.told()["pid"], "hook": "begun"}
    never(running.done, "its end is told", seconds=0.5)
    place.let_go()
    outcome = running.result(DEADLINE).outcome
    assert isinstance(outcome, Fail)
    assert "handle() had not ended" in outcome.error
    assert place.told()["hook"] == "ended"


def test_it_looks_for_modules_where_the_worker_does_and_nowhere_else(
    apart: Apart, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in the working directory, where anybody may have left a module."""
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong module')")
    path = [each or os.getcwd() for each in sys.path]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*path, Path("/no/text"), "/späte"])  # as some write it
    assert apart("tells").outcome == Done()
    told = place.told()
    assert told["path"] == [*path, "/späte"]


def test_programs_that_it_starts_have_the_environment_of_the_worker(
    apart: Apart, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A PYTHONPATH with our libraries breaks every other Python."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert apart("tells").outcome == Done()
    assert place.told()["python_path"] is None


def test_settings_that_look_at_the_command_line_see_that_of_the_worker(
    apart: Apart, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["manage.py", "test", "--keepdb"])
    assert apart("tells").outcome == Done()
    assert place.told()["argv"] == ["manage.py", "test", "--keepdb"]


def test_all_databases_are_those_of_the_worker(
    apart: Apart, place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In a test run they are the test's: the project's own must not be touched."""
    sqlite = tmp_path / "test_second"
    monkeypatch.setenv("SECOND_DATABASE_URL", f"sqlite:///{tmp_path}/the_real_one")
    second = {**connections.settings["default"], "NAME": sqlite}
    monkeypatch.setitem(connections.settings, "second", second)
    assert apart("tells").outcome == Done()
    expected = {"default": str(connections["default"].settings_dict["NAME"])}
    assert place.told()["names"] == expected | {"second": str(sqlite)}


def test_it_needs_no_place_for_files(apart: Apart, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", refuse)
    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    assert apart("tells").outcome == Done()


def test_no_worker_starts_in_it(apart: Apart, place: Place) -> None:
    assert apart("starts").outcome == Done()
    assert not [name for name in place.told()["threads"] if name.startswith("django_tasks-def")]


def test_what_it_starts_reads_an_empty_input(apart: Apart, place: Place) -> None:
    assert apart("reads").outcome == Done()
    assert place.told()["code"] == 0


def test_a_thread_that_it_leaves_behind_goes_on_and_holds_up_nobody(
    apart: Apart, place: Place
) -> None:
    assert apart("leaves_a_thread").outcome == Done()
    place.let_go()
    assert place.told()["done"]


def test_a_crash_after_the_end_of_the_run_is_none_of_the_run(apart: Apart) -> None:
    assert apart("crashes_at_exit").outcome == Done()


@pytest.mark.parametrize("does", ["tells", "leaves_a_thread"])
def test_its_end_counts_also_where_nobody_can_sleep(
    apart: Apart, place: Place, monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    """As under libfaketime, where sleep() raises: subprocess waits by it for the process."""

    def refuse(seconds: float) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(time, "sleep", refuse)
    assert apart(does).outcome == Done()
    place.let_go()
    eventually(lambda: not lingering(), "its process has ended")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_all_processes_lets_the_run_end(
    apart: Apart, place: Place, elsewhere: Elsewhere, number: int
) -> None:
    """As systemd stops a service: the worker waits for what runs."""
    running: Future[Ended] = elsewhere(apart, "waits")
    os.kill(place.told()["pid"], number)
    place.let_go()
    assert running.result(DEADLINE).outcome == Done()


@pytest.mark.parametrize(
    ("does", "cause"),
    [("dies", "signal SIGKILL"), ("exits", "exit code 86"), ("leaves_a_process", "exit code 0")],
)
def test_its_death_is_noticed_and_told(apart: Apart, place: Place, does: str, cause: str) -> None:
    try:
        with pytest.raises(ProcessDied, match=cause):
            apart(does)
    finally:
        place.let_go()


def lingering() -> list[str]:
    names = [each.name for each in threading.enumerate()]
    return [name for name in names if name.startswith("django_tasks-apart")]


@pytest.mark.parametrize("does", ["tells", "leaves_a_thread"])
def test_nothing_is_left_of_it(apart: Apart, place: Place, does: str) -> None:
    before = set(os.listdir("/proc/self/fd"))
    apart(does)
    place.let_go()
    place.told()
    eventually(lambda: not lingering(), "its process has ended")
    assert set(os.listdir("/proc/self/fd")) <= before


def test_settings_that_only_this_process_has_are_not_replaced_by_those_of_a_module(
    apart: Apart,
) -> None:
    """``settings.configure()``, and a test's own: the process would have others."""
    with override_settings(SITE_ID=1), pytest.raises(NoProcess, match="settings"):
        apart("tells")


def test_a_worker_that_loses_its_lease_meanwhile_does_not_start_it(
    apart: Apart, tmp_path: Path
) -> None:
    """Others may run it by then: to set up Django takes a while."""
    assert apart("tells", may_start=False).outcome == GiveBack()
    assert not (tmp_path / "told").exists()


def test_a_process_that_cannot_be_set_up_has_not_failed_the_run(
    apart: Apart, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "SETTINGS_MODULE", "tests.no_such_module")
    with pytest.raises(NoProcess, match="exit code 1"):
        apart("tells")


@only_on(*SERVERS, because="a process asks SQLite nothing before its run begins")
def test_a_database_that_does_not_answer_it_has_it_run_later_and_not_beside_others(
    apart: Apart, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may have no connection left for it."""
    monkeypatch.setitem(connections.settings["default"], "NAME", "unknown_to_the_server")
    with pytest.raises(NotRun):
        apart("tells")


def test_it_has_the_flags_of_the_interpreter(
    apart: Apart, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "_args_from_interpreter_flags", lambda: ["-I", "-O"])
    assert apart("tells").outcome == Done()
    assert place.told()["optimize"] == 1


# A death around the commit of an atomic run


class Told(Effect):
    """The worker's side of the handler, which keeps what it is told."""

    def __init__(self) -> None:
        self.failures: list[BaseException] = []

    def on_failure(self, task: Any, error: BaseException) -> None:
        self.failures.append(error)


@pytest.fixture
def effect(apart: Apart, handlers: Any, monkeypatch: pytest.MonkeyPatch) -> Told:
    """A handler with one attempt, here and in the process that runs its suspects."""
    monkeypatch.setenv("TEST_HANDLERS", "tests.environments.isolated.Effect")
    told = Told()
    handlers(told)
    return told


def run_suspect(does: str, tmp_path: Path) -> Ended:
    """Claim a task that was rescued twice, and run it as a worker does."""
    membership = joined()
    added("1", "effect", biz_ext={"does": does, "folder": str(tmp_path)})
    table().update(rescues=2, attempts=2)
    (lane,) = lanes(using="default")
    (claim,) = claim_alone(Claimer(membership.worker_id), lane, utc_now(), using="default")
    return runner(membership)(claim)


def test_a_process_that_dies_between_its_commit_and_its_answer_has_not_failed(
    effect: Told, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with heard(signals.task_failed) as failed:
        ended = run_suspect("dies_after_its_commit", tmp_path)
    assert ended.outcome == Settled()
    assert not Task.objects.exists()
    assert (effect.failures, failed) == ([], [])
    assert "effect/1 has ended and this is written" in caplog.text
    assert "exit code 86" in caplog.text


def test_one_that_dies_before_its_commit_has_failed(effect: Told, tmp_path: Path) -> None:
    with heard(signals.task_failed) as failed:
        ended = run_suspect("exits", tmp_path)
    assert isinstance(ended.outcome, Fail)
    assert Task.objects.get().status == Status.RUNNING
    assert len(effect.failures) == len(failed) == 1


def test_if_the_database_does_not_say_which_nobody_is_told_of_a_failure(
    effect: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end that is written then matches the row only if the commit did not go through."""

    def silent(*args: Any, **kwargs: Any) -> bool:
        raise OperationalError("server has gone away")

    monkeypatch.setattr(execution, "is_ours", silent)
    ended = run_suspect("exits", tmp_path)
    assert isinstance(ended.outcome, Unsettled)
    assert isinstance(ended.outcome.otherwise, Again)
    assert effect.failures == []
