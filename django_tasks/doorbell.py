"""A doorbell between processes: a datagram of one byte tells a sleeping worker to look now.

It carries nothing and promises nothing. One that is lost, or that a network drops, costs the time
until the worker's next poll; one too many costs a look. So nobody needs to be trusted who rings.
"""

import os
import random
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from django_tasks.selfpipe import SelfPipe

# However often somebody rings, a worker looks no more often than this for it.
PAUSE_SECONDS = 0.002
# So many workers are woken: a single one might just have become busy.
FEWEST, MOST = 2, 16

LOOPBACK = ("127.", "[::1]", "localhost:")


class Door(NamedTuple):
    """Where a worker can be rung at: at "host:port"; its ``name`` begins with "host:pid:"."""

    name: str
    address: str

    def can_be_reached(self) -> bool:
        """From this process; and it is another one, for here there is a quicker way."""
        host, pid, *_ = *self.name.split(":"), ""
        here = host == socket.gethostname()
        ours = here and pid == str(os.getpid())
        return bool(self.address) and not ours and (here or not self.address.startswith(LOOPBACK))


class Doorbell:
    """A worker's end. ``listen`` in one thread, ``stop`` in any."""

    def __init__(self, host: str) -> None:
        """Raises OSError if ``host`` is no address of this machine, or no descriptor is left."""
        family, kind, _, _, place = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)[0]
        self._socket = socket.socket(family, kind)
        try:
            self._socket.bind(place)
            self._stopped = SelfPipe()
        except OSError:
            self._socket.close()
            raise
        self._socket.setblocking(False)
        port = self._socket.getsockname()[1]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def listen(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` for each ring, or for several at once, until ``stop``."""
        while not self._stopped.wait(self._socket.fileno()):
            if self._drained():
                wake()
                self._stopped.wait(seconds=PAUSE_SECONDS)

    def stop(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        self._socket.close()
        self._stopped.close()

    def _drained(self) -> bool:
        rung = False
        with suppress(BlockingIOError):
            while self._socket.recv(16) is not None:
                rung = True
        return rung


def ring(doors: Sequence[Door], tasks: int) -> None:
    """Wake workers of other processes for so many ``tasks``. Never waits, never raises."""
    count = min(MOST, max(FEWEST, tasks))
    for door in random.sample(doors, count) if len(doors) > count else doors:
        with suppress(OSError, ValueError, OverflowError):
            _send(*door.address.rpartition(":")[::2])


def _send(host: str, port: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # A new one each time costs ten microseconds, and no fork or exit has to think of it.
    with socket.socket(family, socket.SOCK_DGRAM) as line:
        line.setblocking(False)
        line.sendto(b"\0", (host.strip("[]"), int(port)))
