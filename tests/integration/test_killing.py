"""Runs without end cost their process, and nobody else anything."""

from pathlib import Path

from django_tasks.values.status import Status
from tests.integration.conftest import Start
from tests.integration.process import Journal, StartTask
from tests.integration.tasks import add, count, row, rows, workers
from tests.waiting import eventually

HANDLERS = ",".join(f"tests.integration.stuck.{name}" for name in ("Run", "Gated", "Stuck"))
LEASE = ("--lease", "1.5")


def with_two_running(start: Start, journal: Journal, gate: Path, *flags: str) -> StartTask:
    worker = start("--processes", "1", "--threads", "2", *flags, TEST_HANDLERS=HANDLERS)
    add("gated", 1, biz_ext={"gate": str(gate)})
    journal.wait("start", "gated/1")
    add("stuck", 1)
    journal.wait("start", "stuck/1")
    return worker


def test_a_run_without_end_fails_and_its_process_is_replaced(
    start: Start, journal: Journal, gate: Path
) -> None:
    worker = with_two_running(start, journal, gate)
    (first,) = worker.children()
    worker.says("stuck/1 costs this process")
    worker.says("1 task still runs and has 20 s to end: gated/1")
    assert row("stuck/1").status == Status.RUNNING  # nothing starts beside it
    assert worker.children() == [first]
    gate.touch()
    eventually(lambda: worker.children() not in ([], [first]), "another", log=worker.log)
    assert journal.wait("end", "gated/1")["pid"] == first
    add("run", 1)
    assert journal.wait("end", "run/1")["pid"] in worker.children()
    eventually(lambda: rows() == {"stuck/1": Status.FAILED}, "all else is done", log=worker.log)
    stuck = row("stuck/1")
    assert stuck.attempts == 1
    assert "handle() had not ended 0.5 s after its start" in stuck.last_error
    assert "tests/integration/stuck.py:" in stuck.last_error
    assert " in wait_for_ever)" in stuck.last_error
    assert len(journal.lines("start")) == 2
    assert "ended with code" not in worker.log()
    assert "Rescued" not in worker.log()
    assert worker.stop() == 0
    assert workers() == 0


def test_a_neighbour_that_does_not_end_in_time_runs_again_uncharged(
    start: Start, journal: Journal, gate: Path
) -> None:
    flags = (*LEASE, "--shutdown-timeout", "0.3")
    worker = with_two_running(start, journal, gate, *flags)
    worker.says("while 1 task still ran; it will be run again: gated/1")
    second = journal.wait("start", "gated/1", times=2)
    assert (second["attempt"], row("gated/1").rescues) == (2, 1)
    gate.touch()
    eventually(lambda: rows() == {"stuck/1": Status.FAILED}, "it is done", log=worker.log)
    assert "ended with code" not in worker.log()
    assert worker.stop() == 0


def test_a_run_that_keeps_its_row_locked_is_left_to_the_rescue(
    start: Start, journal: Journal
) -> None:
    """It is suspected then: the third time it runs in a process of its own, and is charged."""
    handlers = "tests.integration.stuck.StuckAtFirst"
    worker = start(*LEASE, "--shutdown-timeout", "0.3", "--processes", "1", TEST_HANDLERS=handlers)
    add("holding", 1)
    journal.wait("start", "holding/1", times=3)
    eventually(lambda: row("holding/1").attempts == 1, "it is charged", log=worker.log)
    assert "had not ended 0.5 s after its start" in row("holding/1").last_error
    assert count() == 1
    worker.stop()
