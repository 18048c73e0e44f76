"""Sticky handlers: one worker is active for each, and the others hear of it at each time."""

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from threading import Event
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import OperationalError

from django_tasks import api
from django_tasks.client.control import pause_task
from django_tasks.client.pauses import pause_tasks, resume_tasks
from django_tasks.exceptions import HandlerError, TaskValueError
from django_tasks.handlers import registry
from django_tasks.handlers.base import task_handler
from django_tasks.handlers.running_task import PassiveTask
from django_tasks.locks import locking, rows
from django_tasks.models import Lock
from django_tasks.schedules import Every
from django_tasks.store import search
from django_tasks.store.lanes import Lane
from django_tasks.timezones import for_django
from django_tasks.values.keys import SCHEDULE_NUM, lock_of
from django_tasks.values.outcomes import GiveBack
from django_tasks.worker import active as active_module
from django_tasks.worker import schedule_rows
from django_tasks.worker.active import LATE_SECONDS, Active
from django_tasks.worker.membership import Membership
from django_tasks.worker.passive import LONGEST_SLEEP, Passive
from django_tasks.worker.poller import Poller
from tests.factories import table
from tests.worker.conftest import Register
from tests.worker.parts import (
    CODE,
    USING,
    Hands,
    Ticks,
    added,
    ago,
    claimed,
    config,
    joined,
    runner,
)

pytestmark = pytest.mark.django_db(transaction=True)

SECOND = timedelta(seconds=1)


def nothing(task: Any) -> None:
    pass


@pytest.fixture
def sticky(register: Register) -> Callable[..., Any]:
    def sticky(handle: Callable[..., Any] = nothing, **attributes: Any) -> Any:
        values = {"schedule": Every(seconds=1), "sticky": True} | attributes
        return register(handle, **values)

    return sticky


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Ticks:
    """Time that the test pushes forward, for what a worker believes of its terms."""
    ticks = Ticks()
    monkeypatch.setattr(active_module, "ticks", ticks)
    return ticks


def a_worker(name: str = "a", **wishes: Any) -> Active:
    """The terms of a worker, driven by the test."""
    running = wishes.pop("running", tuple)
    wake = wishes.pop("wake", lambda: None)
    return Active(config(**wishes), name, joined().clock, wake, running)


def cycle(worker: Active) -> float:
    return worker._guardedly()


def lock() -> Lock:
    return Lock.objects.get(name=lock_of(CODE))


def overtaken() -> None:
    """The lease has passed, by the database's clock."""
    Lock.objects.update(until=5)


# The handler


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({}, "sticky goes with a schedule of the handler's own"),
        ({"schedule": "every 1h", "each_host": True}, "sticky is for one worker"),
    ],
)
def test_one_that_cannot_be_sticky_is_refused(
    register: Register, attributes: dict[str, Any], words: str
) -> None:
    with pytest.raises(HandlerError, match=words):
        register(nothing, sticky=True, **attributes)


def test_the_codes_are_known(sticky: Any, register: Register) -> None:
    register(nothing, "other")
    assert registry.sticky_codes() == frozenset()
    sticky()
    assert registry.sticky_codes() == {CODE}
    registry.forget()
    assert registry.sticky_codes() == frozenset()


def test_a_function_may_be_sticky_and_have_the_hook(register: Register) -> None:
    @task_handler(CODE, schedule="every 1s", sticky=True, on_passive=nothing)
    def handle(task: Any) -> None: ...

    registry.register_task_handler(handle)
    assert registry.sticky_codes() == {CODE}
    assert registry.terms_for(CODE).has_passive_hook


def test_a_hook_that_nobody_would_call_is_refused(register: Register) -> None:
    with pytest.raises(HandlerError, match="on_passive goes with sticky"):
        register(nothing, schedule="every 1h", on_passive=nothing)


def test_its_lock_is_nobody_elses() -> None:
    with pytest.raises(TaskValueError, match="belongs to the active worker of a sticky handler"):
        locking._checked(lock_of(CODE), 5, None, USING)


# Who is active


def test_the_first_worker_is_active_as_long_as_it_lives(sticky: Any) -> None:
    sticky()
    woken: list[int] = []
    first, second = a_worker("a", wake=lambda: woken.append(1)), a_worker("b")
    assert not first.is_active(CODE)
    for _ in range(3):
        for worker in (first, second):
            cycle(worker)
    assert (first.is_active(CODE), second.is_active(CODE)) == (True, False)
    assert woken == [1]
    assert (lock().holder, lock().term) == ("a", 1)
    assert {code: state.holder for code, state in second.others.items()} == {CODE: "a"}
    assert first.others == {}


def test_other_codes_may_run_anywhere(sticky: Any, register: Register) -> None:
    sticky()
    register(nothing, "other")
    assert a_worker().may_run(Lane("default", 0, "other", ago()))


def test_it_is_renewed_before_its_lease_has_passed(sticky: Any, later: Ticks) -> None:
    sticky()
    worker = a_worker(lease=30.0)
    cycle(worker)
    until = lock().until
    for _ in range(9):
        later.ahead += 10.0
        assert worker.is_active(CODE)
        assert cycle(worker) == pytest.approx(10.0)
    assert worker.is_active(CODE)
    assert lock().until > until
    later.ahead += 30.0
    assert not worker.is_active(CODE)


def test_another_one_takes_over_and_the_first_knows_it(
    sticky: Any, later: Ticks, caplog: pytest.LogCaptureFixture
) -> None:
    sticky()
    first, second = a_worker("a"), a_worker("b")
    cycle(first)
    overtaken()
    later.ahead += 31.0
    assert not first.is_active(CODE)
    cycle(second)
    assert second.is_active(CODE)
    cycle(first)
    cycle(first)
    assert (first.is_active(CODE), lock().holder, lock().term) == (False, "b", 2)
    assert "not the active one of job on default any more: its term 1 was lost" in caplog.text


def test_one_that_stood_still_is_active_again_if_nobody_has_taken_over(
    sticky: Any, later: Ticks
) -> None:
    sticky()
    worker = a_worker()
    cycle(worker)
    overtaken()
    later.ahead += 60.0
    assert not worker.is_active(CODE)
    cycle(worker)
    assert (worker.is_active(CODE), lock().term) == (True, 1)


def test_the_others_look_when_the_lease_ends(sticky: Any) -> None:
    sticky()
    cycle(a_worker("a", lease=3.0))
    assert 2.5 < cycle(a_worker("b", lease=30.0)) < 3.2


def test_a_task_that_waits_has_the_lock_asked_for_soon(sticky: Any, later: Ticks) -> None:
    sticky()
    worker = a_worker()
    now = worker._clock.now()

    def admits(late: float, biz_code: str = CODE) -> bool:
        worker._stirred.clear()
        return worker.admits(Lane("default", 0, biz_code, now - timedelta(seconds=late)))

    assert admits(9, "other")
    assert not worker._stirred.is_set()
    assert not admits(LATE_SECONDS / 2)
    assert not worker._stirred.is_set()
    assert not admits(LATE_SECONDS + 0.1)
    assert worker._stirred.is_set()
    assert not admits(LATE_SECONDS + 0.1)
    assert not worker._stirred.is_set()
    later.ahead += LATE_SECONDS
    assert not admits(LATE_SECONDS + 0.1)
    assert worker._stirred.is_set()


def test_in_another_queue_a_task_runs_anywhere(sticky: Any) -> None:
    sticky()
    worker = a_worker()
    assert worker.may_run(Lane("mail", 0, CODE, ago()))
    assert not worker.may_run(Lane("default", 0, CODE, ago()))


@pytest.mark.parametrize(("failing", "fine"), [(CODE, "other"), ("other", CODE)])
def test_a_lock_that_cannot_be_renewed_costs_no_other_its_term(
    sticky: Any,
    register: Register,
    later: Ticks,
    monkeypatch: pytest.MonkeyPatch,
    failing: str,
    fine: str,
) -> None:
    sticky()
    register(nothing, "other", schedule="every 1s", sticky=True)
    worker, renew = a_worker(), rows.renew
    cycle(worker)

    def renewed(hold: rows.Hold, *args: Any, **options: Any) -> bool:
        if hold.name == lock_of(failing):
            raise OperationalError("lock wait timeout")
        return renew(hold, *args, **options)

    monkeypatch.setattr(rows, "renew", renewed)
    for _ in range(2):
        later.ahead += 29.0
        cycle(worker)
    assert worker.is_active(fine)
    assert not worker.is_active(failing)


@pytest.mark.parametrize("wishes", [{"queues": ("mail",)}, {"codes": ("other",)}])
def test_a_worker_that_does_not_serve_it_is_never_active(sticky: Any, wishes: Any) -> None:
    sticky()
    worker = a_worker(**wishes)
    cycle(worker)
    assert not worker.is_active(CODE)
    assert not Lock.objects.exists()


def test_a_lock_whose_answer_was_lost_is_gone_on_with(
    sticky: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sticky()
    worker, take = a_worker(), rows.take

    def lost(*args: Any, **options: Any) -> Any:
        take(*args, **options)
        raise OperationalError("gone away")

    monkeypatch.setattr(rows, "take", lost)
    assert cycle(worker) == pytest.approx(30.0 / 12)
    assert (worker.is_active(CODE), lock().holder) == (False, "a")
    cycle(worker)
    assert worker.is_active(CODE)
    assert worker.others == {}
    assert lock().term == 1


def test_an_error_of_ours_is_told_and_tried_again(
    sticky: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sticky()

    def fail(*args: Any, **options: Any) -> Any:
        raise KeyError("a defect")

    monkeypatch.setattr(rows, "states", fail)
    assert cycle(a_worker()) == pytest.approx(30.0 / 12)
    assert "The terms of sticky handlers on default met an error" in caplog.text


# Its end


def test_a_worker_that_stops_frees_the_lock_after_the_last_run(sticky: Any) -> None:
    sticky()
    running = {CODE}
    worker = a_worker(running=lambda: running)
    cycle(worker)
    worker.retire()
    assert not worker.is_active(CODE)
    assert cycle(worker) < 1.0
    assert lock().holder == "a"
    running.clear()
    cycle(worker)
    assert lock().holder == ""
    cycle(worker)
    assert lock().term == 1  # it does not take it again


MOMENTS = ("nothing runs", "it is about to be freed", "it is freed")


@pytest.mark.parametrize("moment", MOMENTS)
def test_one_that_goes_on_after_all_does_not_believe_in_a_lock_that_it_frees(
    sticky: Any, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Another one may have it in the same moment."""
    sticky()
    free, believed = rows.free, list[bool]()

    def come(now: str) -> None:
        if now == moment:
            worker.retire(False)  # as the poller does, in its own thread
        believed.append(worker.is_active(CODE))

    def running() -> tuple[str, ...]:
        come("nothing runs")
        return ()

    def freed(hold: Any, *, using: str) -> bool:
        come("it is about to be freed")
        answer = free(hold, using=using)
        come("it is freed")
        return answer

    monkeypatch.setattr(rows, "free", freed)
    worker = a_worker(running=running)
    cycle(worker)
    worker.retire()
    cycle(worker)
    assert believed == [False] * 3
    cycle(worker)
    assert (worker.is_active(CODE), lock().term) == (True, 2)


def test_one_that_goes_on_after_all_with_its_lock_has_the_poller_look_again(sticky: Any) -> None:
    """That may have looked while nothing was believed."""
    sticky()
    woken: list[bool] = []

    def running() -> set[str]:
        worker.retire(False)
        return {CODE}

    worker = a_worker(running=running, wake=lambda: woken.append(True))
    cycle(worker)
    worker.retire()
    cycle(worker)
    assert worker.is_active(CODE)
    assert len(woken) == 2
    assert lock().term == 1


def test_a_worker_that_stops_knows_of_no_other(sticky: Any) -> None:
    sticky()
    first, second = a_worker("a"), a_worker("b")
    for worker in (first, second):
        cycle(worker)
    assert CODE in second.others
    second.retire()
    cycle(second)
    assert second.others == {}


def test_a_real_one_ends_with_its_locks_free(sticky: Any) -> None:
    sticky()
    taken = Event()
    worker = a_worker(wake=taken.set, running=lambda: {CODE})
    worker.ensure()
    assert taken.wait(9)
    worker.ensure()
    worker.close()
    assert lock().holder == ""
    assert worker._thread is not None
    assert not worker._thread.is_alive()


def test_without_sticky_handlers_there_is_no_thread(register: Register) -> None:
    register(nothing, schedule="every 1h")
    worker = a_worker()
    worker.ensure()
    passive = Passive(config(), worker, joined().clock)
    passive.ensure()
    worker.close()
    passive.close()
    assert (worker._thread, passive._thread) == (None, None)


# Claims and runs


class Cluster:
    """Two workers, step by step."""

    def __init__(self) -> None:
        self.active = [a_worker(name) for name in ("a", "b")]
        self.members: list[Membership] = [joined(), joined()]
        self.hands = [Hands(runner(member)) for member in self.members]
        self.pollers = [
            Poller(config(), member, hands.executor, active=active)
            for member, hands, active in zip(self.members, self.hands, self.active, strict=True)
        ]

    def keys(self, place: int) -> list[str]:
        """The tasks that a worker claims."""
        self.pollers[place].run_once()
        return [str(each) for each in self.hands[place].waiting]


@pytest.mark.usefixtures("in_one_transaction")
def test_only_the_active_worker_claims(sticky: Any, register: Register) -> None:
    sticky()
    register(nothing, "other")
    cluster = Cluster()
    cycle(cluster.active[0])
    added("1")
    added("2", "other")
    assert cluster.keys(1) == ["other/2"]
    assert cluster.keys(0) == ["job/1"]


def test_a_claim_of_one_that_is_active_no_more_goes_back(sticky: Any, later: Ticks) -> None:
    ran: list[str] = []
    sticky(lambda task: ran.append(str(task)))
    worker, membership = a_worker(), joined()
    cycle(worker)
    added("1")
    (claim,) = claimed(membership.worker_id)
    runs = runner(membership, may_run=worker.may_run)
    later.ahead += 31.0
    assert isinstance(runs(claim).outcome, GiveBack)
    assert ran == []
    cycle(worker)
    assert not isinstance(runs(claim).outcome, GiveBack)
    assert ran == ["job/1"]


# The others


class Hooks:
    """A sticky handler with a hook, its row, and a worker that is not the active one."""

    def __init__(self, sticky: Any, **attributes: Any) -> None:
        self.told: list[PassiveTask] = []
        sticky(on_passive=attributes.pop("on_passive", self.told.append), **attributes)
        schedule_rows.keep(ago(0), config())
        table().update(biz_ext={"page": 7})
        self.first, self.active = a_worker("a"), a_worker("b")
        for worker in (self.first, self.active):
            cycle(worker)
        self.moment = datetime.now(timezone.utc).replace(microsecond=0)
        clock: Any = self
        self.passive = Passive(config(), self.active, clock)
        self.at(0)

    def now(self) -> datetime:
        return self.moment

    def seconds_to(self, moment: datetime) -> float:
        return (moment - self.moment).total_seconds()

    def at(self, seconds: float) -> None:
        """The next time of the row."""
        when = self.moment + timedelta(seconds=seconds)
        table(biz_num=SCHEDULE_NUM).update(when=for_django(when))

    def after(self, seconds: float, *, look: bool = False) -> list[datetime]:
        """The times that were told of in a cycle, so much later."""
        self.moment += timedelta(seconds=seconds)
        if look:
            self.passive._next_look = float("-inf")
        self.told.clear()
        while self.passive.cycle() == 0.0:
            pass
        return [task.when for task in self.told]


def test_the_others_are_told_of_each_time(sticky: Any, queries: Any) -> None:
    hooks = Hooks(sticky)
    start = hooks.moment
    assert hooks.after(0, look=True) == [start]
    with queries() as asked:
        times = [hooks.after(1) for _ in range(5)]
    assert not asked.captured_queries
    assert times == [[start + n * SECOND] for n in range(1, 6)]
    (task,) = hooks.told
    assert (str(task), task.biz_ext, task.active, task.term, task.using) == (
        "job/@schedule",
        {"page": 7},
        "a",
        1,
        USING,
    )
    assert abs(task.since - ago(0)) < timedelta(seconds=30)
    assert task.when.tzinfo is timezone.utc


def test_a_time_is_told_of_once_though_the_row_is_late(sticky: Any) -> None:
    hooks = Hooks(sticky)
    hooks.after(0, look=True)
    hooks.after(1)
    assert hooks.after(0.5, look=True) == []
    assert hooks.after(0.5) == [hooks.moment]


def test_another_time_of_the_row_counts(sticky: Any) -> None:
    hooks = Hooks(sticky)
    hooks.after(0, look=True)
    hooks.at(5)
    assert hooks.after(0, look=True) == []
    assert hooks.after(4.5) == []
    assert hooks.after(0.5) == [hooks.moment]


def test_a_look_just_after_a_run_loses_no_time(sticky: Any) -> None:
    hooks = Hooks(sticky)
    hooks.after(0, look=True)
    hooks.at(2)
    assert hooks.after(1, look=True) == [hooks.moment]
    assert hooks.after(1) == [hooks.moment]


def test_times_that_pass_meanwhile_are_left_out(sticky: Any) -> None:
    hooks = Hooks(sticky)
    hooks.after(0, look=True)
    assert len(hooks.after(7.5)) == 1
    assert hooks.after(0.5) == [hooks.moment]


def test_a_handler_may_change_its_payload(sticky: Any) -> None:
    hooks = Hooks(sticky)
    hooks.after(0, look=True)
    hooks.told[0].biz_ext.clear()
    hooks.after(1)
    assert hooks.told[0].biz_ext == {"page": 7}


def test_nobody_is_told_while_it_is_paused(sticky: Any) -> None:
    hooks = Hooks(sticky)
    pause_tasks(biz_code=CODE)
    assert hooks.after(0, look=True) == []
    resume_tasks(biz_code=CODE)
    assert hooks.after(1, look=True) == [hooks.moment - SECOND]
    pause_task(CODE, SCHEDULE_NUM)
    assert hooks.after(1, look=True) == []


def test_the_active_one_is_not_told(sticky: Any) -> None:
    hooks = Hooks(sticky)
    overtaken()
    cycle(hooks.active)
    assert hooks.active.is_active(CODE)
    assert hooks.after(0, look=True) == []


def test_without_an_active_one_there_is_nobody_to_tell_of(sticky: Any) -> None:
    hooks = Hooks(sticky)
    hooks.active.others = {}
    assert hooks.after(0, look=True) == []


def test_a_hook_that_raises_is_logged(sticky: Any, caplog: pytest.LogCaptureFixture) -> None:
    def fail(task: PassiveTask) -> None:
        raise ZeroDivisionError("in the hook")

    hooks = Hooks(sticky, on_passive=fail)
    hooks.after(0, look=True)
    assert "on_passive of job/@schedule failed" in caplog.text
    assert "in the hook" in caplog.text


def test_a_hook_may_be_async(sticky: Any) -> None:
    told: list[str] = []

    async def tell(task: PassiveTask) -> None:
        told.append(str(task))

    Hooks(sticky, on_passive=tell).after(0, look=True)
    assert told == ["job/@schedule"]


def test_a_trigger_that_raises_ends_the_times_until_the_next_look(
    sticky: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Trigger:
        broken = False

        def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
            if self.broken:
                raise LookupError("no next time")
            return now + SECOND

    trigger = Trigger()
    hooks = Hooks(sticky, schedule=trigger)
    trigger.broken = True
    assert len(hooks.after(0, look=True)) == 1
    assert "no next time" in caplog.text
    assert hooks.after(5) == []


def test_a_payload_that_cannot_be_read_silences_no_other(
    sticky: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hooks = Hooks(sticky)
    registry.register_task_handler(
        task_handler("broken", schedule="every 1s", sticky=True, on_passive=nothing)(nothing)
    )
    at_work = search.at_work

    def read(code: str, *, using: str) -> Any:
        if code == "broken":
            raise ValueError("no JSON")
        return at_work(code, using=using)

    monkeypatch.setattr(search, "at_work", read)
    assert hooks.after(0, look=True) == [hooks.moment]
    assert "The row of broken on default could not be read for on_passive" in caplog.text


def test_without_hooks_nothing_is_asked(sticky: Any, queries: Any) -> None:
    sticky()
    worker = a_worker()
    passive = Passive(config(), worker, joined().clock)
    passive.ensure()
    assert passive._thread is None
    with queries() as asked:
        assert passive.cycle() == LONGEST_SLEEP
    assert not asked.captured_queries


def test_one_that_is_sticky_no_more_is_not_waited_for(sticky: Any, register: Register) -> None:
    hooks = Hooks(sticky)
    hooks.after(0, look=True)
    registry.forget()
    register(nothing, schedule="every 1s")
    hooks.moment += 5 * SECOND
    assert hooks.passive.cycle() == LONGEST_SLEEP


def test_an_outage_is_survived(sticky: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks = Hooks(sticky)

    def fail() -> float:
        raise OperationalError("gone away")

    monkeypatch.setattr(hooks.passive, "cycle", fail)
    assert hooks.passive._guardedly() == LONGEST_SLEEP


def test_anybody_may_ask_who_is_active(sticky: Any) -> None:
    sticky()
    assert api.get_active(CODE) is None
    worker = a_worker()
    cycle(worker)
    state = api.get_active(CODE)
    assert state is not None
    assert (state.holder, state.term, state.is_held) == ("a", 1, True)
    assert state.since is not None
    assert abs(state.since - ago(0)) < timedelta(seconds=30)
    assert async_to_sync(api.aget_active)(CODE) == state == api.get_lock(lock_of(CODE))
    worker.retire()
    cycle(worker)
    assert api.get_active(CODE) is None
