"""The one reason why a task does not run now."""

from typing import Any

import pytest

from django_tasks.api import TaskHandler, pause_tasks
from django_tasks.locks import rows as locks
from django_tasks.models import Gate, Task, WorkerRow
from django_tasks.reads.why import Reason, why
from django_tasks.values.keys import lock_of
from django_tasks.values.status import Status
from tests.factories import CODE, NOW, a_row, a_worker, later

pytestmark = pytest.mark.django_db


def reason(biz_num: str = "1", **fields: Any) -> Reason:
    return why(a_row(biz_num, **{"when": later(-5), **fields}), using="default", now=NOW)


def kind(**fields: Any) -> str:
    return reason(**fields).kind


class Plain(TaskHandler):
    biz_code = CODE

    def handle(self, task: Any) -> None:
        """Nothing."""


class Limited(Plain):
    max_running = 2


class Rated(Plain):
    rate_limit = "1/h"


class Sticky(Plain):
    sticky = True
    schedule = "every 5m"


def test_due_just_now() -> None:
    a_worker()
    assert reason() == Reason("due", "It is due, and a worker is about to take it.")


def test_due_for_long_and_nobody_knows_why() -> None:
    a_worker()
    found = reason(when=later(-500))
    assert found.kind == "due"
    assert found.sentence.startswith("It has been due for 8 min 20 s")


def test_running_on_a_living_worker() -> None:
    worker = a_worker("host:1:abc")
    found = reason(status=Status.RUNNING, claimed_by=worker.pk, claim_time=later(-75))
    assert found.kind == "running"
    assert "for 1 min 15 s" in found.sentence
    assert "host:1:abc" in found.sentence


@pytest.mark.parametrize(
    ("status", "word"), [(Status.CANCELLING, "cancelled"), (Status.PAUSING, "paused")]
)
def test_running_for_the_last_time(status: Status, word: str) -> None:
    found = reason(status=status, claimed_by=a_worker().pk)
    assert found.kind == "running"
    assert word in found.sentence


def test_stuck_with_a_silent_worker() -> None:
    worker = a_worker("host:1:abc", heartbeat=later(-48))
    found = reason(status=Status.RUNNING, claimed_by=worker.pk)
    assert found.kind == "stuck"
    assert "host:1:abc, which runs it, has been silent for 48 s" in found.sentence


def test_stuck_with_a_worker_that_is_gone() -> None:
    assert kind(status=Status.RUNNING, claimed_by=10**6) == "stuck"


def test_failed() -> None:
    found = reason(status=Status.FAILED, attempts=5, exception="shop.errors.NoMoney")
    assert found.kind == "failed"
    assert "with NoMoney, after 5 attempts" in found.sentence


def test_failed_without_an_exception() -> None:
    assert "after 1 attempt, and waits" in reason(status=Status.FAILED, attempts=1).sentence


def test_paused_itself() -> None:
    assert kind(status=Status.PAUSED) == "paused"


def test_future() -> None:
    found = reason(when=later(3 * 3600 + 12 * 60))
    assert found.kind == "future"
    assert found.sentence.startswith("It is due in 3 h 12 min, at 2030-05-17 ")


def test_future_because_it_is_tried_again() -> None:
    found = reason(when=later(30), attempts=2, exception="builtins.OSError")
    assert found.kind == "future"
    assert "2 runs have failed, the last one with OSError" in found.sentence


@pytest.mark.parametrize(
    ("scope", "words"),
    [
        ({"biz_code": CODE}, f"Code {CODE} has been paused since"),
        ({"queue": "default"}, "Queue default has been paused since"),
        ({}, "Everything has been paused since"),
    ],
)
def test_paused_as_part(scope: dict[str, str], words: str) -> None:
    pause_tasks(**scope)
    found = reason()
    assert found.kind == "paused code"
    assert found.sentence.startswith(words)


def test_another_pause_is_no_reason() -> None:
    a_worker()
    pause_tasks(biz_code="other")
    assert kind() == "due"


def test_no_worker() -> None:
    assert reason() == Reason("no worker", "No worker is running.")


def test_no_worker_is_alive() -> None:
    a_worker(heartbeat=later(-7200))
    found = reason()
    assert found.kind == "no worker"
    assert "the last heartbeat came 2 h ago" in found.sentence


def test_no_worker_serves_the_queue() -> None:
    a_worker(queues=["mail", "slow"])
    assert kind(queue="pdf") == "queue"
    assert kind(biz_num="2", queue="slow") == "due"


def test_queue_of_another_host() -> None:
    worker = a_worker("web-1:1:a", host="web-1")
    assert kind(queue="@host:web-2") == "queue"
    assert kind(biz_num="2", queue="@host:web-1") == "due"
    WorkerRow.objects.filter(pk=worker.pk).update(host="")
    assert kind(biz_num="3", queue="@host:web-1", biz_code="own") == "due"


def test_no_worker_has_the_handler() -> None:
    a_worker(codes=["mail"])
    found = reason()
    assert found == Reason("handler", f"No running worker has a handler of its code, {CODE}.")


def test_only_workers_of_another_release(handlers) -> None:
    handlers(Plain)
    a_worker(codes=["mail"])
    assert "although this project has one" in reason().sentence


def test_a_worker_of_a_release_that_says_no_codes_may_have_any() -> None:
    worker = a_worker(codes=[])
    assert kind() == "due"
    WorkerRow.objects.filter(pk=worker.pk).update(version="0.1.0")
    assert kind(biz_num="2") == "handler"


@pytest.mark.parametrize("fields", [{"wish": "quiet"}, {"wish": "stop"}, {"state": "stopping"}])
def test_workers_that_claim_nothing(fields: dict[str, str]) -> None:
    a_worker(**fields)
    assert kind() == "quiet"


def test_limit_of_the_handler(handlers) -> None:
    handlers(Limited)
    worker = a_worker()
    for number in ("8", "9"):
        a_row(number, status=Status.RUNNING, claimed_by=worker.pk)
    found = reason()
    assert found.kind == "limit"
    assert found.sentence.startswith("2 tasks of order run")


def test_limit_of_an_operator_comes_first(handlers) -> None:
    handlers(Limited)
    a_row("8", status=Status.RUNNING, claimed_by=a_worker().pk)
    gate = Gate.objects.create(biz_code=CODE, max_running=1)
    assert kind() == "limit"
    gate.delete()
    assert kind(biz_num="2", when=later(-9)) == "due"


def test_rate_limit(handlers) -> None:
    handlers(Rated)
    a_worker()
    Gate.objects.create(biz_code=CODE, full_until=round(later(3600).timestamp() * 1e6))
    found = reason()
    assert found.kind == "rate"
    assert "start in 1 h" in found.sentence


def test_an_unreadable_limit_of_another_release_is_none() -> None:
    a_worker()
    Gate.objects.create(biz_code=CODE, rate_limit="9 a year")
    assert kind() == "due"


def test_sticky_elsewhere(handlers) -> None:
    handlers(Sticky)
    a_worker("host:1:abc")
    assert kind() == "sticky"
    locks.take(lock_of(CODE), "host:2:gone", 60, using="default")
    assert "host:2:gone" in reason(biz_num="2").sentence


@pytest.mark.parametrize("named", [True, False])
def test_names_of_workers_are_left_out_for_those_who_may_not_see_them(
    handlers, named: bool
) -> None:
    handlers(Sticky)
    silent = a_worker("host:1:abc", heartbeat=later(-48))
    quiet = a_worker("host:2:abc", wish="quiet")
    running, waiting = a_row(status=Status.RUNNING, claimed_by=silent.pk), a_row("2")

    def says(task: Task, name: str, number: str) -> None:
        sentence = why(task, using="default", now=NOW, named=named).sentence
        assert (name in sentence, number in sentence) == (named, not named)

    says(running, "host:1:abc", f"#{silent.pk}")
    says(waiting, "host:2:abc", f"#{quiet.pk}")
    WorkerRow.objects.update(wish="")
    hold = locks.take(lock_of(CODE), "host:1:abc", 60, using="default")
    says(waiting, "host:1:abc", f"#{silent.pk}")
    assert hold
    locks.free(hold, using="default")
    locks.take(lock_of(CODE), "host:9:gone", 60, using="default")
    says(waiting, "host:9:gone", "#?")


def test_sticky_here(handlers) -> None:
    handlers(Sticky)
    a_worker("host:1:abc")
    locks.take(lock_of(CODE), "host:1:abc", 60, using="default")
    assert kind() == "due"


def test_all_threads_are_busy() -> None:
    a_worker(busy=8)
    a_worker(busy=8)
    assert reason() == Reason("busy", "All 16 threads that could run it are busy.")


def test_one_free_thread_is_enough() -> None:
    a_worker(busy=8)
    a_worker(busy=7)
    assert kind() == "due"


def test_others_are_due_earlier() -> None:
    a_worker()
    a_row("8", when=later(-60))
    a_row("9", when=later(-60), biz_code="other")
    found = reason()
    assert found.kind == "behind"
    assert "1 task of its code is due earlier" in found.sentence
