"""Pauses, as a worker sees them: it claims nothing of them, does not spin, and says so once."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_tasks.api import pause_tasks, resume_tasks
from tests.worker.conftest import Register
from tests.worker.parts import CODE, Ticks, added, ahead, joined
from tests.worker.test_claiming import Claimer
from tests.worker.test_poller import Cycles

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_one_transaction")]


def test_what_is_paused_waits_and_the_rest_goes_on(register: Register) -> None:
    register(lambda task: None)
    register(lambda task: None, "other")
    added("1")
    added("2", "other")
    pause_tasks(biz_code=CODE)
    claimer = Claimer()
    assert claimer.claim() == 0
    assert claimer.keys() == ["2"]


def test_a_worker_with_nothing_but_paused_tasks_sleeps_as_if_there_were_none(
    register: Register, django_assert_num_queries: Any
) -> None:
    register(lambda task: None)
    added()
    pause_tasks()
    claimer = Claimer(poll_interval=0.7)
    for _ in range(3):
        with django_assert_num_queries(1):
            assert claimer.claim() == 0.7
        assert claimer.claiming.nothing_due


def test_after_the_end_of_the_pause_the_next_look_claims(register: Register) -> None:
    register(lambda task: None)
    added()
    pause_tasks(queue="default")
    claimer = Claimer()
    claimer.claim()
    assert claimer.keys() == []
    resume_tasks(queue="default")
    assert claimer.claim() == 0
    assert claimer.keys() == ["1"]


def test_a_task_that_was_slept_for_does_not_start_once_it_is_paused(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None)
    added("1", when=ahead(5))
    claimer = Claimer(joined(world), poll_interval=0.7)
    assert claimer.claim() > 4
    pause_tasks(biz_code=CODE)
    world.ahead += 5
    # Without a look: the claim itself finds nothing. The next time it looks.
    with CaptureQueriesContext(connection) as asked:
        claimer.claim()
    assert not any("UNION ALL" in query["sql"] for query in asked)
    assert claimer.keys() == []
    claimer.claim()
    assert claimer.claiming.nothing_due


def test_with_a_backlog_a_pause_holds_although_lanes_are_looked_for_now_and_then_only(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None)
    for number in range(5):
        added(str(number))
    claimer = Claimer(joined(world), size=2)
    claimer.claim()
    assert len(claimer.keys()) == 2
    claimer.finish()
    pause_tasks()
    claimer.claim()
    assert claimer.keys() == []


def test_what_was_claimed_before_the_pause_runs(register: Register) -> None:
    ran: list[str] = []
    register(lambda task: ran.append(task.biz_num))
    added()
    claimer = Claimer()
    claimer.claim()
    pause_tasks()
    claimer.finish()
    assert ran == ["1"]


def test_pauses_are_told_when_they_begin_and_when_they_end_and_once_each(
    register: Register, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "django_tasks")
    register(lambda task: None, queue="mail")
    claimer = Claimer()
    claimer.claim()
    caplog.clear()
    pause_tasks(biz_code=CODE)
    pause_tasks(queue="mail")
    for _ in range(3):
        claimer.claim()
    resume_tasks(queue="mail")
    for _ in range(3):
        claimer.claim()
    assert caplog.messages == [
        "Paused on default: code 'job' in every queue",
        "Paused on default: every code in queue 'mail'",
        "No longer paused on default: every code in queue 'mail'",
    ]


def test_until_empty_does_not_wait_for_what_is_paused(register: Register, world: Ticks) -> None:
    register(lambda task: None)
    added()
    pause_tasks()
    cycles = Cycles(world, until_empty=True)
    cycles.run()
    cycles.run()
    assert cycles.poller.finished
