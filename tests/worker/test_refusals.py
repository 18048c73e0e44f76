"""An atomic run whose end the database refuses for good is tried ever later, and then fails."""

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from django.db import OperationalError, connections

from django_tasks.store.finish import Ended, finish
from django_tasks.values.outcomes import Settled
from django_tasks.values.status import Status
from django_tasks.worker import endings, execution
from django_tasks.worker.batches import LONGEST_DELAY, MOST_REFUSALS, Refusals
from tests.factories import table
from tests.worker.conftest import Register
from tests.worker.parts import USING, One, added, ago, claimed, joined, runner, stored

pytestmark = pytest.mark.django_db(transaction=True)

Once = Callable[[], Ended]


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Once], Ended]:
    """Call a run; its COMMIT is refused, as a quota does it."""

    def refused(run: Once) -> Ended:
        connection: Any = connections[USING]

        def refuse() -> None:
            connection._rollback()
            raise OperationalError("the quota of this project is used up")

        with monkeypatch.context() as patch:
            for module in (endings, execution):
                patch.setattr(module, "drop_connections", lambda: None)
            patch.setattr(connection, "_commit", refuse)
            return run()

    return refused


class Task:
    """The only task, due each time that it is to run."""

    def __init__(self) -> None:
        added()
        self._membership = joined()
        self._run: One = runner(self._membership)

    def once(self, how: Callable[[Once], Ended]) -> float:
        """One run, its end written; returns how many seconds later it is due again."""
        table().update(when=ago())
        (claim,) = claimed(self._membership.worker_id)
        ended = how(lambda: self._run(claim))
        now = datetime.now(timezone.utc)
        if not isinstance(ended.outcome, Settled):
            finish([ended], now, using=USING)
        return (stored().when - now).total_seconds()


def well(run: Once) -> Ended:
    return run()


def test_each_time_it_comes_later_and_costs_no_attempt_until_it_has_come_often(
    register: Register, refusing: Callable[[Once], Ended]
) -> None:
    register(lambda task: timedelta(hours=1), atomic=True, max_attempts=2, backoff=0)
    task = Task()
    delays = [round(task.once(refusing)) for _ in range(MOST_REFUSALS - 1)]
    longest = LONGEST_DELAY.total_seconds()
    assert delays == [min(2**number, longest) for number in range(MOST_REFUSALS - 1)]
    assert (stored().status, stored().attempts, stored().last_error) == (Status.PENDING, 0, "")
    task.once(refusing)
    assert (stored().status, stored().attempts) == (Status.PENDING, 1)
    assert "the quota of this project is used up" in stored().last_error


def test_after_its_last_attempt_it_has_failed(
    register: Register, refusing: Callable[[Once], Ended]
) -> None:
    register(lambda task: timedelta(hours=1), atomic=True, max_attempts=2, backoff=0)
    task = Task()
    for _ in range(2 * MOST_REFUSALS):
        assert stored().status == Status.PENDING
        task.once(refusing)
    assert (stored().status, stored().attempts) == (Status.FAILED, 2)


def test_one_run_that_ends_well_begins_the_count_again(
    register: Register, refusing: Callable[[Once], Ended]
) -> None:
    register(lambda task: timedelta(hours=1), atomic=True, max_attempts=1)
    task = Task()
    for _ in range(2):
        for _ in range(MOST_REFUSALS - 1):
            task.once(refusing)
        assert task.once(well) > 3000
    assert (stored().status, stored().attempts) == (Status.PENDING, 0)


def test_a_failure_of_its_own_begins_the_count_again(
    register: Register, refusing: Callable[[Once], Ended]
) -> None:
    def work(task: Any) -> timedelta:
        if fails:
            raise ValueError("bad")
        return timedelta(hours=1)

    register(work, atomic=True, max_attempts=9, backoff=60)
    task = Task()
    for attempts in (0, 1):
        fails = False
        for _ in range(MOST_REFUSALS - 1):
            task.once(refusing)
        assert stored().attempts == attempts
        fails = True
        task.once(well)
    assert (stored().status, stored().attempts) == (Status.PENDING, 2)


def test_the_count_of_many_rows_takes_no_more_room_than_it_may() -> None:
    refusals = Refusals(USING)
    for row_id in range(3 * Refusals.CAPACITY):
        assert refusals.note(row_id) == 1
    assert len(refusals._counts) == Refusals.CAPACITY
    assert refusals.note(row_id) == 2
