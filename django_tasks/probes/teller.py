"""The state of all processes, told by the one that watches the others, from its main loop."""

from collections.abc import Sequence
from datetime import datetime

from django_tasks.host.clocks import ticks, utc_now
from django_tasks.probes.board import Board, Line
from django_tasks.probes.health import Facts, judge
from django_tasks.probes.health_file import HealthFile
from django_tasks.probes.systemd import ServiceManager
from django_tasks.worker.condition import Condition
from django_tasks.worker.worker import Worker


class Teller:
    """Tells the health to a file and to the service manager, if there are such."""

    def __init__(self, board: Board, facts: Facts, file: HealthFile | None) -> None:
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

    def __init__(self, line: Line) -> None:
        self._line = line

    def beat(self, workers: Sequence[Worker], *, is_stopping: bool = False) -> None:
        self._line.beat([worker.condition() for worker in workers])


class OwnPulse(ChildPulse):
    """For a process without a supervisor, which judges and tells of itself."""

    def __init__(self, line: Line, teller: Teller) -> None:
        super().__init__(line)
        self._teller = teller

    def beat(self, workers: Sequence[Worker], *, is_stopping: bool = False) -> None:
        super().beat(workers)
        self._teller.look(is_stopping=is_stopping)

    def close(self) -> None:
        self._teller.close()
