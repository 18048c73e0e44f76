"""Runs of several tasks by one call of ``handle_batch``."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from decimal import getcontext
from itertools import chain
from typing import Any

import pytest
from django.db import OperationalError
from django.utils.translation import activate, get_language

from django_tasks import logs, signals
from django_tasks.api import reschedule_task, update_task
from django_tasks.client.adding import add_task
from django_tasks.client.control import cancel_task, pause_task
from django_tasks.clock import Clock
from django_tasks.handlers.base import Stop, TaskHandler, task_handler
from django_tasks.handlers.current import current_task
from django_tasks.handlers.registry import handler_for
from django_tasks.models import Task, TaskRun
from django_tasks.store.finish import Ended, finish
from django_tasks.store.gates import set_limits
from django_tasks.timezones import aware
from django_tasks.values.claimed import Claimed
from django_tasks.values.outcomes import (
    Again,
    Done,
    Fail,
    GiveBack,
    Lost,
    Reschedule,
    Retry,
    Settled,
)
from django_tasks.values.status import Status
from django_tasks.worker import execution, misfires
from django_tasks.worker.coroutines import EventLoop
from django_tasks.worker.membership import Membership
from django_tasks.worker.run import Run, RunEnd
from tests.factories import a_task, table
from tests.worker.parts import (
    CODE,
    USING,
    added,
    ago,
    ahead,
    claimed,
    heard,
    joined,
    runner,
    stored,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_one_transaction")]

HOUR = timedelta(hours=1)


class Job:
    """A worker that runs what is due in one batch, and writes the ends."""

    def __init__(self, handlers: Any, work: Callable[[list[Any]], Any], **attributes: Any) -> None:
        self.calls: list[list[str]] = []
        self.membership: Membership = joined()
        self.loop = EventLoop()
        self.runner = runner(self.membership, self.loop).runner

        def handle_batch(handler: TaskHandler, tasks: list[Any]) -> Any:
            self.calls.append([task.biz_num for task in tasks])
            return work(tasks)

        attributes = {"biz_code": CODE, "batch": 500, "handle_batch": handle_batch} | attributes
        handlers(type("Batch", (TaskHandler,), attributes))

    def claims(self) -> tuple[Claimed, ...]:
        return tuple(claimed(self.membership.worker_id, limit=100))

    def run(self, claims: Sequence[Claimed] | None = None) -> dict[str, Any]:
        """The outcomes by number."""
        return self.written(self.runner(tuple(claims or self.claims())))

    def written(self, ends: Sequence[Ended]) -> dict[str, Any]:
        """The outcomes of these ends, once they are written."""
        unwritten = [end for end in ends if not isinstance(end.outcome, Settled | Lost)]
        finish(unwritten, datetime.now(timezone.utc), using=USING)
        return {end.claimed.biz_num: end.outcome for end in ends}


def some(count: int) -> list[str]:
    numbers = [str(number) for number in range(count)]
    for number in numbers:
        added(number)
    return numbers


def left() -> list[str]:
    return sorted(Task.objects.filter(biz_code=CODE).values_list("biz_num", flat=True))


def effects() -> list[str]:
    return sorted(Task.objects.filter(biz_code="effect").values_list("biz_num", flat=True))


def leave(tasks: list[Any]) -> None:
    """An effect of each task."""
    for task in tasks:
        add_task(a_task(task.biz_num, biz_code="effect"))


atomic = pytest.mark.parametrize("atomic", [False, True], ids=["plain", "atomic"])


@atomic
def test_all_that_are_due_are_done_by_one_call(handlers: Any, atomic: bool) -> None:
    numbers = some(5)
    job = Job(handlers, leave, atomic=atomic)
    with heard(signals.task_started) as started, heard(signals.task_succeeded) as succeeded:
        job.run()
    assert job.calls == [numbers]
    assert effects() == numbers
    assert left() == []
    assert [str(each["task"]) for each in started] == [f"{CODE}/{number}" for number in numbers]
    assert len(succeeded) == 5


@atomic
def test_a_lonely_task_comes_as_a_batch_of_one(handlers: Any, atomic: bool) -> None:
    some(1)
    job = Job(handlers, leave, atomic=atomic)
    job.run()
    assert job.calls == [["0"]]
    assert left() == []


@atomic
def test_each_task_may_have_an_answer_of_its_own(handlers: Any, atomic: bool) -> None:
    some(5)

    def work(tasks: list[Any]) -> Any:
        one, two, three, four, _ = tasks
        return {one: HOUR, two: Stop, three: ValueError("bad"), four: None}

    job = Job(handlers, work, atomic=atomic, max_attempts=2, backoff=60)
    with heard(signals.task_retried) as retried, heard(signals.task_rescheduled) as moved:
        job.run()
    assert left() == ["0", "2"]
    assert stored("0").when > ahead(3000)
    assert (stored("2").attempts, stored("0").attempts) == (1, 0)
    assert "bad" in stored("2").last_error
    assert [each["when"] for each in retried] == [stored("2").when]
    assert len(moved) == 1


@atomic
def test_an_answer_that_was_the_last_attempts_parks_its_task(handlers: Any, atomic: bool) -> None:
    some(2)
    job = Job(handlers, lambda tasks: {tasks[0]: ValueError("bad")}, atomic=atomic, max_attempts=1)
    job.run()
    assert left() == ["0"]
    assert stored("0").status == Status.FAILED


@atomic
@pytest.mark.parametrize("answer", [5, "all", [], {"a stranger": None}, {5: HOUR}], ids=repr)
def test_any_other_answer_fails_all_of_them_with_a_sentence(
    handlers: Any, atomic: bool, answer: Any
) -> None:
    some(2)
    Job(handlers, lambda tasks: answer, atomic=atomic, max_attempts=1).run()
    for number in "01":
        assert stored(number).status == Status.FAILED
        assert "handle_batch() must return None, or a mapping" in stored(number).last_error


@atomic
@pytest.mark.parametrize("culprits", [{"0"}, {"6"}, {"2", "3"}, set("0123456")], ids=str)
def test_only_what_fails_alone_is_charged_an_attempt(
    handlers: Any, atomic: bool, culprits: set[str]
) -> None:
    numbers = some(7)

    def work(tasks: list[Any]) -> None:
        leave(tasks)
        if culprits & {task.biz_num for task in tasks}:
            raise ValueError("one of these")

    job = Job(handlers, work, atomic=atomic, max_attempts=2, backoff=60)
    with heard(signals.task_started) as started:
        job.run()
    assert left() == sorted(culprits)
    assert all(stored(number).attempts == 1 for number in culprits)
    assert len(started) == 7
    if atomic:
        assert effects() == sorted(set(numbers) - culprits)


def test_a_batch_that_fails_whole_is_called_twice_as_often_as_it_has_tasks(handlers: Any) -> None:
    some(8)

    def work(tasks: list[Any]) -> None:
        raise SystemExit

    job = Job(handlers, work)
    job.run()
    assert len(job.calls) == 15


@atomic
def test_rows_that_somebody_has_changed_meanwhile_end_as_those_of_single_runs(
    handlers: Any, atomic: bool
) -> None:
    some(4)

    def work(tasks: list[Any]) -> None:
        leave(tasks)
        add_task(a_task("0", biz_code=CODE, when=ahead(60)))
        cancel_task(CODE, "1")
        pause_task(CODE, "2")

    Job(handlers, work, atomic=atomic).run()
    assert left() == ["0"]
    assert stored("0").status == Status.PENDING
    assert effects() == ["0", "1", "2", "3"]


STEPS: dict[str, Callable[[str], Any]] = {
    "added again": lambda num: add_task(a_task(num, biz_code=CODE, when=ahead(60), biz_ext="new")),
    "added for now": lambda num: add_task(a_task(num, biz_code=CODE, when=ago(1), biz_ext="new")),
    "cancelled": lambda num: cancel_task(CODE, num),
    "paused": lambda num: pause_task(CODE, num),
    "moved": lambda num: reschedule_task(CODE, num, when=ahead(60)),
    "updated": lambda num: update_task(CODE, num, biz_ext="new"),
}


@atomic
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("alone", [False, True], ids=["halves", "singles"])
def test_a_call_after_the_first_is_not_made_for_what_a_client_has_touched(
    handlers: Any, atomic: bool, step: str, alone: bool
) -> None:
    numbers = some(4)

    def work(tasks: list[Any]) -> None:
        if len(job.calls) == 1:
            raise ValueError("the first call")

    def take(ended: Sequence[Ended]) -> None:
        if len(job.calls) == 1 and not taken:
            STEPS[step]("3")
        taken.append(ended)

    taken: list[Sequence[Ended]] = []
    job = Job(handlers, work, atomic=atomic, max_attempts=1)
    claims = job.claims()
    for claim in claims[:2] if alone else ():
        job.runner._refusals.note(claim.id)
    last = job.runner(claims, take)
    outcomes = job.written([*chain.from_iterable(taken), *last])
    assert job.calls == ([["0"], ["1"], ["2"]] if alone else [numbers, ["0", "1"], ["2"]])
    assert isinstance(outcomes["3"], Again)
    if step == "cancelled":
        assert "3" not in left()
    else:
        row = stored("3")
        assert row.status == (Status.PAUSED if step == "paused" else Status.PENDING)
        assert (row.attempts, row.last_error, row.claimed_by) == (0, "", None)
        assert row.biz_ext == (
            "new" if step in ("added again", "added for now", "updated") else None
        )


@atomic
def test_a_worker_that_stops_makes_no_further_call(
    handlers: Any, atomic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    some(4)

    def work(tasks: list[Any]) -> None:
        raise ValueError("not these together")

    job = Job(handlers, work, atomic=atomic)
    monkeypatch.setattr(job.runner, "may_start", lambda claimed: not job.calls)
    outcomes = job.run()
    assert len(job.calls) == 1
    assert {type(outcome) for outcome in outcomes.values()} == {Again}
    assert {(stored(num).status, stored(num).attempts) for num in "0123"} == {(Status.PENDING, 0)}


@pytest.mark.parametrize("saves", [False, True])
def test_what_a_failed_call_has_changed_is_kept_if_it_was_saved(handlers: Any, saves: bool) -> None:
    for number in range(4):
        added(str(number), biz_ext={"calls": 0})

    def work(tasks: list[Any]) -> dict[Any, timedelta]:
        for task in tasks:
            task.biz_ext["calls"] += 1
            if saves:
                task.save(task.biz_ext)
        if len(tasks) > 1:
            raise ValueError("not these together")
        return dict.fromkeys(tasks, HOUR)

    Job(handlers, work).run()
    assert [stored(num).biz_ext for num in "0123"] == [{"calls": 3 if saves else 1}] * 4


def test_a_defect_around_one_part_is_its_own(handlers: Any) -> None:
    some(4)

    class Broken:
        def delay(self, attempt: int) -> float:
            raise SystemExit(1)

    def work(tasks: list[Any]) -> None:
        if any(task.biz_num == "0" for task in tasks):
            raise ValueError("not with 0")

    Job(handlers, work, backoff=Broken()).run()
    assert left() == ["0"]
    assert stored("0").attempts == 1


def test_what_was_updated_during_a_failed_call_is_no_misfire(handlers: Any) -> None:
    added("0", when=ago(5))
    added("1", when=ago(5))

    def work(tasks: list[Any]) -> None:
        if len(job.calls) == 1:
            update_task(CODE, "1", biz_ext="new")
            raise ValueError("not these together")

    job = Job(handlers, work, misfire_grace_time=10)
    job.run()
    assert left() == ["1"]
    assert aware("when", stored("1").when) > ago(4)


def test_the_ends_of_a_call_are_handed_over_before_the_next_one(handlers: Any) -> None:
    some(4)
    seen: list[tuple[int, list[str]]] = []

    def work(tasks: list[Any]) -> None:
        seen.append((len(job.calls), sorted(taken)))
        if len(tasks) == 4 or tasks[0].biz_num == "2":
            raise ValueError("not these together")

    taken: list[str] = []
    job = Job(handlers, work, backoff=60)
    claims = job.claims()

    def take(ends: Sequence[Any]) -> None:
        taken.extend(end.claimed.biz_num for end in ends)

    last = job.runner(claims, take)
    assert seen == [(1, []), (2, []), (3, ["0", "1"]), (4, ["0", "1"]), (5, ["0", "1", "2"])]
    assert [end.claimed.biz_num for end in last] == ["3"]


@pytest.mark.parametrize("by", ["the handler", "an operator"])
def test_what_is_limited_by_a_rate_starts_again_by_its_gate_alone(handlers: Any, by: str) -> None:
    numbers = some(3)

    def work(tasks: list[Any]) -> None:
        raise ValueError("these")

    own = {"rate_limit": "100/m"} if by == "the handler" else {}
    job = Job(handlers, work, **own)
    if by == "an operator":
        set_limits(CODE, (None, "100/m"), using=USING)
    job.run()
    assert job.calls == [numbers]
    for number in numbers:
        assert (stored(number).status, stored(number).attempts) == (Status.PENDING, 0)
    table().update(when=ago())
    job.run()
    assert job.calls == [numbers, *([number] for number in numbers)]
    assert [stored(number).attempts for number in numbers] == [1, 1, 1]


def test_an_atomic_batch_that_is_rolled_back_forgets_what_its_tasks_have_saved(
    handlers: Any,
) -> None:
    some(4)
    seen: list[Any] = []

    def work(tasks: list[Any]) -> None:
        for task in tasks:
            seen.append(task.biz_ext)
            task.save("done")
        if any(task.biz_num == "2" for task in tasks):
            raise ValueError("bad")

    Job(handlers, work, atomic=True, max_attempts=1).run()
    assert set(seen) == {None}
    assert left() == ["2"]
    assert stored("2").biz_ext is None


def test_an_atomic_batch_that_has_lost_a_row_is_rolled_back_and_run_without_it(
    handlers: Any,
) -> None:
    some(4)
    job = Job(handlers, leave, atomic=True)
    claims = job.claims()
    table().filter(biz_num="2").update(claimed_by=99)
    outcomes = job.run(claims)
    assert job.calls == [["0", "1", "2", "3"], ["0", "1", "3"]]
    assert isinstance(outcomes["2"], Lost)
    assert effects() == ["0", "1", "3"]
    assert left() == ["2"]


@atomic
def test_what_a_call_leaves_in_its_context_is_not_there_in_the_next_one(
    handlers: Any, atomic: bool
) -> None:
    some(4)
    found: list[tuple[str, int]] = []

    def work(tasks: list[Any]) -> None:
        found.append((get_language(), getcontext().prec))
        activate("de")
        getcontext().prec = 3
        if any(task.biz_num == "2" for task in tasks):
            raise LookupError("2")

    job = Job(handlers, work, atomic=atomic)
    job.run()
    assert len(job.calls) == 5
    assert found == [found[0]] * 5
    assert found[0] == (get_language(), getcontext().prec) != ("de", 3)


@atomic
def test_a_refusal_of_the_database_is_nobodys_fault_and_each_comes_later_alone(
    handlers: Any, atomic: bool
) -> None:
    some(3)
    refused = [True]

    def work(tasks: list[Any]) -> None:
        if refused.pop():
            raise OperationalError("server closed the connection unexpectedly")

    job = Job(handlers, work, atomic=atomic)
    job.run()
    assert left() == ["0", "1", "2"]
    assert not any(stored(number).attempts for number in "012")
    refused += [False] * 3
    table().update(when=ahead(-1))
    job.run()
    assert job.calls == [["0", "1", "2"], ["0"], ["1"], ["2"]]
    assert left() == []


def test_a_call_that_takes_too_long_is_not_repeated_in_halves(handlers: Any) -> None:
    some(3)

    async def work(tasks: list[Any]) -> None:
        if len(tasks) > 1:
            await asyncio.Event().wait()

    job = Job(handlers, work, timeout=0.05)
    job.run()
    assert left() == ["0", "1", "2"]
    table().update(when=ahead(-1))
    job.run()
    assert job.calls == [["0", "1", "2"], ["0"], ["1"], ["2"]]
    assert left() == []
    job.loop.close()


@atomic
def test_the_line_of_a_task_has_the_start_of_the_call_that_has_ended_it(
    handlers: Any, atomic: bool
) -> None:
    some(2)

    def work(tasks: list[Any]) -> None:
        starts.append(tasks[0].started)
        if len(tasks) > 1:
            raise ValueError("not together")

    starts: list[datetime] = []
    Job(handlers, work, atomic=atomic, history="all").run()
    lines = TaskRun.objects.order_by("biz_num").values_list("started", flat=True)
    assert list(lines) == starts[1:]
    assert starts == sorted(set(starts))


def test_the_timeout_of_an_async_batch_names_its_method(handlers: Any) -> None:
    some(1)

    async def work(tasks: list[Any]) -> None:
        await asyncio.Event().wait()

    job = Job(handlers, work, timeout=0.05, max_attempts=1)
    job.run()
    assert "handle_batch() took longer than its timeout of 0.05 s (at" in stored("0").last_error
    job.loop.close()


@atomic
def test_once_they_have_ended_well_alone_they_are_called_together_again(
    handlers: Any, atomic: bool
) -> None:
    def work(tasks: list[Any]) -> Any:
        if len(job.calls) == 1:
            raise TimeoutError
        return dict.fromkeys(tasks, HOUR)

    numbers = some(3)
    job = Job(handlers, work, atomic=atomic)
    for _ in range(3):
        job.run()
        table().update(when=ago())
    assert job.calls == [numbers, *([number] for number in numbers), numbers]


@atomic
def test_a_failure_alone_ends_the_time_of_being_called_alone(handlers: Any, atomic: bool) -> None:
    def work(tasks: list[Any]) -> None:
        raise TimeoutError if len(job.calls) == 1 else ValueError("bad")

    numbers = some(3)
    alone = [[number] for number in numbers]
    job = Job(handlers, work, atomic=atomic, max_attempts=9, backoff=60)
    for _ in range(3):
        job.run()
        table().update(when=ago())
    assert job.calls == [numbers, *alone, numbers, numbers[:1], numbers[1:], *alone[1:]]
    assert {stored(number).attempts for number in numbers} == {2}


@atomic
@pytest.mark.parametrize("error", [TimeoutError(), OperationalError("gone")], ids=["late", "gone"])
def test_what_would_come_again_alone_stays_alone(
    handlers: Any, atomic: bool, error: Exception
) -> None:
    def work(tasks: list[Any]) -> Any:
        if any(task.biz_num == "0" for task in tasks):
            raise error
        return dict.fromkeys(tasks, HOUR)

    numbers = some(3)
    job = Job(handlers, work, atomic=atomic, max_attempts=9, backoff=60)
    for _ in range(3):
        job.run()
        table().update(when=ago())
    assert job.calls == [numbers, ["0"], ["1"], ["2"], ["0"], ["1", "2"]]


def test_without_its_lease_nothing_of_a_batch_starts(handlers: Any) -> None:
    some(3)
    job = Job(handlers, leave)
    claims = [claim._replace(worker_id=99) for claim in job.claims()]
    assert all(isinstance(each, GiveBack) for each in job.run(claims).values())
    assert job.calls == []


def test_what_comes_too_late_does_not_start_and_the_others_do(handlers: Any) -> None:
    added("late", when=ahead(-3600))
    added("in time", when=ahead(-1))
    job = Job(handlers, leave, misfire_grace_time=60, on_misfire="fail")
    outcomes = job.run()
    assert job.calls == [["in time"]]
    assert isinstance(outcomes["late"], Fail)


def test_a_defect_before_one_of_them_starts_is_its_own(
    handlers: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    some(3)
    plain = misfires.in_time

    def failing(run: Run, clock: Clock) -> Run | RunEnd:
        if run.claimed.biz_num == "1":
            raise ZeroDivisionError
        return plain(run, clock)

    monkeypatch.setattr(execution, "in_time", failing)
    job = Job(handlers, leave)
    outcomes = job.run()
    assert isinstance(outcomes.pop("1"), Retry)
    assert outcomes == {"0": Done(), "2": Done()}
    assert f"The run of {CODE}/1 failed outside its handler" in caplog.text


def test_a_batch_of_schedules_goes_on_as_each_of_them_says(handlers: Any) -> None:
    added("hourly", schedule="every 1h")
    added("once")
    outcomes = Job(handlers, leave).run()
    assert isinstance(outcomes["hourly"], Reschedule)
    assert left() == ["hourly"]


def test_a_function_may_take_a_batch(handlers: Any) -> None:
    calls: list[int] = []

    @task_handler(CODE, batch=10)
    def work(tasks: Any) -> None:
        calls.append(len(tasks))

    some(3)
    handlers(work)
    membership = joined()
    claims = tuple(claimed(membership.worker_id, limit=100))
    ends = runner(membership).runner(claims)
    assert [end.outcome for end in ends] == [Done()] * 3
    assert calls == [3]
    work([1])
    assert calls == [3, 1]


def test_the_payload_of_each_is_kept_with_its_next_time(handlers: Any) -> None:
    some(2)

    def work(tasks: list[Any]) -> Any:
        for task in tasks:
            task.biz_ext = {"seen": task.biz_num}
        return dict.fromkeys(tasks, HOUR)

    Job(handlers, work).run()
    assert [stored(number).biz_ext for number in "01"] == [{"seen": "0"}, {"seen": "1"}]


# Hooks of an atomic batch


class Hooked:
    """A batch of three whose first task has failed for good; it notes what its hook saw."""

    def __init__(self, handlers: Any, hook: Callable[[Any], Any], failures: int = 1) -> None:
        some(3)
        self.seen: list[tuple[int, bool]] = []

        def work(tasks: list[Any]) -> Any:
            leave(tasks)
            bad = tasks[:failures] if len(tasks) > 1 else []
            return dict.fromkeys(bad, ValueError("bad"))

        def on_failure(handler: TaskHandler, task: Any, exc: BaseException) -> Any:
            self.seen.append((stored(task.biz_num).status, current_task() is task))
            return hook(task)

        self.job = Job(handlers, work, atomic=True, max_attempts=1, on_failure=on_failure)


def test_the_hook_of_an_atomic_batch_comes_before_the_row_is_failed(handlers: Any) -> None:
    hooked = Hooked(handlers, lambda task: added("from the hook", "effect", when=ahead()))
    with heard(signals.task_failed) as told:
        hooked.job.run()
    assert hooked.seen == [(Status.RUNNING, True)]
    assert stored("0").status == Status.FAILED
    assert effects() == ["0", "1", "2", "from the hook"]
    assert len(told) == 1


def test_a_process_that_dies_in_the_hook_of_an_atomic_batch_has_ended_nothing(
    handlers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*args: Any) -> None:
        raise KeyboardInterrupt

    hooked = Hooked(handlers, lambda task: 1 / 0)
    job, handler = hooked.job, handler_for(CODE)
    assert handler is not None
    tick = job.membership.clock.tick()
    runs = [job.runner._begun(each, handler, tick) for each in job.claims()]
    monkeypatch.setattr(logs, "hook_failed", die)
    with pytest.raises(KeyboardInterrupt):
        job.runner._batches._performed(runs)
    assert effects() == []
    assert {stored(number).status for number in "012"} == {Status.RUNNING}


def test_what_such_a_hook_raises_takes_back_what_it_wrote_and_nothing_else(
    handlers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def hook(task: Any) -> None:
        added("from the hook", "effect", when=ahead())
        Task._base_manager.create(id=stored("0").id)

    Hooked(handlers, hook).job.run()
    assert stored("0").status == Status.FAILED
    assert left() == ["0"]
    assert effects() == ["0", "1", "2"]
    assert "on_failure of job/0 failed" in caplog.messages


def test_an_async_hook_of_an_atomic_batch_is_called_as_well(handlers: Any) -> None:
    async def hook(task: Any) -> None:
        called.append(task.biz_num)

    called: list[str] = []
    hooked = Hooked(handlers, hook, failures=2)
    hooked.job.run()
    hooked.job.loop.close()
    assert called == ["0", "1"]
    assert left() == ["0", "1"]
