"""A thread that waits for hints, the database's or a doorbell's, and wakes the poller."""

from collections.abc import Callable
from threading import Event, Thread

from django_tasks import logs
from django_tasks.doorbell import Doorbell
from django_tasks.store import hints
from django_tasks.store.connection import close_connections

# Hints are a comfort: how soon to listen again after an error hardly matters.
RETRY_SECONDS = 5.0


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
        self._ear: Doorbell | hints.Listener | None = None
        self._thread = Thread(target=self._main, name=f"django_tasks-hints-{using}", daemon=True)

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
            self._thread.start()

    def stop(self) -> None:
        if self._ear is not None:
            self._stopping.set()
            self._ear.stop()
            if self._thread.ident is not None:
                self._thread.join()
            self._ear.close()
            self._ear = None

    def _main(self) -> None:
        ear = self._ear
        while ear is not None and not self._stopping.is_set():
            try:
                ear.listen(self._wake)
            except Exception as error:  # noqa: BLE001 - Django's errors, and the driver's own
                logs.hints_lost(self._using, error)
                self._stopping.wait(RETRY_SECONDS)
        close_connections()
