"""Signals to a simulated process, and its end: in place of the operating system's."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

from tests.simulated_cluster import stage
from tests.simulated_cluster.hosts import Host, current
from tests.simulated_cluster.threads import Event

# As in the product: signals that follow the first one so soon are the same one.
SAME_STOP_SECONDS = 1.0


class Notes:
    """The stop signals to a process. Its main thread waits for them, and for a word of others."""

    def __init__(self) -> None:
        self.is_told = False
        # Its worker has said that the process is to end: it claims nothing any more.
        self.is_woken = False
        self._news = Event()
        self._first: float | None = None
        self._is_another = self.is_second = False

    @staticmethod
    @contextmanager
    def taken(*, is_child: bool = False) -> Iterator["Notes"]:
        """Take notes of the signals to the present process: they are kept since its beginning."""
        notes = current().host.notes
        assert notes is not None
        yield notes

    def wait(self, seconds: float) -> bool:
        """Sleep until something happens, or for so long; True if that was another stop signal."""
        self._news.wait(seconds)
        self._news.clear()
        is_another, self._is_another = self._is_another, False
        return is_another

    def wake(self) -> None:
        """End a ``wait`` from another thread: a worker has ended, or is condemned."""
        self.is_woken = True
        self._news.set()

    def signal(self) -> None:
        """SIGTERM."""
        self.is_told = True
        now = stage.scheduler.now
        if self._first is None or now - self._first >= SAME_STOP_SECONDS:
            self._is_another, self.is_second = True, self._first is not None
        self._first = now if self._first is None else self._first
        self._news.set()


def end_process(code: int) -> None:
    """The end of the present process, with all its threads wherever they are. It never returns."""
    host = current().host
    stage.journal.write("exited", code=code)
    end(host)
    host.on_exit(code)
    stage.scheduler.park()  # for ever


def end(host: Host) -> None:
    """Have a process do nothing any more. Its sessions break."""
    host.is_dead = True
    stage.database.lose_sessions(host.pid)


# What the main function of a worker's process asks of the operating system. Its supervisor lives.
SUPERVISOR = 1
PROCESS = SimpleNamespace(getppid=lambda: SUPERVISOR, _exit=end_process)
