"""``on_conflict="debounce"``: due when nobody has added the task for a while."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from django_tasks import api
from django_tasks.client.adding import add_task, add_tasks
from django_tasks.client.control import cancel_task
from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.handlers import registry
from django_tasks.handlers.base import TaskHandler, task_handler
from django_tasks.models import Task
from django_tasks.store import clock as store_clock
from django_tasks.store.claim import Claimer, claim
from django_tasks.store.finish import Ended, finish
from django_tasks.store.rescue import rescue
from django_tasks.timezones import for_django
from django_tasks.values.outcomes import DONE, Again, GiveBack, Outcome, Reschedule, Retry
from django_tasks.values.status import Status
from tests.conftest import Elsewhere
from tests.factories import NOW, lanes, table
from tests.waiting import DEADLINE

pytestmark = pytest.mark.django_db

WAIT, AT_MOST = timedelta(seconds=30), timedelta(minutes=2)


class Clock:
    """The clients' clock, pushed by the test."""

    def __init__(self) -> None:
        self.moment = NOW

    def __call__(self, using: str) -> datetime:
        return self.moment

    def push(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(store_clock, "now", clock)
    return clock


def debounced(biz_ext: Any = None, wait: Any = WAIT, at_most: Any = None, **fields: Any) -> Task:
    task = Task(biz_code="index", biz_num="1", biz_ext=biz_ext, **fields)
    return add_task(task, on_conflict="debounce", wait=wait, at_most=at_most)


def seconds_until(clock: Clock) -> float:
    when: datetime = Task.objects.get().when
    return (when - for_django(clock.moment)).total_seconds()


def test_it_waits_from_the_last_add_on(clock: Clock) -> None:
    assert debounced().when == for_django(NOW + WAIT)
    clock.push(20)
    assert debounced(wait=30).when == for_django(NOW + timedelta(seconds=50))
    assert Task.objects.count() == 1


def test_but_no_longer_than_at_most_from_the_first(clock: Clock) -> None:
    for _ in range(5):
        debounced(at_most=AT_MOST)
        clock.push(25)
    assert for_django(NOW + AT_MOST) == Task.objects.get().when
    debounced(at_most=AT_MOST)
    assert seconds_until(clock) == 0


def test_the_last_payload_stays_unless_the_handler_merges(clock: Clock) -> None:
    debounced({"page": 1})
    debounced({"page": 2})
    assert Task.objects.get().biz_ext == {"page": 2}


def test_the_handler_may_merge_payloads(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    class Index(TaskHandler):
        biz_code = "index"

        def merge(self, waiting: Any, added: Any) -> Any:
            return sorted({*waiting, *added})

    monkeypatch.setitem(registry._handlers, "index", Index())
    debounced([3, 1])
    debounced([2, 1])
    assert Task.objects.get().biz_ext == [1, 2, 3]


def test_while_it_runs_a_new_wait_begins(clock: Clock) -> None:
    debounced("runs", at_most=AT_MOST)
    clock.push(60)
    (lane,) = lanes(using="default")
    (mine,) = claim(Claimer(7), lane, clock.moment, 1, using="default")
    assert mine.intended_time == mine.when
    clock.push(100)
    debounced("waits", at_most=AT_MOST)
    row = Task.objects.get()
    assert (row.status, row.biz_ext, row.version) == (Status.RUNNING, "waits", mine.version + 1)
    assert seconds_until(clock) == 30
    clock.push(100)
    debounced("waits", at_most=AT_MOST)
    assert seconds_until(clock) == 20


def test_one_that_is_being_cancelled_counts_as_absent(clock: Clock) -> None:
    debounced("old")
    table().update(status=Status.CANCELLING, claimed_by=7, claim_time=for_django(NOW))
    debounced("new")
    row = Task.objects.get()
    assert (row.status, row.biz_ext) == (Status.RUNNING, "new")


def test_one_that_has_failed_waits_again(clock: Clock) -> None:
    debounced()
    table().update(status=Status.FAILED, attempts=5)
    debounced()
    row = Task.objects.get()
    assert (row.status, row.attempts) == (Status.PENDING, 0)


def test_and_then_as_long_as_any(clock: Clock) -> None:
    debounced(at_most=AT_MOST)
    table().update(status=Status.FAILED)
    clock.push(1000)
    debounced(at_most=AT_MOST)
    assert seconds_until(clock) == 30


def deadline(clock: Clock) -> float | None:
    """Seconds from now to the latest time of the task that is there."""
    latest: datetime | None = Task.objects.get().latest_time
    return None if latest is None else (latest - for_django(clock.moment)).total_seconds()


@pytest.mark.parametrize("schedule", ["every 1h", "every 1h jitter 10m"])
def test_the_time_of_a_schedules_run_is_no_deadline(clock: Clock, schedule: str) -> None:
    add_task(Task(biz_code="index", biz_num="1", schedule=schedule))
    # As a retry leaves it: due later than the time that it is meant for.
    table().update(when=for_django(NOW), scheduled_time=for_django(NOW - WAIT), attempts=1)

    stored = debounced(wait=60)

    assert seconds_until(clock) == 60
    assert (stored.schedule, stored.scheduled_time, stored.latest_time) == (None, None, None)


def test_a_deadline_is_not_the_time_that_a_run_is_meant_for(clock: Clock) -> None:
    stored = debounced(at_most=AT_MOST)
    clock.push(60)
    (mine,) = claim(Claimer(7), lanes(using="default")[0], clock.moment, 1, using="default")

    assert stored.latest_time == for_django(NOW + AT_MOST)
    assert stored.scheduled_time is None
    assert mine.intended_time == NOW + WAIT


def test_a_deadline_stays_when_no_other_is_given(clock: Clock) -> None:
    debounced(at_most=AT_MOST)
    debounced(wait=600)
    assert seconds_until(clock) == AT_MOST.total_seconds() == deadline(clock)


MOVES: dict[str, Callable[[], Any]] = {
    "add": lambda: add_task(Task(biz_code="index", biz_num="1", when=NOW)),
    "add many": lambda: add_tasks([Task(biz_code="index", biz_num="1", when=NOW)]),
    "reschedule": lambda: api.reschedule_task("index", "1", NOW),
    "run now": lambda: api.run_task_now("index", "1"),
}


@pytest.mark.parametrize("move", MOVES)
def test_whoever_moves_it_lifts_its_deadline(clock: Clock, move: str) -> None:
    debounced(at_most=AT_MOST)
    clock.push(100)
    MOVES[move]()
    assert deadline(clock) is None

    debounced(at_most=AT_MOST)
    assert (seconds_until(clock), deadline(clock)) == (30, AT_MOST.total_seconds())


def test_a_requeue_lifts_it_too(clock: Clock) -> None:
    debounced(at_most=AT_MOST)
    table().update(status=Status.FAILED)
    api.requeue_task("index", "1")
    assert deadline(clock) is None


STAYS: dict[str, Callable[[], Any]] = {
    "pause": lambda: api.pause_task("index", "1"),
    "add, keep": lambda: add_task(
        Task(biz_code="index", biz_num="1", when=NOW), on_conflict="keep"
    ),
    "add, earliest": lambda: add_task(
        Task(biz_code="index", biz_num="1", when=NOW + 2 * WAIT), on_conflict="earliest"
    ),
}


@pytest.mark.parametrize("step", STAYS)
def test_what_does_not_move_it_leaves_its_deadline(clock: Clock, step: str) -> None:
    debounced(at_most=AT_MOST)
    STAYS[step]()
    assert deadline(clock) == AT_MOST.total_seconds()


def a_run_ends(clock: Clock, outcome: Outcome) -> None:
    clock.push(40)
    (lane,) = lanes(using="default")
    (mine,) = claim(Claimer(7), lane, clock.moment, 1, using="default")
    assert finish([Ended(mine, outcome)], clock.moment, using="default").lost == set()


@pytest.mark.parametrize(
    "outcome", [Retry(NOW + 2 * WAIT, "oh"), Reschedule(NOW + 2 * WAIT), Again(NOW + 2 * WAIT)]
)
def test_a_run_ends_the_wait_and_its_deadline(clock: Clock, outcome: Outcome) -> None:
    debounced(at_most=AT_MOST)
    a_run_ends(clock, outcome)
    assert deadline(clock) is None

    clock.push(60)
    debounced(at_most=AT_MOST)
    assert (seconds_until(clock), deadline(clock)) == (30, AT_MOST.total_seconds())


def test_what_was_not_run_keeps_its_deadline(clock: Clock) -> None:
    debounced(at_most=AT_MOST)
    a_run_ends(clock, GiveBack())
    assert deadline(clock) == AT_MOST.total_seconds() - 40

    claim(Claimer(7), lanes(using="default")[0], clock.moment, 1, using="default")
    assert len(rescue([7], lambda orphan: 9, clock.moment, using="default").freed) == 1
    assert deadline(clock) == AT_MOST.total_seconds() - 40


def test_what_was_added_while_it_ran_has_a_deadline_of_its_own(clock: Clock) -> None:
    debounced(at_most=AT_MOST)
    clock.push(40)
    (mine,) = claim(Claimer(7), lanes(using="default")[0], clock.moment, 1, using="default")
    debounced(at_most=AT_MOST)
    assert finish([Ended(mine, DONE)], clock.moment, using="default").handed_over == {mine.id}

    assert (seconds_until(clock), deadline(clock)) == (30, AT_MOST.total_seconds())


def test_after_a_cancel_the_wait_begins_again(clock: Clock) -> None:
    debounced(at_most=AT_MOST)
    clock.push(100)
    cancel_task("index", "1")
    debounced(at_most=AT_MOST)
    assert seconds_until(clock) == 30


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"wait": None}, "wait must say how long"),
        ({"wait": -1}, "wait must not be negative"),
        ({"wait": 60, "at_most": 30}, "at_most must not be shorter than wait"),
        ({"at_most": -1}, "at_most must not be negative"),
        ({"when": NOW}, "when must be left out"),
        ({"schedule": "every 1h"}, "schedule cannot be debounced"),
    ],
    ids=str,
)
def test_bad_input_is_refused(clock: Clock, values: Any, sentence: str) -> None:
    with pytest.raises(TaskValueError, match=sentence):
        debounced(**values)
    assert not Task.objects.exists()


def test_a_wait_of_the_wrong_type_is_refused() -> None:
    with pytest.raises(TaskTypeError, match="wait must be"):
        debounced(wait="30")


def test_wait_goes_with_debounce_only() -> None:
    with pytest.raises(TaskValueError, match="goes with on_conflict='debounce' only"):
        add_task(Task(biz_code="index", biz_num="1", when=NOW), wait=3)
    with pytest.raises(TaskValueError, match="on_conflict goes with add_task only"):
        add_tasks([], on_conflict="debounce")  # type: ignore[arg-type]


def test_a_function_may_merge_payloads(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    @task_handler("index", merge=lambda waiting, added: [*waiting, *added])
    def index(task: Any) -> None: ...

    monkeypatch.setitem(registry._handlers, "index", index)
    debounced([1])
    assert debounced([2]).biz_ext == [1, 2]


@pytest.mark.django_db(transaction=True)
def test_of_many_who_add_at_once_nobodys_payload_is_lost(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Index(TaskHandler):
        biz_code = "index"

        def merge(self, waiting: Any, added: Any) -> Any:
            return sorted({*waiting, *added})

    monkeypatch.setitem(registry._handlers, "index", Index())
    futures = [elsewhere(debounced, [number], wait=600) for number in range(12)]
    for future in futures:
        future.result(DEADLINE)
    assert Task.objects.get().biz_ext == list(range(12))
