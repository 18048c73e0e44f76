"""Addresses at which probes are answered, bound before anything starts."""

import errno
import socket
from dataclasses import dataclass

from django_tasks.host.clocks import pause, ticks

# A supervisor that was killed leaves its port to a process that looks twice a second if it is still
# there.
WAIT_SECONDS = 2.0
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Address:
    """An address to listen at; an empty ``host`` is every one of this machine."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read ``PORT``, ``HOST:PORT`` or ``[IPv6]:PORT``. Raises ValueError."""
        host, _, port = text.strip().rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise ValueError(text)
        if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise ValueError(text)
        return cls(host, int(port))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if host else str(self.port)


def listen_at(address: Address) -> list[socket.socket]:
    """Bind and listen, by IPv4 and IPv6 where the host has both. Raises OSError.

    A port that is in use is tried for two seconds.
    """
    end = ticks() + WAIT_SECONDS
    while True:
        try:
            return _listen_everywhere(address.port) if not address.host else _listen(address)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or ticks() >= end:
                raise
        pause(_LOOK_SECONDS)


def _listen_everywhere(port: int) -> list[socket.socket]:
    if socket.has_dualstack_ipv6():
        try:
            both = socket.create_server(
                ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=128
            )
            return [_not_blocking(both)]
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise
    return [_not_blocking(socket.create_server(("", port), backlog=128))]


def _listen(address: Address) -> list[socket.socket]:
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    listeners: list[socket.socket] = []
    failure: OSError | None = None
    for family, place in dict.fromkeys((each[0], each[4]) for each in found):
        try:
            listener = socket.create_server(place[:2], family=family, backlog=128)
            listeners.append(_not_blocking(listener))
        except OSError as error:
            failure = error
            if error.errno == errno.EADDRINUSE:
                break
    if failure is not None and (not listeners or failure.errno == errno.EADDRINUSE):
        for listener in listeners:
            listener.close()
        raise failure
    return listeners


def _not_blocking(listener: socket.socket) -> socket.socket:
    # A client may be gone before it is accepted.
    listener.setblocking(False)
    return listener
