"""Claims from several lanes by one statement."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_tasks.models import Task
from django_tasks.store.claim import UNKNOWN, WHOLE, Claimer, Wanted, claim_together, place_of
from django_tasks.store.lanes import LANES_AT_ONCE, Place
from django_tasks.store.pauses import Scope, set_pause
from django_tasks.values.status import Status
from tests.factories import NOW, WORKER, a_lane, a_row, later, rows, table
from tests.store.parts import From

pytestmark = pytest.mark.django_db

ME = Claimer(WORKER)


def taken(*codes: str, limit: int = 9, most: int = 9, workers: int = 1) -> list[list[str]]:
    wanted = [Wanted(a_lane(biz_code=code), most, UNKNOWN) for code in codes]
    claims = claim_together(Claimer(WORKER, workers), wanted, NOW, limit, using="default")
    stored = {task.pk: task for task in Task.objects.filter(claimed_by=WORKER)}
    for code, claimed in (
        (code, each) for code, some in zip(codes, claims, strict=False) for each in some
    ):
        row = stored.pop(claimed.id)
        assert (row.status, row.version, row.biz_code) == (Status.RUNNING, claimed.version, code)
        assert (claimed.biz_code, claimed.queue, claimed.priority) == (code, "default", 0)
    assert not stored
    return [[claimed.biz_num for claimed in some] for some in claims]


def test_each_lane_brings_its_own_tasks_the_earliest_first():
    for code in "ab":
        for number in range(3):
            a_row(f"{code}{number}", biz_code=code, when=later(-number - 1))
    a_row("later", biz_code="a", when=later(1))
    assert taken("a", "none", "b") == [["a2", "a1", "a0"], [], ["b2", "b1", "b0"]]


def test_no_lane_brings_more_than_was_wanted_of_it():
    rows(range(3), biz_code="a")
    rows(range(3), biz_code="b")
    assert [len(some) for some in taken("a", "b", most=2)] == [2, 2]


@pytest.mark.parametrize(("limit", "found"), [(2, [2]), (3, [3]), (4, [3, 0, 1]), (5, [3, 0, 2])])
def test_the_first_lanes_have_the_first_places(limit, found):
    """Of lanes that come after the last place nothing is said."""
    rows(range(3), biz_code="a")
    rows(range(3), biz_code="c")
    assert [len(some) for some in taken("a", "b", "c", limit=limit)] == found


def test_what_is_paused_or_is_to_run_alone_stays():
    for code in "abc":
        a_row(code, biz_code=code, rescues=2 * (code == "b"))
    set_pause(Scope("", "c"), NOW, using="default")
    assert taken("a", "b", "c") == [["a"], [], []]


def test_as_many_lanes_as_are_asked_for_at_once_with_many_workers():
    codes = [f"code{number}" for number in range(LANES_AT_ONCE)]
    for code in codes:
        a_row("1", biz_code=code)
    assert taken(*codes, limit=500, workers=9) == [["1"]] * LANES_AT_ONCE


def test_rows_are_changed_by_one_statement():
    """Each commit waits for the disk."""
    for code in "abcd":
        rows(range(3), biz_code=code)
    with CaptureQueriesContext(
        connection,
    ) as asked:
        taken("a", "b", "c", "d", limit=99)
    assert sum(query["sql"].lstrip().startswith("UPDATE") for query in asked.captured_queries) == 1


def test_each_lane_is_searched_from_its_place_on_and_hears_what_was_found():
    for code in "abc":
        for number in range(2):
            a_row(str(number), biz_code=code, when=later(number - 5))
    searches = [From(Place(later(-4), 0)), From(None), From(Place(later(-1), 0)), From(None)]
    wanted = [
        Wanted(a_lane(biz_code=code), 9, places)
        for code, places in zip("abcd", searches, strict=True)
    ]
    found = claim_together(ME, wanted, NOW, 9, using="default")
    assert [[each.biz_num for each in some] for some in found] == [["1"], ["0", "1"], [], []]
    firsts = [place_of(some[0]) if some else None for some in found]
    assert [searched.notes[-1] for searched in searches] == [(WHOLE, first) for first in firsts]


def test_a_place_behind_the_limit_is_not_told_that_nothing_waits():
    for code in "ab":
        a_row("1", biz_code=code)
    searches = [From(None), From(None)]
    wanted = [
        Wanted(a_lane(biz_code=code), 9, each) for code, each in zip("ab", searches, strict=True)
    ]
    assert len(claim_together(ME, wanted, NOW, 1, using="default")) == 1
    assert not searches[1].notes


class Moving(From):
    """Has a row move to another lane once a search has ended."""

    def note(self, share, first):
        super().note(share, first)
        table(biz_num="moves").update(queue="other", version=5)


def test_a_row_that_moves_to_a_lane_that_is_read_later_is_claimed_once():
    """A statement that searches and changes leaves no time between: there it moves afterwards."""
    a_row("stays", when=later(-2))
    a_row("moves", when=later(-1))
    lanes = a_lane(), a_lane(queue="other")
    wanted = [Wanted(lanes[0], 9, Moving(None)), Wanted(lanes[1], 9, From(None))]
    claims = [each for some in claim_together(ME, wanted, NOW, 9, using="default") for each in some]
    assert sorted(claimed.biz_num for claimed in claims) == ["moves", "stays"]
    (moved,) = (claimed for claimed in claims if claimed.biz_num == "moves")
    is_atomic = connection.vendor != "mysql"
    assert (moved.queue, moved.version) == (("default", 1) if is_atomic else ("other", 6))


def test_what_goes_away_between_search_and_change_is_not_ours():
    for code in "ab":
        a_row(code, biz_code=code)

    class Cancelling(From):
        def note(self, share, first):
            table(biz_num="a").filter(status=Status.PENDING).delete()

    wanted = [Wanted(a_lane(biz_code=code), 9, Cancelling(None)) for code in "ab"]
    claims = claim_together(ME, wanted, NOW, 9, using="default")
    ours = {each.biz_num for some in claims for each in some}
    assert ours == {task.biz_num for task in Task.objects.filter(claimed_by=WORKER)}
    assert "b" in ours
