"""Run one claim in a process of its own, whose death harms nobody and says what it died of.

For rows whose worker has died with them twice. The process is a new Python and no fork: a lock that
another thread held at the moment of a fork would stay locked in it for ever.

Such a row is innocent as a rule. So the run finds there what it would find in the worker: modules,
settings, databases, the command line; and what only the process is to blame for fails no run.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.conf import ENVIRONMENT_VARIABLE, settings
from django.db import connections

from django_tasks.exceptions import TaskException
from django_tasks.host.clocks import pause, ticks
from django_tasks.host.self_pipe import readable
from django_tasks.store.finish import Ended
from django_tasks.values.claimed import Claimed
from django_tasks.values.outcomes import GiveBack
from django_tasks.worker.isolated.child import NOT_NOW, READY, Seat
from django_tasks.worker.isolated.texts import claim_to_text, end_of_text

# A new interpreter looks for modules in the working directory first, where the worker may never
# have looked. Of ``path`` nothing goes through PYTHONPATH: programs that a handler starts have it.
PROGRAM = (
    "import sys; sys.path[0] or sys.path.pop(0); import json;"
    " job = json.loads(sys.stdin.buffer.readline()); sys.path[:] = job['path'];"
    " from django_tasks.worker.isolated.child import main; main(**job)"
)
# How long Django may take to be set up there.
SET_UP_SECONDS = 60.0
# What a run has forked may keep the pipe open: then the death of its process is seen so late.
GLANCE_SECONDS = 0.5
# How long a slot waits for a process whose run has ended: it may have to send what it has logged.
LINGER_SECONDS = 2.0
# Between two looks if it has ended.
PAUSE_SECONDS = 0.01
CHUNK = 65_536


class NoProcess(Exception):
    """No process could be started that would run this task as the present one does."""


class NotRun(Exception):
    """The process could not begin the run: no database answered it."""


class ProcessDied(TaskException):
    """The error of a run whose own process died."""


def run_apart(
    claimed: Claimed, worker_id: int, name: str, may_start: Callable[[], bool], *, using: str
) -> Ended:
    """Run a claim of a worker in a process of its own, and return its end.

    Waits for it. ``may_start`` is asked when the process is ready, which takes a while: if it says
    no, the claim is given back. Raises NoProcess if there can be none here, NotRun if the run did
    not begin, ProcessDied if the process died during the run.
    """
    seat = Seat(using, _databases(using), worker_id, name, claimed.biz_code)
    try:
        process = _Process({"path": _path(), "argv": sys.argv, "seat": seat})
    except OSError as error:
        raise NoProcess(str(error)) from error
    try:
        answer = process.line(SET_UP_SECONDS)
        if answer == NOT_NOW:
            raise NotRun
        if answer != READY:
            raise NoProcess(f"it was not ready to run it: {process.ended(LINGER_SECONDS)}")
        if not may_start():
            return Ended(claimed, GiveBack())
        process.give(claim_to_text(claimed))
        with suppress(ValueError):
            return end_of_text(process.line() or "")
        raise ProcessDied(f"The process that ran this task alone died: {process.ended()}.")
    finally:
        process.see_off()


def _path() -> list[str]:
    """Places where this process looks for modules: the texts, for Python skips all else."""
    return [each or os.getcwd() for each in sys.path if isinstance(each, str)]


def _databases(using: str) -> dict[str, str]:
    """The names of all databases as they are here: a test's are others than the settings say."""
    own: Any = connections[using]
    names = {alias: connections.settings[alias]["NAME"] or "" for alias in connections}
    is_ours = own.vendor == "sqlite" and own.is_in_memory_db()
    if is_ours or any("mode=memory" in str(name) for name in names.values()):
        raise NoProcess("a database is in the memory of this process")
    return {alias: str(name) for alias, name in names.items()}


class _Process:
    def __init__(self, job: dict[str, Any]) -> None:
        """Start it. Raises OSError or NoProcess."""
        command = [_python(), *_flags(), "-c", PROGRAM]
        environment = {**os.environ, ENVIRONMENT_VARIABLE: _settings_module()}
        self._received = b""
        self._has_claim = False
        self._answers, write_end = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter and a module of ours
                [*command, str(write_end)],
                stdin=subprocess.PIPE,
                pass_fds=[write_end],
                env=environment,
                # Ctrl-C reaches the whole group: the run is to end as in a thread of ours.
                start_new_session=True,
            )
        except BaseException:
            os.close(self._answers)
            raise
        finally:
            os.close(write_end)
        self._send(json.dumps(job))

    def give(self, claim: str) -> None:
        """Have it run a claim."""
        self._has_claim = True
        self._send(claim)

    def _send(self, line: str) -> None:
        stdin: Any = self._process.stdin
        with suppress(BrokenPipeError):  # its exit code says why
            stdin.write(f"{line}\n".encode())
            stdin.flush()

    def line(self, seconds: float = float("inf")) -> str | None:
        """The next line that it answers; None if none comes any more, or none in ``seconds``."""
        end = ticks() + seconds
        while b"\n" not in self._received:
            has_ended = self._process.poll() is not None or ticks() > end
            if readable([self._answers], 0 if has_ended else GLANCE_SECONDS):
                if not (chunk := os.read(self._answers, CHUNK)):
                    return None
                self._received += chunk
            elif has_ended:
                return None
        line, _, self._received = self._received.partition(b"\n")
        return line.decode()

    def ended(self, seconds: float | None = None) -> str:
        """Wait for its end, and say what it was; after ``seconds`` it is killed."""
        if seconds is not None and not self._ends_in(seconds):
            self._process.kill()
            return f"it took longer than {SET_UP_SECONDS:g} s"
        return _cause(self._process.wait())

    def _ends_in(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for its end: ``wait`` with a timeout would sleep()."""
        end = ticks() + seconds
        while self._process.poll() is None:
            if ticks() > end:
                return False
            pause(PAUSE_SECONDS)
        return True

    def see_off(self) -> None:
        """Leave it to its end. Threads that the handler has left there go on, as they would here.

        Its input stays open until then: when that is closed, we have died.
        """
        if not self._has_claim:
            self._process.kill()
        if self._ends_in(LINGER_SECONDS):
            self._close()
        else:
            name = f"django_tasks-apart-{self._process.pid}"
            threading.Thread(target=self._close, name=name, daemon=True).start()

    def _close(self) -> None:
        with suppress(BrokenPipeError), self._process:
            self._process.wait()
        os.close(self._answers)


def _settings_module() -> str:
    """The module with the settings in force: those of ``settings.configure()`` are in none."""
    module: str | None = settings.SETTINGS_MODULE
    if module is None:
        raise NoProcess("the settings in force are those of no module")
    return module


def _flags() -> list[str]:
    """The interpreter's, such as -O and -W error: multiprocessing takes them from there, too."""
    flags: list[str] = getattr(subprocess, "_args_from_interpreter_flags", list)()
    return flags


def _python() -> str:
    """The interpreter. In a server that embeds Python (uWSGI), ``sys.executable`` is none."""
    for path in (sys.executable or "", str(Path(sys.prefix) / "bin" / "python3")):
        if Path(path).name.startswith(("python", "pypy")) and os.access(path, os.X_OK):
            return path
    raise NoProcess("there is no Python interpreter to start")


def _cause(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return f"signal {signal.Signals(-code).name}"
    return f"signal {-code}"
