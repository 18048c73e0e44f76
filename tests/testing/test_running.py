"""Due tasks run in place, by the rules of a worker."""

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar
from datetime import datetime, timedelta, timezone
from decimal import getcontext
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections, transaction
from django.utils.timezone import activate as activate_zone
from django.utils.timezone import get_current_timezone_name
from django.utils.translation import activate, get_language

from django_tasks.api import (
    CancelResult,
    RetryLater,
    Status,
    Task,
    aadd_task,
    add_task,
    add_tasks,
    cancel_task,
    find_tasks,
    get_runs,
    get_task,
    pause_task,
    pause_tasks,
    reschedule_task,
)
from django_tasks.exceptions import TaskValueError
from django_tasks.host.clocks import utc_now
from django_tasks.models import Task as Row
from django_tasks.models import WorkerRow
from django_tasks.signals import task_started, task_succeeded
from django_tasks.store import clock
from django_tasks.testing import (
    TooManyRuns,
    arun_due_tasks,
    drain_tasks,
    freeze_tasks,
    run_due_tasks,
)
from django_tasks.timezones import for_django
from testproject.shop.models import Partner
from tests.factories import a_row
from tests.testing.conftest import Job
from tests.worker.parts import heard

pytestmark = pytest.mark.django_db

NOON = datetime(2040, 5, 17, 12, tzinfo=timezone.utc)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def the_row(num: str = "1", code: str = "job") -> Task:
    row = get_task(code, num)
    assert row is not None
    return row


def nothing(task: Any) -> None:
    """A handler that does nothing."""


def fail(task: Any) -> None:
    raise ValueError(f"attempt {task.attempt}")


def test_what_is_due_runs_and_the_rest_waits(job: Job) -> None:
    seen = []
    job(lambda task: seen.append(task.biz_num))
    add_task("job", "now")
    add_task("job", "later", when=HOUR)
    (ran,) = run_due_tasks()
    assert (ran.code, ran.num, ran.outcome, ran.exception) == ("job", "now", "done", None)
    assert seen == ["now"]
    assert get_task("job", "now") is None
    assert get_task("job", "later") is not None


def test_a_time_taken_from_the_hosts_clock_has_come(job: Job) -> None:
    job(nothing)
    add_task("job", "1", when=datetime.now(timezone.utc))
    assert len(run_due_tasks()) == 1


def test_a_database_whose_clock_is_behind_is_no_matter(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    job(nothing)
    add_task("job", "1", when=datetime.now(timezone.utc))
    monkeypatch.setattr(clock, "database_now", lambda using: utc_now() - HOUR)
    assert len(run_due_tasks()) == 1


def test_it_runs_on_the_thread_and_in_the_transaction_of_the_test(job: Job) -> None:
    threads = []

    def handle(task: Any) -> None:
        assert Partner.objects.filter(name="uncommitted").exists()
        assert connection.in_atomic_block
        threads.append(threading.get_ident())

    job(handle)
    Partner.objects.create(name="uncommitted")
    before = set(threading.enumerate())  # one of an earlier test may end meanwhile
    add_task("job", "1")
    run_due_tasks()
    assert threads == [threading.get_ident()]
    assert set(threading.enumerate()) <= before


@pytest.mark.django_db(transaction=True)
def test_without_a_transaction_each_statement_commits(job: Job) -> None:
    in_blocks = []
    job(lambda task: in_blocks.append(connection.in_atomic_block))
    add_task("job", "1")
    assert [str(ran) for ran in run_due_tasks()] == ["job/1 done"]
    assert in_blocks == [False]


def test_a_record_tells_of_the_run(job: Job) -> None:
    handler = job(lambda task: HOUR)
    with freeze_tasks(NOON):
        add_task("job", "1", when=-DAY)
        (ran,) = run_due_tasks()
    assert ran.handler is handler
    assert ran.outcome == "rescheduled"
    assert ran.attempt == 1
    assert ran.seconds > 0
    assert the_row().when == ran.next_time
    assert Row.objects.get().when == ran.next_time


def test_the_exception_of_a_handler_is_raised_after_its_end_is_written(job: Job) -> None:
    job(fail, max_attempts=2)
    add_task("job", "1")
    add_task("job", "2")
    with pytest.raises(ValueError, match="attempt 1"):
        run_due_tasks()
    assert the_row("1").attempts == 1
    assert "attempt 1" in the_row("1").last_error
    untouched = the_row("2")
    assert (untouched.status, untouched.claimed_by) == (Status.PENDING, None)


def test_errors_are_collected_on_request(job: Job) -> None:
    job(fail, max_attempts=1)
    add_task("job", "1")
    add_task("job", "2")
    ran = run_due_tasks(raise_errors=False)
    assert [each.outcome for each in ran] == ["failed", "failed"]
    assert all(isinstance(each.exception, ValueError) for each in ran)
    assert {each.status for each in find_tasks("job")} == {Status.FAILED}


def test_an_interruption_is_raised_in_any_case(job: Job) -> None:
    def handle(task: Any) -> None:
        raise KeyboardInterrupt

    job(handle)
    add_task("job", "1")
    with pytest.raises(KeyboardInterrupt):
        run_due_tasks(raise_errors=False)


def test_retries_come_after_their_backoff(job: Job) -> None:
    job(fail, max_attempts=3, backoff=[60, 600])
    with freeze_tasks(NOON) as time:
        add_task("job", "1")
        assert [ran.outcome for ran in run_due_tasks(raise_errors=False)] == ["retried"]
        time.tick(59)
        assert run_due_tasks() == []
        time.tick(1)
        assert [ran.attempt for ran in run_due_tasks(raise_errors=False)] == [2]
        time.tick(600)
        assert [ran.outcome for ran in run_due_tasks(raise_errors=False)] == ["failed"]


def test_a_handler_may_ask_to_be_tried_later(job: Job) -> None:
    def handle(task: Any) -> None:
        raise RetryLater(DAY)

    job(handle)
    with freeze_tasks(NOON):
        add_task("job", "1")
        (ran,) = run_due_tasks(raise_errors=False)
        assert ran.outcome == "retried"
        assert the_row().when == ran.next_time
        (again,) = run_due_tasks(now=NOON + DAY, raise_errors=False)
        assert again.attempt == 2


def test_now_is_the_time_of_all_that_happens(job: Job) -> None:
    def handle(task: Any) -> None:
        add_task("other", "1", when=HOUR)

    job(handle)
    add_task("job", "1", when=NOON)
    assert run_due_tasks() == []
    assert len(run_due_tasks(now="2040-05-17T12:00:00Z")) == 1
    assert find_tasks("other", when=NOON + HOUR).exists()


def test_what_handlers_add_for_now_runs_as_well(job: Job) -> None:
    def handle(task: Any) -> None:
        if task.biz_num == "1":
            add_task("job", "2")

    job(handle)
    add_task("job", "1")
    assert [ran.num for ran in run_due_tasks()] == ["1", "2"]


def test_the_more_urgent_one_that_a_handler_adds_comes_first(job: Job) -> None:
    def handle(task: Any) -> None:
        if task.biz_num == "1":
            add_task("job", "urgent", priority=9)

    job(handle)
    add_task("job", "1", when=-HOUR)
    add_task("job", "2")
    assert [ran.num for ran in run_due_tasks()] == ["1", "urgent", "2"]


def test_codes_and_queues_narrow_it(job: Job) -> None:
    job(nothing)
    job(nothing, "other", queue="mail")
    add_task("job", "1")
    add_task("other", "1")
    assert [ran.code for ran in run_due_tasks(codes="other")] == ["other"]
    add_task("other", "2")
    assert [ran.code for ran in run_due_tasks(queues=["mail"])] == ["other"]
    assert [ran.code for ran in run_due_tasks(codes=["job"])] == ["job"]


def test_handlers_stand_for_their_codes(job: Job) -> None:
    own = job(nothing)
    job(nothing, "other")
    for codes in (own, type(own), [own], {type(own)}):
        add_task("job")
        add_task("other")
        assert [ran.code for ran in run_due_tasks(codes=codes)] == ["job"]
    assert len(drain_tasks(codes=["job", "other"])) == 4


def test_a_limit_ends_it_in_silence(job: Job) -> None:
    job(nothing)
    add_tasks([Task(biz_code="job", biz_num=str(num), when=NOON - DAY) for num in range(5)])
    assert len(run_due_tasks(now=NOON, limit=2)) == 2
    assert len(run_due_tasks(now=NOON)) == 3


def test_a_task_without_end_is_told_of(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_tasks.testing.running.MOST_RUNS", 20)
    job(lambda task: timedelta())
    add_task("job", "1")
    with pytest.raises(TooManyRuns, match="20 tasks have run, and one of 'job' is due"):
        run_due_tasks()
    assert the_row().claimed_by is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit": 0},
        {"limit": "5"},
        {"raise_errors": 1},
        {"now": "noon"},
        {"now": 5},
        {"using": "nowhere"},
        {"codes": ["no_such_code"]},
        {"codes": 5},
        {"codes": [None]},
    ],
    ids=str,
)
def test_bad_arguments_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises((TaskValueError, LookupError), match=next(iter(wrong))):
        run_due_tasks(**wrong)


def test_a_batch_goes_in_one_call(job: Job) -> None:
    calls = []
    job(lambda tasks: calls.append(sorted(task.biz_num for task in tasks)), batch=3)
    for num in range(4):
        add_task("job", num)
    assert len(run_due_tasks()) == 4
    assert [len(call) for call in calls] == [3, 1]


def test_a_batch_that_fails_is_halved_until_the_culprit_is_alone(job: Job) -> None:
    def handle(tasks: Any) -> None:
        Partner.objects.bulk_create([Partner(name=task.biz_num) for task in tasks])
        if any(task.biz_num == "3" for task in tasks):
            raise ValueError("three")

    job(handle, batch=4, atomic=True, max_attempts=1)
    for num in range(4):
        add_task("job", num)
    ran = run_due_tasks(raise_errors=False)
    assert {each.num: each.outcome for each in ran} == {
        "0": "done",
        "1": "done",
        "2": "done",
        "3": "failed",
    }
    assert Partner.objects.count() == 3


def test_a_rate_limit_holds_and_drain_waits_for_it(job: Job) -> None:
    job(nothing, rate_limit="1/h")
    with freeze_tasks(NOON):
        for num in range(3):
            add_task("job", num)
        assert len(run_due_tasks()) == 1
        assert len(drain_tasks()) == 2
        assert find_tasks("job").count() == 0


def test_max_running_counts_rows_that_others_run(job: Job) -> None:
    job(nothing, max_running=1)
    add_task("job", "1")
    a_row("2", biz_code="job", status=Status.RUNNING)
    assert run_due_tasks() == []
    assert drain_tasks(until=DAY) == []


def test_what_is_paused_waits(job: Job) -> None:
    job(nothing)
    job(nothing, "other")
    add_task("job", "1")
    pause_task("job", "1")
    add_task("other", "1")
    pause_tasks(biz_code="other")
    assert run_due_tasks() == []


def test_the_history_and_the_signals_are_those_of_a_worker(job: Job) -> None:
    job(nothing, history="all")
    add_task("job", "1")
    with heard(task_started) as started, heard(task_succeeded) as succeeded:
        run_due_tasks()
    assert [str(each["task"]) for each in started + succeeded] == ["job/1", "job/1"]
    assert [run.outcome for run in get_runs("job", "1")] == ["done"]


def test_no_worker_is_left_in_the_table(job: Job) -> None:
    workers = []
    job(lambda task: workers.append(WorkerRow.objects.filter(pk=task.claimed_by).exists()))
    add_task("job", "1")
    run_due_tasks()
    assert workers == [True]
    assert not WorkerRow.objects.exists()


def test_a_worker_that_ends_by_an_error_leaves_no_row_either(job: Job) -> None:
    job(fail)
    add_task("job", "1")
    with pytest.raises(ValueError):
        run_due_tasks()
    assert not WorkerRow.objects.exists()


def test_handlers_with_a_schedule_get_their_rows_and_run(job: Job) -> None:
    times = []
    job(lambda task: times.append(task.scheduled_time), schedule="every 1h")
    with freeze_tasks(NOON):
        assert run_due_tasks() == []
        ran = drain_tasks(until=timedelta(hours=3))
    assert [each.outcome for each in ran] == ["rescheduled"] * 3
    assert times[2] - times[0] == 2 * HOUR


@pytest.mark.parametrize("where", ["sticky", "each_host"])
def test_sticky_and_each_host_run_here_in_time(job: Job, where: str) -> None:
    lateness = []
    job(lambda task: lateness.append(task.lateness), schedule="every 1s", **{where: True})
    with freeze_tasks(NOON):
        drain_tasks(until=timedelta(seconds=1.5))
    assert lateness == [0]


def test_the_record_of_an_atomic_run_tells_how_it_ended(job: Job) -> None:
    answers = iter([HOUR, None])
    job(lambda task: next(answers), atomic=True)
    add_task("job", "1")
    assert [ran.outcome for ran in drain_tasks()] == ["rescheduled", "done"]


def test_misfires_are_dealt_with(job: Job) -> None:
    job(nothing, misfire_grace_time=60, on_misfire="skip")
    with freeze_tasks(NOON):
        add_task("job", "1")
        (ran,) = run_due_tasks(now=NOON + HOUR)
    assert ran.outcome == "skipped"
    assert get_task("job", "1") is None


def test_a_suspect_runs_in_place(job: Job) -> None:
    threads = []
    job(lambda task: threads.append((task.rescues, threading.get_ident())))
    add_task("job", "1")
    Row._base_manager.update(rescues=2)
    assert [ran.attempt for ran in run_due_tasks()] == [3]
    assert threads == [(2, threading.get_ident())]


def test_a_timeout_is_told_of_and_interrupts_nothing(
    job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    job(nothing, timeout=1e-9, kill_after=1e-8)
    add_task("job", "1")
    assert [ran.outcome for ran in run_due_tasks()] == ["done"]
    assert "timeout" in caplog.text


def test_an_async_handler_uses_the_connection_of_the_test(job: Job) -> None:
    async def handle(task: Any) -> None:
        assert await Partner.objects.aget(name="uncommitted")
        await Partner.objects.acreate(name=task.biz_num)
        assert not await task.acancel_requested()

    job(handle)
    Partner.objects.create(name="uncommitted")
    add_task("job", "1")
    run_due_tasks()
    assert Partner.objects.filter(name="1").exists()


VARIABLE = ContextVar("VARIABLE", default="nothing")


def settings_of_the_run() -> tuple[Any, ...]:
    return VARIABLE.get(), get_language(), get_current_timezone_name(), getcontext().prec


def set_all(task: Any) -> None:
    seen.append(settings_of_the_run())
    VARIABLE.set(f"set by {task.biz_num}")
    activate("de")
    activate_zone("Asia/Tokyo")
    getcontext().prec = 3


async def set_all_async(task: Any) -> None:
    set_all(task)


def set_all_of_each(tasks: Any) -> None:
    for task in tasks:
        set_all(task)
        raise ValueError("again, in halves")


seen: list[tuple[Any, ...]] = []


@pytest.fixture
def of_the_test() -> tuple[Any, ...]:
    seen.clear()
    return settings_of_the_run()


setting = pytest.mark.parametrize(
    ("handle", "members"),
    [(set_all, {}), (set_all_async, {}), (set_all_of_each, {"batch": 10, "max_attempts": 1})],
    ids=["plain", "async", "batch"],
)


@setting
def test_what_a_run_sets_for_itself_ends_with_it(
    job: Job, handle: Callable[..., Any], members: dict[str, Any], of_the_test: tuple[Any, ...]
) -> None:
    job(handle, **members)
    add_tasks([Task(biz_code="job", biz_num=num, when=NOON - 5000 * DAY) for num in "123"])
    drain_tasks(raise_errors=False)
    assert settings_of_the_run() == of_the_test
    assert len(seen) >= 3
    assert set(seen) == {of_the_test}


def test_nor_do_its_callbacks_and_receivers_leave_any_of_it(
    job: Job, of_the_test: tuple[Any, ...]
) -> None:
    def receive(task: Any, **facts: Any) -> None:
        transaction.on_commit(lambda: set_all(task))

    job(nothing)
    add_task("job", "1")
    task_succeeded.connect(receive)
    try:
        run_due_tasks()
    finally:
        task_succeeded.disconnect(receive)
    assert len(seen) == 1
    assert settings_of_the_run() == of_the_test


@pytest.mark.django_db(transaction=True)
@setting
def test_nor_does_it_stay_in_an_async_test(
    job: Job, handle: Callable[..., Any], members: dict[str, Any], of_the_test: tuple[Any, ...]
) -> None:
    async def scene() -> tuple[Any, ...]:
        try:
            await arun_due_tasks(raise_errors=False)
            return settings_of_the_run()
        finally:
            await sync_to_async(connections.close_all)()

    job(handle, **members)
    add_tasks([Task(biz_code="job", biz_num=num, when=NOON - 5000 * DAY) for num in "123"])
    assert asyncio.run(scene()) == of_the_test
    assert len(seen) >= 3
    assert set(seen) == {of_the_test}


def test_the_timeout_of_an_async_handler_ends_it(job: Job) -> None:
    async def handle(task: Any) -> None:
        await asyncio.Event().wait()

    job(handle, timeout=0.01, max_attempts=1)
    add_task("job", "1")
    with pytest.raises(TimeoutError, match="longer than its timeout"):
        run_due_tasks()


@pytest.mark.django_db(transaction=True)
def test_async_tests_have_twins(job: Job) -> None:
    job(nothing)

    async def scene() -> list[str]:
        await aadd_task(Task(biz_code="job", biz_num="1", when=NOON - 5000 * DAY))
        try:
            return [str(ran) for ran in await arun_due_tasks()]
        finally:
            await sync_to_async(connections.close_all)()

    assert asyncio.run(scene()) == ["job/1 done"]


def test_a_task_that_is_cancelled_while_it_runs_goes(job: Job) -> None:
    answers = []

    def handle(task: Any) -> timedelta:
        answers.append(cancel_task("job", "1"))
        answers.append(task.cancel_requested)
        return HOUR

    job(handle)
    add_task("job", "1")
    (ran,) = run_due_tasks()
    assert answers == [CancelResult.CANCELLING, True]
    assert ran.next_time is None
    assert get_task("job", "1") is None


def test_a_task_that_is_moved_while_it_runs_waits_for_its_new_time(job: Job) -> None:
    def handle(task: Any) -> None:
        assert reschedule_task("job", "1", NOON)

    job(handle)
    add_task("job", "1")
    (ran,) = run_due_tasks()
    assert ran.next_time == the_row().when
    assert find_tasks("job", "1", when=NOON).exists()


def test_a_payload_can_be_saved_in_the_middle(job: Job) -> None:
    def handle(task: Any) -> None:
        assert task.save({"step": 1})
        raise ValueError("dies")

    job(handle)
    add_task("job", "1", biz_ext={"step": 0})
    run_due_tasks(raise_errors=False)
    assert the_row().biz_ext == {"step": 1}


def test_drain_goes_on_to_the_end_of_all_retries(job: Job) -> None:
    job(fail, max_attempts=3, backoff=3600)
    add_task("job", "1", when=DAY)
    ran = drain_tasks(raise_errors=False)
    assert [each.outcome for each in ran] == ["retried", "retried", "failed"]


def test_drain_stops_at_its_time(job: Job) -> None:
    job(lambda task: DAY)
    with freeze_tasks(NOON) as time:
        add_task("job", "1")
        assert len(drain_tasks(until=NOON + 2 * DAY)) == 3
        assert time.now == for_django(NOON)
        assert find_tasks("job", when=NOON + 3 * DAY).exists()


def test_drain_without_a_time_leaves_schedules_alone(job: Job) -> None:
    job(nothing, schedule="every 1h")
    job(nothing, "other")
    add_task("other", "1", when=DAY)
    with freeze_tasks(NOON + HOUR / 2):
        assert [str(each) for each in drain_tasks()] == ["other/1 done"]
        assert drain_tasks() == []


def test_each_run_of_a_drain_sees_its_own_time(job: Job) -> None:
    lateness = []
    job(lambda task: lateness.append(task.lateness))
    with freeze_tasks(NOON):
        for hours in range(3):
            add_task("job", hours, when=hours * HOUR)
        drain_tasks()
    assert lateness == [0, 0, 0]


def test_a_time_that_has_passed_is_no_end_of_a_drain() -> None:
    with pytest.raises(TaskValueError, match="until has passed already"):
        drain_tasks(until=-HOUR)


def test_a_limit_ends_a_drain(job: Job) -> None:
    job(lambda task: DAY)
    add_task("job", "1")
    assert len(drain_tasks(limit=5)) == 5
