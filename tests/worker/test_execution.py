"""One run of one task: whatever a handler does ends in an outcome."""

import logging
from collections.abc import Callable
from contextvars import ContextVar
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from django.db import OperationalError
from django.test import override_settings
from django.utils import timezone as django_timezone

from django_tasks import signals
from django_tasks.backoff import ByError
from django_tasks.client.control import cancel_task
from django_tasks.store.finish import Ended, finish
from django_tasks.values.claimed import Claimed
from django_tasks.values.outcomes import (
    Again,
    Done,
    Fail,
    GiveBack,
    Outcome,
    Reschedule,
    Retry,
    Settled,
    Unsettled,
)
from django_tasks.worker import execution
from django_tasks.worker.error_text import ERROR_LENGTH
from django_tasks.worker.executor import Executor
from django_tasks.worker.isolated.parent import NoProcess, NotRun, ProcessDied
from django_tasks.worker.membership import Membership
from tests.worker.conftest import Register
from tests.worker.parts import (
    USING,
    Ticks,
    added,
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


def run(claim: Claimed, membership: Membership) -> Outcome:
    ended = runner(membership)(claim)
    assert ended.claimed is claim
    return ended.outcome


def outcome_of(
    register: Register, function: Callable[..., Any], biz_ext: Any = None, **attributes: Any
) -> Outcome:
    """The outcome of the first run of a task whose handler is ``function``."""
    register(function, **attributes)
    membership = joined()
    added(biz_ext=biz_ext)
    (claim,) = claimed(membership.worker_id)
    return run(claim, membership)


def raiser(error: BaseException) -> Callable[..., Any]:
    def handle(task: Any) -> Any:
        raise error

    return handle


# What a handler may return


def test_none_means_done(register: Register) -> None:
    assert outcome_of(register, lambda task: None) == Done()


def test_a_datetime_is_the_next_time(register: Register) -> None:
    when = datetime(2031, 2, 3, 4, 5, 6, 789, tzinfo=timezone.utc)
    assert outcome_of(register, lambda task: when) == Reschedule(when)


def test_a_datetime_of_another_zone_is_the_same_moment(register: Register) -> None:
    when = datetime(2031, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=-5)))
    outcome = outcome_of(register, lambda task: when)
    assert outcome == Reschedule(datetime(2031, 2, 3, 9, 5, tzinfo=timezone.utc))


@pytest.mark.parametrize("use_tz", [True, False])
def test_a_naive_datetime_is_local_time(register: Register, use_tz: bool) -> None:
    with override_settings(USE_TZ=use_tz, TIME_ZONE="Asia/Shanghai"):
        outcome = outcome_of(register, lambda task: datetime(2031, 2, 3, 4, 5))
    assert outcome == Reschedule(datetime(2031, 2, 2, 20, 5, tzinfo=timezone.utc))


def test_a_timedelta_counts_from_now(register: Register) -> None:
    before = datetime.now(timezone.utc)
    outcome = outcome_of(register, lambda task: timedelta(hours=2))
    assert isinstance(outcome, Reschedule)
    assert timedelta(0) <= outcome.when - before - timedelta(hours=2) < timedelta(minutes=1)
    assert outcome.biz_ext is None


@pytest.mark.parametrize("answer", [True, False, 0, 5, 1.5, "x", "", [], date(2031, 1, 1), object])
def test_anything_else_is_a_failed_attempt_that_says_so(register: Register, answer: Any) -> None:
    outcome = outcome_of(register, lambda task: answer)
    assert isinstance(outcome, Retry)
    assert "must return None, Finished, a datetime, a timedelta or Stop" in outcome.error


@pytest.mark.parametrize(
    "answer",
    [
        datetime.max,
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
        datetime.min,
        datetime.min.replace(tzinfo=timezone(timedelta(hours=12))),
        timedelta.max,
        timedelta.min,
    ],
    ids=str,
)
def test_a_time_no_database_can_store_is_a_failed_attempt(register: Register, answer: Any) -> None:
    assert isinstance(outcome_of(register, lambda task: answer), Retry)


# What a handler may do to the payload


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, {"step": 2}),
        ({"step": 1}, {"step": 2}),
        ({"step": 1}, None),
        ({"sent": 0}, {"sent": False}),
        ({"sent": 1}, {"sent": True}),
    ],
)
def test_a_changed_payload_is_kept_for_the_next_run(
    register: Register, before: Any, after: Any
) -> None:
    def handle(task: Any) -> timedelta:
        task.biz_ext = after
        return timedelta(hours=1)

    register(handle)
    membership = joined()
    added(biz_ext=before)
    (claim,) = claimed(membership.worker_id)
    finish([Ended(claim, run(claim, membership))], datetime.now(timezone.utc), using=USING)
    found = stored().biz_ext
    assert (found, repr(found)) == (after, repr(after))


def test_a_payload_changed_in_place_is_kept(register: Register) -> None:
    def handle(task: Any) -> timedelta:
        task.biz_ext["seen"].append("b")
        return timedelta(0)

    outcome = outcome_of(register, handle, {"seen": ["a"]})
    assert isinstance(outcome, Reschedule)
    assert outcome.biz_ext == '{"seen": ["a", "b"]}'


def test_a_payload_that_was_only_read_is_not_written(register: Register) -> None:
    def handle(task: Any) -> timedelta:
        assert task.biz_ext == {"b": [1, 2.5], "a": "é"}
        return timedelta(0)

    outcome = outcome_of(register, handle, {"b": [1, 2.5], "a": "é"})
    assert isinstance(outcome, Reschedule)
    assert outcome.biz_ext is None


@pytest.mark.parametrize(
    "payload",
    [object(), {1, 2}, float("nan"), "a\0b", "\ud800", "x" * 1_000_001, b"x"],
    ids=["object", "set", "nan", "NUL", "surrogate", "too large", "bytes"],
)
def test_a_payload_that_cannot_be_stored_is_a_failed_attempt(
    register: Register, payload: Any
) -> None:
    def handle(task: Any) -> timedelta:
        task.biz_ext = payload
        return timedelta(0)

    outcome = outcome_of(register, handle, {"good": 1})
    assert isinstance(outcome, Retry)
    assert "biz_ext" in outcome.error


def test_a_payload_that_nobody_will_see_is_not_examined(register: Register) -> None:
    def handle(task: Any) -> None:
        task.biz_ext = object()

    assert outcome_of(register, handle) == Done()


def test_a_stored_payload_that_is_broken_fails_its_own_run_only(register: Register) -> None:
    register(lambda task: task.biz_ext)
    membership = joined()
    added()
    (claim,) = claimed(membership.worker_id)
    assert isinstance(run(claim._replace(biz_ext="{broken"), membership), Retry)


# What a handler sees


def test_a_handler_sees_all_fields_of_its_task(register: Register) -> None:
    seen: list[Any] = []
    register(seen.append, queue="mail", priority=7)
    membership = joined()
    task = added("42", biz_ext={"a": [1]})
    (claim,) = claimed(membership.worker_id)
    claim = claim._replace(attempts=2, rescues=1, last_error="before")
    run(claim, membership)
    (running,) = seen
    assert (running.id, running.biz_code, running.biz_num) == (task.id, "job", "42")
    assert (running.queue, running.priority) == ("mail", 7)
    assert (running.when, running.create_time) == (task.when, task.create_time)
    assert django_timezone.is_aware(running.when)
    assert running.biz_ext == {"a": [1]}
    assert (running.attempts, running.rescues, running.attempt) == (2, 1, 4)
    assert running.last_error == "before"
    assert running.schedule is None
    assert (running.version, running.claimed_by) == (claim.version, membership.worker_id)
    assert running.using == USING
    assert running.lateness == pytest.approx(3600, abs=60)
    assert str(running) == "job/42"


@override_settings(USE_TZ=False, TIME_ZONE="Asia/Shanghai")
def test_without_time_zones_a_handler_sees_local_time(register: Register) -> None:
    seen: list[Any] = []
    register(seen.append)
    membership = joined()
    when = datetime(2020, 1, 2, 3, 4, 5)
    added(when=when)
    (claim,) = claimed(membership.worker_id)
    run(claim, membership)
    assert seen[0].when == when
    assert seen[0].create_time.tzinfo is None


def test_a_handler_can_ask_whether_it_was_cancelled(register: Register) -> None:
    answers: list[bool] = []

    def handle(task: Any) -> None:
        answers.append(task.cancel_requested)
        cancel_task(task.biz_code, task.biz_num)
        answers.append(task.cancel_requested)

    outcome_of(register, handle)
    assert answers == [False, True]


# What a handler may raise


@pytest.mark.parametrize(
    "error",
    [ValueError("no"), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), MemoryError()],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_handler_raises_is_a_failed_attempt(
    register: Register, error: BaseException
) -> None:
    outcome = outcome_of(register, raiser(error), backoff=60)
    assert isinstance(outcome, Retry)
    assert outcome.error.startswith("Traceback")
    assert type(error).__name__ in outcome.error
    assert timedelta(0) < outcome.when - datetime.now(timezone.utc) <= timedelta(seconds=60)


def test_the_error_shows_the_handlers_frames_and_not_the_workers(register: Register) -> None:
    outcome = outcome_of(register, raiser(ValueError("no")))
    assert isinstance(outcome, Retry)
    assert "test_execution.py" in outcome.error
    assert "django_tasks" not in outcome.error


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b", "😀" * 9_000, "x" * 1_000_000])
def test_an_error_text_that_no_column_takes_is_stored_changed(
    register: Register, text: str
) -> None:
    register(raiser(ValueError(text)), max_attempts=1)
    membership = joined()
    added()
    (claim,) = claimed(membership.worker_id)
    outcome = run(claim, membership)
    assert isinstance(outcome, Fail)
    assert len(outcome.error) <= ERROR_LENGTH
    finish([Ended(claim, outcome)], datetime.now(timezone.utc), using=USING)
    assert stored().get_status_display() == "failed"
    assert stored().last_error == outcome.error
    assert outcome.error.rstrip().endswith(("a\\0b", "a?b", "😀", "x"))


def test_an_error_that_cannot_be_shown_is_a_failed_attempt(register: Register) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("I do not say")

    outcome = outcome_of(register, raiser(Mute()))
    assert isinstance(outcome, Retry)
    assert "Mute" in outcome.error


def test_so_is_one_that_traceback_itself_fails_with(register: Register) -> None:
    class Nameless:
        def __str__(self) -> str:
            raise RuntimeError("I do not say")

    odd = SyntaxError("odd", (Nameless(), 1, 1, "{{ a b }}"))  # type: ignore[arg-type]
    outcome = outcome_of(register, raiser(odd))
    assert isinstance(outcome, Retry)
    text = "SyntaxError (its traceback cannot be formatted)"
    assert outcome == Retry(outcome.when, text, exception="builtins.SyntaxError")


def test_the_last_attempt_that_fails_is_the_end(register: Register) -> None:
    told: list[tuple[Any, BaseException]] = []
    error = ValueError("no")
    register(raiser(error), max_attempts=3, on_failure=lambda task, exc: told.append((task, exc)))
    membership = joined()
    added()
    (claim,) = claimed(membership.worker_id)
    assert isinstance(run(claim._replace(attempts=1), membership), Retry)
    assert told == []
    assert isinstance(run(claim._replace(attempts=2), membership), Fail)
    ((task, exc),) = told
    assert exc is error
    assert task.attempt == 3


def test_a_rescue_is_no_failed_attempt(register: Register) -> None:
    register(raiser(ValueError()), max_attempts=2)
    membership = joined()
    added()
    (claim,) = claimed(membership.worker_id)
    assert isinstance(run(claim._replace(rescues=9), membership), Retry)


def test_the_setting_says_how_many_attempts_a_handler_has_that_does_not_say(
    register: Register,
) -> None:
    register(raiser(ValueError()))
    membership = joined()
    added()
    (claim,) = claimed(membership.worker_id)
    with override_settings(DJANGO_TASKS={"MAX_ATTEMPTS": 3}):
        assert isinstance(run(claim._replace(attempts=1), membership), Retry)
        assert isinstance(run(claim._replace(attempts=2), membership), Fail)


@pytest.mark.parametrize("error", [RuntimeError(), SystemExit()], ids=repr)
def test_an_on_failure_that_raises_changes_nothing(
    register: Register, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def on_failure(task: Any, exc: BaseException) -> None:
        raise error

    outcome = outcome_of(register, raiser(ValueError("no")), max_attempts=1, on_failure=on_failure)
    assert isinstance(outcome, Fail)
    assert "ValueError: no" in outcome.error
    assert "on_failure of job/1 failed" in caplog.text


# When it is tried again


class Backoff:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def delay(self, attempt: int) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        (30, [30, 30, 30]),
        (timedelta(minutes=1), [60, 60, 60]),
        ([10, timedelta(seconds=20)], [10, 20, 20]),
        (Backoff(5), [5, 5, 5]),
        (Backoff(timedelta(seconds=5)), [5, 5, 5]),
    ],
    ids=["number", "timedelta", "list", "object", "object with timedelta"],
)
def test_the_backoff_says_when_it_is_tried_again(
    register: Register, backoff: Any, delays: list[float]
) -> None:
    register(raiser(ValueError()), backoff=backoff, max_attempts=9)
    membership = joined()
    added()
    (claim,) = claimed(membership.worker_id)
    for attempts, delay in enumerate(delays):
        before = membership.clock.now()
        outcome = run(claim._replace(attempts=attempts), membership)
        after = membership.clock.now()
        assert isinstance(outcome, Retry)
        assert before <= outcome.when - timedelta(seconds=delay) <= after


@pytest.mark.parametrize(
    "answer",
    [ZeroDivisionError("oh"), -1, float("nan"), float("inf"), "soon", None, True],
    ids=str,
)
def test_a_backoff_that_fails_gives_way_to_the_default(
    register: Register, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    outcome = outcome_of(register, raiser(ValueError("mine")), backoff=Backoff(answer))
    assert isinstance(outcome, Retry)
    assert outcome.when - datetime.now(timezone.utc) <= timedelta(seconds=10)
    assert "ValueError: mine" in outcome.error
    assert "The backoff of job/1 failed" in caplog.text


class Asking(ByError):
    """A backoff that looks at the error, and keeps it."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[tuple[BaseException, str]] = []

    def delay_after(self, error: BaseException, task: Any) -> Any:
        self.asked.append((error, str(task)))
        return self.answer


def test_a_backoff_may_ask_for_the_error_of_the_run(register: Register) -> None:
    error, backoff = ValueError("mine"), Asking(timedelta(minutes=5))
    outcome = outcome_of(register, raiser(error), backoff=backoff, max_attempts=2)
    assert isinstance(outcome, Retry)
    ahead = outcome.when - datetime.now(timezone.utc)
    assert timedelta(seconds=290) < ahead <= timedelta(seconds=300)
    assert backoff.asked == [(error, "job/1")]


def test_such_a_backoff_may_end_the_attempts(register: Register) -> None:
    outcome = outcome_of(register, raiser(ValueError("mine")), backoff=Asking(None), max_attempts=9)
    assert isinstance(outcome, Fail)
    assert "ValueError: mine" in outcome.error


def test_a_backoff_that_exits_does_not_grant_attempts_for_ever(register: Register) -> None:
    register(raiser(ValueError("mine")), backoff=Backoff(SystemExit(1)), max_attempts=2)
    membership = joined()
    added()
    (claim,) = claimed(membership.worker_id)
    assert isinstance(run(claim, membership), Retry)
    assert isinstance(run(claim._replace(attempts=1), membership), Fail)


def test_a_delay_beyond_the_calendar_is_cut_to_ten_years(register: Register) -> None:
    outcome = outcome_of(register, raiser(ValueError()), backoff=10.0**12)
    assert isinstance(outcome, Retry)
    assert outcome.when - datetime.now(timezone.utc) <= timedelta(days=3650)


@pytest.fixture
def died(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of each suspect dies during its run."""

    def die(*args: Any, **kwargs: Any) -> None:
        raise ProcessDied("The process that ran this task alone died: signal SIGKILL.")

    monkeypatch.setattr(execution, "run_apart", die)


def suspect(register: Register, **attributes: Any) -> tuple[Claimed, Membership]:
    """A claim that is to run in a process of its own."""
    register(lambda task: None, **attributes)
    membership = joined()
    added()
    (claim,) = claimed(membership.worker_id)
    return claim._replace(rescues=2), membership


@pytest.mark.usefixtures("died")
def test_a_run_whose_own_process_died_has_failed_and_stays_suspect(register: Register) -> None:
    outcome = run(*suspect(register, max_attempts=2))
    assert isinstance(outcome, Retry)
    assert outcome.is_suspect
    assert "signal SIGKILL" in outcome.error


@pytest.mark.usefixtures("died")
def test_if_that_was_its_last_attempt_it_has_failed_for_good(register: Register) -> None:
    outcome = run(*suspect(register, max_attempts=1))
    assert isinstance(outcome, Fail)
    assert "signal SIGKILL" in outcome.error


@pytest.mark.usefixtures("died")
@pytest.mark.parametrize(("is_ours", "kind"), [(True, Retry), (False, Settled)])
def test_an_atomic_one_may_have_written_its_end_before(
    register: Register, monkeypatch: pytest.MonkeyPatch, is_ours: bool, kind: type[Outcome]
) -> None:
    monkeypatch.setattr(execution, "is_ours", lambda claimed, using: is_ours)
    assert isinstance(run(*suspect(register, atomic=True)), kind)


@pytest.mark.usefixtures("died")
def test_where_the_database_does_not_say_which_it_is_written_if_the_row_is_ours(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*args: Any, **kwargs: Any) -> bool:
        raise OperationalError("server has gone away")

    monkeypatch.setattr(execution, "is_ours", gone)
    monkeypatch.setattr(execution, "drop_connections", lambda: None)
    outcome = run(*suspect(register, atomic=True))
    assert isinstance(outcome, Unsettled)
    assert isinstance(outcome.otherwise, Again)


def test_a_claim_that_was_made_a_little_ahead_starts_at_its_moment(register: Register) -> None:
    membership = joined()
    starts: list[datetime] = []
    register(lambda task: starts.append(membership.clock.now()))
    added()
    (claim,) = claimed(membership.worker_id)
    moment = membership.clock.now() + timedelta(seconds=execution.LONGEST_WAIT / 2)
    assert run(claim._replace(claim_time=moment), membership) == Done()
    assert len(starts) == 1
    assert starts[0] >= moment


# When it must not run at all


def test_a_claim_whose_moment_is_far_off_goes_back(register: Register) -> None:
    """The database's clock was set back since."""
    runs: list[Any] = []
    register(runs.append)
    membership = joined()
    added()
    (claim,) = claimed(membership.worker_id)
    moment = membership.clock.now() + timedelta(seconds=2 * execution.LONGEST_WAIT + 1)
    assert run(claim._replace(claim_time=moment), membership) == GiveBack()
    assert runs == []


def test_a_clock_that_stands_still_does_not_hold_up_its_thread(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[Any] = []
    register(runs.append)
    membership = joined()
    added()
    (claim,) = claimed(membership.worker_id)
    most = [execution.LONGEST_WAIT / 4] * 5
    monkeypatch.setattr(type(membership.clock), "seconds_to", lambda clock, moment: most.pop())
    moment = membership.clock.now() + timedelta(seconds=1)
    assert run(claim._replace(claim_time=moment), membership) == GiveBack()
    assert runs == most == []


def test_nothing_starts_once_the_lease_is_over(register: Register) -> None:
    runs: list[Any] = []
    register(runs.append)
    ticks = Ticks()
    membership = joined(ticks, lease=30)
    added()
    (claim,) = claimed(membership.worker_id)
    ticks.ahead = 30.1
    assert run(claim, membership) == GiveBack()
    assert runs == []


def test_nothing_starts_here_once_the_lease_is_over_because_no_process_could_be_had(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that does not get ready is waited for, longer than a lease may be."""
    runs: list[Any] = []
    register(runs.append)
    ticks = Ticks()
    membership = joined(ticks, lease=30)
    added()
    (claim,) = claimed(membership.worker_id)

    def in_vain(*args: Any, **kwargs: Any) -> None:
        ticks.ahead += 60
        raise NoProcess("it was not ready to run it")

    monkeypatch.setattr(execution, "run_apart", in_vain)
    assert run(claim._replace(rescues=2), membership) == GiveBack()
    assert runs == []


def test_a_run_that_crashed_leaves_its_line_in_the_history(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception that nobody foresaw, around the run itself, is a failed attempt like another."""

    def fail(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("can't start new thread")

    register(lambda task: None, max_attempts=1)
    membership = joined()
    added()
    (claim,) = claimed(membership.worker_id)
    monkeypatch.setattr(execution, "run_apart", fail)
    suspect, run_it = claim._replace(rescues=2), runner(membership)
    with pytest.raises(RuntimeError):
        run_it(suspect)
    end = run_it.runner.crashed(suspect)
    assert isinstance(end.outcome, Fail)
    assert end.line is not None
    assert (end.line.outcome, end.line.worker) == ("failed", membership.name)


def test_a_suspect_whose_process_got_no_connection_counts_for_nothing_and_comes_later(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_now(*args: Any, **kwargs: Any) -> None:
        raise NotRun("no database answered it")

    runs: list[Any] = []
    register(runs.append)
    membership = joined()
    added()
    (claim,) = claimed(membership.worker_id)
    monkeypatch.setattr(execution, "run_apart", not_now)
    outcome = run(claim._replace(rescues=2), membership)
    assert isinstance(outcome, Again)
    assert runs == []


def test_a_claim_of_a_life_before_is_not_started_in_the_next(register: Register) -> None:
    """A worker that was taken for dead is somebody new: what it had claimed is not its own."""
    runs: list[Any] = []
    register(runs.append)
    membership = joined()
    added()
    (claim,) = claimed(membership.worker_id)
    membership.join()
    assert membership.worker_id != claim.worker_id
    assert run(claim, membership) == GiveBack()
    assert runs == []


def test_a_claim_is_not_started_if_the_next_life_begins_while_its_thread_asks(
    register: Register,
) -> None:
    class Stalled(Membership):
        """Its heartbeat comes through, and is refused, right after the thread asked who it is."""

        asked = False

        def __getattribute__(self, name: str) -> Any:
            answer = super().__getattribute__(name)
            if name == "worker_id" and self.asked:
                self.asked = False
                self.join()
            return answer

    runs: list[Any] = []
    register(runs.append)
    ticks = Ticks()
    membership = Stalled(config(lease=30), ticks)
    membership.join()
    added()
    (claim,) = claimed(membership.worker_id)
    ticks.ahead = 30.1
    membership.asked = True
    assert run(claim, membership) == GiveBack()
    assert runs == []


def test_a_claim_whose_handler_has_gone_is_given_back(register: Register) -> None:
    membership = joined()
    added()
    (claim,) = claimed(membership.worker_id)
    assert run(claim, membership) == GiveBack()
    finish([Ended(claim, GiveBack())], datetime.now(timezone.utc), using=USING)
    assert (stored().status, stored().attempts) == (0, 0)


# What is told


def test_receivers_find_what_the_run_has_set_for_itself(register: Register) -> None:
    """As the span that is current: what they tell is a part of it."""
    seen: list[str] = []
    variable = ContextVar("variable", default="nothing")

    def handle(task: Any) -> None:
        variable.set(f"set by attempt {task.attempt}")
        if task.attempt == 1:
            raise ValueError("once")

    def receive(sender: Any, signal: Any, **_: Any) -> None:
        seen.append(variable.get())

    register(handle)
    membership = joined()
    executor = Executor(1, runner(membership).runner, lambda: None)
    added()
    (claim,) = claimed(membership.worker_id)
    told = [signals.task_retried, signals.task_succeeded]
    for signal in told:
        signal.connect(receive)
    try:
        for attempts in (0, 1):
            executor.submit([(claim._replace(attempts=attempts),)])
            executor._run_all(0)
    finally:
        for signal in told:
            signal.disconnect(receive)
    assert seen == ["set by attempt 1", "set by attempt 2"]


def test_each_end_is_told_with_its_facts(register: Register) -> None:
    answers: list[Any] = [None, timedelta(hours=1), ValueError("once"), ValueError("last")]

    def handle(task: Any) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    known = register(handle, max_attempts=2, backoff=5)
    membership = joined()
    added()
    (claim,) = claimed(membership.worker_id)
    with (
        heard(signals.task_started) as started,
        heard(signals.task_succeeded) as succeeded,
        heard(signals.task_rescheduled) as rescheduled,
        heard(signals.task_retried) as retried,
        heard(signals.task_failed) as failed,
    ):
        for attempts in (0, 0, 0, 1):
            run(claim._replace(attempts=attempts), membership)
    assert len(started) == 4
    assert started[0].keys() == {"sender", "task", "using"}
    everyone = [*started, *succeeded, *rescheduled, *retried, *failed]
    assert {message["sender"] for message in everyone} == {type(known)}
    assert {message["using"] for message in everyone} == {USING}
    assert {str(message["task"]) for message in everyone} == {"job/1"}
    (one,) = succeeded
    assert one.keys() == {"sender", "task", "using", "seconds"}
    assert one["seconds"] >= 0
    (one,) = rescheduled
    assert one.keys() == {"sender", "task", "using", "seconds", "when"}
    assert one["seconds"] >= 0
    assert one["when"] > ahead(3000)
    (one,) = retried
    assert one.keys() == {"sender", "task", "using", "seconds", "when", "exception"}
    assert str(one["exception"]) == "once"
    (one,) = failed
    assert one.keys() == {"sender", "task", "using", "seconds", "exception"}
    assert str(one["exception"]) == "last"


ALL_OF_A_RUN = [
    signals.task_started,
    signals.task_succeeded,
    signals.task_rescheduled,
    signals.task_retried,
    signals.task_failed,
]


@pytest.mark.parametrize("error", [RuntimeError(), SystemExit()], ids=repr)
@pytest.mark.parametrize(
    ("answer", "attempts", "kind"),
    [
        (None, 0, Done),
        (timedelta(0), 0, Reschedule),
        (ValueError(), 0, Retry),
        (OSError(), 1, Fail),
    ],
    ids=["done", "reschedule", "retry", "fail"],
)
def test_a_receiver_that_raises_harms_nothing(
    register: Register,
    error: BaseException,
    answer: Any,
    attempts: int,
    kind: type,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def receive(**_: Any) -> None:
        raise error

    def handle(task: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    register(handle, max_attempts=2)
    membership = joined()
    added()
    (claim,) = claimed(membership.worker_id)
    for signal in ALL_OF_A_RUN:
        signal.connect(receive)
    try:
        outcome = run(claim._replace(attempts=attempts), membership)
    finally:
        for signal in ALL_OF_A_RUN:
            signal.disconnect(receive)
    assert type(outcome) is kind


def test_each_end_is_logged_with_key_attempt_duration_and_lateness(
    register: Register, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "django_tasks")
    outcome_of(register, raiser(ValueError("first\nsecond")), max_attempts=2)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    for part in ("job/1 failed, again at", "attempt 1", "took", "ms late", "ValueError: first"):
        assert part in record.getMessage()
    assert "second" not in record.getMessage()
    facts = vars(record)
    assert (facts["biz_code"], facts["biz_num"], facts["attempt"]) == ("job", "1", 1)
    assert facts["lateness"] > 3000
    assert facts["duration"] < 60
    assert row() is not None
