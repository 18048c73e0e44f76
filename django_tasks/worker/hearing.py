"""A thread that waits for hints, the database's or a doorbell's, and wakes the poller."""

from collections.abc import Callable
from threading import Event, Thread

from django_tasks import logs
from django_tasks.doorbell import Doorbell
from django_tasks.store import hints
from django_tasks.store.connection import close_connections

# Hints are a comfort: how soon to listen again after an error hardly matters.
RETRY_SECONDS = 5.0
# A thread that is just connecting to a server that is gone hears nothing until that fails. A worker
# that stops does not wait for it longer than this.
STOP_SECONDS = 2.0


class Hearing:
    """Opened, started and stopped with its worker."""

    def __init__(
        self,
        using: str,
        host: str,
        wake: Callable[[], None],
        is_drawn: Callable[[float], bool],
    ) -> None:
        """``host`` is the address for a doorbell; empty for none."""
        self._using = using
        self._host = host
        self._wake = wake
        self._is_drawn = is_drawn
        self._stopping = Event()
        self._is_lost = False
        self._ear: Doorbell | hints.Listener | None = None
        self._thread: Thread | None = None

    def open(self) -> str:
        """Where the worker can be rung at; empty if nowhere, or if the database sends hints."""
        if hints.are_sent(self._using):
            self._ear = hints.Listener(self._using, self._is_drawn)
        elif self._host:
            try:
                self._ear = Doorbell(self._host)
            except OSError as error:
                logs.no_doorbell(self._host, error)
        return self._ear.address if isinstance(self._ear, Doorbell) else ""

    def start(self) -> None:
        if self._ear is not None:
            name = f"django_tasks-hints-{self._using}"
            self._thread = Thread(target=self._main, args=(self._ear,), name=name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Have the thread end, and wait for it: not for long, and it may end later."""
        ear, self._ear = self._ear, None
        if ear is None:
            return
        self._stopping.set()
        ear.stop()
        if self._thread is None:
            ear.close()
        else:
            self._thread.join(STOP_SECONDS)

    def _main(self, ear: Doorbell | hints.Listener) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    ear.listen(self._heard)
                except Exception as error:  # noqa: BLE001 - Django's errors, and the driver's own
                    self._lost(error)
                    self._stopping.wait(RETRY_SECONDS)
        finally:
            ear.close()
            close_connections()

    def _heard(self) -> None:
        if self._is_lost:
            self._is_lost = False
            logs.hints_back(self._using)
        self._wake()

    def _lost(self, error: Exception) -> None:
        """Say so once, until it is over: not at each try."""
        if not self._is_lost and not self._stopping.is_set():
            self._is_lost = True
            logs.hints_lost(self._using, error)
