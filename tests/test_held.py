"""The belief of a holder in its lock, without a database and with a clock of the test's."""

from collections.abc import Callable
from typing import Any

import pytest

from django_tasks.exceptions import LockLost
from django_tasks.locks import held as module
from django_tasks.locks import locking, rows
from django_tasks.locks.held import Held
from django_tasks.locks.rows import Hold

LEASE = 12.0
HOLD = Hold("report", 7, "this holder")


class World:
    """A clock, and rows that answer as the test says."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.closed = 0
        self.freed: list[Hold] = []
        self.renew: Callable[[], bool] = lambda: True
        self.free: Callable[[], bool] = lambda: True

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()

    def free(hold: Hold, *, using: str) -> bool:
        world.freed.append(hold)
        return world.free()

    def close() -> None:
        world.closed += 1

    for each in (module, locking):
        monkeypatch.setattr(each, "ticks", world)
    monkeypatch.setattr(rows, "renew", lambda hold, lease, using: world.renew())
    monkeypatch.setattr(rows, "free", free)
    monkeypatch.setattr(module, "close_connections", close)
    monkeypatch.setattr(module, "mend", lambda using: None)
    return world


@pytest.fixture
def held(world: World) -> Held:
    return Held(HOLD, LEASE, world.now, "default")


def fail() -> bool:
    raise OSError("gone")


def test_it_is_held_for_its_lease_from_before_it_was_asked_for(world: World, held: Held) -> None:
    assert (held.name, held.term) == ("report", 7)
    world.now += LEASE - 0.001
    assert held.is_held
    held.check()
    world.now += 0.001
    assert not held.is_held


def test_once_it_is_over_it_stays_so(world: World, held: Held) -> None:
    world.now += LEASE
    assert not held.is_held
    world.now -= LEASE
    assert not held.is_held
    held._was_renewed(world.now)
    assert not held.is_held
    with pytest.raises(
        LockLost, match=r"\(term 7\) is not held any more: somebody else may have it$"
    ):
        held.check()


def test_a_renewal_begins_the_lease_when_it_was_sent(world: World, held: Held) -> None:
    def slow() -> bool:
        world.now += 2
        return True

    world.now += 5
    world.renew = slow
    assert held._renew() == LEASE / 3
    assert held._seconds_left() == LEASE - 2
    assert world.closed == 0


def test_one_that_fails_is_tried_again_soon_on_another_connection(
    world: World, held: Held, caplog: pytest.LogCaptureFixture
) -> None:
    world.renew = fail
    assert held._renew() == LEASE / 12
    assert held.is_held
    assert world.closed == 1
    assert "'report'" in caplog.text
    assert "gone" in caplog.text


def test_one_that_finds_another_holder_ends_it(world: World, held: Held) -> None:
    world.renew = lambda: False
    assert held._renew() == LEASE / 3
    assert not held.is_held


def test_what_is_left_is_freed_and_what_was_lost_is_not(world: World, held: Held) -> None:
    assert held._leave()
    assert world.freed == [HOLD]
    assert not held.is_held
    assert not held._leave()
    assert world.freed == [HOLD]


def test_freeing_is_tried_twice_and_told_if_both_fail(
    world: World, held: Held, caplog: pytest.LogCaptureFixture
) -> None:
    world.free = fail
    assert held._leave()  # the section did what it had to
    assert world.freed == [HOLD] * 2
    assert "gone" in caplog.text


@pytest.mark.parametrize(("answers", "result"), [([True], True), ([False], False)])
def test_the_answer_says_if_it_was_ours_to_the_end(
    world: World, held: Held, answers: list[bool], result: bool
) -> None:
    world.free = lambda: answers.pop(0)
    assert held._leave() is result


def test_nothing_to_free_after_a_lost_answer_means_that_it_is_free(
    world: World, held: Held
) -> None:
    answers: list[Any] = [fail, lambda: False]
    world.free = lambda: answers.pop(0)()
    assert held._leave()
    assert len(world.freed) == 2


def test_the_thread_that_renews_it_keeps_no_process_from_its_end(held: Held) -> None:
    assert held._renewing.daemon
    assert held._renewing.name == "django_tasks-lock-report"
    assert repr(held) == "<Held 'report' term=7>"


def test_tries_come_later_each_time_and_the_last_one_at_the_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locking, "uniform", lambda least, most: most)
    pauses = []
    for pause in locking._pauses(5.0):
        pauses.append(pause)
        world.now += pause
    first, longest = locking.FIRST_PAUSE, locking.LONGEST_PAUSE
    assert pauses[:3] == pytest.approx([first, 2 * first, 4 * first])
    assert sum(pauses) == pytest.approx(5.0)
    assert max(pauses) <= longest
    assert list(locking._pauses(0.0)) == []


def test_tries_of_many_do_not_come_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[float, float]] = []

    def uniform(least: float, most: float) -> float:
        asked.append((least, most))
        return most

    monkeypatch.setattr(locking, "uniform", uniform)
    next(locking._pauses(5.0))
    assert asked == [(0.5, 1.0)]
