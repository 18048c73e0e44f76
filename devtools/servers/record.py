"""A server as it is written down: its note, its log, its process."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from devtools.servers.places import RUNTIME, locked
from devtools.servers.process import Process


class Recorded:
    """One server's files in the runtime directory; from one command to the next, nothing else."""

    name: str
    title: str

    @property
    def file_name(self) -> str:
        """A colon would make rsync take a path for that of another host."""
        return self.name.replace(":", "-")

    @property
    def note_file(self) -> Path:
        return RUNTIME / f"{self.file_name}.json"

    @property
    def log_file(self) -> Path:
        return RUNTIME / "logs" / f"{self.file_name}.log"

    def end_of_log(self) -> str:
        lines = self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n    ".join([f"the end of {self.log_file}:", *lines[-30:]])

    def note(self) -> dict[str, Any]:
        """directory, user, port, and once they are known: pid, started, ready (data is whole)."""
        try:
            note: dict[str, Any] = json.loads(self.note_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return note

    def write_note(self, **changes: Any) -> None:
        text = json.dumps({**self.note(), **changes}, indent=2) + "\n"
        new = self.note_file.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.replace(self.note_file)  # a reader sees the old note or the new one, never half of it

    def forget(self) -> None:
        self.note_file.unlink(missing_ok=True)

    @property
    def directory(self) -> Path:
        return Path(self.note()["directory"])

    @property
    def port(self) -> int:
        return int(self.note()["port"])

    def process(self) -> Process | None:
        """The running server, None if it does not run."""
        note = self.note()
        if not note.get("started"):  # it had ended before its start could be written down
            return None
        process = Process(note["pid"], note["started"])
        return process if process.runs() else None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One command at a time; the servers of a cluster know of each other and have one lock."""
        with locked(self.name.partition(":")[0]):
            yield
