"""Tasks on a database that is not the default one: the default one is never asked."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_tasks import api
from django_tasks.models import Gate, Task
from django_tasks.store import gates
from django_tasks.store.claim import Claimer, claim
from django_tasks.values.claimed import Claimed
from django_tasks.values.limits import Limit
from tests.factories import CODE, NOW, a_lane, a_task, later

SECOND = "second"


@pytest.fixture
def second(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Another name of the test database. To use the first one is an error."""
    connections.settings[SECOND] = dict(connections.settings["default"])
    cursor = BaseDatabaseWrapper.cursor

    def ensured(connection: BaseDatabaseWrapper) -> None:
        _refuse_the_first(connection)
        if connection.connection is None:  # Django's own asks its test case, which knows one alias
            with connection.wrap_database_errors:
                connection.connect()

    def refusing(connection: BaseDatabaseWrapper) -> Any:
        _refuse_the_first(connection)
        return cursor(connection)

    with monkeypatch.context() as patched:
        patched.setattr(BaseDatabaseWrapper, "ensure_connection", ensured)
        patched.setattr(BaseDatabaseWrapper, "cursor", refusing)
        yield SECOND
    connections[SECOND].close()
    del connections[SECOND], connections.settings[SECOND]


def _refuse_the_first(connection: BaseDatabaseWrapper) -> None:
    assert connection.alias == SECOND, "the default database was asked"


def stored(number: str = "1", **fields: Any) -> Task:
    return api.add_task(a_task(number, **fields), using=SECOND)


def numbers() -> list[str]:
    return sorted(Task._base_manager.using(SECOND).values_list("biz_num", flat=True))


@pytest.mark.parametrize("on_conflict", ["replace", "keep", "earliest"])
def test_a_task_is_added_and_added_again(second: str, on_conflict: Any) -> None:
    for _ in range(2):
        task = api.add_task(a_task(), on_conflict=on_conflict, using=second)
        assert task.id
    api.add_task(task, on_conflict=on_conflict, using=second)
    assert numbers() == ["1"]
    with pytest.raises(api.TaskExists):
        api.add_task(a_task(), on_conflict="raise", using=second)


def test_a_task_is_debounced(second: str) -> None:
    for _ in range(2):
        options: Any = {"on_conflict": "debounce", "wait": timedelta(minutes=1)}
        api.add_task(a_task(when=None), **options, using=second)
    assert numbers() == ["1"]


@pytest.mark.parametrize("on_conflict", ["replace", "keep", "earliest"])
def test_many_are_added_in_several_statements(second: str, on_conflict: Any) -> None:
    tasks = [a_task(str(number)) for number in range(5)]
    assert api.add_tasks(tasks, batch_size=2, on_conflict=on_conflict, using=second) == 5
    assert numbers() == ["0", "1", "2", "3", "4"]
    with pytest.raises(api.TaskExists):
        api.add_tasks(tasks, on_conflict="raise", using=second)


def test_the_id_of_another_task_is_looked_for_there(second: str) -> None:
    task = stored()
    task.biz_num = "2"
    with pytest.raises(api.TaskValueError):
        api.add_task(task, using=second)


def test_the_first_time_of_a_schedule_is_counted_by_its_clock(second: str) -> None:
    assert stored(when=None, schedule="every 1h").when


def test_tasks_are_cancelled_and_deleted(second: str) -> None:
    for number in ("1", "2", "11"):
        stored(number)
    assert api.cancel_task(CODE, "2", using=second) is api.CancelResult.CANCELLED
    assert api.cancel_task(CODE, "2", using=second) is api.CancelResult.NOT_FOUND
    assert api.delete_tasks(CODE, "1", match="prefix", dry_run=True, using=second) == 2
    assert api.delete_tasks(CODE, "1", match="prefix", using=second) == 2
    assert numbers() == []


def test_a_task_is_steered(second: str) -> None:
    stored()
    assert api.reschedule_task(CODE, "1", later(60), using=second)
    assert api.run_task_now(CODE, "1", using=second)
    assert api.pause_task(CODE, "1", using=second)
    assert api.resume_task(CODE, "1", using=second)
    assert not api.requeue_task(CODE, "1", using=second)


def test_tasks_are_asked_for(second: str) -> None:
    stored()
    found = api.get_task(CODE, "1", using=second)
    assert found is not None
    assert found.biz_num == "1"
    assert [task.biz_num for task in api.get_tasks_by_code(CODE, using=second)] == ["1"]
    assert list(api.get_runs(CODE, "1", using=second)) == []


def test_codes_and_queues_are_paused(second: str) -> None:
    assert api.pause_tasks(biz_code=CODE, using=second)
    assert api.pause_tasks(queue="slow", using=second)
    assert len(api.paused(using=second)) == 2
    assert api.resume_tasks(biz_code=CODE, using=second)
    assert api.resume_tasks(queue="slow", using=second)
    assert api.paused(using=second) == []


def test_a_gate_that_somebody_has_passed_meanwhile_lets_nothing_through(second: str) -> None:
    stored(when=NOW - timedelta(seconds=1))
    gates.add_gate(CODE, using=second)

    def overtaken(free: int) -> list[Claimed]:
        Gate._base_manager.using(second).update(passes=99)
        return claim(Claimer(8), a_lane(), NOW, free, using=second, careful=True)

    limit = Limit(2, None)
    assert gates.pass_gate(CODE, limit, NOW, overtaken, using=second).claims == []
    assert Task._base_manager.using(second).get().claimed_by is None


def test_a_lock_is_held_renewed_and_given_back(second: str) -> None:
    with api.lock("report", lease=30, using=second) as held:
        held.check()
        with pytest.raises(api.LockTaken), api.lock("report", lease=30, using=second):
            pass
    with api.lock("report", lease=30, using=second):
        pass
