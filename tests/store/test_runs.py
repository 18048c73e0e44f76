"""The history of runs: a line for each end that counted, and none that is older than it may be."""

from datetime import datetime
from threading import Event
from typing import Any

import pytest
from django.db import OperationalError, transaction

from django_tasks import api
from django_tasks.exceptions import ClaimLost
from django_tasks.models import TaskRun
from django_tasks.store import runs
from django_tasks.store.dialects import Dialect
from django_tasks.store.finish import Ended, finish, finish_inside
from django_tasks.values.outcomes import (
    DONE,
    LOST,
    Again,
    Died,
    Done,
    Fail,
    GiveBack,
    Outcome,
    Reschedule,
    Retry,
    Settled,
    Told,
    Unsettled,
)
from django_tasks.values.runs import keeps
from django_tasks.values.status import RunOutcome, Status
from tests.conftest import DEADLINE, Elsewhere
from tests.factories import NOW, a_claim, a_line, a_run, a_task, in_utc, later, table
from tests.plans import analyze, lines_of
from tests.vendor import POSTGRESQL, SERVERS, is_on, only_on

pytestmark = pytest.mark.django_db


def told(*claims: Any, outcome: Outcome = DONE) -> list[Ended]:
    return [Ended(claim, outcome, line=a_line(biz_num=claim.biz_num)) for claim in claims]


def numbers() -> list[str]:
    return [run.biz_num for run in TaskRun.objects.order_by("id")]


def test_a_line_is_stored_and_read_as_it_was_made() -> None:
    line = a_line(
        when=later(-9.000001),
        scheduled_time=later(-60),
        outcome="retried",
        missed="coalesce, overrun",
        attempt=3,
        worker="host-1:4711",
        error="Traceback …\n'\"\\%s😀",
    )
    runs.record([line], using="default")
    runs.record([line] * 7, using="default")
    assert TaskRun.objects.count() == 8
    for run in TaskRun.objects.all():
        for name, value in line._asdict().items():
            found = getattr(run, name)
            assert (in_utc(found) if isinstance(found, datetime) else found) == value, name
        assert run.lateness == pytest.approx(6.000001)
        assert run.duration == 1.0


def test_the_words_for_outcomes_are_those_of_the_model() -> None:
    again = Again(later(9))
    ends: list[Told] = [
        *(DONE, Done("skipped"), Reschedule(later(9)), Retry(later(9), "oh"), Fail("oh"), again),
        *(Unsettled(again), LOST, Died("oh")),
    ]
    # A task that is cancelled while it waits has a line without a run.
    assert {end.counts_as for end in ends} == set(RunOutcome.values) - {RunOutcome.CANCELLED}


@pytest.mark.parametrize(
    "outcome", [Done(), Reschedule(later(9)), Retry(later(9), "oh"), Fail("oh")]
)
@pytest.mark.parametrize("careful", [False, True])
def test_the_end_of_a_run_comes_with_its_line(outcome: Outcome, careful: bool) -> None:
    ends = told(a_claim(), outcome=outcome)
    finish(ends, NOW, using="default", careful=careful)
    assert numbers() == ["1"]


def test_what_is_not_to_be_kept_leaves_none() -> None:
    finish([Ended(a_claim(), DONE)], NOW, using="default")
    assert numbers() == []


def test_an_end_that_was_lost_leaves_none_and_the_others_theirs() -> None:
    claims = [a_claim("1", biz_code="a"), a_claim("2", biz_code="b"), a_claim("3", biz_code="c")]
    table(biz_num="2").update(claimed_by=8)
    assert finish(told(*claims), NOW, using="default").lost == {claims[1].id}
    assert sorted(numbers()) == ["1", "3"]


def test_an_end_that_is_written_twice_leaves_one() -> None:
    ends = told(a_claim())
    finish(ends, NOW, using="default")
    finish(ends, NOW, using="default")
    assert numbers() == ["1"]


def test_a_run_whose_task_was_added_again_or_cancelled_has_run() -> None:
    moved = a_claim("1", biz_code="a")
    api.add_task(a_task("1", biz_code="a"))
    cancelled = a_claim("2", biz_code="b")
    table(biz_num="2").update(status=Status.CANCELLING)
    finish(told(moved, cancelled), NOW, using="default")
    assert sorted(numbers()) == ["1", "2"]


def test_the_line_of_an_atomic_run_is_part_of_its_transaction() -> None:
    (end,) = told(a_claim())
    with transaction.atomic():
        finish_inside([end], NOW, using="default")
        transaction.set_rollback(True)
    assert numbers() == []
    with transaction.atomic():
        finish_inside([end], NOW, using="default")
    assert numbers() == ["1"]


def test_an_atomic_run_that_lost_its_claim_leaves_none() -> None:
    (end,) = told(a_claim())
    table().update(claimed_by=8)
    with pytest.raises(ClaimLost), transaction.atomic():
        finish_inside([end], NOW, using="default")
    assert numbers() == []


# What is kept


@pytest.mark.parametrize(
    ("outcome", "missed", "is_problem"),
    [
        (DONE, "", False),
        (Reschedule(later(9)), "", False),
        (DONE, "run", True),
        (Reschedule(later(9)), "coalesce", True),
        (Done("skipped"), "skip", True),
        (Reschedule(later(9), error="oh", counts_as="failed"), "", True),
        (Retry(later(9), "oh"), "", True),
        (Fail("oh"), "", True),
        (LOST, "", True),
    ],
    ids=str,
)
def test_which_runs_are_problems(outcome: Outcome, missed: str, is_problem: bool) -> None:
    assert keeps("problems", outcome, missed) is is_problem
    assert keeps("all", outcome, missed)
    assert not keeps("none", outcome, missed)


@pytest.mark.parametrize("outcome", [GiveBack(), Again(later(9)), Settled()], ids=str)
def test_what_does_not_count_or_has_told_itself_is_not_told(outcome: Outcome) -> None:
    assert not keeps("all", outcome, "coalesce")
    assert not keeps("problems", outcome, "coalesce")


# What is forgotten


def test_old_lines_go_and_young_ones_stay() -> None:
    for number, ended in enumerate([-9, -8, 0, -7, 1]):
        a_run(biz_num=str(number), ended=later(ended))
    assert not runs.prune(NOW, using="default")
    assert numbers() == ["2", "4"]


def test_a_line_of_the_first_id_that_there_can_be_goes_too() -> None:
    TaskRun.objects.filter(pk=a_run().pk).update(id=1)
    a_run(ended=later(1))
    assert not runs.prune(NOW, using="default")
    assert TaskRun.objects.count() == 1


def test_more_than_a_batch_goes_batch_by_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "AT_ONCE", 2)
    for number in range(5):
        a_run(biz_num=str(number))
    assert runs.prune(NOW, using="default")
    assert numbers() == ["2", "3", "4"]
    assert runs.prune(NOW, using="default")
    assert runs.prune(NOW, using="default")
    assert not runs.prune(NOW, using="default")
    assert numbers() == []


def test_a_few_that_have_just_grown_old_are_no_reason_to_look_again_soon() -> None:
    stretch(99, old=True)
    stretch(1, old=False)
    assert not runs.prune(NOW, using="default")
    assert len(numbers()) == 1
    stretch(100, old=True)
    assert runs.prune(NOW, using="default")


def stretch(count: int, *, old: bool) -> None:
    """So many lines in a row, behind those that are there."""
    lines = [a_line(biz_num="old" if old else "young", ended=later(-9 if old else 9))] * count
    runs.record(lines, using="default")


def pruned(calls: int) -> int:
    """The number of old lines that are left after these calls."""
    for _ in range(calls):
        runs.prune(NOW, using="default")
    return TaskRun.objects.filter(biz_num="old").count()


@pytest.mark.parametrize("ahead", [1000, 2500])
def test_old_lines_behind_many_young_ones_go(ahead: int) -> None:
    """Those were written while the clock was ahead, or come from another system."""
    stretch(ahead, old=False)
    stretch(1500, old=True)
    stretch(500, old=False)
    stretch(700, old=True)
    stretch(10, old=False)
    assert pruned(5) == 0
    assert TaskRun.objects.count() == ahead + 510


def test_old_lines_among_young_ones_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "AT_ONCE", 10)
    for _ in range(20):
        stretch(1, old=False)
        stretch(1, old=True)
    assert pruned(60) == 0


@pytest.mark.parametrize("young", [0, 2])
def test_lines_of_the_very_moment_hide_no_old_ones(
    young: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "AT_ONCE", 2)
    monkeypatch.setattr(runs, "PROBES", 1)
    stretch(young, old=False)
    runs.record([a_line(biz_num="now", ended=NOW)] * 7, using="default")
    stretch(5, old=True)
    assert pruned(200) == 0
    assert numbers() == ["young"] * young + ["now"] * 7


def test_even_a_single_one_is_found_sooner_or_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "AT_ONCE", 10)
    monkeypatch.setattr(runs, "PROBES", 5)
    stretch(50, old=False)
    stretch(1, old=True)
    stretch(50, old=False)
    for _ in range(1000):  # one of twenty finds it
        if not pruned(1):
            return
    raise AssertionError


def test_a_call_costs_the_same_however_long_the_table_is(queries: Any) -> None:
    stretch(1000, old=False)
    looks = []
    for more in (1000, 6000):
        stretch(more, old=False)
        with queries() as captured:
            runs.prune(NOW, using="default")
        looks.append(len(captured.captured_queries))
    stretch(6000, old=True)
    with queries() as captured:
        runs.prune(NOW, using="default")
    assert looks == [3, 3]
    # Some halve the way between two places, and no more of them are needed for a longer table
    # than the logarithm of its length says.
    assert len(captured.captured_queries) <= 3 + 10 + 6


def test_nothing_reads_the_whole_table(queries: Any) -> None:
    stretch(3000, old=False)
    stretch(3000, old=True)
    if is_on(POSTGRESQL):  # which knows nothing of a table made a moment ago
        analyze("t_task_run")
    with queries() as captured:
        runs.prune(NOW, using="default")
    reads = [each["sql"] for each in captured.captured_queries if "ORDER BY id" in each["sql"]]
    assert len(reads) > 3
    for sql in reads:
        check_reads_by_id(sql)


def check_reads_by_id(sql: str) -> None:
    plan = lines_of(sql)
    table = [line for line in plan if "t_task_run" in line]
    assert table
    assert not [line for line in table if "SCAN t_task_run" in line or "Seq Scan" in line], plan
    assert not [line for line in table if " ALL " in line or "filesort" in line], plan


@only_on(*SERVERS, because="there are no locks of rows there")
@pytest.mark.django_db(transaction=True)
def test_lines_that_somebody_holds_locked_stay_for_the_next_time(elsewhere: Elsewhere) -> None:
    for number in range(4):
        a_run(biz_num=str(number))
    locked, done = Event(), Event()

    def hold() -> None:
        with transaction.atomic():
            list(TaskRun.objects.filter(biz_num__in="12").select_for_update())
            locked.set()
            assert done.wait(DEADLINE)

    holding = elsewhere(hold)
    assert locked.wait(DEADLINE)
    try:
        elsewhere(runs.prune, NOW, using="default").result(DEADLINE / 2)
        left = numbers()
    finally:
        done.set()
    holding.result(DEADLINE)
    assert left == ["1", "2"]
    runs.prune(NOW, using="default")
    assert numbers() == []


@pytest.mark.parametrize("step", ["prune", "record"])
def test_nothing_is_tried_again_when_somebody_is_in_the_way(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A poller that waits a sixth of a lease for a lock must not do it ten times over."""
    a_run()
    tries = []

    def refuse(self: Dialect, template: str, params: Any = ()) -> int:
        tries.append(template)
        raise OperationalError("somebody is in the way")

    monkeypatch.setattr(Dialect, "execute", refuse)
    monkeypatch.setattr(Dialect, "is_contention", lambda self, error: True)
    if step == "prune":
        assert not runs.prune(NOW, using="default")
    else:
        with pytest.raises(OperationalError):
            runs.record([a_line()], using="default")
    assert len(tries) == 1
    assert numbers() == ["1"]
