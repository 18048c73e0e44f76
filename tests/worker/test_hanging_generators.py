"""A generator that hangs in ``atomic()`` after its run: it ends a block where it is collected.

That is before another run begins, and never in the transaction of one, or of a client.
"""

import gc
import logging
import weakref
from collections.abc import Callable, Iterator
from threading import Event, Thread, Timer
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django import db
from django.db import transaction

from django_tasks.client.adding import add_task
from django_tasks.models import Task
from django_tasks.store import connection
from django_tasks.store.transactions import BlockEnded, write_transaction
from django_tasks.values.status import Status
from tests.factories import a_task
from tests.waiting import DEADLINE, eventually
from tests.worker.conftest import Register
from tests.worker.parts import added, ahead, starting

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _only_on_purpose() -> Iterator[None]:
    """Collect nothing but where somebody says so. A record of the log would keep an exception."""
    logging.disable(logging.CRITICAL)
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    logging.disable(logging.NOTSET)
    gc.collect()


def numbers() -> Iterator[int]:
    with transaction.atomic():
        Task.objects.count()
        yield 1
        yield 2


def interrupted(task: Any) -> None:
    """The traceback of its timeout keeps it."""
    found = numbers()
    next(found)
    while True:
        Event().wait(0.01)


async def in_another_thread(task: Any) -> None:
    """The thread of its calls ends with the run."""
    found = numbers()
    await sync_to_async(next)(found)
    circle: list[Any] = [found]
    circle.append(circle)
    raise ValueError("it fails")


def left_open(task: Any) -> None:
    circle: list[Any] = [numbers()]
    circle.append(circle)
    next(circle[0])


LEAVING = pytest.mark.parametrize(
    ("leave", "attributes"),
    [
        (interrupted, {"timeout": 0.2}),
        (left_open, {"atomic": True}),
        (left_open, {}),
        (in_another_thread, {}),
    ],
    ids=["timeout", "atomic", "plain", "async"],
)


def over(code: str) -> None:
    waiting = Task.objects.filter(biz_code=code).exclude(status=Status.FAILED)
    eventually(lambda: not waiting.exists(), f"{code} is over")


def effect(number: str) -> None:
    add_task(a_task(number, biz_code="effect", when=ahead()))


def effects() -> list[str]:
    rows = Task.objects.filter(biz_code="effect")
    return sorted(rows.values_list("biz_num", flat=True))


@LEAVING
@pytest.mark.parametrize("fails", [False, True], ids=["well", "failing"])
def test_the_effects_of_a_later_atomic_run_are_all_or_nothing(
    register: Register, leave: Callable[..., Any], attributes: dict[str, Any], fails: bool
) -> None:
    def handle(task: Any) -> None:
        effect("before")
        gc.collect()  # as Python does when it likes to
        effect("after")
        if fails:
            raise ValueError("nothing of this is to stay")

    register(leave, biz_code="leaving", max_attempts=1, **attributes)
    register(handle, biz_code="later", atomic=True, max_attempts=1)
    with starting(threads=1, poll_interval=0.05) as start:
        start()
        added(biz_code="leaving")
        over("leaving")
        added(biz_code="later")
        over("later")
    assert effects() == ([] if fails else ["after", "before"])


def hung_elsewhere() -> Iterator[int]:
    """A generator that has hung in another thread. ``close`` is what a garbage collector calls, in
    any thread, if it comes to it before that one.
    """
    hanging = numbers()

    def begin() -> None:
        next(hanging)
        connection.abandon_connections()

    other = Thread(target=begin)
    other.start()
    other.join()
    return hanging


def plainly(hanging: Any) -> None:
    hanging.close()


def in_a_block(hanging: Any) -> None:
    with transaction.atomic():
        effect("inside")
        hanging.close()


@pytest.mark.parametrize("end", [plainly, in_a_block])
@pytest.mark.parametrize("rest", [True, False], ids=["and goes on", "and ends"])
def test_one_that_ends_in_an_atomic_run_costs_it_nothing_but_time(
    register: Register, end: Callable[[Any], None], rest: bool
) -> None:
    calls: list[int] = []
    hanging = hung_elsewhere()

    def handle(task: Any) -> None:
        calls.append(task.attempt)
        if len(calls) == 1:
            effect("before")
            end(hanging)
        if rest or len(calls) > 1:
            effect("after")

    register(handle, biz_code="later", atomic=True, max_attempts=1)
    with starting(threads=1, poll_interval=0.05) as start:
        start()
        added(biz_code="later")
        over("later")
    assert (calls, effects()) == ([1, 1], ["after"])
    assert not Task.objects.exclude(biz_code="effect").exists()


@pytest.mark.parametrize("end", [plainly, in_a_block])
def test_one_that_ends_in_a_transaction_of_ours_is_an_error_and_nothing_is_written(
    end: Callable[[Any], None],
) -> None:
    def write(name: str) -> None:
        with write_transaction("default"):
            effect(name)
            end(hanging)

    hanging = hung_elsewhere()
    with pytest.raises(BlockEnded):
        write("alone")
    hanging = hung_elsewhere()
    with transaction.atomic():
        effect("outside")
        with pytest.raises(BlockEnded):
            write("within")
        effect("at the end")
    assert effects() == ["at the end", "outside"]
    assert db.connection.get_autocommit()


@LEAVING
def test_a_transaction_of_a_client_in_the_same_process_is_left_alone(
    register: Register, leave: Callable[..., Any], attributes: dict[str, Any]
) -> None:
    register(leave, biz_code="leaving", max_attempts=1, **attributes)
    register(lambda task: None, biz_code="later")
    with starting(threads=1, poll_interval=0.05) as start:
        start()
        added(biz_code="leaving")
        over("leaving")
        added(biz_code="later")  # the thread has left the other run behind
        over("later")
    with transaction.atomic():
        effect("before")
        gc.collect()
        effect("after")
        transaction.set_rollback(True)
    assert effects() == []


def test_a_thread_that_ends_does_not_look_in_place_of_the_one_that_has_run() -> None:
    connection.own_connections()
    found = numbers()
    next(found)
    connection.abandon_connections()  # as after a timeout, whose exception keeps the generator
    other = Thread(target=connection.close_connections)
    other.start()
    other.join()
    circle, seen = [found], weakref.ref(found)
    circle.append(circle)  # type: ignore[arg-type]
    del found, circle
    connection.leave_transactions()
    assert seen() is None


def test_a_thread_that_begins_has_nothing_to_look_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of hundreds would collect the garbage of a large process once, before its first end."""
    monkeypatch.setattr(connection._Blocks, "last", object())
    monkeypatch.setattr(connection, "_collect", lambda: pytest.fail("it collects"))
    connection.own_connections()
    connection.leave_transactions()


def test_where_another_thread_collects_just_now_ours_is_collected_after_that() -> None:
    """It has begun before, and calls a destructor that takes its time."""

    class Slow:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            begun.set()
            assert go_on.wait(DEADLINE)

    begun, go_on = Event(), Event()
    connection.own_connections()
    Slow()
    other = Thread(target=gc.collect)
    other.start()
    assert begun.wait(DEADLINE)
    circle = [numbers()]
    circle.append(circle)  # type: ignore[arg-type]
    next(circle[0])
    seen = weakref.ref(circle[0])
    del circle
    Timer(0.05, go_on.set).start()
    connection.leave_transactions()
    assert seen() is None
    other.join()
