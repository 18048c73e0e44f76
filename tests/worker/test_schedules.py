"""Tasks that have a schedule: when they run again, for which time, and what is missed."""

import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from itertools import cycle
from typing import Any

import pytest
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger
from django.db import OperationalError
from django.db.models import F
from django.test import override_settings

from django_tasks import signals
from django_tasks.client.adding import add_task
from django_tasks.client.control import (
    cancel_task,
    pause_task,
    reschedule_task,
    resume_task,
    run_task_now,
)
from django_tasks.client.pauses import pause_tasks, resume_tasks
from django_tasks.exceptions import RetryLater, TaskValueError
from django_tasks.handlers import registry
from django_tasks.handlers.base import Stop, task_handler
from django_tasks.handlers.recurrence import first_time
from django_tasks.models import EndedPause, Pause, Task
from django_tasks.schedules import At, Every, crontab, text
from django_tasks.store.claim import Claimer, claim_row
from django_tasks.store.control import CancelResult
from django_tasks.store.finish import Ended, finish
from django_tasks.timezones import aware
from django_tasks.values.keys import SCHEDULE_NUM
from django_tasks.values.outcomes import (
    Again,
    Done,
    Fail,
    GiveBack,
    Outcome,
    Reschedule,
    Retry,
    Unsettled,
)
from django_tasks.values.status import Status
from django_tasks.worker import misfires, schedule_rows
from django_tasks.worker.membership import Membership
from tests.factories import table
from tests.worker.conftest import Register
from tests.worker.parts import (
    CODE,
    USING,
    added,
    ago,
    ahead,
    claimed,
    config,
    heard,
    joined,
    row,
    runner,
    stored,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_one_transaction")]

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
SOON = timedelta(seconds=30)


def now() -> datetime:
    return datetime.now(timezone.utc)


def on_the_hour(hours_ago: int = 0) -> datetime:
    return now().replace(minute=0, second=0, microsecond=0) - hours_ago * HOUR


def hourly() -> str:
    return str(Every(hours=1, start=on_the_hour(1000)))


class Runs:
    """A worker that runs what is due, writes the end, and remembers what it ran for."""

    def __init__(self, register: Register, answer: Callable[[Any], Any], **attributes: Any):
        self.times: list[datetime] = []
        self.membership: Membership = joined()

        def handle(task: Any) -> Any:
            self.times.append(task.scheduled_time)
            return answer(task)

        register(handle, **attributes)

    def run(self, biz_num: str = "1") -> Outcome:
        (claim,) = claimed(self.membership.worker_id)
        assert claim.biz_num == biz_num
        ended = runner(self.membership)(claim)
        assert not finish([ended], now(), using=USING).lost
        return ended.outcome


def nothing(task: Any) -> None:
    pass


def test_a_task_with_a_schedule_first_runs_at_its_first_time() -> None:
    task = add_task(Task(biz_code=CODE, biz_num="1", schedule="every 30m"))
    assert task.schedule == "every 30m"
    assert timedelta(minutes=29) < task.when - now() <= timedelta(minutes=30)


def test_or_at_the_time_it_is_given() -> None:
    when = ahead(60)
    assert added(when=when, schedule=Every(minutes=30)).when == when


@pytest.mark.parametrize("use_tz", [True, False])
def test_after_a_run_it_waits_for_its_next_time_and_keeps_its_beat(
    register: Register, use_tz: bool
) -> None:
    with override_settings(USE_TZ=use_tz, TIME_ZONE="Asia/Shanghai"):
        runs = Runs(register, nothing)
        due = (now() - MINUTE).replace(microsecond=7)
        added(when=due, schedule="every 1h")
        assert runs.run() == Reschedule(due + HOUR)
        task = stored()
        assert aware("when", task.when) == due + HOUR
    assert (task.scheduled_time, task.schedule) == (None, "every 1h")
    assert (task.status, task.attempts) == (Status.PENDING, 0)


def test_what_a_run_leaves_in_the_payload_is_there_for_the_next(register: Register) -> None:
    def count(task: Any) -> None:
        task.biz_ext["runs"] += 1

    runs = Runs(register, count)
    added(when=ago(60), schedule="every 1h", biz_ext={"runs": 1})
    runs.run()
    assert stored().biz_ext == {"runs": 2}


def test_a_returned_time_comes_first_and_once(register: Register) -> None:
    answers: list[Any] = [timedelta(minutes=-5), None]
    runs = Runs(register, lambda task: answers.pop(0))
    added(when=ago(60), schedule=hourly())
    runs.run()
    assert stored().when < now()
    runs.run()
    assert stored().when == on_the_hour() + HOUR


@pytest.mark.parametrize("answer", [Stop, Stop()], ids=["class", "instance"])
def test_stop_ends_it(register: Register, answer: Any) -> None:
    runs = Runs(register, lambda task: answer)
    added(when=ago(60), schedule="every 1h")
    assert runs.run() == Done()
    assert row() is None


def test_a_schedule_that_is_over_ends_the_task(register: Register) -> None:
    runs = Runs(register, nothing)
    added(when=ago(60), schedule=At(ahead(30)))
    table().update(schedule=str(At(ago(30))))
    assert runs.run() == Done()
    assert row() is None


def test_jitter_delays_a_run_and_not_its_beat(register: Register) -> None:
    runs = Runs(register, nothing)
    added(when=on_the_hour(), schedule=f"{hourly()} jitter 10m")
    outcome = runs.run()
    assert isinstance(outcome, Reschedule)
    assert outcome.scheduled_time == on_the_hour() + HOUR
    assert timedelta(0) <= outcome.when - outcome.scheduled_time <= timedelta(minutes=10)
    assert stored().scheduled_time == on_the_hour() + HOUR


def test_jitter_carries_no_run_behind_the_end() -> None:
    end = on_the_hour()
    schedule = Every(hours=1, start=end - HOUR, end=end, jitter=timedelta(minutes=59))
    assert first_time(schedule, end - timedelta(minutes=1)) == end


# Failures


def fail(task: Any) -> None:
    raise ValueError("no")


def test_a_retry_is_still_the_run_of_its_time(register: Register) -> None:
    due = on_the_hour()
    runs = Runs(register, fail, backoff=0)
    added(when=due, schedule=hourly())
    assert isinstance(runs.run(), Retry)
    assert stored().scheduled_time == due
    runs.run()
    assert runs.times == [due, due]


def test_after_the_last_attempt_the_schedule_goes_on(register: Register) -> None:
    runs = Runs(register, fail, max_attempts=1)
    added(when=ago(60), schedule=hourly())
    with heard(signals.task_failed) as failed:
        outcome = runs.run()
    assert isinstance(outcome, Reschedule)
    assert outcome.counts_as == "failed"
    assert len(failed) == 1
    task = stored()
    assert (task.status, task.when) == (Status.PENDING, on_the_hour() + HOUR)
    assert "ValueError: no" in task.last_error


def test_if_that_was_its_last_time_it_is_parked(register: Register) -> None:
    runs = Runs(register, fail, max_attempts=1)
    added(when=ago(60), schedule="every 1h")
    table().update(schedule=str(At(ago(30))))
    assert isinstance(runs.run(), Fail)
    assert stored().status == Status.FAILED


def test_a_schedule_that_says_nothing_parks_the_task_unrun(register: Register) -> None:
    runs = Runs(register, nothing)
    added(when=ago(60), schedule="every 1h")
    table().update(schedule="now and then")
    with heard(signals.task_failed) as failed:
        assert isinstance(runs.run(), Fail)
    assert not runs.times
    assert len(failed) == 1
    task = stored()
    assert task.status == Status.FAILED
    assert "now and then" in task.last_error


def test_retry_later_says_when(register: Register) -> None:
    when = ahead(90)

    def later(task: Any) -> None:
        raise RetryLater(when)

    runs = Runs(register, later)
    added()
    outcome = runs.run()
    assert isinstance(outcome, Retry)
    assert outcome.when == when
    assert stored().attempts == 1


def test_retry_later_counts_and_ends_as_any_attempt(register: Register) -> None:
    def later(task: Any) -> None:
        raise RetryLater(MINUTE, "the bank is closed")

    runs = Runs(register, later, max_attempts=1)
    added()
    outcome = runs.run()
    assert isinstance(outcome, Fail)
    assert "the bank is closed" in outcome.error


def test_a_bad_time_to_retry_becomes_the_backoff(
    register: Register, caplog: pytest.LogCaptureFixture
) -> None:
    def later(task: Any) -> None:
        raise RetryLater("tomorrow")  # type: ignore[arg-type]

    runs = Runs(register, later, backoff=60)
    added()
    outcome = runs.run()
    assert isinstance(outcome, Retry)
    assert SOON < outcome.when - now() <= MINUTE
    assert "RetryLater must be a datetime or a timedelta: 'tomorrow'" in caplog.text


def test_retry_later_is_always_tried_again(register: Register) -> None:
    def later(task: Any) -> None:
        raise RetryLater(timedelta.max)

    runs = Runs(register, later, retry_on=(LookupError,), fail_on=(Exception,), backoff=60)
    added()
    outcome = runs.run()
    assert isinstance(outcome, Retry)
    assert SOON < outcome.when - now() <= MINUTE


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ({}, Retry),
        ({"retry_on": (LookupError,)}, Fail),
        ({"retry_on": (ValueError,)}, Retry),
        ({"fail_on": (ValueError,)}, Fail),
        ({"retry_on": (Exception,), "fail_on": (ArithmeticError,)}, Retry),
    ],
    ids=str,
)
def test_which_exceptions_are_tried_again(
    register: Register, attributes: dict[str, Any], kind: type
) -> None:
    runs = Runs(register, fail, **attributes)
    added()
    assert isinstance(runs.run(), kind)


# What was missed


def test_of_several_missed_times_the_last_one_runs(register: Register) -> None:
    runs = Runs(register, nothing)
    added(when=on_the_hour(5), schedule=hourly())
    with heard(signals.task_missed) as missed:
        runs.run()
    assert runs.times == [on_the_hour()]
    assert [message["action"] for message in missed] == ["coalesce"]
    assert stored().when == on_the_hour() + HOUR


def test_its_retry_is_for_that_time_too(register: Register) -> None:
    runs = Runs(register, fail, backoff=0)
    added(when=on_the_hour(5), schedule=hourly())
    runs.run()
    runs.run()
    assert runs.times == [on_the_hour(), on_the_hour()]


def test_a_time_that_comes_between_claim_and_start_is_run_for(
    register: Register, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker that is behind would put it off each time, and never run it."""
    runs = Runs(register, nothing)
    added(when=ago(10), schedule="every 1s")
    (claim,) = claimed(runs.membership.worker_id)
    waited = claim._replace(claim_time=claim.claim_time - timedelta(seconds=5))
    ended = runner(runs.membership)(waited)
    assert isinstance(ended.outcome, Reschedule)
    (time,) = runs.times
    assert waited.claim_time < time <= now()
    assert "rules of its time zone" not in caplog.text


def test_without_coalesce_each_of_them_runs(register: Register) -> None:
    runs = Runs(register, nothing, coalesce=False)
    added(when=on_the_hour(3), schedule=hourly())
    for _ in range(4):
        runs.run()
    assert runs.times == [on_the_hour(hours) for hours in (3, 2, 1, 0)]
    assert stored().when == on_the_hour() + HOUR


def test_catch_up_runs_the_last_so_many(register: Register) -> None:
    runs = Runs(register, nothing, coalesce=False, catch_up=3)
    added(when=on_the_hour(100), schedule=hourly())
    for _ in range(3):
        runs.run()
    assert runs.times == [on_the_hour(100), on_the_hour(1), on_the_hour(0)]
    assert stored().when == on_the_hour() + HOUR


@pytest.mark.parametrize("catch_up", [1, 3])
def test_what_is_too_much_to_catch_up_is_told_once_and_is_no_overrun(
    register: Register, caplog: pytest.LogCaptureFixture, catch_up: int
) -> None:
    runs = Runs(register, nothing, coalesce=False, catch_up=catch_up)
    added(when=on_the_hour(100), schedule=hourly())
    with heard(signals.task_missed) as missed:
        for _ in range(catch_up):
            runs.run()
    assert [message["action"] for message in missed] == ["catch_up"]
    assert "more have passed than it is to catch up" in caplog.text
    assert "overrun" not in caplog.text
    assert stored().when == on_the_hour() + HOUR


def test_nothing_is_told_where_all_of_it_is_caught_up(register: Register) -> None:
    runs = Runs(register, nothing, coalesce=False, catch_up=4)
    added(when=on_the_hour(3), schedule=hourly())
    with heard(signals.task_missed) as missed:
        for _ in range(4):
            runs.run()
    assert missed == []
    assert runs.times == [on_the_hour(hours) for hours in (3, 2, 1, 0)]


@pytest.mark.parametrize(
    ("on_misfire", "runs_it"), [(None, False), ("skip", False), ("run", True)], ids=str
)
def test_a_run_that_is_too_late_is_skipped_unless_told_otherwise(
    register: Register,
    caplog: pytest.LogCaptureFixture,
    on_misfire: str | None,
    runs_it: bool,
) -> None:
    runs = Runs(register, nothing, misfire_grace_time=0.001, on_misfire=on_misfire)
    added(when=ago(1), schedule="every 1h")
    with heard(signals.task_missed) as missed:
        outcome = runs.run()
    assert bool(runs.times) is runs_it
    assert [message["action"] for message in missed] == ["run" if runs_it else "skip"]
    assert f"{CODE}/1, due " in caplog.text
    assert isinstance(outcome, Reschedule)
    assert outcome.counts_as == ("rescheduled" if runs_it else "skipped")
    assert stored().when > now()


def test_within_its_grace_time_it_runs(register: Register) -> None:
    runs = Runs(register, nothing, misfire_grace_time=60)
    added(when=ago(1), schedule="every 1h")
    runs.run()
    assert len(runs.times) == 1


def test_the_last_of_several_missed_times_is_judged_by_itself(register: Register) -> None:
    runs = Runs(register, nothing, misfire_grace_time=3601)
    added(when=on_the_hour(100), schedule=hourly())
    runs.run()
    assert runs.times == [on_the_hour()]


@pytest.mark.parametrize("on_misfire", [None, "fail"])
def test_a_task_without_a_schedule_that_is_too_late_is_parked(
    register: Register, on_misfire: str | None
) -> None:
    runs = Runs(register, nothing, misfire_grace_time=10, on_misfire=on_misfire)
    added(when=ago(3600))
    assert isinstance(runs.run(), Fail)
    assert not runs.times
    assert "its misfire_grace_time is 10 s" in stored().last_error


def test_or_dropped_if_it_is_to_be_skipped(register: Register) -> None:
    runs = Runs(register, nothing, misfire_grace_time=10, on_misfire="skip")
    added(when=ago(3600))
    assert runs.run() == Done(counts_as="skipped")
    assert row() is None


def test_a_task_that_was_rescued_is_no_misfire_for_it_may_have_begun_in_time(
    register: Register,
) -> None:
    runs = Runs(register, nothing, misfire_grace_time=10)
    added(when=ago(3600), schedule="every 2h")
    table().update(rescues=1)
    with heard(signals.task_missed) as missed:
        runs.run()
    assert missed == []
    assert len(runs.times) == 1


def paused_one_by_one() -> None:
    assert pause_task(CODE, "1")
    assert resume_task(CODE, "1")


def paused_as_a_whole() -> None:
    assert pause_tasks(queue="default")
    assert resume_tasks(queue="default")


RESUMED = pytest.mark.parametrize("stop_and_go", [paused_one_by_one, paused_as_a_whole])


@RESUMED
@pytest.mark.parametrize("schedule", [None, hourly()])
def test_the_time_for_which_a_task_was_paused_does_not_make_it_late(
    register: Register, stop_and_go: Callable[[], None], schedule: str | None
) -> None:
    runs = Runs(register, nothing, misfire_grace_time=10)
    due = on_the_hour(1) + (MINUTE if schedule is None else timedelta())
    added(when=due, schedule=schedule)
    stop_and_go()
    EndedPause.objects.update(since=F("since") - 2 * HOUR)
    with heard(signals.task_missed) as missed:
        runs.run()
    assert [message["action"] for message in missed] == ["coalesce"] * (schedule is not None)
    assert runs.times == [due if schedule is None else on_the_hour()]


@RESUMED
def test_it_is_late_since_it_was_resumed(
    register: Register, stop_and_go: Callable[[], None]
) -> None:
    runs = Runs(register, nothing, misfire_grace_time=10)
    added(when=ago(3600))
    stop_and_go()
    # A minute ago, for two hours.
    table().update(when=F("when") - MINUTE)
    EndedPause.objects.update(ended=F("ended") - MINUTE, since=F("since") - 2 * HOUR)
    with heard(signals.task_missed) as missed:
        assert isinstance(runs.run(), Fail)
    assert 60 <= missed[0]["lateness"] < 90
    assert "It would have started 60 s late; its misfire_" in stored().last_error


@RESUMED
def test_a_task_that_becomes_due_after_it_was_resumed_is_late_by_its_own_time(
    register: Register, stop_and_go: Callable[[], None]
) -> None:
    runs = Runs(register, nothing, misfire_grace_time=10)
    added(when=ahead(30))
    stop_and_go()
    assert stored().scheduled_time is None
    table().update(when=ago(20))
    EndedPause.objects.update(ended=F("ended") - MINUTE)
    assert isinstance(runs.run(), Fail)
    assert "It would have started 20 s late; its misfire_" in stored().last_error


def test_a_database_that_does_not_say_when_a_pause_ended_is_asked_again(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **wishes: Any) -> None:
        raise OperationalError("gone")

    runs = Runs(register, nothing, misfire_grace_time=10)
    added(when=ago(3600))
    monkeypatch.setattr(misfires, "spans", refuse)
    assert isinstance(runs.run(), Unsettled)
    assert not runs.times
    assert (stored().attempts, stored().status) == (0, Status.PENDING)


@RESUMED
def test_each_missed_time_of_a_task_that_was_paused_runs(
    register: Register, stop_and_go: Callable[[], None]
) -> None:
    runs = Runs(register, nothing, misfire_grace_time=60, coalesce=False)
    added(when=on_the_hour(3), schedule=hourly())
    stop_and_go()
    EndedPause.objects.update(since=F("since") - 4 * HOUR)
    for _ in range(4):
        runs.run()
    assert runs.times == [on_the_hour(hours) for hours in (3, 2, 1, 0)]
    assert stored().when == on_the_hour() + HOUR


@pytest.mark.parametrize("is_over", [True, False])
def test_a_pause_that_began_when_a_task_was_late_already_is_no_excuse(
    register: Register, is_over: bool
) -> None:
    runs = Runs(register, nothing, misfire_grace_time=10)
    added(when=ago(3600))
    assert pause_tasks(biz_code=CODE)
    if is_over:
        assert resume_tasks(biz_code=CODE)
        assert isinstance(runs.run(), Fail)
    else:
        Pause.objects.update(since=F("since") - HOUR)
        by = Claimer(runs.membership.worker_id)
        claim = claim_row(by, CODE, "1", now(), using=USING, failed=False)
        assert claim is not None
        assert isinstance(runner(runs.membership)(claim).outcome, Done)


def test_pauses_in_a_row_are_one(register: Register) -> None:
    runs = Runs(register, nothing, misfire_grace_time=10)
    added(when=ago(600))
    for begun, ended in ((620, 400), (405, 200), (195, 1)):
        spans = {"since": ago(begun), "ended": ago(ended)}
        EndedPause.objects.create(queue="default", biz_code="", **spans)
    runs.run()
    assert len(runs.times) == 1


def test_times_that_pass_during_a_run_are_told(register: Register) -> None:
    runs = Runs(register, nothing, backoff=0)
    added(when=on_the_hour(3), schedule=hourly())
    table().update(attempts=1)
    with heard(signals.task_missed) as missed:
        runs.run()
    assert [message["action"] for message in missed] == ["overrun"]
    assert stored().when == on_the_hour() + HOUR


def test_an_attempt_after_a_failure_is_no_misfire(register: Register) -> None:
    answers = [ValueError("once"), None]

    def once(task: Any) -> None:
        if error := answers.pop(0):
            raise error

    runs = Runs(register, once, misfire_grace_time=3601, backoff=0)
    added(when=ago(3600))
    runs.run()
    table().update(when=ago(3700))
    assert runs.run() == Done()


def test_a_row_may_differ_from_its_handler(register: Register) -> None:
    runs = Runs(register, nothing, misfire_grace_time=0.001)
    added(when=on_the_hour(2), schedule=f"{hourly()} | grace 3h | each")
    runs.run()
    runs.run()
    assert runs.times == [on_the_hour(2), on_the_hour(1)]


def test_a_row_may_have_its_own_number_of_attempts(register: Register) -> None:
    runs = Runs(register, fail, backoff=0)
    added(when=ago(60), schedule=f"{hourly()} | attempts 2")
    assert isinstance(runs.run(), Retry)
    assert runs.run().counts_as == "failed"


def test_a_row_may_have_its_own_timeout(register: Register, caplog: Any) -> None:
    runs = Runs(register, nothing, timeout=3600)
    added(when=ago(60), schedule="every 1h | timeout 0s")
    runs.run()
    assert "more than its timeout" in caplog.text


# Rows of handlers


def kept(register: Register, schedule: Any, **attributes: Any) -> Task | None:
    registry.forget()
    register(nothing, schedule=schedule, **attributes)
    schedule_rows.keep(now(), config())
    return row(SCHEDULE_NUM)


def test_a_function_may_have_a_schedule(register: Register) -> None:
    handler = task_handler(CODE, schedule="every 5m", coalesce=False, catch_up=2)(nothing)
    registry.register_task_handler(handler)
    schedule_rows.keep(now(), config())
    assert stored(SCHEDULE_NUM).schedule == "every 5m"


def test_a_handlers_schedule_has_one_row(register: Register) -> None:
    first = kept(register, Every(minutes=30), queue="mail", priority=3)
    assert first is not None
    assert (first.schedule, first.queue, first.priority) == ("every 30m", "mail", 3)
    assert timedelta(minutes=29) < first.when - now() <= timedelta(minutes=30)
    again = kept(register, Every(minutes=30), queue="mail", priority=3)
    assert again is not None
    assert (again.pk, again.version, again.when) == (first.pk, 0, first.when)


def test_another_schedule_moves_the_row_and_keeps_its_payload(register: Register) -> None:
    kept(register, "every 30m")
    table().update(biz_ext={"runs": 3})
    moved = kept(register, "every 2h")
    assert moved is not None
    assert (moved.schedule, moved.biz_ext, moved.version) == ("every 2h", {"runs": 3}, 1)
    assert timedelta(minutes=119) < moved.when - now() <= 2 * HOUR


def test_without_its_schedule_the_row_goes(register: Register) -> None:
    kept(register, "every 30m")
    added("1", schedule="every 1h", when=ahead(9))
    assert kept(register, None) is None
    assert row("1") is not None


def test_a_row_of_a_code_that_is_not_known_here_stays(register: Register) -> None:
    kept(register, "every 30m")
    registry.forget()
    register(nothing, "other")
    schedule_rows.keep(now(), config())
    assert row(SCHEDULE_NUM) is not None


def test_a_paused_row_stays_paused_when_its_schedule_changes(register: Register) -> None:
    kept(register, "every 30m")
    pause_task(CODE, SCHEDULE_NUM)
    moved = kept(register, "every 2h")
    assert moved is not None
    assert (moved.status, moved.schedule) == (Status.PAUSED, "every 2h")


def test_a_schedule_that_is_over_makes_no_row(
    register: Register, caplog: pytest.LogCaptureFixture
) -> None:
    assert kept(register, At(ago(60))) is None
    assert "does not run by itself" in caplog.text


class Trigger:
    """As APScheduler's are."""

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
        return now.replace(minute=0, second=0, microsecond=0) + HOUR

    def __str__(self) -> str:
        return "on the hour"


def test_a_trigger_of_another_library_serves_a_handler(register: Register) -> None:
    first = kept(register, Trigger())
    assert first is not None
    assert first.schedule == "trigger on the hour"
    assert first.when == on_the_hour() + HOUR
    reschedule_task(CODE, SCHEDULE_NUM, ago(1))
    membership = joined()
    (claim,) = claimed(membership.worker_id)
    finish([runner(membership)(claim)], now(), using=USING)
    assert stored(SCHEDULE_NUM).when == on_the_hour() + HOUR


class Anonymous(Trigger):
    """Two of them have two texts, were those of Python."""

    __str__ = object.__str__


def test_a_trigger_without_a_text_of_its_own_is_the_same_on_every_host(register: Register) -> None:
    first = kept(register, Anonymous())
    again = kept(register, Anonymous())
    assert first is not None
    assert again is not None
    assert first.schedule == f"trigger {__name__}.Anonymous"
    assert again.version == first.version


def test_a_trigger_that_this_host_does_not_have_is_left_for_another(
    register: Register, caplog: pytest.LogCaptureFixture
) -> None:
    kept(register, Trigger())
    registry.forget()
    runs = Runs(register, nothing)
    reschedule_task(CODE, SCHEDULE_NUM, ago(1))
    assert isinstance(runs.run(SCHEDULE_NUM), Again)
    assert not runs.times
    assert stored(SCHEDULE_NUM).attempts == 0
    assert "it waits" in caplog.text


@pytest.fixture
def no_cronsim(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A host without cronsim, whatever was read before."""
    caches = [text._parsed, crontab._read]
    for cache in caches:
        cache.cache_clear()
    monkeypatch.setitem(sys.modules, "cronsim", None)
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.mark.usefixtures("no_cronsim")
@pytest.mark.parametrize(
    ("schedule", "reason"),
    [
        ("every 1 day at 09:00 Old/Name", "tz is no known time zone"),
        ("any of (every 1h; every 1 day at 09:00 Old/Name)", "is no known time zone"),
        ("cron 0 9 * * 1 UTC", "needs cronsim"),
    ],
)
def test_what_this_host_lacks_is_left_for_another_and_said(
    register: Register, caplog: pytest.LogCaptureFixture, schedule: str, reason: str
) -> None:
    runs = Runs(register, nothing, max_attempts=1)
    due = ago(60)
    added(when=due, schedule="every 1h")
    table().update(schedule=schedule)
    with heard(signals.task_failed) as failed:
        assert isinstance(runs.run(), Again)
    task = stored()
    assert (task.status, task.attempts, task.schedule) == (Status.PENDING, 0, schedule)
    assert task.scheduled_time == due
    assert (runs.times, failed) == ([], [])
    (line,) = [each for each in caplog.records if each.event == "schedule_not_here"]  # type: ignore[attr-defined]
    assert "waits for a worker that can read its schedule" in line.getMessage()
    assert reason in line.getMessage()


class Jittered(Trigger):
    """One that has a jitter of its own: each answer has the next of ``jitters`` in it, in turn."""

    def __init__(self, *jitters: int) -> None:
        self.jitters = cycle(jitters)
        self.previous: list[datetime | None] = []

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
        self.previous.append(previous)
        return (previous or now) + HOUR + timedelta(seconds=next(self.jitters))


class OwnRuns(Runs):
    """Runs of a handler with a trigger; its row was due ``seconds`` ago."""

    def __init__(self, register: Register, trigger: Trigger, seconds: float, **attributes: Any):
        self.due = ago(seconds)
        kept(register, Trigger())
        registry.forget()
        super().__init__(register, nothing, schedule=trigger, **attributes)
        reschedule_task(CODE, SCHEDULE_NUM, self.due)


WAYS = [{}, {"coalesce": False}, {"coalesce": False, "catch_up": 3}]


@pytest.mark.parametrize("ways", WAYS, ids=str)
@pytest.mark.parametrize("late", [0.1, 30, 3590])
def test_a_trigger_with_jitter_has_left_nothing_out_where_nothing_has_passed(
    register: Register, late: float, ways: dict[str, Any]
) -> None:
    # Each answer is earlier than the one before; the second is the last that is ahead.
    trigger = Jittered(60, 30, -1200, -1300, -1400)
    if ways:  # of several missed times each has its run: nobody asks at the start
        next(trigger.jitters)
    runs = OwnRuns(register, trigger, late, **ways)
    with heard(signals.task_missed) as missed:
        runs.run(SCHEDULE_NUM)
    assert missed == []
    assert runs.times == [runs.due]
    assert stored(SCHEDULE_NUM).when == runs.due + HOUR + timedelta(seconds=30)


@pytest.mark.parametrize("ways", [WAYS[0], WAYS[2]], ids=str)
def test_what_a_trigger_with_jitter_said_and_what_has_passed_is_not_asked_for_again(
    register: Register, ways: dict[str, Any]
) -> None:
    # Asked again from the time of the run, it would say that its next time is still to come.
    trigger = Jittered(0, *range(120, 600))
    runs = OwnRuns(register, trigger, 3660, **ways)
    table().update(attempts=1)  # as one that was tried again: the times passed meanwhile
    with heard(signals.task_missed) as missed:
        runs.run(SCHEDULE_NUM)
    first = runs.due + HOUR
    assert trigger.previous[0] == runs.due
    assert set(trigger.previous[1:]) == {first}
    if ways:
        assert missed == []
        assert stored(SCHEDULE_NUM).when == first
    else:
        assert [message["action"] for message in missed] == ["overrun"]
        assert stored(SCHEDULE_NUM).when == first + HOUR + timedelta(seconds=120)


@pytest.mark.parametrize(
    "trigger",
    [
        IntervalTrigger(hours=1, timezone="UTC", jitter=1200),
        CronTrigger(hour="*", timezone="UTC", jitter=1200),
        CalendarIntervalTrigger(days=1, timezone="UTC", jitter=1200),
        OrTrigger([CronTrigger(hour="*", timezone="UTC")], jitter=1200),
    ],
    ids=lambda trigger: type(trigger).__name__,
)
@pytest.mark.parametrize("ways", WAYS, ids=str)
def test_a_trigger_of_apscheduler_with_jitter_gives_no_false_alarm(
    register: Register, trigger: Any, ways: dict[str, Any]
) -> None:
    runs = OwnRuns(register, trigger, 0.1, **ways)
    with heard(signals.task_missed) as missed:
        for _ in range(10):
            began = now()
            runs.run(SCHEDULE_NUM)
            assert stored(SCHEDULE_NUM).when > began
            reschedule_task(CODE, SCHEDULE_NUM, ago(0.1))
    assert missed == []
    assert len(runs.times) == 10


def test_of_several_that_a_trigger_with_jitter_missed_the_last_one_runs(register: Register) -> None:
    trigger = Jittered(*range(60))
    runs = OwnRuns(register, trigger, 3 * 3600 + 600)
    with heard(signals.task_missed) as missed:
        runs.run(SCHEDULE_NUM)
    assert [message["action"] for message in missed] == ["coalesce"]
    assert runs.due + 3 * HOUR <= runs.times[0] < now()
    assert stored(SCHEDULE_NUM).when > now()


class Broken(Trigger):
    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
        if previous is None:
            raise ZeroDivisionError("no time")
        raise LookupError("no next time")


def test_a_trigger_that_raises_harms_its_own_row_only(
    register: Register, caplog: pytest.LogCaptureFixture
) -> None:
    registry.forget()
    register(nothing, schedule=Broken())
    register(nothing, "other", schedule="every 30m")
    schedule_rows.keep(now(), config())
    assert "no time" in caplog.text
    assert row(SCHEDULE_NUM) is None
    assert row(SCHEDULE_NUM, "other") is not None


def test_work_that_is_done_is_not_done_again_because_the_schedule_fails(register: Register) -> None:
    trigger = Trigger()
    kept(register, trigger)
    registry.forget()
    trigger.get_next_fire_time = Broken().get_next_fire_time  # type: ignore[method-assign]
    runs = Runs(register, nothing, schedule=trigger, coalesce=False)
    reschedule_task(CODE, SCHEDULE_NUM, ago(1))
    outcome = runs.run(SCHEDULE_NUM)
    assert isinstance(outcome, Fail)
    assert "UnreadableSchedule: no next time" in outcome.error
    assert len(runs.times) == 1


def test_a_row_that_is_being_cancelled_counts_as_absent(register: Register) -> None:
    kept(register, "every 30m")
    owned = {"claimed_by": 7, "claim_time": now()}
    table().update(status=Status.CANCELLING, **owned)
    again = kept(register, "every 30m")
    assert again is not None
    assert again.status == Status.RUNNING


# Those that a change of the schedule rewrites.
TIMES = ("when", "scheduled_time", "attempts", "rescues", "last_error", "exception", "status")


def times(task: Task | None) -> dict[str, Any]:
    return {name: getattr(task, name) for name in TIMES}


@pytest.mark.parametrize("status", [Status.PENDING, Status.PAUSED, Status.RUNNING])
@pytest.mark.parametrize("due", [ago(7000), ahead(600)], ids=["overdue", "to come"])
@pytest.mark.parametrize("others", [{"queue": "mail"}, {"priority": 2}], ids=str)
def test_another_queue_or_priority_does_not_say_when(
    register: Register, others: dict[str, Any], due: datetime, status: Status
) -> None:
    kept(register, "every 30m")
    owner = {"claimed_by": 7, "claim_time": now()} if status == Status.RUNNING else {"name": "n"}
    table().update(
        when=due, scheduled_time=due, attempts=2, last_error="no", status=status, **owner
    )
    before = row(SCHEDULE_NUM)
    with heard(signals.task_changed) as changed, heard(signals.task_missed) as missed:
        after = kept(register, "every 30m", **others)
    assert times(after) == times(before)
    assert {name: getattr(after, name) for name in others} == others
    assert [message["change"] for message in changed] == ["updated"]
    assert missed == []


@pytest.mark.parametrize(
    ("columns", "is_told"),
    [
        ({"when": ago(600)}, True),
        ({"when": ahead(600), "scheduled_time": ago(30), "attempts": 2}, True),
        ({"when": ago(600), "status": Status.PAUSED}, True),
        ({"when": ahead(36_000)}, False),  # from the moment at which all tests were collected
        ({"when": ago(600), "status": Status.FAILED, "attempts": 3}, False),
        ({"when": ago(60), "status": Status.RUNNING, "claimed_by": 7, "claim_time": ago(1)}, False),
    ],
    ids=["overdue", "in backoff", "paused", "to come", "parked", "running"],
)
def test_another_schedule_tells_of_the_run_that_it_drops(
    register: Register, columns: dict[str, Any], is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    kept(register, "every 30m")
    table().update(**columns)
    with heard(signals.task_missed) as missed:
        kept(register, "every 2h")
    assert [message["action"] for message in missed] == ["replaced"] * is_told
    assert ("comes no more: its handler has got another schedule" in caplog.text) == is_told
    for message in missed:
        assert str(message["task"]) == f"{CODE}/{SCHEDULE_NUM}"
        assert message["lateness"] > 0
    assert "runs by itself on default: every 2h. Its row said: every 30m" in caplog.text


def test_what_happens_to_such_rows_is_told(register: Register) -> None:
    with heard(signals.task_added) as added_:
        kept(register, "every 30m")
        kept(register, "every 30m")
    with heard(signals.task_changed) as changed:
        kept(register, "every 1h")
    with heard(signals.task_cancelled) as cancelled:
        kept(register, None)
    with heard(signals.task_cancelled) as running:
        kept(register, "every 1h")
        table().update(status=Status.RUNNING, claimed_by=7, claim_time=now())
        kept(register, None)
    assert [message["result"] for message in running] == [CancelResult.CANCELLING]
    assert [len(each) for each in (added_, changed, cancelled)] == [1, 1, 1]
    facts = {"sender": Task, "using": USING, "biz_code": CODE, "biz_num": SCHEDULE_NUM}
    assert changed == [{**facts, "change": "rescheduled"}]
    assert cancelled == [{**facts, "result": CancelResult.CANCELLED}]
    assert (added_[0]["sender"], added_[0]["using"]) == (Task, USING)


def test_the_number_of_such_rows_is_taken() -> None:
    with pytest.raises(TaskValueError, match="belongs to the schedule of its handler"):
        added(SCHEDULE_NUM)


@pytest.mark.parametrize(
    "schedule", ["now and then", "every 0m", "at 2001-01-01T00:00:00+00:00", Trigger(), 7], ids=str
)
def test_a_schedule_that_cannot_be_stored_is_refused(schedule: Any) -> None:
    with pytest.raises(TaskValueError, match="schedule"):
        added(schedule=schedule)
    assert not Task.objects.exists()


def test_an_add_replaces_the_schedule_as_it_does_the_rest(register: Register) -> None:
    added(schedule="every 1h")
    table().update(scheduled_time=ago(1))
    added(when=ahead(9))
    task = stored()
    assert (task.schedule, task.scheduled_time) == (None, None)


def test_a_cancel_ends_a_schedule(register: Register) -> None:
    added(schedule="every 1h")
    cancel_task(CODE, "1")
    assert row() is None


def test_given_back_it_is_as_it_was(register: Register) -> None:
    Runs(register, nothing)
    added(when=ago(5), schedule="every 1h")
    table().update(scheduled_time=ago(9))
    before = stored()
    (claim,) = claimed(joined().worker_id)
    finish([Ended(claim, GiveBack())], now(), using=USING)
    after = stored()
    assert (after.when, after.scheduled_time) == (before.when, before.scheduled_time)


# Before its time


@pytest.mark.parametrize("schedule", ["every 2h", "every 2 weeks at 09:00 UTC"])
def test_a_run_now_comes_before_the_time_that_is_planned(register: Register, schedule: str) -> None:
    planned = now().replace(hour=9, minute=0, second=0, microsecond=0) + timedelta(days=3)
    runs = Runs(register, nothing)
    added(when=planned, schedule=schedule)
    assert run_task_now(CODE, "1")
    assert runs.run() == Reschedule(planned)
    assert timedelta(0) <= now() - runs.times[0] < MINUTE
    assert aware("when", stored().when) == planned


def test_so_does_its_retry(register: Register) -> None:
    planned = ahead(3600)
    runs = Runs(register, fail, backoff=0, max_attempts=2)
    added(when=planned, schedule="every 2h")
    assert run_task_now(CODE, "1")
    assert isinstance(runs.run(), Retry)
    outcome = runs.run()
    assert isinstance(outcome, Reschedule)
    assert outcome.when == planned


def test_a_run_now_of_a_task_that_is_due_is_the_run_of_its_time(register: Register) -> None:
    due = on_the_hour(1)
    runs = Runs(register, nothing)
    added(when=due, schedule="every 3h")
    assert run_task_now(CODE, "1")
    assert runs.run() == Reschedule(due + 3 * HOUR)
    assert runs.times == [due]


def test_a_returned_time_before_the_planned_one_leaves_the_beat(register: Register) -> None:
    due = (now() - MINUTE).replace(microsecond=0)
    answers: list[Any] = [timedelta(seconds=-5), None]
    runs = Runs(register, lambda task: answers.pop(0))
    added(when=due, schedule="every 1h")
    runs.run()
    assert runs.run() == Reschedule(due + HOUR)
