"""A poller whose thread has died: what it holds is written, while the last of its runs goes on."""

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest
from django.db import OperationalError

from django_tasks.models import Task
from django_tasks.store.finish import finish
from django_tasks.values.status import Status
from django_tasks.worker.executor import Executor
from django_tasks.worker.poller import Poller
from django_tasks.worker.worker import Worker
from tests.waiting import DEADLINE, eventually
from tests.worker.conftest import Register
from tests.worker.parts import added, config

pytestmark = pytest.mark.django_db(transaction=True)


class Gate:
    """Where the second of three runs waits; the first has ended, and the third has not begun."""

    def __init__(self) -> None:
        self.begun, self.open = Event(), Event()
        self.ran: list[str] = []

    def handle(self, task: Any) -> None:
        self.ran.append(task.biz_num)
        if len(self.ran) == 2:
            self.begun.set()
            assert self.open.wait(DEADLINE)


@pytest.fixture
def gate(register: Register) -> Iterator[Gate]:
    gate = Gate()
    register(gate.handle)
    yield gate
    gate.open.set()


def rows() -> dict[str, Any]:
    return dict(Task.objects.values_list("biz_num", "status"))


@pytest.mark.parametrize("error", [None, OperationalError("gone away"), SystemExit("a defect")])
def test_it_gives_back_what_waits_and_writes_what_has_ended(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, error: BaseException | None
) -> None:
    cycle = Poller.run_once
    problems = [error] if error else []

    def dies(poller: Poller) -> float:
        delay = cycle(poller)
        if Task.objects.filter(status=Status.RUNNING).count() == 3:
            assert gate.begun.wait(DEADLINE)
            raise SystemExit("a defect")
        return delay

    def write(*args: Any, **kwargs: Any) -> Any:
        if problems:
            raise problems.pop()
        return finish(*args, **kwargs)

    monkeypatch.setattr(Executor, "room", lambda executor, most: 3 - executor._in_hand)
    monkeypatch.setattr(Poller, "run_once", dies)
    monkeypatch.setattr("django_tasks.worker.finisher.finish", write)
    for number in "123":
        added(number)
    worker = Worker(config(threads=1, poll_interval=0.05))
    worker.start()
    assert gate.begun.wait(DEADLINE)
    ran = [*gate.ran]
    (third,) = {*"123"} - {*ran}
    left = {ran[1]: Status.RUNNING, third: Status.PENDING}
    eventually(lambda: rows() == left, "all else is written")
    assert worker.failed
    assert worker.is_alive()
    gate.open.set()
    assert worker.join(DEADLINE)
    assert rows() == {third: Status.PENDING}
    assert gate.ran == ran
