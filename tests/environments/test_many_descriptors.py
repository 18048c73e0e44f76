"""A busy web process has a thousand descriptors and more; a worker inside it hears all the same."""

import os
import resource
import signal
import socket
from collections.abc import Iterator
from datetime import datetime, timezone
from threading import Event

import pytest

from django_tasks.api import Task, add_task
from django_tasks.host.stop_signals import Notes
from django_tasks.store.workers import Door
from django_tasks.wakeup import doorbell
from django_tasks.wakeup.listening import ListenerThread
from tests.waiting import DEADLINE

pytestmark = pytest.mark.django_db(transaction=True)

MANY = 1100


@pytest.fixture(autouse=True)
def many_descriptors() -> Iterator[None]:
    """All that are opened from now on have numbers above 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2 * MANY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (2 * MANY, hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(MANY)]
    assert opened[-1] >= 1024
    yield
    for descriptor in opened:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_worker_is_woken_by_whoever_adds(caplog: pytest.LogCaptureFixture) -> None:
    woken = Event()
    listener = ListenerThread("default", "127.0.0.1", lambda overdue: woken.set(), lambda lot: True)
    address = listener.open()
    listener.start()
    try:
        if address:
            doorbell.ring([Door(f"{socket.gethostname()}:1:ab", address)], 1, overdue=False)
        else:
            assert woken.wait(DEADLINE)  # it listens now
            woken.clear()
            now = datetime.now(timezone.utc)
            add_task(Task(biz_code="job", biz_num="1", when=now))
        assert woken.wait(DEADLINE)
    finally:
        listener.stop()
    assert "No hints" not in caplog.text


def test_stop_signals_are_heard() -> None:
    with Notes.taken() as notes:
        os.kill(os.getpid(), signal.SIGTERM)
        assert notes.wait(DEADLINE) == 1
        assert notes.wait(0) == 0
