"""A process that is stopped between two statements."""

import os
import signal

from django.db import DatabaseError, connection, transaction

from django_tasks.models import Lock, Task, WorkerRow
from tests.integration.process import StartTask
from tests.waiting import DEADLINE, eventually


def freeze(worker: StartTask) -> None:
    """Stop the process while it has no row locked.

    In the middle of a write it would hold up all others until it wakes up (with SQLite the whole
    database): this is what a database promises, and not what the tests are about.
    """
    eventually(lambda: _is_frozen_free(worker), "it is stopped between two statements")


def _is_frozen_free(worker: StartTask) -> bool:
    worker.send(signal.SIGSTOP)
    os.waitid(os.P_PID, worker.pid, os.WSTOPPED)
    if _is_free():
        return True
    worker.send(signal.SIGCONT)
    return False


def _is_free() -> bool:
    """Tell if each row can be locked at once."""
    try:
        _wait_for_locks(seconds=0)
        with transaction.atomic():
            for model in (Task, Lock, WorkerRow):
                list(model.objects.select_for_update(nowait=connection.vendor != "sqlite"))
    except DatabaseError:
        return False
    finally:
        _wait_for_locks(seconds=DEADLINE)
    return True


def _wait_for_locks(seconds: float) -> None:
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")
