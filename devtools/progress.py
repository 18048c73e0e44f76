"""Tell in a log what runs and what is done: at a terminal nox shows it itself."""

import re
import subprocess
import sys
from threading import Thread
from time import monotonic

from devtools.messages import say

SECONDS = 60.0

# The lines of nox, of sessions that run side by side.
_BEGUN = re.compile(r"Starting session (.+)\.\.\.$")
_ENDED = re.compile(r"=+ \S (.+): (\w+)")


class Progress:
    """Passes on what nox prints, and says each minute how far it is."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._began = monotonic()
        self._running: list[str] = []
        self._done: list[str] = []
        self._reader = Thread(target=self._read, daemon=True)

    def wait(self) -> int:
        """Wait for the end of nox; returns its exit code."""
        self._reader.start()
        while True:
            try:
                code = self._process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                say(self.line())
            else:
                self._reader.join()
                return code

    def line(self) -> str:
        minutes = (monotonic() - self._began) / 60
        running, done = (", ".join(names) or "nothing" for names in (self._running, self._done))
        return f"{minutes:.0f} min: running: {running}; done: {done}"

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self.heed(line)
            sys.stdout.write(line)
            sys.stdout.flush()

    def heed(self, line: str) -> None:
        """Note the sessions that begin and end by that line."""
        if begun := _BEGUN.match(line):
            self._running.append(begun[1])
        elif (ended := _ENDED.match(line)) and ended[1] in self._running:
            self._running.remove(ended[1])
            self._done.append(ended[1] if ended[2] == "success" else f"{ended[1]} ({ended[2]})")
