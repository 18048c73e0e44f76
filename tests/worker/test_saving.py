"""State in the middle of a run: the payload, the progress, and how often a task has run."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from django.db import DatabaseError, transaction

from django_tasks import api
from django_tasks.api import TaskOptions, TaskTypeError, TaskValueError
from django_tasks.exceptions import ClaimLost, RetryLater
from django_tasks.handlers import running_task
from django_tasks.handlers.base import Stop
from django_tasks.handlers.running_task import RunningTask
from django_tasks.models import WorkerRow
from django_tasks.store import claimed_rows
from django_tasks.store.finish import finish
from django_tasks.store.rescue import rescue
from django_tasks.values.claimed import Claimed
from django_tasks.values.outcomes import Done, Fail, Outcome, Reschedule
from django_tasks.values.status import Status
from django_tasks.worker.coroutines import EventLoop
from django_tasks.worker.membership import Membership
from tests.factories import table
from tests.worker.conftest import Register
from tests.worker.parts import CODE, USING, added, ago, ahead, claimed, joined, row, runner, stored

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_one_transaction")]


def now() -> datetime:
    return datetime.now(timezone.utc)


class Worker:
    """A worker that runs what is due and writes the end."""

    def __init__(self) -> None:
        self.membership: Membership = joined()

    def claim(self) -> Claimed:
        (claim,) = claimed(self.membership.worker_id)
        return claim

    def run(self, claim: Claimed | None = None, loop: EventLoop | None = None) -> Outcome:
        ended = runner(self.membership, loop)(claim or self.claim())
        assert not finish([ended], now(), using=USING).lost
        return ended.outcome


@pytest.fixture
def worker() -> Worker:
    return Worker()


def rescued(claim: Claimed) -> None:
    """As after the death of its worker."""
    WorkerRow.objects.filter(pk=claim.worker_id).delete()
    rescue([claim.worker_id], lambda orphan: 5, now(), using=USING)


def a_task(claim: Claimed) -> RunningTask:
    return RunningTask(claim, USING, joined().clock.tick(), claimed_rows)


# The payload


def test_a_saved_payload_is_in_the_row_at_once(worker: Worker) -> None:
    added(biz_ext={"page": 0})
    task = a_task(worker.claim())

    assert task.save({"page": "é"})

    assert stored().biz_ext == task.biz_ext == {"page": "é"}
    assert task.save(None)
    assert (stored().biz_ext, task.biz_ext) == (None, None)


def test_a_run_that_dies_goes_on_from_there(worker: Worker) -> None:
    added(biz_ext=0)
    claim = worker.claim()
    a_task(claim).save(7)
    rescued(claim)
    (again,) = claimed(joined().worker_id)
    assert a_task(again).biz_ext == 7


def test_it_is_what_the_next_run_finds(worker: Worker, register: Register) -> None:
    def save(task: RunningTask) -> timedelta:
        task.save([*task.biz_ext, task.runs])
        return timedelta(0)

    register(save)
    added(biz_ext=[])
    for _ in range(3):
        worker.run()
        table(biz_num="1").update(when=ago())
    assert stored().biz_ext == [0, 1, 2]


def test_what_the_handler_changes_after_it_is_written_at_the_end(
    worker: Worker, register: Register
) -> None:
    def save(task: RunningTask) -> timedelta:
        task.save("saved")
        task.biz_ext = "returned"
        return timedelta(hours=1)

    register(save)
    added()
    worker.run()
    assert stored().biz_ext == "returned"


@pytest.mark.parametrize(
    "change",
    [
        lambda: added(biz_ext="theirs"),
        lambda: api.update_task(CODE, "1", biz_ext="theirs"),
        lambda: api.reschedule_task(CODE, "1", ahead()),
        lambda: api.cancel_task(CODE, "1"),
    ],
    ids=["added", "updated", "moved", "cancelled"],
)
def test_what_somebody_else_has_written_meanwhile_stands(
    worker: Worker, change: Callable[[], Any]
) -> None:
    added(biz_ext="old")
    task = a_task(worker.claim())
    change()
    before = stored().biz_ext
    assert not task.save("mine")
    assert stored().biz_ext == before
    assert task.biz_ext == "old"


def test_a_run_that_was_paused_may_still_save(worker: Worker) -> None:
    added()
    task = a_task(worker.claim())
    api.pause_task(CODE, "1")
    assert task.save("mine")


@pytest.mark.parametrize("fate", ["rescued", "gone", "claimed again"])
def test_a_row_that_is_not_ours_any_more_is_not_written(worker: Worker, fate: str) -> None:
    added(biz_ext="old")
    claim = worker.claim()
    if fate == "gone":
        table(biz_num="1")._raw_delete(USING)
    else:
        rescued(claim)
        if fate == "claimed again":
            assert claimed(worker.membership.worker_id)
    with pytest.raises(ClaimLost, match=r"job/1 was taken over"):
        a_task(claim).save("mine")
    assert fate == "gone" or stored().biz_ext == "old"


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize("ids", [(), (0,)])
def test_what_a_handler_makes_of_another_lost_claim_is_a_failure_like_any_other(
    worker: Worker, register: Register, atomic: bool, ids: tuple[int, ...]
) -> None:
    def handle(task: RunningTask) -> None:
        raise ClaimLost("of another task", ids)

    register(handle, atomic=atomic, max_attempts=1)
    added()
    assert isinstance(worker.run(), Fail)
    assert "of another task" in stored().last_error


@pytest.mark.parametrize("value", [object(), float("nan"), "\0"], ids=repr)
def test_a_payload_that_cannot_be_stored_is_refused(worker: Worker, value: Any) -> None:
    added(biz_ext="old")
    task = a_task(worker.claim())
    with pytest.raises(TaskValueError, match="biz_ext"):
        task.save(value)
    assert task.biz_ext == stored().biz_ext == "old"


def test_in_an_atomic_run_it_is_rolled_back_with_it(worker: Worker, register: Register) -> None:
    def fail(task: RunningTask) -> None:
        task.save("saved")
        raise RuntimeError

    register(fail, atomic=True)
    added(biz_ext="old")
    worker.run()
    assert stored().biz_ext == "old"


# The progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    at = [100.0]
    monkeypatch.setattr(running_task, "ticks", lambda: at[0])
    return at


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the test had no transaction around it."""
    monkeypatch.setattr(claimed_rows, "_is_in_transaction", lambda using: False)


@pytest.mark.usefixtures("outside")
def test_progress_is_written_once_a_second_and_at_the_end(
    worker: Worker, clock: list[float]
) -> None:
    added()
    task = a_task(worker.claim())
    seen = []
    for step in range(1, 5):
        task.progress(step, 4, f"page {step}")
        seen.append((stored().progress or {})["done"])
        clock[0] += 0.6
    assert seen == [1, 1, 3, 4]
    assert stored().progress == {"done": 4, "total": 4, "text": "page 4"}


@pytest.mark.usefixtures("outside", "clock")
def test_progress_goes_with_its_run_and_stays_with_a_failure(
    worker: Worker, register: Register
) -> None:
    def tell(task: RunningTask) -> Any:
        task.progress(1)
        if task.biz_num == "2":
            raise RuntimeError
        return timedelta(hours=1)

    register(tell, max_attempts=1)
    added()
    worker.run()
    assert stored().progress is None
    added("2")
    worker.run()
    assert stored("2").progress == {"done": 1, "total": None, "text": ""}


def test_inside_a_transaction_nothing_is_written(worker: Worker) -> None:
    added()
    a_task(worker.claim()).progress(1, 2)
    assert stored().progress is None


@pytest.mark.usefixtures("outside")
def test_a_row_that_is_another_runs_is_left_alone(worker: Worker) -> None:
    added()
    task = a_task(worker.claim())
    table(biz_num="1").update(claimed_by=worker.membership.worker_id + 1)
    task.progress(1)
    assert stored().progress is None


@pytest.mark.usefixtures("outside")
def test_a_database_that_is_down_does_not_fail_the_run(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    added()
    task = a_task(worker.claim())

    def down(using: str) -> Any:
        raise DatabaseError("gone")

    monkeypatch.setattr(claimed_rows, "dialect_of", down)
    task.progress(1)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ((-1,), "done"),
        ((1.5,), "done"),
        ((1, "2"), "total"),
        ((1, 2, 3), "text"),
        ((1, 2, "x" * 201), "text"),
    ],
)
def test_bad_progress_is_refused(worker: Worker, arguments: Any, field: str) -> None:
    added()
    with pytest.raises(TaskValueError) as caught:
        a_task(worker.claim()).progress(*arguments)
    assert caught.value.field == field


# Runs


def test_runs_count_ends_good_and_bad(worker: Worker, register: Register) -> None:
    answers: list[Any] = [timedelta(0), RuntimeError(), timedelta(0), RetryLater(ago())]

    def answer(task: RunningTask) -> Any:
        said = answers[task.runs]
        if isinstance(said, Exception):
            raise said
        return said

    register(answer, backoff=0)
    added()
    for runs in range(1, 5):
        worker.run()
        assert stored().runs == runs
        table(biz_num="1").update(when=ago())


def test_they_are_kept_when_the_task_is_added_again(worker: Worker, register: Register) -> None:
    register(lambda task: timedelta(0))
    added()
    worker.run()
    assert added().runs == stored().runs == 1
    claim = worker.claim()
    added()
    worker.run(claim)
    assert stored().runs == 2


def test_what_did_not_run_is_not_counted(worker: Worker, register: Register) -> None:
    register(lambda task: None, misfire_grace_time=1)
    api.add_task(CODE, "1", when=ago(60), schedule="every 1h")
    assert worker.run().counts_as == "skipped"
    assert stored().runs == 0


# Options of one task


def test_its_own_attempts_and_backoff_come_before_the_handlers(
    worker: Worker, register: Register
) -> None:
    def fail(task: RunningTask) -> None:
        raise RuntimeError

    register(fail, max_attempts=9, backoff=5)
    added(options=TaskOptions(max_attempts=2, backoff=[3600]))
    worker.run()
    assert timedelta(minutes=59) < stored().when - now() <= timedelta(hours=1)
    table(biz_num="1").update(when=ago())
    assert isinstance(worker.run(), Fail)


def test_its_own_grace_holds_for_a_task_that_runs_once(worker: Worker, register: Register) -> None:
    register(lambda task: None)
    added(options=TaskOptions(misfire_grace_time=1))
    assert isinstance(worker.run(), Fail)
    assert "its misfire_grace_time is 1 s" in stored().last_error
    added("2", options=TaskOptions(misfire_grace_time=1, on_misfire="skip"))
    assert worker.run() == Done(counts_as="skipped")
    assert row("2") is None


@pytest.mark.parametrize(
    ("options", "schedule", "kept"),
    [
        ({}, None, Status.FAILED),
        ({"on_misfire": "skip"}, None, None),
        ({}, "every 1h", None),
        ({"on_misfire": "fail"}, "every 1h", Status.FAILED),
    ],
)
@pytest.mark.parametrize("attempts", [0, 1], ids=["first", "retry"])
def test_what_has_expired_does_not_start(
    worker: Worker, register: Register, options: Any, schedule: Any, kept: Any, attempts: int
) -> None:
    ran: list[RunningTask] = []
    register(ran.append)
    added(schedule=schedule, options=TaskOptions(expires=ago(60), **options))
    table(biz_num="1").update(attempts=attempts, last_error="the first try" if attempts else "")
    worker.run()
    assert not ran
    there = row()
    assert (there and there.status) == kept
    if there:
        assert "expired" in there.last_error
        assert ("the first try" in there.last_error) == bool(attempts)


def test_what_has_not_expired_runs(worker: Worker, register: Register) -> None:
    register(lambda task: Stop)
    added(options=TaskOptions(expires=ahead(60)))
    assert isinstance(worker.run(), Done)


def test_its_own_timeout_ends_a_coroutine(
    worker: Worker, register: Register, event_loop_thread: EventLoop
) -> None:
    async def wait(task: RunningTask) -> None:
        await asyncio.Event().wait()

    register(wait, timeout=3600, max_attempts=1)
    added(options=TaskOptions(timeout=0.05))
    assert isinstance(worker.run(loop=event_loop_thread), Fail)
    assert "timeout of 0.05 s" in stored().last_error


def test_options_that_cannot_be_read_park_the_task(worker: Worker, register: Register) -> None:
    register(lambda task: None)
    added()
    with transaction.atomic():
        table(biz_num="1").update(options=None)
    claim = worker.claim()._replace(options="{")
    assert isinstance(worker.run(claim), Fail)
    assert "options cannot be read" in stored().last_error


def test_a_handler_sees_the_options_and_the_count(worker: Worker, register: Register) -> None:
    seen = []
    register(lambda task: seen.append((task.options, task.runs)))
    added(options=TaskOptions(timeout=5))
    assert isinstance(worker.run(), Done)
    assert seen == [(TaskOptions(timeout=5), 0)]


def test_a_payload_may_not_be_read_from_a_task_of_another_kind() -> None:
    with pytest.raises(TaskTypeError):
        api.add_task(object())  # type: ignore[call-overload]


def test_the_outcome_of_a_schedule_counts_as_a_run(worker: Worker, register: Register) -> None:
    register(lambda task: None)
    api.add_task(CODE, "1", when=ago(), schedule="every 1h")
    assert isinstance(worker.run(), Reschedule)
    assert stored().runs == 1


def test_what_a_transaction_of_the_handler_has_rolled_back_is_written_at_the_end(
    worker: Worker, register: Register
) -> None:
    def save(task: RunningTask) -> timedelta:
        with transaction.atomic():
            task.save("saved")
            transaction.set_rollback(True)
        task.biz_ext = "saved"
        return timedelta(hours=1)

    register(save)
    added(biz_ext="old")
    worker.run()
    assert stored().biz_ext == "saved"


def test_options_of_a_row_without_an_offset_cannot_be_read(
    worker: Worker, register: Register
) -> None:
    register(lambda task: None)
    added()
    claim = worker.claim()._replace(options='{"expires": "2030-01-01T00:00:00"}')
    assert isinstance(worker.run(claim), Fail)
    assert "expires has no offset" in stored().last_error
