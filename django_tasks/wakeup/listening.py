"""A thread that waits for hints, the database's or a doorbell's, and wakes the poller."""

from collections.abc import Callable
from threading import Event, Thread

from django_tasks import logs
from django_tasks.store.connection import close_connections
from django_tasks.wakeup import postgres
from django_tasks.wakeup.doorbell import Doorbell
from django_tasks.wakeup.local import Wake

# Until it listens again after an error. Hints are a comfort: polling goes on meanwhile.
RETRY_SECONDS = 5.0
# A thread that is just connecting to a server that is gone hears nothing until that fails. A worker
# that stops does not wait for it longer than this.
STOP_SECONDS = 2.0


class ListenerThread:
    """Opened, started and stopped with its worker."""

    def __init__(
        self,
        using: str,
        host: str,
        wake: Wake,
        is_drawn: Callable[[float], bool],
    ) -> None:
        """``host`` is the address for a doorbell; empty for none."""
        self._using = using
        self._host = host
        self._wake = wake
        self._is_drawn = is_drawn
        self._stopping = Event()
        self._is_lost = False
        self._listener: Doorbell | postgres.Listener | None = None
        self._thread: Thread | None = None

    def open(self) -> str:
        """The address of its doorbell; empty if it has none, or if the database sends hints."""
        if postgres.are_sent(self._using):
            self._listener = postgres.Listener(self._using, self._is_drawn)
        elif self._host:
            try:
                self._listener = Doorbell(self._host)
            except OSError as error:
                logs.no_doorbell(self._host, error)
        return self._listener.address if isinstance(self._listener, Doorbell) else ""

    def start(self) -> None:
        if self._listener is not None:
            name = f"django_tasks-hints-{self._using}"
            self._thread = Thread(target=self._main, args=(self._listener,), name=name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Have the thread end, and wait for it: not for long, and it may end later."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        self._stopping.set()
        listener.stop()
        if self._thread is None:
            listener.close()
        else:
            self._thread.join(STOP_SECONDS)

    def _main(self, listener: Doorbell | postgres.Listener) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    listener.listen(self._heard)
                except Exception as error:  # noqa: BLE001 - Django's errors, and the driver's own
                    self._lost(error)
                    self._stopping.wait(RETRY_SECONDS)
        finally:
            listener.close()
            close_connections()

    def _heard(self, overdue: bool) -> None:
        if self._is_lost:
            self._is_lost = False
            logs.hints_back(self._using)
        self._wake(overdue)

    def _lost(self, error: Exception) -> None:
        """Say so once, until it is over: not at each try."""
        if not self._is_lost and not self._stopping.is_set():
            self._is_lost = True
            logs.hints_lost(self._using, error)
