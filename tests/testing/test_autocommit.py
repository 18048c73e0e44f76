"""In a test's transaction a handler behaves as where each of its statements commits by itself."""

from contextlib import suppress
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction

from django_tasks.api import add_task
from django_tasks.testing import run_due_tasks
from testproject.shop.models import Partner
from tests.testing.conftest import Job

pytestmark = pytest.mark.django_db


def names() -> set[str]:
    return set(Partner.objects.values_list("name", flat=True))


def add(name: str) -> None:
    Partner.objects.create(name=name)


def run(job: Job, handle: Any, **members: Any) -> Any:
    job(lambda task: handle(), **members)
    add_task("job", "1")
    (ran,) = run_due_tasks(raise_errors=False)
    return ran


def test_what_was_done_before_an_error_stands(job: Job) -> None:
    def handle() -> None:
        add("a")
        add("a")

    assert isinstance(run(job, handle).exception, IntegrityError)
    assert names() == {"a"}


def test_a_handler_that_catches_an_error_goes_on(job: Job) -> None:
    def handle() -> None:
        add("a")
        with pytest.raises(IntegrityError):
            add("a")
        with pytest.raises(DatabaseError), connection.cursor() as cursor:
            cursor.execute("SELECT nonsense FROM nowhere")
        with transaction.atomic():
            add("b")
        add("c")

    assert run(job, handle).outcome == "done"
    assert names() == {"a", "b", "c"}


def test_a_block_of_the_handlers_is_rolled_back_alone(job: Job) -> None:
    def handle() -> None:
        add("a")
        with suppress(IntegrityError), transaction.atomic():
            add("b")
            add("a")
        add("c")

    assert run(job, handle).outcome == "done"
    assert names() == {"a", "c"}


def test_a_block_without_a_savepoint_is_rolled_back_too(job: Job) -> None:
    def handle() -> None:
        with suppress(ZeroDivisionError), transaction.atomic(savepoint=False):
            add("a")
            _ = 1 / 0
        add("b")

    assert run(job, handle).outcome == "done"
    assert names() == {"b"}


def test_an_atomic_handler_is_rolled_back_as_a_whole(job: Job) -> None:
    def handle() -> None:
        add("a")
        raise ValueError

    assert run(job, handle, atomic=True).outcome == "retried"
    assert names() == set()


def test_a_durable_block_is_allowed(job: Job) -> None:
    # That of a TestCase is marked for it; pytest-django's as well.
    def handle() -> None:
        with transaction.atomic(durable=True):
            add("a")

    assert run(job, handle).outcome == "done"


def test_the_test_itself_is_as_it_was(job: Job) -> None:
    kind, callbacks = type(connection), list(connection.run_on_commit)

    def handle() -> None:
        add("a")
        add("a")

    run(job, handle)
    add("b")
    with pytest.raises(IntegrityError), transaction.atomic():
        add("b")
    assert type(connection) is kind
    assert connection.run_on_commit[: len(callbacks)] == callbacks
    assert not connection.needs_rollback
    assert names() == {"a", "b"}


def test_callbacks_come_at_once_outside_a_block(job: Job) -> None:
    told: list[str] = []

    def handle() -> None:
        transaction.on_commit(lambda: told.append("called"))
        told.append("went on")

    run(job, handle)
    assert told == ["called", "went on"]


def test_callbacks_of_a_block_come_after_it(job: Job) -> None:
    told: list[str] = []

    def handle() -> None:
        with transaction.atomic():
            transaction.on_commit(lambda: told.append("called"))
            add("a")
            told.append("in the block")
        add("b")
        told.append("went on")

    run(job, handle)
    assert told == ["in the block", "called", "went on"]


def test_callbacks_of_a_block_that_is_rolled_back_never_come(job: Job) -> None:
    told: list[str] = []

    def handle() -> None:
        with suppress(ZeroDivisionError), transaction.atomic():
            transaction.on_commit(lambda: told.append("called"))
            _ = 1 / 0

    run(job, handle)
    assert told == []


def test_callbacks_of_an_atomic_handler_come_after_its_end(job: Job) -> None:
    told: list[str] = []

    def handle() -> None:
        transaction.on_commit(lambda: told.append("called"))
        told.append("returns")

    assert run(job, handle, atomic=True).outcome == "done"
    assert told == ["returns", "called"]


def test_callbacks_of_the_test_stay_where_they_are(job: Job) -> None:
    told: list[str] = []
    before = len(connection.run_on_commit)
    transaction.on_commit(lambda: told.append("the test's"))
    run(job, lambda: transaction.on_commit(lambda: told.append("the handler's")))
    assert told == ["the handler's"]
    kept: Any = connection.run_on_commit[before]
    kept[1]()
    assert told == ["the handler's", "the test's"]


def test_a_callback_that_fails_fails_its_run(job: Job) -> None:
    def handle() -> None:
        transaction.on_commit(lambda: 1 // 0)

    ran = run(job, handle)
    assert isinstance(ran.exception, ZeroDivisionError)
    assert ran.outcome == "retried"


def test_a_callback_of_an_atomic_handler_fails_after_its_end(job: Job) -> None:
    def handle() -> None:
        add("a")
        transaction.on_commit(lambda: 1 // 0)

    ran = run(job, handle, atomic=True)
    assert isinstance(ran.exception, ZeroDivisionError)
    assert ran.outcome == "done"
    assert names() == {"a"}


def test_a_robust_callback_fails_in_the_log_only(
    job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    def handle() -> None:
        transaction.on_commit(lambda: 1 // 0, robust=True)

    assert run(job, handle).exception is None
    assert "on_commit" in caplog.text


def test_rows_can_be_read_one_by_one(job: Job) -> None:
    read = []

    def handle() -> None:
        Partner.objects.bulk_create([Partner(name=str(number)) for number in range(5)])
        for partner in Partner.objects.iterator(chunk_size=2):
            read.append(partner.name)
            Partner.objects.filter(pk=partner.pk).update(webhook="read")

    assert run(job, handle).outcome == "done"
    assert len(read) == 5


def test_a_copy_of_the_connection_can_be_made(job: Job) -> None:
    def handle() -> None:
        other = connection.copy()
        other.needs_rollback = True
        assert other.needs_rollback

    assert run(job, handle).outcome == "done"


def test_a_hook_that_breaks_a_statement_harms_nothing(job: Job) -> None:
    def on_failure(task: Any, error: BaseException) -> None:
        add("hook")
        add("hook")

    def handle() -> None:
        add("a")
        raise ValueError

    ran = run(job, handle, on_failure=staticmethod(on_failure), max_attempts=1)
    assert ran.outcome == "failed"
    assert names() == {"a", "hook"}
