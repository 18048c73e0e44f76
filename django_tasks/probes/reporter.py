"""The state of all processes, told by the one that watches the others, from its main loop."""

import json
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from django_tasks import logs
from django_tasks.host.clocks import ticks, utc_now
from django_tasks.probes.board import Board, Slot
from django_tasks.probes.health import Health, ProbeFacts, judge
from django_tasks.worker.condition import Condition
from django_tasks.worker.worker import Worker

# Its time of change is the heartbeat: a process that was killed leaves an old file.
EVERY_SECONDS = 5.0


class HealthFile:
    """Written by one thread: when something has changed, and every five seconds."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._half = path.with_name(f".{path.name}.{os.getpid()}")
        self._written = float("-inf")
        self._document: dict[str, Any] = {}
        self._has_said = False

    def try_out(self) -> None:
        """Raise OSError if it cannot be written here. A file of a former process goes."""
        self._write("")
        self._half.unlink()
        self._path.unlink(missing_ok=True)

    def tell(self, document: dict[str, Any]) -> None:
        """Write the file if it is time. A failure is said once, until it can be written again."""
        if document == self._document and ticks() - self._written < EVERY_SECONDS:
            return
        self._document, self._written = document, ticks()
        try:
            # At once: a reader never finds half of it.
            self._write(json.dumps(document, ensure_ascii=False) + "\n")
            self._half.replace(self._path)
            self._has_said = False
        except OSError as error:
            if not self._has_said:
                self._has_said = True
                logs.health_file_not_written(self._path, error)

    def _write(self, text: str) -> None:
        """Write the half, a new file: in a folder that is everybody's, its name may be a link that
        somebody else has made, to a file of ours.
        """
        self._half.unlink(missing_ok=True)
        with open(self._half, "x", encoding="utf-8") as half:  # never through a link
            half.write(text)

    def remove(self) -> None:
        """Take it away: the end is in order."""
        for path in (self._half, self._path):
            with suppress(OSError):
                path.unlink(missing_ok=True)


class ServiceManager:
    """systemd, or nobody where NOTIFY_SOCKET is not set: datagrams to that socket, by the protocol
    of its notify. Used by one thread, which waits for nothing: what cannot be sent at once is not
    sent.
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


class Teller:
    """Tells the health to a file and to the service manager, if there are such."""

    def __init__(self, board: Board, facts: ProbeFacts, file: HealthFile | None) -> None:
        self._board = board
        self._facts = facts
        self._file = file
        self._manager = ServiceManager()
        self._state: Condition | None = None
        self._since: datetime = utc_now()

    def look(self, *, is_stopping: bool = False) -> None:
        """Give a sign of life, judge, and tell. Call twice a second, or more often."""
        self._board.watching.beat([Condition.STOPPING if is_stopping else Condition.WORKING])
        signs = self._board.read()
        health = judge(signs, self._facts, ticks())
        self._manager.tell(health, is_stopping=is_stopping)
        if health.state is not self._state:
            self._state, self._since = health.state, utc_now()
        if self._file is not None:
            since = {"since": self._since.isoformat(timespec="seconds")}
            self._file.tell(health.document(self._facts, signs) | since)

    def close(self) -> None:
        """Call as the last act of an end in order."""
        self._manager.close()
        if self._file is not None:
            self._file.remove()


class Pulse:
    """The signs of life of a process with workers. This one tells nobody."""

    def beat(self, workers: Sequence[Worker], *, is_stopping: bool = False) -> None:
        """Give a sign of life: call twice a second, or more often."""

    def close(self) -> None:
        """Call as the last act of an end in order."""


class ChildPulse(Pulse):
    """For a child of a supervisor, which judges and tells."""

    def __init__(self, line: Slot) -> None:
        self._line = line

    def beat(self, workers: Sequence[Worker], *, is_stopping: bool = False) -> None:
        self._line.beat([worker.condition() for worker in workers])


class OwnPulse(ChildPulse):
    """For a process without a supervisor, which judges and tells of itself."""

    def __init__(self, line: Slot, teller: Teller) -> None:
        super().__init__(line)
        self._teller = teller

    def beat(self, workers: Sequence[Worker], *, is_stopping: bool = False) -> None:
        super().beat(workers)
        self._teller.look(is_stopping=is_stopping)

    def close(self) -> None:
        self._teller.close()
