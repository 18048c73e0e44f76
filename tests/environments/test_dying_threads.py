"""Threads that die are noticed, said and replaced, and what they ran ends."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from django_tasks import signals
from django_tasks.store.finish import Ended
from django_tasks.values.claimed import Claimed
from django_tasks.values.outcomes import Done, Fail
from django_tasks.worker import executor as module
from django_tasks.worker.executor import Executor, Item
from django_tasks.worker.heartbeat import Heartbeat
from django_tasks.worker.notifier import Notifier
from django_tasks.worker.timeouts import Timeouts
from tests.environments.workers import Start, wait_for_beats
from tests.waiting import DEADLINE, eventually
from tests.worker.parts import added, handler
from tests.worker.test_executor import items

DIED = Fail("its thread died")


@pytest.fixture
def deaths(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Exceptions that have ended a thread."""
    deaths: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", deaths.append)
    return deaths


# Threads that run tasks


class Run:
    """Ends well, unless the first claim is to raise."""

    def __init__(self, raises: type[BaseException] | None = None) -> None:
        self._raises = raises
        self.threads: list[threading.Thread] = []

    def __call__(self, item: Item, take: Any = None) -> list[Ended]:
        self.threads.append(threading.current_thread())
        if self._raises and item[0].id == 0:
            raise self._raises
        return [Ended(claimed, Done()) for claimed in item]

    def crashed(self, claimed: Claimed) -> Ended:
        return Ended(claimed, DIED)


class Untidy:
    """A connection that ends its thread when it is looked at, once."""

    close_at = None
    connection = object()
    in_atomic_block = False
    queries_log = ()

    def __init__(self) -> None:
        self.raises = True

    def close_if_unusable_or_obsolete(self) -> None:
        if self.raises:
            self.raises = False
            raise RuntimeError("a driver's own")


@pytest.fixture
def executor() -> Iterator[list[Executor]]:
    """Executors that end with the test."""
    started: list[Executor] = []
    yield started
    for each in started:
        each.close()
        each.join()


def at_work(started: list[Executor], run: Run) -> Executor:
    executor = Executor(1, run, lambda: None)
    started.append(executor)
    executor.start()
    return executor


def outcomes(executor: Executor, count: int) -> list[Any]:
    ends: list[Ended] = []

    def are_there() -> bool:
        ends.extend(executor.collect())
        return len(ends) >= count

    eventually(are_there, f"{count} ends")
    return [end.outcome for end in ends]


@pytest.mark.parametrize("error", [KeyError, SystemExit, KeyboardInterrupt])
def test_whatever_a_run_lets_through_becomes_its_end_and_the_thread_goes_on(
    executor: list[Executor], error: type[BaseException]
) -> None:
    run = Run(raises=error)
    hands = at_work(executor, run)
    hands.submit(items(2))
    assert outcomes(hands, 2) == [DIED, Done()]
    assert len(set(run.threads)) == 1
    assert hands.is_idle()


def test_a_thread_that_died_is_replaced_and_its_run_ends(
    executor: list[Executor],
    deaths: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    untidy, run = Untidy(), Run()
    monkeypatch.setattr(module, "own_connections", lambda lease: [untidy])
    hands = at_work(executor, run)
    hands.submit(items(2))
    eventually(lambda: deaths and not hands._threads[0].is_alive(), "its thread is dead")
    assert hands.collect() == []
    hands.mend()
    assert outcomes(hands, 2) == [DIED, Done()]
    assert hands.running() == []
    assert hands.is_idle()
    assert len(set(run.threads)) == 2
    assert caplog.text.count("Thread django_tasks-1 has died; another one takes its place") == 1
    hands.mend()
    assert caplog.text.count("has died") == 1


# Threads that a worker depends on


class Dying:
    """A method that ends its thread once, when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        self._intact = getattr(owner, name)
        self.is_due = False
        dying = self

        def method(one: Any, *args: Any) -> Any:
            if dying.is_due:
                dying.is_due = False
                raise SystemExit
            return dying._intact(one, *args)

        monkeypatch.setattr(owner, name, method)


@pytest.mark.django_db(transaction=True)
def test_heartbeats_go_on_after_the_death_of_their_thread_and_nobody_misses_one(
    start_worker: Start, deaths: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = Dying(monkeypatch, Heartbeat, "cycle")
    worker = start_worker()
    wait_for_beats(1, worker)
    dying.is_due = True
    wait_for_beats(3, worker)
    assert len(deaths) == 1


@pytest.mark.django_db(transaction=True)
def test_signals_are_sent_after_the_death_of_the_thread_that_sends_them(
    start_worker: Start, deaths: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []

    def receive(**facts: Any) -> None:
        told.append(facts)

    dying = Dying(monkeypatch, Notifier, "_next")
    signals.task_lost.connect(receive)
    try:
        worker = start_worker()
        dying.is_due = True
        for _ in range(2):
            worker._notifier.tell(signals.task_lost, None, task="x", using="default")
        eventually(lambda: len(told) == 2, "two signals")
        assert len(deaths) == 1
    finally:
        signals.task_lost.disconnect(receive)


@pytest.mark.django_db(transaction=True)
def test_runs_end_at_their_timeout_after_the_death_of_the_thread_that_sees_to_it(
    start_worker: Start, handlers: Any, deaths: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()

    def handle(task: Any) -> None:
        while True:  # for ever
            pass

    dying = Dying(monkeypatch, Timeouts, "_look")
    dying.is_due = True
    attributes: dict[str, Any] = {"timeout": 0.05, "max_attempts": 1}
    told = handler(handle, on_failure=lambda task, exc: ended.set(), **attributes)
    handlers(told)
    worker = start_worker()
    added()
    assert ended.wait(DEADLINE)
    assert len(deaths) == 1
    worker.stop()
    assert worker.join(DEADLINE)
    assert not [each for each in threading.enumerate() if each.name == "django_tasks-timeouts"]
