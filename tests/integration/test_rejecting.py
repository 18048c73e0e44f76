"""A statement of ours that the server rejects is no outage: it is said, and ``starttask`` ends."""

import json
from pathlib import Path

import pytest

from django_tasks.models import Task
from django_tasks.values.status import Status
from tests.integration.conftest import Start
from tests.integration.process import Journal, StartTask
from tests.integration.tasks import add
from tests.waiting import eventually

REJECTS = "The database default rejects a statement by which django_tasks "
LEASE = 3


@pytest.fixture
def rejecting(start: Start, tmp_path: Path) -> Start:
    """Start it with statements of one module that are rejected from the file "spoilt" on."""

    def rejecting(*flags: str, module: str) -> StartTask:
        return start(
            *flags,
            TEST_HANDLERS="tests.integration.rejecting.Gated",
            TEST_REJECTED=module,
            TEST_REJECTED_FROM=str(tmp_path / "spoilt"),
        )

    return rejecting


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_session_that_cannot_be_set_up_is_one_sentence_and_exit_code_1(
    processes: str, rejecting: Start, tmp_path: Path
) -> None:
    (tmp_path / "spoilt").touch()
    worker = rejecting("--processes", processes, module="connection")
    assert worker.ended() == 1
    (line,) = worker.log().strip().splitlines()
    assert line.startswith(f"CommandError: {REJECTS}sets up a session: ")
    assert "nosuch" in line


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize(
    ("module", "purpose"),
    [("workers", "keeps a worker's place among the others"), ("lanes", "looks for due tasks")],
)
def test_so_is_a_statement_of_its_first_cycle_and_no_child_takes_the_place_of_another(
    module: str, purpose: str, processes: str, rejecting: Start, tmp_path: Path
) -> None:
    (tmp_path / "spoilt").touch()
    worker = rejecting("--processes", processes, module=module)
    assert worker.ended() == 1
    log = worker.log()
    assert f"{REJECTS}{purpose}: " in log
    assert "nothing more is claimed, and this worker ends" in log
    assert "starting another" not in log
    assert "does not answer" not in log


def test_a_worker_that_has_worked_claims_no_more_lets_its_runs_end_and_ends_a_lease_later(
    rejecting: Start, tmp_path: Path, journal: Journal, gate: Path
) -> None:
    health = tmp_path / "health"
    flags = ("--lease", str(LEASE), "--health-file", str(health), "--poll-interval", "0.2")
    worker = rejecting(*flags, module="lanes")
    add("gated", "first", biz_ext={"gate": str(gate)})
    journal.wait("start")
    (tmp_path / "spoilt").touch()
    log = worker.says(f"if it is rejected again in {LEASE} s")
    assert f"{REJECTS}looks for due tasks: " in log
    add("gated", "second")
    eventually(lambda: not json.loads(health.read_text())["ready"], "it is not ready")
    gate.touch()
    assert worker.ended() == 1
    (left,) = Task.objects.all()
    assert (left.biz_num, left.status) == ("second", Status.PENDING)
    assert "and this worker ends\n" in worker.log()


def test_a_run_that_ends_after_the_last_rejection_has_its_end_written(
    rejecting: Start, tmp_path: Path, journal: Journal, gate: Path
) -> None:
    worker = rejecting("--lease", str(LEASE), "--poll-interval", "0.2", module="lanes")
    add("gated", "first", biz_ext={"gate": str(gate)})
    journal.wait("start")
    (tmp_path / "spoilt").touch()
    worker.says("and this worker ends\n")
    gate.touch()
    assert worker.ended() == 1
    assert not Task.objects.exists()


def test_a_worker_whose_statement_is_taken_again_works_on(
    rejecting: Start, tmp_path: Path, journal: Journal
) -> None:
    worker = rejecting("--lease", str(LEASE), "--poll-interval", "0.2", module="lanes")
    add("gated", "first")
    eventually(lambda: not Task.objects.exists(), "it is done", log=worker.log)
    (tmp_path / "spoilt").touch()
    worker.says(f"if it is rejected again in {LEASE} s")
    (tmp_path / "spoilt").unlink()
    add("gated", "second")
    eventually(lambda: not Task.objects.exists(), "so is the second", log=worker.log)
    assert worker.stop() == 0


def test_ends_that_cannot_be_written_are_left_to_others(
    rejecting: Start, tmp_path: Path, journal: Journal
) -> None:
    worker = rejecting("--lease", str(LEASE), "--poll-interval", "0.2", module="ownership")
    add("gated", "first")
    eventually(lambda: not Task.objects.exists(), "it is done", log=worker.log)
    (tmp_path / "spoilt").touch()
    add("gated", "second")
    assert worker.ended() == 1
    assert f"{REJECTS}writes the ends of runs: " in worker.log()
    assert Task.objects.get().status == Status.RUNNING
