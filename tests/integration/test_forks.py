"""Handlers that fork, under ``starttask`` with one process and with two."""

from pathlib import Path

import pytest

from tests.integration.conftest import Start
from tests.integration.process import Journal, StartTask
from tests.integration.tasks import add, count, workers
from tests.waiting import eventually

KINDS = {"terminate": -15, "pool": [0, 1, 4, 9], "futures": [0, 1, 4, 9], "interrupt": -2}
HANDLERS = ",".join(
    f"tests.integration.forking.{name}"
    for name in ("Run", "Gated", "Terminate", "Pool", "Futures", "Interrupt", "Look")
)


@pytest.fixture(params=[1, 2], ids=["one process", "two processes"])
def worker(request: pytest.FixtureRequest, start: Start) -> StartTask:
    return start("--processes", str(request.param), "--threads", "6", TEST_HANDLERS=HANDLERS)


def test_a_handler_may_start_processes_and_end_them(
    worker: StartTask, journal: Journal, gate: Path
) -> None:
    add("gated", 1, 2, biz_ext={"gate": str(gate)})
    journal.wait("start", times=2)
    for kind in KINDS:
        add(kind, *range(3))
    for kind, found in KINDS.items():
        journal.wait("end", f"{kind}/0")
        journal.wait("end", f"{kind}/1")
        assert journal.wait("end", f"{kind}/2")["found"] == found
    assert worker.is_running()
    gate.touch()
    eventually(lambda: count() == 0, "all have run", log=worker.log)
    starts = {key: len(journal.lines("start", key)) for key in ("gated/1", "gated/2")}
    assert starts == {"gated/1": 1, "gated/2": 1}
    assert len(journal.lines("end")) == 2 + 3 * len(KINDS)
    assert "Stopping" not in worker.log()
    assert "does not answer" not in worker.log(), worker.log()
    assert worker.stop() == 0
    assert worker.children() == []
    assert workers() == 0


def test_a_child_has_no_worker_no_held_lock_and_signals_as_they_were(
    worker: StartTask, journal: Journal
) -> None:
    add("look", 1)
    assert journal.wait("end", "look/1")["found"] == {
        "term": True,
        "interrupt": True,
        "wakeup": -1,
        "blocked": [],
        "workers": 0,
        "listeners": 0,
        "threads": [],
        "free": True,
    }
    assert worker.stop() == 0
