"""A doorbell between processes: a datagram of one byte tells a sleeping worker to look now.

It says if the task was due for a while already, and promises nothing. One that is lost, or that a
network drops, costs the time until the worker's next poll; one too many costs a look. So a sender
needs no trust.
"""

import random
import socket
from collections.abc import Sequence
from contextlib import suppress

from django_tasks.host.self_pipe import SelfPipe
from django_tasks.store.workers import Door
from django_tasks.wakeup.local import Wake

# The shortest time between two looks of a worker, however often it is rung.
PAUSE_SECONDS = 0.002
# The number of workers that are woken: a single one might just have become busy.
FEWEST_WOKEN, MOST_WOKEN = 2, 16
DUE, OVERDUE = b"\0", b"\1"


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

    def listen(self, wake: Wake) -> None:
        """Call ``wake`` for each ring, or for several at once, until ``stop``."""
        while not self._stopped.wait(self._socket.fileno()):
            if rings := self._drained():
                wake(OVERDUE in rings)
                self._stopped.wait(seconds=PAUSE_SECONDS)

    def stop(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        self._socket.close()
        self._stopped.close()

    def _drained(self) -> set[bytes]:
        rings: set[bytes] = set()
        with suppress(BlockingIOError):
            while True:
                rings.add(self._socket.recv(16))
        return rings


def ring(doors: Sequence[Door], tasks: int, *, overdue: bool) -> None:
    """Wake workers of other processes for this number of ``tasks``. Never waits, never raises.

    ``overdue``: some were due for a while already.
    """
    count = min(MOST_WOKEN, max(FEWEST_WOKEN, tasks))
    for door in random.sample(doors, count) if len(doors) > count else doors:
        with suppress(OSError, ValueError, OverflowError):
            _send(*door.address.rpartition(":")[::2], OVERDUE if overdue else DUE)


def _send(host: str, port: str, what: bytes) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # A new one each time costs ten microseconds, and no fork or exit has to think of it.
    with socket.socket(family, socket.SOCK_DGRAM) as line:
        line.setblocking(False)
        line.sendto(what, (host.strip("[]"), int(port)))
