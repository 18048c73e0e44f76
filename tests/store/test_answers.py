"""A server that is there and says nothing: each wait of a session of ours has its end."""

import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connections, transaction

from django_tasks.store.answers import NAME, answered, bound_steps, unbound
from django_tasks.store.connection import (
    KeptConnections,
    abandon_connections,
    close_connections,
    keep_connection,
    let_go,
    own_connections,
    separate_connection,
    take_connection,
)
from django_tasks.store.dialects import Bounds
from tests.proxy import Proxy
from tests.vendor import POSTGRESQL, only_on
from tests.waiting import DEADLINE, eventually

pytestmark = [
    pytest.mark.django_db(transaction=True),
    only_on(POSTGRESQL, because="the drivers of the others bound each wait"),
]
# An answer is waited for twice as long as a statement may take.
BOUNDS = Bounds(lock_wait=1.0, statement=1.0)
UNANSWERED = "no answer for 2 s"


def ask() -> None:
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT 1")


def ask_in_a_transaction() -> None:
    with transaction.atomic():
        ask()


@pytest.fixture
def silent(proxy: Proxy) -> Iterator[Callable[[Callable[[], None]], None]]:
    """Do something on a connection of ours that has just fallen silent, in a thread of its own."""

    def silent(act: Callable[[], None]) -> None:
        take_connection("default", BOUNDS)
        try:
            ask()
            proxy.silence()
            act()
        finally:
            close_connections()

    with ThreadPoolExecutor(1) as threads:
        yield lambda act: threads.submit(silent, act).result()


def numbers() -> Iterator[int]:
    with transaction.atomic():
        ask()
        yield 1


class Garbage:
    """A parameter at whose turn the garbage is collected: in the middle of a statement."""


class Collecting(psycopg.adapt.Dumper):
    def dump(self, obj: Any) -> bytes:
        gc.collect()
        return b"1"


@pytest.mark.parametrize("is_ours", [True, False], ids=["of a worker", "of a run"])
def test_a_thread_that_collects_a_hanging_generator_in_a_statement_does_not_wait_for_itself(
    is_ours: bool,
) -> None:
    """The driver's lock was one that a thread cannot take twice."""

    def hang() -> None:
        circle: list[Any] = [numbers()]
        circle.append(circle)
        next(circle[0])
        abandon_connections()

    def collect() -> None:
        take_connection("default", BOUNDS) if is_ours else own_connections()
        try:
            ask()
            connections["default"].connection.adapters.register_dumper(Garbage, Collecting)
            with connections["default"].cursor() as cursor:
                cursor.execute("SELECT %s", (garbage,))
                answers.extend(cursor.fetchall())
        finally:
            close_connections()

    garbage: Any = Garbage()
    answers: list[Any] = []
    gc.disable()
    try:
        with ThreadPoolExecutor(1) as threads:
            threads.submit(hang).result()
        thread = Thread(target=collect, daemon=True)
        thread.start()
        thread.join(DEADLINE)
    finally:
        gc.enable()
    assert answers == [("1",)]


@pytest.mark.parametrize("act", [ask, ask_in_a_transaction])
def test_a_statement_without_an_answer_ends(
    silent: Callable[[Callable[[], None]], None], act: Callable[[], None]
) -> None:
    with pytest.raises(OperationalError, match=UNANSWERED):
        silent(act)


def test_so_does_a_commit(silent: Callable[[Callable[[], None]], None], proxy: Proxy) -> None:
    def commit() -> None:
        keep_connection("default")
        proxy.heal()
        with transaction.atomic():
            ask()
            proxy.silence()

    with pytest.raises(OperationalError):
        silent(commit)


def test_so_does_a_look_whether_it_is_usable(
    silent: Callable[[Callable[[], None]], None], proxy: Proxy
) -> None:
    def look() -> None:
        connection = connections["default"]
        connection.errors_occurred = True
        before = connection.connection
        keep_connection("default")
        assert connection.connection is not before
        ask()

    silent(look)


def test_so_does_one_that_is_kept_between_two_looks(proxy: Proxy) -> None:
    kept = KeptConnections(BOUNDS)
    with kept.separate("default"):
        ask()
    proxy.silence()
    with kept.separate("default"):
        ask()
    for own in kept._idle.values():
        let_go(own)


def test_the_next_connection_is_a_good_one_and_nothing_is_left(
    silent: Callable[[Callable[[], None]], None],
) -> None:
    def go_on() -> None:
        with pytest.raises(OperationalError, match=UNANSWERED):
            ask()
        keep_connection("default")
        ask()

    silent(go_on)
    with separate_connection("default", BOUNDS):
        ask()
        assert NAME in {thread.name for thread in threading.enumerate()}
    nobody_looks()


def nobody_looks() -> None:
    eventually(lambda: NAME not in {each.name for each in threading.enumerate()}, "nobody waits")


def test_nobody_looks_at_a_connection_of_the_project_that_is_merely_open() -> None:
    def ask_once() -> None:
        connection = connections["default"]
        bound_steps(connection, 1.0)
        with answered(connection):
            ask()
        nobody_looks()
        assert connection.connection is not None
        unbound(connection)
        connection.close()

    with ThreadPoolExecutor(1) as threads:
        threads.submit(ask_once).result()
