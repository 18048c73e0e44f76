"""Doorbells in simulated time: a hint may be lost."""

from typing import Any

from django_tasks.wakeup.doorbell import OVERDUE
from django_tasks.wakeup.local import Wake
from tests.simulated_cluster import stage
from tests.simulated_cluster.hosts import Host, current

# The share of hints that are lost.
LOST = 0.2

_doors: dict[str, tuple[Host, Wake]] = {}


class Listener:
    """Takes the place of a worker's listening thread."""

    def __init__(self, using: str, host: str, wake: Wake, is_drawn: Any) -> None:
        self._wake = wake
        self._port = ""

    def open(self) -> str:
        """Return the address of a doorbell."""
        host = current().host
        self._port = str(host.pid)
        _doors[self._port] = host, self._wake
        return f"simulated:{self._port}"

    def start(self) -> None:
        """Nobody has to listen."""

    def stop(self) -> None:
        _doors.pop(self._port, None)


def send(host: str, port: str, what: bytes) -> None:
    """Ring at a door, perhaps in vain."""
    door, wake = _doors.get(port, (None, None))
    if door is None or wake is None or door.is_dead or stage.choices.chance(LOST):
        return
    wake(what == OVERDUE)
