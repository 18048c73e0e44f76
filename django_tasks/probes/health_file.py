"""A file that tells how ``starttask`` is, for probes that run a command."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from django_tasks import logs
from django_tasks.host.clocks import ticks

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
