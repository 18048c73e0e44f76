"""The facts that a worker's row tells people: where it is, what it may claim, how busy it is."""

import os

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

import django_tasks
from django_tasks.conf import host_name
from django_tasks.models import WorkerRow
from django_tasks.store import workers
from tests.worker.conftest import Register
from tests.worker.parts import Ticks, added, joined
from tests.worker.test_poller import Cycles

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_one_transaction")]


def the_row() -> WorkerRow:
    return WorkerRow.objects.get()


def test_a_worker_says_at_once_where_it_is_and_which_version_it_runs(register: Register) -> None:
    joined()
    row = the_row()
    assert (row.host, row.pid, row.version) == (host_name(), os.getpid(), django_tasks.__version__)
    assert (row.busy, row.memory, row.wish) == (0, 0, "")


def test_its_codes_are_those_that_it_has_handlers_for_and_may_claim(register: Register) -> None:
    for code in ("c", "a", "b"):
        register(lambda task: None, code)
    joined()
    assert the_row().codes == ["a", "b", "c"]
    WorkerRow.objects.all().delete()
    joined(codes=("c", "a", "unknown"))
    assert the_row().codes == ["a", "c"]


def test_a_handler_that_comes_later_is_told_with_the_next_heartbeat_and_only_then(
    register: Register,
) -> None:
    register(lambda task: None, "a")
    membership = joined()
    register(lambda task: None, "later")
    for told in (True, False):
        with CaptureQueriesContext(connection) as asked:
            assert membership.beat("running", {})
        assert the_row().codes == ["a", "later"]
        statements = [query["sql"] for query in asked if "t_task" in query["sql"]]
        assert len(statements) == 2
        assert ("codes" in statements[1]) == told


def test_codes_that_a_lost_heartbeat_did_not_tell_come_with_the_next_one(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    membership = joined()
    register(lambda task: None, "later")

    def down(*args: object, **kwargs: object) -> bool:
        raise OperationalError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(workers, "beat", down)
        with pytest.raises(OperationalError):
            membership.beat("running", {})
    assert membership.beat("running", {})
    assert the_row().codes == ["later"]


def test_one_that_was_taken_for_dead_tells_all_of_it_again(register: Register) -> None:
    register(lambda task: None, "a")
    membership = joined()
    WorkerRow.objects.all().delete()
    register(lambda task: None, "b")
    assert not membership.beat("running", {})
    membership.join()
    row = the_row()
    assert (row.codes, row.pid) == (["a", "b"], os.getpid())


def test_a_heartbeat_tells_how_many_threads_are_busy_at_that_moment(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None)
    for number in range(3):
        added(str(number))
    cycles = Cycles(world)
    cycles.run()
    cycles.hands.begin(2)
    cycles.beat()
    row = the_row()
    assert row.busy == 2
    assert 1_000_000 < row.memory < 100_000_000_000
    cycles.hands.work()
    cycles.beat()
    assert the_row().busy == 0
