"""A worker under limits: it neither spins nor hides other lanes, and comes in time."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_tasks.client.operating import set_limits
from django_tasks.models import Gate, Task
from django_tasks.values.status import OWNED, Status
from django_tasks.worker.gates import HINTED_SECONDS
from tests.factories import table
from tests.worker.conftest import Register
from tests.worker.parts import CODE, Ticks, added, ago, ahead, joined
from tests.worker.test_claiming import Claimer
from tests.worker.test_poller import Cycles

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_one_transaction")]

ELSEWHERE = 10**9


def backlog(count: int, biz_code: str = CODE, **fields: Any) -> None:
    for number in range(count):
        added(f"{biz_code}{number}", biz_code, when=ago(100 - number), **fields)


def owned() -> int:
    return Task.objects.filter(status__in=OWNED).count()


def asleep(claimer: Claimer) -> float:
    """Claim until it wants to sleep; it must within a few cycles."""
    for _ in range(5):
        if delay := claimer.claim():
            return delay
    raise AssertionError("it spins")


def gate_statements(captured: Any) -> list[str]:
    return [query["sql"] for query in captured if "t_task_gate" in query["sql"]]


def test_no_more_are_claimed_than_may_run_and_it_sleeps(register: Register) -> None:
    register(lambda task: None, max_running=3)
    backlog(9)
    claimer = Claimer(poll_interval=0.7, threads=10)
    assert 0 < asleep(claimer) <= 0.7
    assert claimer.keys() == ["job0", "job1", "job2"]
    assert not claimer.claiming.nothing_due


def test_a_closed_gate_is_not_asked_again_before_its_time(register: Register, world: Ticks) -> None:
    register(lambda task: None, max_running=1)
    backlog(3)
    claimer = Claimer(joined(world), poll_interval=0.7)
    asleep(claimer)
    with CaptureQueriesContext(connection) as asked:
        for _ in range(3):
            assert claimer.claim() <= 0.7
    assert gate_statements(asked) == []
    world.ahead += 0.8
    with CaptureQueriesContext(connection) as asked:
        asleep(claimer)
    assert len(gate_statements(asked)) == 1


def test_it_does_not_hide_other_lanes(register: Register) -> None:
    register(lambda task: None, max_running=1)
    register(lambda task: None, "other")
    backlog(3, priority=5)
    added("second", queue="second")
    backlog(4, "other")
    claimer = Claimer(threads=10)
    asleep(claimer)
    assert claimer.keys() == ["job0", "other0", "other1", "other2", "other3"]


def test_what_comes_while_a_gate_is_closed_is_claimed_at_once(register: Register) -> None:
    register(lambda task: None, max_running=1)
    register(lambda task: None, "other")
    backlog(3)
    claimer = Claimer()
    asleep(claimer)
    backlog(1, "other")
    assert claimer.claim() == 0
    assert claimer.keys() == ["job0", "other0"]


def test_a_limit_does_not_count_as_others_being_quicker(register: Register) -> None:
    register(lambda task: None, max_running=1)
    backlog(3)
    claimer = Claimer()
    for _ in range(9):
        claimer.claim()
    assert claimer.claiming._idling.in_vain == 0


def test_the_end_of_a_run_here_opens_it_in_the_same_cycle(register: Register, world: Ticks) -> None:
    ran: list[str] = []
    register(lambda task: ran.append(task.biz_num), max_running=1)
    backlog(3)
    cycles = Cycles(world, poll_interval=30)
    cycles.run()
    for count in (1, 2, 3):
        assert owned() == 1
        cycles.hands.work()
        assert len(ran) == count
        cycles.run()
        cycles.run()
    assert not Task.objects.exists()


def test_runs_elsewhere_count_and_are_asked_about_at_the_next_poll(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None, max_running=1)
    backlog(2)
    table(biz_num="job0").update(status=Status.RUNNING, claimed_by=ELSEWHERE)
    claimer = Claimer(joined(world), poll_interval=0.7)
    assert 0 < asleep(claimer) <= 0.7
    assert claimer.keys() == []
    table(biz_num="job0").delete()
    world.ahead += 0.8
    claimer.claim()
    assert claimer.keys() == ["job1"]


def test_no_more_wait_in_a_buffer_than_the_process_could_run(register: Register) -> None:
    register(lambda task: None, max_running=50)
    backlog(20)
    claimer = Claimer(size=10, threads=4)
    claimer.claim()
    assert len(claimer.keys()) == 4


def test_a_rate_lets_them_start_one_by_one_at_its_time(register: Register, world: Ticks) -> None:
    register(lambda task: None, rate_limit="6/m")
    backlog(5)
    claimer = Claimer(joined(world, lease=60))
    starts = []
    for _ in range(4):
        delay = asleep(claimer)
        starts.append(len(claimer.keys()))
        assert 9 < delay <= 10
        claimer.finish()
        claimer.claiming.note_ends([])
        world.ahead += delay
        claimer.membership.beat("running", {})
    assert starts == [1, 1, 1, 1]


def test_a_start_that_was_given_back_unused_is_there_at_once_and_not_tomorrow(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None, rate_limit="1/d")
    added()
    cycles = Cycles(world)
    cycles.run()
    assert owned() == 1
    cycles.hands.stale = True
    cycles.run()
    assert not cycles.hands.waiting
    cycles.hands.stale = False
    cycles.run()
    assert len(cycles.hands.waiting) == 1
    cycles.hands.work()
    cycles.run()
    assert not Task.objects.exists()


def test_what_has_used_up_a_start_goes_before_what_waits_in_the_buffer(register: Register) -> None:
    register(lambda task: None)
    register(lambda task: None, "limited", rate_limit="1/d")
    backlog(3, priority=5)
    added("1", "limited")
    claimer = Claimer(threads=10)
    claimer.claim()
    assert claimer.keys() == ["1", "job0", "job1", "job2"]


def test_the_end_of_a_run_is_no_reason_to_ask_about_a_rate(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None, rate_limit="6/m")
    backlog(4)
    cycles = Cycles(world, poll_interval=30)
    cycles.run()
    cycles.run()
    cycles.hands.work()
    with CaptureQueriesContext(connection) as asked:
        cycles.run()
        cycles.run()
    assert gate_statements(asked) == []


def test_a_task_that_is_slept_for_passes_the_gate_when_its_time_comes(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None, max_running=1)
    added("1", when=ahead(5))
    added("2", when=ahead(5))
    claimer = Claimer(joined(world))
    assert asleep(claimer) > 4
    world.ahead += 5
    asleep(claimer)
    assert len(claimer.keys()) == 1


def test_until_empty_waits_for_what_a_limit_holds_back(register: Register, world: Ticks) -> None:
    register(lambda task: None, max_running=1)
    backlog(3)
    cycles = Cycles(world, until_empty=True)
    for _ in range(3):
        for _ in range(4):
            cycles.run()
        assert not cycles.poller.finished
        cycles.hands.work()
    for _ in range(3):
        cycles.run()
    assert cycles.poller.finished
    assert not Task.objects.exists()


def test_a_row_that_must_run_alone_waits_for_its_limit(register: Register, world: Ticks) -> None:
    register(lambda task: None, max_running=1)
    added("alone")
    added("elsewhere")
    table(biz_num="alone").update(rescues=2)
    table(biz_num="elsewhere").update(status=Status.RUNNING, claimed_by=ELSEWHERE)
    claimer = Claimer(joined(world), poll_interval=0.7)
    for _ in range(5):
        claimer.claiming.look_for_suspects()
        asleep(claimer)
        world.ahead += 1
    assert claimer.keys() == []
    table(biz_num="elsewhere").delete()
    for _ in range(5):
        claimer.claiming.look_for_suspects()
        claimer.claim()
        world.ahead += 1
    assert claimer.keys() == ["alone"]


def test_a_retry_uses_the_rate_as_every_start_does(register: Register, world: Ticks) -> None:
    answers = [timedelta(0), None]
    register(lambda task: answers.pop(0), rate_limit="1/m")
    added()
    claimer = Claimer(joined(world))
    claimer.claim()
    claimer.finish()
    assert 58 < asleep(claimer) <= 60
    assert claimer.keys() == []


# Limits of operators


def test_a_worker_that_starts_claims_by_them_from_the_first_claim_on(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None)
    backlog(5)
    set_limits(CODE, max_running=2)
    cycles = Cycles(world)
    for _ in range(3):
        cycles.run()
    assert owned() == 2


def test_one_that_is_set_later_is_heard_of_with_the_next_heartbeat(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None)
    backlog(9)
    cycles = Cycles(world, size=2)
    cycles.run()
    set_limits(CODE, max_running=1)
    cycles.hands.work()
    cycles.run()
    assert owned() == 2  # as documented: it knew of none
    cycles.beat()
    cycles.hands.work()
    for _ in range(4):
        cycles.run()
    assert owned() == 1


def test_a_hint_tells_of_it_sooner_and_many_hints_cost_one_look_a_second(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None)
    cycles = Cycles(world)
    cycles.run()
    world.ahead += HINTED_SECONDS
    set_limits(CODE, max_running=1)
    backlog(9)
    looks = []
    for _ in range(4):
        with CaptureQueriesContext(connection) as asked:
            cycles.poller.note_overdue()
            cycles.run()
        looks.append(sum("NOT NULL" in sql for sql in gate_statements(asked)))
        assert owned() == 1
    assert looks == [1, 0, 0, 0]


def test_when_it_is_removed_claims_are_plain_again(register: Register, world: Ticks) -> None:
    register(lambda task: None)
    set_limits(CODE, max_running=1)
    backlog(6)
    cycles = Cycles(world)
    cycles.run()
    cycles.run()
    assert owned() == 1
    set_limits(CODE)
    cycles.beat()
    assert owned() == 4
    cycles.hands.work()
    with CaptureQueriesContext(connection) as asked:
        cycles.run()
    assert gate_statements(asked) == []
    assert owned() == 2


def test_a_gate_that_is_closed_for_a_day_opens_when_its_limit_is_widened(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None, rate_limit="1/d")
    backlog(6)
    cycles = Cycles(world)
    for _ in range(3):
        cycles.run()
    assert owned() == 1
    set_limits(CODE, rate_limit="100/s")
    cycles.beat()
    world.ahead += 1  # the wider rate forgets what the narrow one has given out, but for a moment
    cycles.run()
    assert owned() > 1


def test_it_stands_in_place_of_the_handlers_at_once_where_there_is_one(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None, max_running=3)
    cycles = Cycles(world)
    cycles.run()
    set_limits(CODE, max_running=1)
    backlog(6)
    cycles.run()
    cycles.run()
    assert owned() == 1


def asks(cycles: Cycles) -> int:
    """Statements about gates at a heartbeat and after it."""
    with CaptureQueriesContext(connection) as asked:
        cycles.beat()
        for _ in range(3):
            cycles.run()
    return len(gate_statements(asked))


def test_a_worker_asks_for_them_once_a_heartbeat_and_not_while_it_is_idle(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None)
    added("future", when=ahead())
    cycles = Cycles(world)
    assert [asks(cycles) for _ in range(3)] == [0, 0, 0]
    added("1")
    assert asks(cycles) == 1
    cycles.hands.work()
    # It has claimed since then: before the next task comes, so that this has not to wait for it.
    assert [asks(cycles) for _ in range(3)] == [1, 0, 0]


def test_a_start_that_an_operators_rate_let_pass_is_given_back_unused(
    register: Register, world: Ticks
) -> None:
    register(lambda task: None)
    set_limits(CODE, rate_limit="1/d")
    added()
    cycles = Cycles(world)
    cycles.run()
    assert owned() == 1
    cycles.hands.stale = True
    cycles.run()
    cycles.hands.stale = False
    cycles.run()
    assert len(cycles.hands.waiting) == 1
    assert Gate.objects.get().passes == 3
