"""A worker whose statement is rejected: it rests for a lease, asks once more, and ends."""

from typing import Any

import pytest
from django.db import OperationalError, connections

from django_tasks.store import errors, minutes
from django_tasks.store.dialects.postgresql import PostgreSQL
from django_tasks.worker import rejected as module
from django_tasks.worker import worker as workers
from django_tasks.worker.counting import Recorder
from django_tasks.worker.rejected import FORGET_AFTER, RETRY_SECONDS, Rejected
from tests.worker.parts import USING, StillTicks, config
from tests.worker.test_worker import Poller, of_state

pytestmark = pytest.mark.each_database

PATIENCE = 30.0


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> StillTicks:
    clock = StillTicks()
    monkeypatch.setattr(module, "ticks", clock)
    monkeypatch.setattr(errors, "judge_of", lambda using: PostgreSQL(connections[using]))
    return clock


def one_that_has_worked() -> Rejected:
    rejected = Rejected(USING, PATIENCE)
    rejected.is_over()
    return rejected


def test_the_first_rejection_of_one_that_has_never_worked_is_final(
    ticks: StillTicks, caplog: pytest.LogCaptureFixture
) -> None:
    rejected = Rejected(USING, PATIENCE)
    assert rejected.note(of_state("42703"))
    assert rejected.is_final
    (line,) = caplog.messages
    assert line.endswith("nothing more is claimed, and this worker ends")


def test_another_error_is_none_of_it(ticks: StillTicks) -> None:
    rejected = Rejected(USING, PATIENCE)
    for state in ("57P01", "42P01", "42501", "40001"):
        assert not rejected.note(of_state(state))
    assert not rejected.is_open
    assert not rejected.is_final


def test_one_that_has_worked_rests_for_a_lease_and_is_final_at_the_next_rejection(
    ticks: StillTicks, caplog: pytest.LogCaptureFixture
) -> None:
    rejected = one_that_has_worked()
    for _ in range(3):
        assert rejected.note(of_state("42703"))
        assert rejected.is_resting()
        assert not rejected.is_final
        ticks.now += RETRY_SECONDS
    ticks.now += PATIENCE
    assert not rejected.is_resting()
    rejected.note(of_state("42703"))
    assert rejected.is_final
    first, last = caplog.messages
    assert first.endswith(f"this worker ends if it is rejected again in {PATIENCE:.0f} s")
    assert last.endswith("and this worker ends")


def test_what_goes_well_says_nothing_of_a_statement_that_was_not_among_it(
    ticks: StillTicks,
) -> None:
    rejected = one_that_has_worked()
    rejected.note(of_state("42703"))
    ticks.now += PATIENCE
    rejected.is_over()
    assert not rejected.is_resting()
    rejected.note(of_state("42703"))
    assert rejected.is_final


def test_one_that_was_not_rejected_again_for_long_begins_anew(ticks: StillTicks) -> None:
    rejected = one_that_has_worked()
    rejected.note(of_state("42703"))
    ticks.now += FORGET_AFTER * PATIENCE
    rejected.is_over()
    assert not rejected.is_open
    rejected.note(of_state("42703"))
    assert not rejected.is_final


def test_a_cycle_after_a_rejection_claims_nothing_until_the_lease_has_passed(
    ticks: StillTicks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "drop_connection", lambda using: None)
    worker, poller = workers.Worker(config(lease=PATIENCE)), Poller()
    stand_in: Any = poller
    worker._poller = stand_in
    held = []
    ends: list[float | Exception] = [0.5, of_state("42703"), 0.5, 0.5, of_state("42703")]
    for end, seconds in zip(ends, (0, 0, 1, PATIENCE, 0), strict=True):
        ticks.now += seconds
        poller.cycles = iter([end])
        worker._cycle()
        held.append(stand_in.is_held)
    assert held == [False, False, True, False, False]
    assert worker.is_rejected


@pytest.mark.parametrize("state", ["57P01", "40P01"])
def test_one_that_is_to_end_waits_for_the_end_of_an_outage_to_write_what_has_ended(
    state: str, ticks: StillTicks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "drop_connection", lambda using: None)
    worker, poller = workers.Worker(config(lease=PATIENCE)), Poller()
    stand_in: Any = poller
    worker._poller = stand_in
    worker._rejected.note(of_state("42703"))
    assert worker._rejected.is_final
    poller.cycles = iter([of_state(state), of_state("42703")])
    worker._cycle()
    assert not worker._can_write_nothing
    worker._cycle()
    assert worker._can_write_nothing


def guarded(worker: workers.Worker) -> dict[str, Any]:
    """By the thread: the object, its method that may fail, and the step that survives that."""
    active, passive, recurring = worker._active, worker._passive, worker._poller._recurring
    return {
        "active": (active, "_cycle", active._guardedly),
        "passive": (passive, "cycle", passive._guardedly),
        "schedules": (recurring, "_keep", recurring._keep_once),
    }


@pytest.mark.parametrize("name", ["active", "passive", "schedules"])
@pytest.mark.django_db(transaction=True)
def test_a_rejection_in_any_of_its_threads_is_the_workers(
    name: str, ticks: StillTicks, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = workers.Worker(config(lease=PATIENCE))
    owner, method, step = guarded(worker)[name]
    ends: list[Exception | None] = [None, of_state("42703"), of_state("42703")]

    def end(*_: Any) -> float:
        if error := ends.pop(0):
            raise error
        return 0.0

    monkeypatch.setattr(owner, method, end)
    step()
    assert not worker._is_held()
    step()
    assert worker._is_held()
    assert not worker.is_rejected
    ticks.now += PATIENCE
    step()
    assert worker.is_rejected


def test_counts_that_are_rejected_are_told_of_by_the_thread_that_writes_them(
    ticks: StillTicks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reject(*_: Any, **__: Any) -> None:
        raise of_state("42703")

    monkeypatch.setattr(minutes, "add", reject)
    recorder = Recorder(USING, lambda: [("a row of counts",)])  # type: ignore[list-item]
    with pytest.raises(OperationalError):
        recorder.write(1)
    assert recorder._kept


def test_an_error_of_the_driver_without_a_number_is_none_of_it(ticks: StillTicks) -> None:
    assert not Rejected(USING, PATIENCE).note(OperationalError("the connection is lost"))
