"""The lines of the demo's programs: shown, held back until the play is open, or logged."""

import os
import re
import signal
from collections.abc import Callable
from threading import Timer
from typing import IO

from honcho.printer import Message

from testproject.demo.words import say


class Screen:
    """The printer that honcho writes to. starttask's first line is its introduction."""

    width = 0  # of the names that honcho's own printer writes

    def __init__(self, log: IO[str], play: Callable[[str], None], seconds: float | None) -> None:
        self.is_open = False
        self._log = log
        self._play = play
        self._seconds = seconds
        self._address = ""
        self._is_introduced = False
        self._held_back: list[str] = []

    def write(self, message: Message) -> None:
        data = message.data
        text = data.decode(errors="replace") if isinstance(data, bytes) else data
        for line in text.splitlines():
            if message.name == "starttask" and self._is_introduced:
                self._show(line)
            else:
                self._note(message.name, line)

    def _show(self, line: str) -> None:
        if self.is_open:
            say(line)
        else:
            self._held_back.append(line)

    def _note(self, name: str, line: str) -> None:
        print(line, file=self._log, flush=True)
        if name == "starttask":
            self._is_introduced = True
        if found := re.search(r"server at (http://\S+)", line):
            self._address = found[1]
        if self._is_introduced and self._address and not self.is_open:
            self._open()

    def _open(self) -> None:
        self.is_open = True
        self._play(self._address)
        for line in self._held_back:
            say(line)
        if self._seconds is not None:
            timer = Timer(self._seconds, os.kill, [os.getpid(), signal.SIGTERM])
            timer.daemon = True  # the user may stop the demo earlier
            timer.start()
