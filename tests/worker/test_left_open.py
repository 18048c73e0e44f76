"""Blocks that a project's code leaves open in a thread of ours go before anybody writes there."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Thread
from typing import Any

import pytest
from django.db import connection, transaction
from django.dispatch import Signal

from django_tasks import signals
from django_tasks.client.adding import add_task
from django_tasks.exceptions import TaskTimeout
from django_tasks.handlers.base import TaskHandler
from django_tasks.handlers.registry import handler_for
from django_tasks.models import Task
from django_tasks.values.status import Status
from tests.factories import a_task
from tests.waiting import DEADLINE, eventually
from tests.worker.conftest import Register
from tests.worker.parts import CODE, added, ahead, claimed, joined, row, runner, starting, stored

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def unheard() -> Iterator[None]:
    """No record of the log keeps an exception, and what hangs in its frames."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def in_a_block() -> None:
    transaction.atomic().__enter__()


def without_autocommit() -> None:
    transaction.set_autocommit(False)
    Task.objects.count()


leaving = pytest.mark.parametrize("leave_open", [in_a_block, without_autocommit])


def note(task: Any, *facts: Any) -> None:
    add_task(a_task(task.biz_num, biz_code="note", when=ahead()))


def notes() -> list[str]:
    return sorted(Task.objects.filter(biz_code="note").values_list("biz_num", flat=True))


@contextmanager
def received(signal: Signal, receive: Callable[..., None]) -> Iterator[None]:
    signal.connect(receive)
    try:
        yield
    finally:
        signal.disconnect(receive)


def run_all() -> None:
    """Run what is due to its end."""
    with starting(threads=1, poll_interval=0.05) as start:
        start()
        due = Task.objects.filter(biz_code=CODE).exclude(status=Status.FAILED)
        eventually(lambda: not due.exists(), "all has ended")


@leaving
@pytest.mark.parametrize("atomic", [False, True], ids=["plain", "atomic"])
def test_what_a_receiver_of_the_start_leaves_open_takes_nothing_of_the_run(
    register: Register,
    caplog: pytest.LogCaptureFixture,
    leave_open: Callable[[], None],
    atomic: bool,
) -> None:
    register(note, atomic=atomic)
    added()
    with received(signals.task_started, lambda **facts: leave_open()):
        run_all()
    assert notes() == ["1"]
    (line,) = [each for each in caplog.messages if "left a transaction" in each]
    assert line.startswith("a receiver of a signal of job/1 left a transaction open on default")


def test_what_the_receivers_write_of_each_task_of_a_batch_is_kept(handlers: Any) -> None:
    class Batch(TaskHandler):
        biz_code = CODE
        batch = 10

        def handle_batch(self, tasks: Any) -> None: ...

    def receive(task: Any, **facts: Any) -> None:
        note(task)
        transaction.atomic().__enter__()

    handlers(Batch)
    for number in "012":
        added(number)
    with received(signals.task_started, receive):
        run_all()
    assert notes() == ["0", "1", "2"]


def hanging() -> Iterator[Task]:
    with transaction.atomic():
        yield from Task.objects.all()


def fails_in_a_loop(task: Any) -> None:
    """The frame in the traceback keeps the generator, and that the transaction."""
    found = hanging()
    for each in found:
        raise ValueError(each)


def fails_without_autocommit(task: Any) -> None:
    without_autocommit()
    raise ValueError("it fails")


@pytest.mark.parametrize("work", [fails_in_a_loop, fails_without_autocommit])
def test_what_the_hook_writes_is_not_undone_with_what_the_run_has_left_open(
    register: Register, work: Callable[..., None], unheard: None
) -> None:
    register(work, max_attempts=1, on_failure=note)
    added()
    run_all()
    assert notes() == ["1"]
    assert stored().status == Status.FAILED


def test_what_a_receiver_writes_is_not_undone_with_what_the_run_has_left_open(
    register: Register,
) -> None:
    register(lambda task: transaction.atomic().__enter__())
    added()
    with received(signals.task_succeeded, lambda task, **facts: note(task)):
        run_all()
    assert notes() == ["1"]


class Failing(TaskHandler):
    """A batch whose tasks all fail. Their hooks leave a transaction open."""

    biz_code = CODE
    batch = 10
    max_attempts = 1

    def handle_batch(self, tasks: Any) -> Any:
        return dict.fromkeys(tasks, ValueError("bad"))

    def on_failure(self, task: Any, exc: BaseException) -> None:
        note(task)
        transaction.atomic().__enter__()

    def on_stuck(self, task: Any, seconds: float) -> None:
        note(task)
        transaction.atomic().__enter__()


def test_the_hook_of_one_task_takes_nothing_of_that_of_the_next_one(
    handlers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    handlers(Failing)
    for number in "012":
        added(number)
    run_all()
    assert notes() == ["0", "1", "2"]
    assert len([each for each in caplog.messages if each.startswith("on_failure of job/")]) == 3


def test_nor_does_it_where_the_runs_were_given_up(handlers: Any) -> None:
    handlers(Failing)
    for number in "012":
        added(number)
    membership = joined()
    run, handler = runner(membership).runner, handler_for(CODE)
    assert handler is not None
    tick = membership.clock.tick()
    claims = claimed(membership.worker_id, limit=10)
    runs = [run._begun(each, handler, tick) for each in claims]
    give_up = partial(run.give_up, runs, TaskTimeout("too long"), lambda ends: None)
    thread = Thread(target=give_up)
    thread.start()
    thread.join(DEADLINE)
    assert notes() == ["0", "1", "2"]


def test_nor_does_the_hook_of_a_run_that_takes_too_long(handlers: Any) -> None:
    class Slow(Failing):
        timeout = 0.1
        interrupt = False

        def handle_batch(self, tasks: Any) -> Any:
            eventually(lambda: notes() == ["0", "1", "2"], "each hook has written")

    handlers(Slow)
    for number in "012":
        added(number)
    run_all()
    assert row() is None


def stays(execute: Callable[..., Any], *args: Any) -> Any:
    return execute(*args)


def test_a_wrapper_of_statements_in_a_generator_that_hangs_ends_with_the_run(
    register: Register,
) -> None:
    def no_statements(*args: Any) -> None:
        raise AssertionError("nothing is asked here")

    def numbers() -> Iterator[int]:
        with connection.execute_wrapper(no_statements):
            yield 1
            yield 2

    def work(task: Any) -> None:
        connection.execute_wrappers.append(stays)
        circle: list[Any] = [numbers()]
        circle.append(circle)
        next(circle[0])

    def look(task: Any) -> None:
        seen.append(list(connection.execute_wrappers))
        note(task)

    seen: list[list[Any]] = []
    register(work)
    register(look, biz_code="later")
    added()
    with (
        starting(threads=1, poll_interval=0.05) as start,
        received(signals.task_succeeded, lambda task, **facts: note(task)),
    ):
        start()
        eventually(lambda: row() is None, "the first one has ended")
        added("2", biz_code="later")
        eventually(lambda: row("2", "later") is None, "the later one has ended")
    assert seen == [[stays]]
    assert notes() == ["1", "2"]
