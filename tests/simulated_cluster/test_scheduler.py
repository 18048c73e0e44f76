"""Actors take turns in simulated time, as threads would."""

import pytest

from tests.simulated_cluster import stage
from tests.simulated_cluster.hosts import Host, current
from tests.simulated_cluster.journal import Journal
from tests.simulated_cluster.left import leave_with, take_back
from tests.simulated_cluster.notes import Notes
from tests.simulated_cluster.threads import (
    Condition,
    Event,
    Local,
    Lock,
    Thread,
    Timer,
    get_ident,
    sleep,
)


def test_whoever_sleeps_least_goes_on_first(scheduler, play):
    seen = []

    def sleeper(seconds):
        def sleep_and_say():
            sleep(seconds)
            seen.append((seconds, scheduler.now))

        return sleep_and_say

    play(sleeper(3.0), sleeper(1.0), sleeper(2.0))
    assert seen == [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]


def test_an_event_wakes_its_waiters_and_a_time_out_tells_so(scheduler, play):
    event, answers = Event(), []

    def wait():
        answers.append((event.wait(1.0), scheduler.now))
        answers.append((event.wait(10.0), scheduler.now))

    def set_it():
        sleep(5.0)
        event.set()

    play(wait, set_it)
    assert answers == [(False, 1.0), (True, 5.0)]


def test_a_lock_lets_one_in_at_a_time(scheduler, play):
    lock, inside = Lock(), []

    def enter():
        with lock:
            inside.append("in")
            sleep(1.0)
            inside.append("out")

    play(enter, enter, enter)
    assert inside == ["in", "out"] * 3
    assert scheduler.now == 3.0


def test_a_condition_wakes_as_many_as_it_is_told(play):
    condition, woken = Condition(), []

    def wait():
        with condition:
            woken.append(condition.wait(5.0))

    def notify():
        sleep(1.0)
        with condition:
            condition.notify(2)

    play(wait, wait, wait, notify)
    assert sorted(woken) == [False, True, True]


def test_a_thread_is_joined_when_it_has_ended(scheduler, play):
    seen = []

    def start_one():
        thread = Thread(target=sleep, args=(2.0,))
        thread.start()
        thread.join(1.0)
        seen.append(thread.is_alive())
        thread.join()
        seen.append(thread.is_alive())

    play(start_one)
    assert seen == [True, False]
    assert scheduler.now == 2.0


def test_whoever_ends_goes_back_to_nobody(play):
    """A greenlet that ends goes on with the one that has made it, unless it is told otherwise."""
    seen = []

    def parent():
        Thread(target=lambda: seen.append("child ends")).start()
        sleep(1.0)
        seen.append("parent goes on")

    play(parent)
    assert seen == ["child ends", "parent goes on"]


def test_a_process_that_was_killed_does_nothing_any_more(scheduler, play):
    host, seen = Host(1, "victim"), []

    def victim():
        try:
            sleep(2.0)
            seen.append("alive")
        finally:
            seen.append("cleaned up")

    def kill():
        sleep(1.0)
        host.is_dead = True

    scheduler.spawn("kill", Host(2, "killer"), kill)
    play(victim, host=host)
    assert seen == []


def test_a_process_that_is_frozen_goes_on_when_it_thaws(scheduler, play):
    host, seen = Host(1, "frozen"), []
    host.frozen_until = 7.0

    def say_when():
        sleep(1.0)
        seen.append(scheduler.now)

    play(say_when, host=host)
    assert seen == [8.0]


def test_each_thread_has_attributes_of_its_own(play):
    local, seen = Local(name="nobody"), []

    def set_it():
        local.name = "somebody"
        sleep(2.0)
        seen.append(local.name)

    def look():
        sleep(1.0)
        seen.append(local.name)

    play(set_it, look)
    assert seen == ["nobody", "somebody"]


def test_a_timer_calls_unless_it_is_cancelled(scheduler, play):
    called = []

    def start():
        Timer(2.0, lambda: called.append(scheduler.now)).start()
        cancelled = Timer(3.0, lambda: called.append("cancelled"))
        cancelled.start()
        sleep(2.5)
        cancelled.cancel()

    play(start)
    assert called == [2.0]


class Left(Exception):
    """Left by another thread."""


@pytest.mark.parametrize("wait", [sleep, lambda seconds: Event().wait(seconds)])
def test_what_was_left_with_a_thread_comes_when_it_wakes_up(scheduler, play, monkeypatch, wait):
    monkeypatch.setattr(stage, "journal", Journal(), raising=False)
    seen = []

    def victim():
        try:
            wait(3.0)
        except Left:
            seen.append(scheduler.now)
        wait(1.0)
        seen.append(scheduler.now)

    def leave():
        sleep(1.0)
        leave_with(1, Left)

    play(victim, leave)
    assert seen == [3.0, 4.0]


def test_what_was_left_can_be_taken_back_and_does_not_come_where_a_thread_hangs(
    scheduler, play, monkeypatch
):
    monkeypatch.setattr(stage, "journal", Journal(), raising=False)
    seen = []

    def victim():
        scheduler.sleep(3.0)
        take_back(get_ident())
        sleep(1.0)
        seen.append(current().number)

    def leave():
        leave_with(1, Left)

    play(victim, leave)
    assert seen == [1]


def test_a_stop_signal_that_follows_the_first_one_at_once_is_the_same(scheduler, play):
    notes, seen = Notes(), []

    def main():
        while scheduler.now < 9.0:
            seen.append((notes.wait(10.0), scheduler.now))

    def signals():
        sleep(1.0)
        notes.signal()
        sleep(0.5)
        notes.signal()
        sleep(2.0)
        notes.wake()
        sleep(2.0)
        notes.signal()

    play(main, signals)
    assert seen == [(True, 1.0), (False, 1.5), (False, 3.5), (True, 5.5), (False, 15.5)]
    assert notes.is_told
    assert notes.is_woken
