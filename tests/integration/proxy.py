"""A door before a database server that a test can shut."""

import select
import socket
from contextlib import suppress
from threading import Thread
from types import TracebackType
from typing import Any


class Proxy:
    """Passes bytes between a port of its own and the server, while it is open.

    ``close`` refuses new connections and cuts those that are there; ``open`` lets them in again.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._server = (settings["HOST"], int(settings["PORT"]))
        self._listener: socket.socket | None = None
        self._threads: list[Thread] = []
        self._pairs: list[socket.socket] = []
        self.port = 0

    def __enter__(self) -> "Proxy":
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def open(self) -> None:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen()
        self.port = listener.getsockname()[1]
        self._listener = listener
        self._run(self._accept, listener)

    def close(self) -> None:
        """Shut the door. Returns when nothing passes any more."""
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        self.cut()
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def cut(self) -> None:
        """End the connections that are there; new ones are welcome."""
        pairs, self._pairs = self._pairs, []
        for end in pairs:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _run(self, function: Any, *args: Any) -> None:
        thread = Thread(target=function, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
                server = socket.create_connection(self._server)
            except OSError:
                return
            self._pairs += [client, server]
            self._run(self._pass_on, client, server)

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        other = {client: server, server: client}
        with client, server, suppress(OSError):
            while True:
                for end in select.select([client, server], [], [])[0]:
                    if not (data := end.recv(65536)):
                        return
                    other[end].sendall(data)
