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
    """Holds the second of three runs; the first has ended, and the third has not begun."""

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


class Dying:
    """Has the poller die over three claims: in this cycle alone, or in all that follow as well."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, gate: Gate, *, for_good: bool) -> None:
        self._cycle, self._gate, self._for_good = Poller.run_once, gate, for_good
        self._is_dead = False
        monkeypatch.setattr(Executor, "room", lambda executor, most: 3 - executor._in_hand)
        monkeypatch.setattr(Poller, "run_once", lambda poller: self.run_once(poller))

    def run_once(self, poller: Poller) -> float:
        if self._is_dead and self._for_good:
            raise SystemExit("a defect")
        delay = self._cycle(poller)
        if Task.objects.filter(status=Status.RUNNING).count() == 3:
            assert self._gate.begun.wait(DEADLINE)
            self._is_dead = True
            raise SystemExit("a defect")
        return delay


def with_three_claims() -> Worker:
    for number in "123":
        added(number)
    worker = Worker(config(threads=1, poll_interval=0.05))
    worker.start()
    return worker


@pytest.mark.parametrize("error", [None, OperationalError, SystemExit])
def test_it_gives_back_what_waits_and_writes_what_has_ended(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, error: type[BaseException] | None
) -> None:
    problems = [error] if error else []

    def write(*args: Any, **kwargs: Any) -> Any:
        if problems:
            raise problems.pop()("gone away")
        return finish(*args, **kwargs)

    Dying(monkeypatch, gate, for_good=False)
    monkeypatch.setattr("django_tasks.worker.finisher.finish", write)
    worker = with_three_claims()
    assert gate.begun.wait(DEADLINE)
    first, second = gate.ran
    (third,) = {*"123"} - {first, second}
    left = {second: Status.RUNNING, third: Status.PENDING}
    eventually(lambda: rows() == left, "all else is written")
    assert worker.failed
    assert worker.is_alive()
    gate.open.set()
    assert worker.join(DEADLINE)
    assert rows() == {third: Status.PENDING}
    assert gate.ran == [first, second]


def test_one_that_dies_in_each_cycle_gives_back_what_waits_all_the_same(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Ends that it cannot write are rescued once its heartbeat ends, with the last run."""
    Dying(monkeypatch, gate, for_good=True)
    worker = with_three_claims()
    assert gate.begun.wait(DEADLINE)
    (third,) = {*"123"} - {*gate.ran}
    eventually(lambda: rows()[third] == Status.PENDING, "it is given back")
    assert worker.is_alive()
    gate.open.set()
    assert worker.join(DEADLINE)
    assert rows() == dict.fromkeys(gate.ran, Status.RUNNING) | {third: Status.PENDING}
    assert len(gate.ran) == 2
    assert caplog.text.count("has ended by an error") == 1
