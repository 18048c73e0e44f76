"""Codes without a handler: another thread looks for it, once; if there is none, it is said."""

import threading
from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from django.db import OperationalError

from django_tasks.client.adding import add_task
from django_tasks.handlers import finders
from django_tasks.handlers.registry import register_task_handler
from django_tasks.models import Task
from django_tasks.worker import missing_handlers
from django_tasks.worker.worker import Worker
from tests.waiting import DEADLINE, eventually
from tests.worker.conftest import Register
from tests.worker.parts import config, handler

pytestmark = pytest.mark.django_db(transaction=True)


class Hanging:
    """A finder for which one module hangs while it is imported."""

    def __init__(self, hangs: str, known: str) -> None:
        self.hangs, self.known = hangs, known
        self.go_on, self.ran = Event(), Event()

    def is_wanted(self) -> bool:
        return True

    def discover(self) -> None:
        """It knows nothing in advance."""

    def problems(self) -> list[str]:
        return []

    def find_at(self, path: str) -> None:
        """No code of its own is a path."""

    def find(self, biz_code: str, *, using: str) -> None:
        if biz_code == self.hangs:
            self.go_on.wait(DEADLINE)
        elif biz_code == self.known:
            register_task_handler(handler(lambda task: self.ran.set(), biz_code))


class Module:
    """A finder that has one handler, and is asked for it."""

    def __init__(self, code: str, error: Exception | None = None) -> None:
        self.code = code
        self.error = error
        self.asked: list[tuple[str, str]] = []
        self.ran: list[str] = []
        self.wished_in: set[str] = set()

    def is_wanted(self) -> bool:
        self.wished_in.add(threading.current_thread().name)
        return True

    def discover(self) -> None:
        """It knows nothing in advance."""

    def problems(self) -> list[str]:
        return []

    def find_at(self, path: str) -> None:
        """No code of its own is a path."""

    def find(self, biz_code: str, *, using: str) -> None:
        self.asked.append((biz_code, threading.current_thread().name))
        if self.error is not None:
            raise self.error
        if biz_code == self.code:
            register_task_handler(handler(lambda task: self.ran.append(task.biz_num), biz_code))


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch, register: Register) -> Any:
    """Have one finder, and an empty registry."""

    def take(finder: Module) -> Module:
        monkeypatch.setattr(finders, "_finders", [finder])
        finders.forget()  # what was looked for before
        return finder

    return take


def work(**wishes: Any) -> None:
    worker = Worker(config(until_empty=True, **wishes))
    worker.start()
    assert worker.join(DEADLINE)


def due(code: str, number: str = "1", **facts: Any) -> None:
    add_task(code, number, when=timedelta(seconds=-1), **facts)


def test_its_tasks_run_once_it_is_found(only: Any) -> None:
    module = only(Module("late"))
    due("late")
    due("late", "2")
    work()
    assert sorted(module.ran) == ["1", "2"]
    assert not Task.objects.exists()


def test_the_poller_waits_for_nobody_elses_module(only: Any) -> None:
    module = only(Module("late"))
    due("late")
    module.wished_in.clear()  # the add asks too, in its own thread
    work()
    assert module.asked == [("late", "django_tasks-finder")]
    assert module.wished_in == {"django_tasks-finder"}  # a backend of the project may be made there


def test_what_is_not_found_waits_and_is_told_of_once(
    only: Any, caplog: pytest.LogCaptureFixture
) -> None:
    module = only(Module("other"))
    due("strange")
    work()
    assert [code for code, _ in module.asked] == ["strange"]
    assert caplog.text.count("1 task of code 'strange' is due on default and no handler") == 1
    assert Task.objects.get().status == 0


def test_a_module_that_raises_is_told_of_and_its_tasks_wait(
    only: Any, caplog: pytest.LogCaptureFixture
) -> None:
    only(Module("bad", RuntimeError("no such luck")))
    due("bad")
    work()
    assert "The handler of code 'bad', which has due tasks on default, cannot" in caplog.text
    assert "no such luck" in caplog.text
    assert Task.objects.get().status == 0


def test_of_several_unknown_codes_each_is_looked_for(only: Any) -> None:
    module = only(Module("b"))
    for code in "abc":
        due(code)
    work()
    assert sorted(code for code, _ in module.asked) == ["a", "b", "c"]
    assert [row.biz_code for row in Task.objects.order_by("biz_code")] == ["a", "c"]


def test_nothing_is_imported_for_tasks_that_another_worker_serves(only: Any) -> None:
    module = only(Module("late"))
    due("late", queue="elsewhere")
    work(queues=("default",))
    assert module.asked == []


def test_a_finder_that_nobody_wants_is_not_asked(
    only: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    module = only(Module("late"))
    monkeypatch.setattr(module, "is_wanted", lambda: False)
    due("late")
    work()
    assert module.asked == []
    assert "no handler is known for it" in caplog.text


def test_a_database_that_does_not_answer_is_asked_again(
    only: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missing_handlers, "RETRY_SECONDS", 0.0)
    module = only(Module("late", OperationalError("gone")))
    due("late")
    worker = Worker(config())
    worker.start()
    try:
        eventually(lambda: len(module.asked) > 1, "it is asked again")
        module.error = None
        eventually(lambda: module.ran, "its task runs")
    finally:
        worker.stop()
        assert worker.join(DEADLINE)


def test_a_module_that_hangs_holds_up_no_other_one_and_no_stop(only: Any) -> None:
    module = only(Hanging("stuck", "late"))
    due("stuck")
    worker = Worker(config(until_empty=True))
    worker.start()
    try:
        due("late")
        assert module.ran.wait(DEADLINE)
        assert worker.is_alive()  # it may still be found
        worker.stop()
        assert worker.join(DEADLINE / 4)
    finally:
        module.go_on.set()
        worker.stop()
        worker.join(DEADLINE)


def test_one_that_hangs_too_long_keeps_no_worker_from_its_end(
    only: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missing_handlers, "SETTLE_SECONDS", 0.2)
    module = only(Hanging("stuck", "late"))
    due("stuck")
    try:
        work()
    finally:
        module.go_on.set()
