"""The protocol of systemd's notify: datagrams to the socket that NOTIFY_SOCKET names."""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress

from django_tasks.host.clocks import ticks
from django_tasks.probes.health import Health
from django_tasks.worker.condition import Condition


class ServiceManager:
    """systemd, or nobody where NOTIFY_SOCKET is not set. Used by one thread, which waits for
    nothing: a datagram that cannot be sent at once is not sent.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        place = environment.get("NOTIFY_SOCKET", "")
        self._place = "\0" + place[1:] if place.startswith("@") else place
        self._socket: socket.socket | None = None
        if place.startswith(("/", "@")):
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._interval = _watchdog_seconds(environment) / 2
        self._fed = float("-inf")
        self._is_started = self._is_stopping = False
        self._reason = ""

    def tell(self, health: Health, *, is_stopping: bool) -> None:
        """Say what is new, and feed the watchdog, but only while a restart would not help."""
        words = []
        # Without its database it has started as far as it can: else systemd would end it after
        # TimeoutStartSec, again and again.
        if not self._is_started and (health.ready or health.state is Condition.WITHOUT_DATABASE):
            words.append("READY=1")
        if is_stopping and not self._is_stopping:
            words.append("STOPPING=1")
        if health.reason != self._reason:
            words.append(f"STATUS={health.reason}")
        is_due = self._interval > 0 and ticks() - self._fed >= self._interval
        if health.live and is_due:
            words.append("WATCHDOG=1")
        if words and self._sent("\n".join(words)):
            self._note(words, health)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _note(self, words: list[str], health: Health) -> None:
        """Remember what was said; anything else is said again."""
        self._is_started = self._is_started or "READY=1" in words
        self._is_stopping = self._is_stopping or "STOPPING=1" in words
        self._reason = health.reason
        if "WATCHDOG=1" in words:
            self._fed = ticks()

    def _sent(self, text: str) -> bool:
        if self._socket is not None:
            with suppress(OSError):  # nobody reads there now
                self._socket.sendto(text.encode(), self._place)
                return True
        return False


def _watchdog_seconds(environment: Mapping[str, str]) -> float:
    """The time after which systemd takes this process for dead; 0: it does not watch."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    with suppress(ValueError):
        return max(0.0, int(environment.get("WATCHDOG_USEC", "0")) / 1_000_000)
    return 0.0
