"""Run one claim in a process of its own, whose death harms nobody and says what it died of.

For rows whose worker has died with them twice. The process is a new Python and no fork: a lock that
another thread held at the moment of a fork would stay locked in it for ever.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.conf import ENVIRONMENT_VARIABLE
from django.db import connections

from django_tasks.claimed import Claimed
from django_tasks.exceptions import TaskException
from django_tasks.store.finish import Ended
from django_tasks.worker.isolated import CANNOT, NOT_RUN, Seat
from django_tasks.worker.wire import claim_to_text, end_of_text

PROGRAM = "django_tasks.worker.isolated"


class NoProcess(Exception):
    """No process could be started that would run this task as the present one does."""


class NotRun(Exception):
    """The process could not begin the run: the database did not answer it, for example."""


class ProcessDied(TaskException):
    """The error of a run whose own process died."""


def run_apart(claimed: Claimed, worker_id: int, name: str, *, using: str) -> Ended:
    """Run a claim of a worker in a process of its own, and return its end.

    Waits for it. Raises NoProcess if there can be none here, NotRun if the run did not begin, and
    ProcessDied if the process died: by a signal, or by an exit before the end of the run.
    """
    seat = Seat(using, _database_name(using), worker_id, name)
    with _folder() as folder:
        answer = Path(folder) / "end"  # a file and no pipe: what the run forks may keep a pipe open
        code = _run([json.dumps(seat), claim_to_text(claimed)], answer)
        if code == CANNOT:
            raise NoProcess("it could not set up this project, or knows no such handler")
        if code == NOT_RUN:
            raise NotRun("it could not begin the run")
        if code == 0 and answer.exists():
            return end_of_text(answer.read_text(encoding="utf-8"))
    raise ProcessDied(f"The process that ran this task alone died: {_cause(code)}.")


def _folder() -> "TemporaryDirectory[str]":
    try:
        return TemporaryDirectory(prefix="django_tasks-", ignore_cleanup_errors=True)
    except OSError as error:
        raise NoProcess(str(error)) from error


def _database_name(using: str) -> str:
    """As it is here: a test's database has another name than the settings say."""
    connection: Any = connections[using]
    if connection.vendor == "sqlite" and connection.is_in_memory_db():
        raise NoProcess("the database is in the memory of this process")
    return str(connection.settings_dict["NAME"])


def _run(job: Sequence[str], answer: Path) -> int:
    if not os.environ.get(ENVIRONMENT_VARIABLE):
        raise NoProcess(f"{ENVIRONMENT_VARIABLE} is not set")
    path = os.pathsep.join(each or os.getcwd() for each in sys.path)
    try:
        process = subprocess.Popen(  # noqa: S603 - this interpreter and a module of ours
            [_python(), "-m", PROGRAM, str(answer)],
            stdin=subprocess.PIPE,
            bufsize=0,  # else what a dead process has not read is written again at the end
            env={**os.environ, "PYTHONPATH": path},
            # Ctrl-C reaches the whole group, and the run is to end as one of our threads' would.
            start_new_session=True,
        )
    except OSError as error:
        raise NoProcess(str(error)) from error
    with process, suppress(BrokenPipeError):  # its exit code says why
        if process.stdin is not None:
            process.stdin.write("".join(f"{line}\n" for line in job).encode())
        # Its input stays open until it has ended: when that is closed, we have died.
        process.wait()
    return process.returncode


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
