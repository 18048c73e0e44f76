"""Directory and locale: they belong to the whole process, and a run may change them all the same.

It is told and not undone: what runs beside it may rely on the change by now. Not looked at: the
umask, which Python cannot read without setting it, while other threads make files; handlers of
signals, which only the main thread can set, where no task runs. A look lets other threads run, and
waits for its turn: after each run, it took half of what eight threads can do.
"""

from locale import LC_ALL, setlocale
from os import getcwd
from threading import Lock

from django_tasks import logs
from django_tasks.host.clocks import ticks
from django_tasks.values.claimed import Claimed

# Runs that follow each other sooner share a look, and the last of them is named.
LOOK_SECONDS = 0.2


class ProcessWide:
    """Used by all executor threads at once."""

    def __init__(self) -> None:
        self._known, self._lock, self._looked = _found(), Lock(), ticks()

    def look(self, claimed: Claimed, now: float) -> None:
        """After a run that has ended at ``now``: warn of what is not as at the last look."""
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now  # race: two threads look at once, which harms nobody
        if _found() != self._known:
            with self._lock:  # and look again: another thread may have told of it by now
                before, self._known = self._known, (after := _found())
            if before != after:
                logs.surroundings_changed(claimed, before, after)


def _found() -> tuple[str, str]:
    try:
        directory = getcwd()
    except OSError:  # somebody has removed it
        directory = ""
    return directory, setlocale(LC_ALL)
