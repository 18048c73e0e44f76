"""A small HTTP server: a bounded number of threads, each connection for a bounded time."""

import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from operator import itemgetter
from threading import Thread
from typing import Any, cast

from django_tasks.host.clocks import pause, ticks
from django_tasks.host.self_pipe import readable
from django_tasks.probes.answers import Handler, Site

MOST_CONNECTIONS = 16
# How long a client may take to ask and to read: a slow one must not keep a thread from the others.
CONNECTION_SECONDS = 10.0
GLANCE_SECONDS = 0.5
# The pause after something that would come again at once: no thread, no descriptor is left.
PAUSE_SECONDS = 0.05
# How long the thread of a connection that was cut takes to close it.
CUT_SECONDS = 0.002


class Server:
    """Accepts in one thread, answers in threads that end with their connection."""

    def __init__(self, sites: Mapping[socket.socket, Site]) -> None:
        self._sites = {listener.fileno(): (listener, site) for listener, site in sites.items()}
        # Connections under way, and when each was accepted.
        self._open: dict[socket.socket, float] = {}

    def run(self, goes_on: Callable[[], bool]) -> None:
        """Serve as long as it ``goes_on``, which is asked twice a second."""
        while goes_on():
            if len(self._open) >= MOST_CONNECTIONS:
                self._cut_oldest()
            else:
                for descriptor in readable(self._sites, GLANCE_SECONDS):
                    self._accept(*self._sites[descriptor])
            self._cut_slow()

    def _accept(self, listener: socket.socket, site: Site) -> None:
        try:
            connection, address = listener.accept()
        except BlockingIOError:
            return
        except OSError:  # no descriptor is left, or the client is gone
            pause(PAUSE_SECONDS)
            return
        self._open[connection] = ticks()
        answer = Thread(target=self._serve, args=(connection, address, site), daemon=True)
        try:
            answer.start()
        except RuntimeError:  # no thread is left
            self._close(connection)
            pause(PAUSE_SECONDS)

    def _serve(self, connection: socket.socket, address: object, site: Site) -> None:
        try:
            with suppress(OSError):  # the client is gone, or too slow
                Handler(connection, address, cast(Any, site))
        finally:
            self._close(connection)

    def _close(self, connection: socket.socket) -> None:
        self._open.pop(connection, None)
        with suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
        connection.close()

    def _cut_oldest(self) -> None:
        """Make room: a probe is answered within milliseconds, so the oldest is of somebody slow."""
        _cut(min(self._open.copy().items(), key=itemgetter(1), default=(None, 0.0))[0])
        pause(CUT_SECONDS)

    def _cut_slow(self) -> None:
        for connection, since in list(self._open.items()):
            if ticks() - since > CONNECTION_SECONDS:
                _cut(connection)


def _cut(connection: socket.socket | None) -> None:
    if connection is not None:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
