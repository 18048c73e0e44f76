"""``atomic = True``: a handler's effects in the task's database happen exactly once."""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import DatabaseError, OperationalError, connections, transaction

from django_tasks import signals
from django_tasks.client.adding import add_task
from django_tasks.client.control import cancel_task, pause_task
from django_tasks.models import Task, WorkerRow
from django_tasks.store import rescue
from django_tasks.store.dialects import dialect_of
from django_tasks.store.finish import Ended, finish
from django_tasks.values.claimed import Claimed
from django_tasks.values.outcomes import Done, Fail, Lost, Outcome, Retry, Settled, Unsettled
from django_tasks.values.status import Status
from django_tasks.worker.membership import Membership
from tests.conftest import Elsewhere
from tests.factories import table
from tests.vendor import POSTGRESQL, SERVERS, only_on
from tests.waiting import DEADLINE
from tests.worker.conftest import Register
from tests.worker.parts import (
    USING,
    added,
    ahead,
    claimed,
    heard,
    joined,
    row,
    runner,
    stored,
)

pytestmark = pytest.mark.django_db(transaction=True)


def effects() -> int:
    return Group.objects.filter(name__startswith="effect").count()


def run(register: Register, function: Callable[[Any], Any], **attributes: Any) -> Outcome:
    """The outcome of one run, written as the poller would."""
    register(function, atomic=True, **attributes)
    membership = joined()
    added()
    (claim,) = claimed(membership.worker_id)
    return written(claim, membership)


def written(claim: Claimed, membership: Membership) -> Outcome:
    ended = runner(membership)(claim)
    if not isinstance(ended.outcome, Settled | Lost):
        finish([ended], datetime.now(timezone.utc), using=USING)
    return ended.outcome


needs_two_writers = only_on(*SERVERS, because="an atomic run holds its only write lock")


def test_effects_and_end_are_one_transaction(register: Register) -> None:
    seen: list[bool] = []

    def handle(task: Any) -> None:
        Group.objects.create(name="effect")
        seen.append(transaction.get_connection(USING).in_atomic_block)

    assert run(register, handle) == Settled()
    assert seen == [True]
    assert effects() == 1
    assert row() is None


def test_a_next_time_and_a_changed_payload_are_written_with_the_effects(
    register: Register,
) -> None:
    def handle(task: Any) -> datetime:
        Group.objects.create(name="effect")
        task.biz_ext = {"page": 2}
        return datetime(2031, 1, 1, tzinfo=timezone.utc)

    assert run(register, handle) == Settled("rescheduled")
    assert effects() == 1
    assert (stored().status, stored().claimed_by, stored().biz_ext) == (0, None, {"page": 2})
    assert stored().when == datetime(2031, 1, 1, tzinfo=timezone.utc)


@pytest.mark.parametrize("error", [ValueError(), SystemExit()], ids=repr)
def test_a_failure_leaves_no_effect(register: Register, error: BaseException) -> None:
    def handle(task: Any) -> None:
        Group.objects.create(name="effect")
        raise error

    assert isinstance(run(register, handle, max_attempts=1), Fail)
    assert effects() == 0
    assert stored().status == Status.FAILED


def test_a_bad_answer_leaves_no_effect(register: Register) -> None:
    def handle(task: Any) -> Any:
        Group.objects.create(name="effect")
        return "tomorrow"

    assert isinstance(run(register, handle), Retry)
    assert effects() == 0


def test_a_database_error_that_was_swallowed_leaves_no_effect(register: Register) -> None:
    def handle(task: Any) -> None:
        Group.objects.create(name="effect")
        try:
            with transaction.atomic(savepoint=False):
                Group.objects.create(name="effect")
        except Exception:  # noqa: S110
            pass

    assert isinstance(run(register, handle), Retry)
    assert effects() == 0


@only_on(POSTGRESQL, because="elsewhere an error breaks no transaction")
def test_a_transaction_that_the_handler_has_broken_is_its_own_fault(register: Register) -> None:
    def handle(task: Any) -> None:
        Group.objects.create(name="effect")
        with suppress(DatabaseError), connections[USING].cursor() as cursor:
            cursor.execute("SELECT 1 / 0")

    assert isinstance(run(register, handle, max_attempts=1), Fail)
    assert effects() == 0
    assert "InFailedSqlTransaction" in stored().last_error


@pytest.mark.parametrize("savepoint", [True, False])
def test_a_block_that_the_handler_has_left_open_is_its_own_fault(
    register: Register, savepoint: bool
) -> None:
    """Its commit would end that block alone: the run would succeed, leave nothing, and come again
    without end.
    """

    def leave_open(task: Any) -> None:
        Group.objects.create(name="effect")
        transaction.atomic(savepoint=savepoint).__enter__()

    with heard(signals.task_succeeded) as told:
        outcome = run(register, leave_open)
    assert isinstance(outcome, Retry)
    assert "left an atomic() block open" in outcome.error
    assert (effects(), stored().attempts) == (0, 1)
    connection = connections[USING]
    assert not connection.in_atomic_block
    assert (connection.savepoint_ids, connection.atomic_blocks) == ([], [])
    assert told == []


@needs_two_writers
def test_added_again_during_the_run_the_effects_stand_and_it_runs_again(
    register: Register, elsewhere: Elsewhere
) -> None:
    again = ahead()

    def handle(task: Any) -> None:
        Group.objects.create(name="effect")
        elsewhere(
            add_task, Task(biz_code="job", biz_num="1", when=again, biz_ext={"new": 1})
        ).result(DEADLINE)

    assert run(register, handle) == Settled()
    assert effects() == 1
    task = stored()
    assert (task.status, task.claimed_by, task.when) == (Status.PENDING, None, again)
    assert task.biz_ext == {"new": 1}


@needs_two_writers
def test_cancelled_during_the_run_the_effects_stand_and_the_row_goes(
    register: Register, elsewhere: Elsewhere
) -> None:
    def handle(task: Any) -> timedelta:
        Group.objects.create(name="effect")
        elsewhere(cancel_task, "job", "1").result(DEADLINE)
        return timedelta(hours=1)

    assert run(register, handle) == Settled("rescheduled")
    assert effects() == 1
    assert row() is None


@needs_two_writers
def test_paused_during_the_run_its_next_time_waits_paused(
    register: Register, elsewhere: Elsewhere
) -> None:
    def handle(task: Any) -> timedelta:
        elsewhere(pause_task, "job", "1").result(DEADLINE)
        return timedelta(hours=1)

    assert run(register, handle) == Settled("rescheduled")
    assert stored().status == Status.PAUSED


@needs_two_writers
def test_lost_during_the_run_everything_is_rolled_back(
    register: Register, elsewhere: Elsewhere
) -> None:
    def handle(task: Any) -> None:
        Group.objects.create(name="effect")
        elsewhere(rescued, task.claimed_by).result(DEADLINE)

    assert run(register, handle) == Lost()
    assert effects() == 0
    assert (stored().status, stored().claimed_by, stored().rescues) == (Status.PENDING, None, 1)


def rescued(worker_id: int) -> None:
    WorkerRow.objects.filter(pk=worker_id).delete()
    rescue.rescue([worker_id], lambda row: 5, datetime.now(timezone.utc), using=USING)


def test_lost_before_its_end_everything_is_rolled_back_on_every_database(
    register: Register,
) -> None:
    """The same as above, where nobody else can write during the run: the row went before."""

    def handle(task: Any) -> None:
        Group.objects.create(name="effect")

    register(handle, atomic=True)
    membership = joined()
    added()
    (claim,) = claimed(membership.worker_id)
    rescued(membership.worker_id)
    assert written(claim, membership) == Lost()
    assert effects() == 0
    assert stored().status == Status.PENDING


# The answer to COMMIT


def break_after(monkeypatch: pytest.MonkeyPatch, *, committed: bool) -> None:
    """The next COMMIT is never answered; whether it went through is for the test to say."""
    connection: Any = connections[USING]
    commit = connection._commit

    def broken() -> None:
        monkeypatch.undo()
        if committed:
            commit()
        else:
            connection._rollback()
        raise OperationalError("the server closed the connection unexpectedly")

    monkeypatch.setattr(connection, "_commit", broken)


def breaking(monkeypatch: pytest.MonkeyPatch, *, committed: bool) -> Callable[[Any], None]:
    def handle(task: Any) -> None:
        Group.objects.create(name="effect")
        break_after(monkeypatch, committed=committed)

    return handle


def test_a_commit_that_was_never_answered_and_failed_is_tried_again(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = run(register, breaking(monkeypatch, committed=False))
    assert isinstance(outcome, Unsettled)
    assert effects() == 0
    assert (stored().status, stored().attempts) == (Status.PENDING, 0)


def test_a_commit_that_was_never_answered_and_went_through_is_not_repeated(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(register, breaking(monkeypatch, committed=True))
    assert effects() == 1
    assert row() is None


def test_a_commit_that_went_through_unanswered_is_not_told_as_a_failure(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task is done: nobody should be mailed that it failed for good."""
    told: list[Any] = []
    with heard(signals.task_failed) as failed:
        run(
            register,
            breaking(monkeypatch, committed=True),
            max_attempts=1,
            on_failure=lambda task, exc: told.append(task),
        )
    assert effects() == 1
    assert (told, failed) == ([], [])


# Around the transaction


@pytest.mark.parametrize("error", [RuntimeError("after the commit"), SystemExit(1)], ids=repr)
def test_a_hook_of_the_commit_that_raises_does_not_undo_what_was_committed(
    register: Register, error: BaseException
) -> None:
    """``on_commit`` runs after the end is written: the run has succeeded, whatever it raises."""
    told: list[Any] = []

    def handle(task: Any) -> timedelta:
        Group.objects.create(name="effect")
        transaction.on_commit(boom, using=USING)
        return timedelta(hours=1)

    def boom() -> None:
        raise error

    with heard(signals.task_rescheduled) as rescheduled:
        outcome = run(
            register, handle, max_attempts=1, on_failure=lambda task, exc: told.append(task)
        )
    assert effects() == 1
    assert stored().status == Status.PENDING
    assert stored().when > ahead(3000)
    assert outcome == Settled("rescheduled")
    assert len(rescheduled) == 1
    assert told == []


def test_a_late_end_does_not_touch_the_next_run_of_the_same_task(register: Register) -> None:
    """An atomic run wrote its next time, the same worker has claimed the task again, and only
    then does the first run's end arrive as a failure: the second claim must stand."""
    register(lambda task: timedelta(0), atomic=True)
    membership = joined()
    added()
    (first,) = claimed(membership.worker_id)
    assert written(first, membership) == Settled("rescheduled")
    (second,) = claimed(membership.worker_id)
    late = Unsettled(Retry(ahead(), "the connection broke"))
    finish([Ended(first, late)], datetime.now(timezone.utc), using=USING)
    task = stored()
    assert (task.status, task.version) == (Status.RUNNING, second.version)


@pytest.mark.parametrize(
    "error", [OperationalError("too many connections"), OSError(22, "of a pool")], ids=repr
)
def test_a_transaction_that_cannot_begin_is_not_the_tasks_fault_and_not_tried_at_once(
    register: Register, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """No row fails without having run. And a server that refuses this thread's connection while
    it serves the poller's must not be asked a thousand times a second."""
    runs: list[Any] = []

    def down(*args: Any, **kwargs: Any) -> None:
        raise error

    register(runs.append, atomic=True, max_attempts=1)
    membership = joined()
    added()
    (claim,) = claimed(membership.worker_id)
    with monkeypatch.context() as patch:
        patch.setattr(connections[USING], "set_autocommit", down)
        ended = runner(membership)(claim)
    finish([ended], datetime.now(timezone.utc), using=USING)
    assert runs == []
    task = stored()
    assert (task.status, task.attempts, task.rescues) == (Status.PENDING, 0, 0)
    assert task.when > datetime.now(timezone.utc)


def test_a_claim_that_its_node_has_not_heard_of_yet_is_run_and_ended_once(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two connections of one worker may lead to two nodes of a Galera cluster."""
    register(lambda task: Group(name="effect").save(), atomic=True)
    membership = joined()
    added()
    (claim,) = claimed(membership.worker_id)
    owned = Task.objects.values("status", "version", "claimed_by", "claim_time").get()
    table().update(status=Status.PENDING, version=0, claimed_by=None, claim_time=None)
    node = dialect_of(USING)
    monkeypatch.setattr(node, "is_galera", True)
    monkeypatch.setattr(node, "catch_up", lambda: table().update(**owned))
    assert written(claim, membership) == Settled()
    assert effects() == 1
    assert row() is None


def test_an_atomic_end_is_told_after_the_commit(register: Register) -> None:
    inside: list[bool] = []

    def receive(**_: Any) -> None:
        inside.append(connections[USING].in_atomic_block or row() is not None)

    signals.task_succeeded.connect(receive)
    try:
        run(register, lambda task: None)
    finally:
        signals.task_succeeded.disconnect(receive)
    assert inside == [False]


def test_a_handler_that_is_not_atomic_runs_outside_any_transaction(register: Register) -> None:
    seen: list[bool] = []
    register(lambda task: seen.append(connections[USING].in_atomic_block))
    membership = joined()
    added()
    (claim,) = claimed(membership.worker_id)
    assert runner(membership)(claim).outcome == Done()
    assert seen == [False]
