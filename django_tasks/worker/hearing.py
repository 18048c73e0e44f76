"""A thread that waits for the database's hints and wakes the poller."""

from collections.abc import Callable
from threading import Event, Thread

from django_tasks import logs
from django_tasks.store.connection import close_connections
from django_tasks.store.hints import Listener

# Hints are a comfort: how soon to listen again after an error hardly matters.
RETRY_SECONDS = 5.0


class Hearing:
    """Started and stopped with its worker; does nothing on databases that send no hints."""

    def __init__(self, using: str, wake: Callable[[], None]) -> None:
        self._using = using
        self._wake = wake
        self._stopping = Event()
        self._listener: Listener | None = None
        self._thread = Thread(target=self._main, name=f"django_tasks-hints-{using}", daemon=True)

    def start(self) -> None:
        """Called by the poller thread, whose connection says what the database can do."""
        listener = Listener(self._using, self._wake)
        if listener.is_useful():
            self._listener = listener
            self._thread.start()
        else:
            listener.close()

    def stop(self) -> None:
        if self._listener is not None:
            self._stopping.set()
            self._listener.stop()
            self._thread.join()
            self._listener.close()
            self._listener = None

    def _main(self) -> None:
        listener = self._listener
        while listener is not None and not self._stopping.is_set():
            try:
                listener.listen()
            except Exception as error:  # noqa: BLE001 - Django's errors, and the driver's own
                logs.hints_lost(self._using, error)
            self._stopping.wait(RETRY_SECONDS)
        close_connections()
