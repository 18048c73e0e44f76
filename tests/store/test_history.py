"""The history of runs: a line for each end that counted, and none that is older than it may be."""

from datetime import datetime
from typing import Any

import pytest
from django.db import transaction

from django_tasks import api
from django_tasks.exceptions import ClaimLost
from django_tasks.history import keeps
from django_tasks.models import TaskRun
from django_tasks.outcomes import (
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
    Unsettled,
)
from django_tasks.status import RunOutcome, Status
from django_tasks.store import history
from django_tasks.store.finish import Ended, finish, finish_inside
from tests.factories import NOW, a_claim, a_line, a_run, a_task, in_utc, later, table

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
    history.record([line], using="default")
    history.record([line] * 7, using="default")
    assert TaskRun.objects.count() == 8
    for run in TaskRun.objects.all():
        for name, value in line._asdict().items():
            found = getattr(run, name)
            assert (in_utc(found) if isinstance(found, datetime) else found) == value, name
        assert run.lateness == pytest.approx(6.000001)
        assert run.duration == 1.0


def test_the_words_for_outcomes_are_those_of_the_model() -> None:
    again = Again(later(9))
    ends = [DONE, Done("skipped"), Reschedule(later(9)), Retry(later(9), "oh"), Fail("oh"), again]
    assert {end.counts_as for end in (*ends, Unsettled(again), LOST, Died("oh"))} == set(
        RunOutcome.values
    )


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
        finish_inside(end, NOW, using="default")
        transaction.set_rollback(True)
    assert numbers() == []
    with transaction.atomic():
        finish_inside(end, NOW, using="default")
    assert numbers() == ["1"]


def test_an_atomic_run_that_lost_its_claim_leaves_none() -> None:
    (end,) = told(a_claim())
    table().update(claimed_by=8)
    with pytest.raises(ClaimLost), transaction.atomic():
        finish_inside(end, NOW, using="default")
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
    assert not history.prune(NOW, using="default")
    assert numbers() == ["2", "4"]


def test_more_than_a_batch_goes_batch_by_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "PRUNED_AT_ONCE", 2)
    for number in range(5):
        a_run(biz_num=str(number))
    assert history.prune(NOW, using="default")
    assert numbers() == ["2", "3", "4"]
    assert history.prune(NOW, using="default")
    assert not history.prune(NOW, using="default")
    assert numbers() == []
