"""The proxy of the tests: what it leaves behind."""

import gc
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Event, Thread

import pytest

from tests.proxy import Proxy


@pytest.fixture
def server() -> Iterator[tuple[str, int]]:
    """A server to which connections can be made, and which never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as listener:
        yield listener.getsockname()


@contextmanager
def clients(port: int) -> Iterator[None]:
    """Three clients that come and go all the time."""
    over = Event()

    def come_and_go() -> None:
        while not over.is_set():
            with ExitStack() as opened:
                try:
                    opened.enter_context(socket.create_connection(("127.0.0.1", port), 1))
                except OSError:  # the door is shut
                    over.wait(0.0005)

    threads = [Thread(target=come_and_go) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def live_and_end(server: tuple[str, int]) -> None:
    proxy = Proxy(server)
    proxy.start()
    with clients(proxy.port):
        proxy.close()
        proxy.open()
        proxy.stop()


def test_an_end_while_clients_come_leaves_no_connection(server: tuple[str, int]) -> None:
    for _ in range(20):
        live_and_end(server)
    # A connection that was left open tells of itself by a ResourceWarning, an error here.
    gc.collect()
