"""Actors take turns in simulated time, as threads would."""

from tests.explore.hosts import Host
from tests.explore.threads import Condition, Event, Local, Lock, Thread, sleep


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
