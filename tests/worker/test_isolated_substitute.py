"""The process that runs a claim in place of a worker: how it ends where the run does not."""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from django_tasks import logs
from django_tasks.exceptions import TaskTimeout
from django_tasks.store.finish import Ended
from django_tasks.values.outcomes import Done, Outcome, Retry, Settled
from django_tasks.worker import execution
from django_tasks.worker.isolated import substitute
from django_tasks.worker.isolated.texts import claim_to_text, end_of_text
from django_tasks.worker.timeouts import Timeouts
from tests.conftest import Elsewhere
from tests.factories import NOW, a_claim_of
from tests.waiting import DEADLINE
from tests.worker.parts import handler
from tests.worker.test_kill_after import a_run

CLAIM = a_claim_of()


@pytest.fixture
def released() -> Iterator[Event]:
    """An event for which whatever hangs waits, until the test is over."""
    released = Event()
    yield released
    released.set()


class Ending:
    """The end of a process that goes on: what it had said by then."""

    def __init__(self) -> None:
        self.said: list[Outcome] = []
        self.at_its_end: list[list[Outcome]] = []
        self.has_come = Event()

    def say(self, text: str) -> None:
        self.said.append(end_of_text(text).outcome)

    def __call__(self, code: int) -> None:
        self.at_its_end.append([*self.said])
        self.has_come.set()


@pytest.fixture
def ending(monkeypatch: pytest.MonkeyPatch) -> Ending:
    ending = Ending()
    monkeypatch.setattr(os, "_exit", ending)
    return ending


class Runner:
    """Gives runs up: hooks and policies hang where the test says so."""

    def __init__(self, policy: Callable[[], object], hook: Callable[[], object]) -> None:
        self._policy, self._hook = policy, hook

    def give_up(
        self, runs: Any, error: TaskTimeout, write: Callable[[Sequence[Ended]], None]
    ) -> None:
        self._policy()
        write([Ended(CLAIM, Retry(NOW, str(error)))])
        self._hook()


def nothing() -> None:
    pass


def gives_up(ending: Ending, **hanging: Callable[[], object]) -> None:
    run = a_run(kill_after=0.1)
    run.task = CLAIM
    runner: Any = Runner(**{"policy": nothing, "hook": nothing} | hanging)
    substitute._give_up(runner, ending.say, [run], TaskTimeout("too long"))


SUSPECT = Retry(NOW, "too long", is_suspect=True)


def test_a_log_handler_that_hangs_keeps_it_from_no_end(
    ending: Ending, elsewhere: Elsewhere, released: Event
) -> None:
    class Hanging(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            assert released.wait(DEADLINE)

    hanging = Hanging()
    logs.logger.addHandler(hanging)
    try:
        elsewhere(gives_up, ending).result(DEADLINE / 2)
        assert ending.at_its_end == [[SUSPECT]]
    finally:
        released.set()
        logs.logger.removeHandler(hanging)


@pytest.mark.parametrize(("what", "said"), [("policy", []), ("hook", [SUSPECT])])
def test_nor_does_what_else_hangs(
    ending: Ending,
    elsewhere: Elsewhere,
    released: Event,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    said: list[Outcome],
) -> None:
    monkeypatch.setattr(substitute, "LAST_WORDS_SECONDS", 0.05)
    giving_up = elsewhere(partial(gives_up, ending, **{what: partial(released.wait, DEADLINE)}))
    assert ending.has_come.wait(DEADLINE / 2)
    assert ending.at_its_end == [said]
    released.set()
    giving_up.result(DEADLINE)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("outcome", "said"), [(Done(), []), (Settled(), [Settled()])])
def test_an_end_of_its_own_waits_for_what_is_told_unless_it_is_written(
    monkeypatch: pytest.MonkeyPatch, ending: Ending, outcome: Outcome, said: list[Outcome]
) -> None:
    """Race: the run is given up in the moment in which it ends."""
    waited: list[list[Outcome]] = []
    ended = Ended(CLAIM, outcome)
    monkeypatch.setattr(execution.Runner, "run", lambda runner, claim, handler: ended)
    monkeypatch.setattr(Timeouts, "await_told", lambda timeouts: waited.append([*ending.said]))
    standing: Any = SimpleNamespace(clock=None, name="worker")
    text = substitute._run(standing, handler(nothing), "default", ending.say, claim_to_text(CLAIM))
    assert end_of_text(text).outcome == outcome
    assert waited == [said]
