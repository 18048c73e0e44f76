"""Connections that stay open between the looks of several threads."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, TypeVar

import pytest
from django.db import Error, connection, connections

from django_tasks.store.connection import KeptConnections, let_go
from django_tasks.store.dialects import Bounds
from tests.vendor import SERVERS, only_on

pytestmark = [
    pytest.mark.django_db(transaction=True),
    only_on(*SERVERS, because="no session of a server"),
]
T = TypeVar("T")


@pytest.fixture
def kept() -> Iterator[KeptConnections]:
    kept = KeptConnections(Bounds(lock_wait=2.0, statement=2.0))
    yield kept
    for own in kept._idle.values():
        let_go(own)


def session() -> int:
    """The number of this thread's session."""
    text = "CONNECTION_ID()" if connection.vendor == "mysql" else "pg_backend_pid()"
    with connections["default"].cursor() as cursor:
        cursor.execute(f"SELECT {text}")
        return int(cursor.fetchone()[0])


def end(number: int) -> None:
    text = "KILL %s" if connection.vendor == "mysql" else "SELECT pg_terminate_backend(%s)"
    with connection.cursor() as cursor:
        cursor.execute(text, [number])


def in_a_thread(call: Callable[[], T]) -> T:
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(call).result()


def look(kept: KeptConnections) -> int:
    with kept.separate("default"):
        return session()


def test_one_session_serves_one_thread_after_the_other(kept: KeptConnections) -> None:
    own = session()
    first = in_a_thread(lambda: look(kept))
    assert in_a_thread(lambda: look(kept)) == first
    assert look(kept) == first
    assert session() == own != first


def test_threads_at_once_have_a_session_each_and_one_of_them_is_kept(
    kept: KeptConnections,
) -> None:
    both = Barrier(2)

    def at_once(_: Any) -> int:
        with kept.separate("default"):
            both.wait(20)
            number = session()
            both.wait(20)
            return number

    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(at_once, range(2)))
    assert len(set(found)) == 2
    assert look(kept) in found


def test_a_session_that_the_server_has_ended_is_another_one_at_the_next_look(
    kept: KeptConnections,
) -> None:
    first = look(kept)
    end(first)
    assert look(kept) not in (first, session())


def test_after_an_error_the_next_look_has_a_new_session(kept: KeptConnections) -> None:
    found = []

    def broken() -> None:
        with kept.separate("default"), connections["default"].cursor() as cursor:
            found.append(session())
            cursor.execute("SELECT nothing_of_the_kind")

    own = session()
    with pytest.raises(Error):
        broken()
    assert look(kept) not in found
    assert session() == own


def test_the_child_of_a_fork_leaves_its_parents_session_alone(kept: KeptConnections) -> None:
    first = look(kept)
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.write(writing, str(look(kept)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading) as answer:
        found = answer.read()
    os.waitpid(child, 0)
    assert found.isdigit()
    assert int(found) != first
    assert look(kept) == first
