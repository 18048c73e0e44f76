"""A row that has lived for long: its version passes what 32 bits can hold, and nothing happens."""

from collections.abc import Callable
from typing import Any

import pytest

from django_tasks import api
from django_tasks.models import Task
from django_tasks.store import control, search
from django_tasks.store.claim import Claimer, claim
from django_tasks.store.claimed_rows import await_claim
from django_tasks.store.finish import Ended, finish
from django_tasks.store.rescue import give_back_strays, rescue
from django_tasks.store.upsert import upsert, upsert_one
from django_tasks.values.conflicts import OnConflict
from django_tasks.values.outcomes import Again, Done, Fail, GiveBack, Outcome, Reschedule, Retry
from django_tasks.values.status import Status
from tests.factories import (
    CODE,
    NOW,
    WORKER,
    a_claim,
    a_lane,
    a_new,
    a_row,
    later,
    rows,
    table,
    the_row,
    there_is,
)

pytestmark = pytest.mark.django_db

LAST = 2**31 - 1
THE_TASK = search.key(CODE, "1")


@pytest.mark.parametrize("careful", [False, True], ids=["plain", "careful"])
@pytest.mark.parametrize("before", [LAST - 1, LAST, 2**40])
@pytest.mark.parametrize(
    "outcome",
    [Reschedule(later(9)), Retry(later(9), "oh"), Again(later(9)), Fail("oh"), GiveBack(), Done()],
    ids=str,
)
def test_it_is_claimed_and_finished(outcome: Outcome, before: int, careful: bool) -> None:
    mine = a_claim(version=before)
    await_claim(mine, using="default")

    result = finish([Ended(mine, outcome)], NOW, using="default", careful=careful)

    assert result == (set(), set(), set())
    assert mine.version == before + 1
    if isinstance(outcome, Done):
        assert not there_is()
    else:
        assert the_row().version == before + 2


@pytest.mark.parametrize("careful", [False, True], ids=["plain", "careful"])
def test_many_with_versions_on_both_sides_go_together(careful: bool) -> None:
    rows(range(20))
    for number, row in enumerate(Task.objects.all()):
        table(pk=row.pk).update(version=LAST - 10 + number)

    mine = claim(Claimer(WORKER), a_lane(), NOW, 99, using="default", careful=careful)
    done, retried = mine[:10], mine[10:]
    ends = [
        *(Ended(claimed, Done()) for claimed in done),
        *(Ended(claimed, Retry(later(9), "oh")) for claimed in retried),
    ]

    assert finish(ends, NOW, using="default", careful=careful) == (set(), set(), set())
    assert {row.pk: row.version for row in Task.objects.all()} == {
        claimed.id: claimed.version + 1 for claimed in retried
    }


STEPS: dict[str, Callable[[], Any]] = {
    "add": lambda: upsert_one(a_new(), OnConflict.REPLACE, NOW, using="default"),
    "add, earliest": lambda: upsert(
        [a_new(when=later(-9))], OnConflict.EARLIEST, NOW, using="default"
    ),
    "add, many": lambda: upsert(
        [a_new(str(n)) for n in range(9)], OnConflict.REPLACE, NOW, using="default"
    ),
    "pause": lambda: control.pause(THE_TASK, NOW, using="default"),
    "reschedule": lambda: control.reschedule(THE_TASK, later(9), NOW, using="default"),
    "run now": lambda: control.run_now(THE_TASK, NOW, using="default"),
}


@pytest.mark.parametrize("step", STEPS)
def test_whatever_is_done_to_it_counts(step: str) -> None:
    a_row(version=LAST)
    STEPS[step]()
    assert the_row().version == LAST + 1


def test_it_is_handed_over_rescued_and_given_back() -> None:
    mine = a_claim(version=LAST)
    api.add_task(Task(biz_code=CODE, biz_num="1", when=NOW))
    assert finish([Ended(mine, Done())], NOW, using="default").handed_over == {mine.id}
    for number, take_from in enumerate(
        [
            lambda: len(rescue([WORKER], lambda orphan: 9, NOW, using="default").freed),
            lambda: give_back_strays(WORKER, [], NOW, using="default"),
        ]
    ):
        table().update(version=LAST, status=Status.RUNNING, claimed_by=WORKER)
        assert take_from() == 1, number
        assert the_row().version == LAST + 1


def test_it_is_cancelled() -> None:
    a_claim(version=LAST - 1)
    assert api.cancel_task(CODE, "1") == "cancelling"
    assert the_row().version == LAST + 1
