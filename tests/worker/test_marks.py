"""The places where searches begin: nothing that waits is behind them for long."""

from datetime import datetime, timedelta, timezone

import pytest

from django_tasks.store.claim import WHOLE, Share, place_of
from django_tasks.store.finish import Ended
from django_tasks.store.lanes import Lane, Look, Place
from django_tasks.store.pauses import Scope
from django_tasks.values.claimed import Claimed
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
from django_tasks.wakeup.wake import SLACK
from django_tasks.worker.marks import MOST_LANES, Marks
from tests.factories import a_claim_of

NOW = datetime(2030, 1, 1, 12, tzinfo=timezone.utc)
KEY = ("default", 0, "job")


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def lane(seconds: float, code: str = "job") -> Lane:
    return Lane("default", 0, code, at(seconds))


def claim(number: int, seconds: float) -> Claimed:
    return a_claim_of(number, at(seconds))


def claimed_from(marks: Marks, *seconds: float) -> list[Claimed]:
    claims = [claim(number, each) for number, each in enumerate(seconds, 10)]
    marks.of(KEY, NOW).note(WHOLE, place_of(claims[0]))
    return claims


def looked(marks: Marks, *lanes: Lane, paused: Scope | None = None) -> None:
    marks.note_look(Look(list(lanes), frozenset({paused} if paused else ())), NOW)


def test_of_a_lane_that_is_not_known_the_search_begins_at_its_start() -> None:
    assert Marks().since(KEY) is None
    assert Marks().head(KEY) is None


def test_after_a_claim_it_begins_at_the_first_row_that_was_found() -> None:
    marks = Marks()
    claimed_from(marks, -50, -40)
    assert marks.since(KEY) == Place(at(-50), 10)
    claimed_from(marks, -30)
    assert marks.since(KEY) == Place(at(-30), 10)
    marks.of(KEY, NOW).note(WHOLE, None)
    assert marks.since(KEY) == Place(NOW - SLACK, 0)


def test_it_begins_a_little_before_now_at_the_latest() -> None:
    marks = Marks()
    claimed_from(marks, -0.1)
    assert marks.since(KEY) == Place(NOW - SLACK, 0)
    looked(marks, lane(60))
    assert marks.since(KEY) == Place(NOW - SLACK, 0)


def test_a_full_look_says_where_each_lane_begins() -> None:
    marks = Marks()
    claimed_from(marks, -50)
    looked(marks, lane(-70), lane(-60, "other"))
    assert marks.since(KEY) == marks.head(KEY) == Place(at(-70), 0)
    assert marks.since(("default", 0, "other")) == Place(at(-60), 0)
    claimed_from(marks, -50)
    assert marks.head(KEY) == Place(at(-70), 0)  # what waits alone is not behind


def test_where_a_full_look_has_found_nothing_nothing_waits_before_it() -> None:
    marks = Marks()
    claimed_from(marks, -50)
    looked(marks, lane(-60, "other"))
    assert marks.since(KEY) == Place(NOW - SLACK, 0)


def test_of_a_lane_that_is_paused_a_full_look_says_nothing() -> None:
    marks = Marks()
    claimed_from(marks, -50)
    looked(marks, paused=Scope("", "job"))
    assert marks.since(KEY) is None


def test_of_too_many_lanes_nothing_is_known_but_those_of_the_last_look() -> None:
    marks = Marks()
    looked(marks, *(lane(-1, str(number)) for number in range(MOST_LANES + 1)))
    looked(marks, lane(-1))
    assert list(marks.keys()) == [KEY]


@pytest.mark.parametrize(
    ("outcome", "place"),
    [
        (GiveBack(), Place(at(-40), 11)),
        (Again(at(-45)), Place(at(-45), 11)),
        (Retry(at(-45), "x"), Place(at(-45), 11)),
        (Reschedule(at(-45)), Place(at(-45), 11)),
        (Unsettled(Again(at(-45))), Place(at(-45), 11)),
        (Unsettled(Retry(at(-45), "x")), Place(at(-45), 11)),
        (Unsettled(Fail("x")), Place(at(-30), 10)),
        (Retry(at(60), "x"), Place(at(-30), 10)),
        (Done(), Place(at(-30), 10)),
        (Fail("x"), Place(at(-30), 10)),
    ],
    ids=str,
)
def test_what_waits_again_before_it_is_where_it_begins(outcome: Outcome, place: Place) -> None:
    marks = Marks()
    looked(marks, lane(-35))
    early = claimed_from(marks, -50, -40)[1]
    claimed_from(marks, -30)
    marks.note_written([Ended(early, outcome)], set())
    assert marks.since(KEY) == place
    assert marks.head(KEY) == min(place, Place(at(-35), 0))


def test_the_end_in_a_lane_that_is_not_known_makes_none_known() -> None:
    marks = Marks()
    marks.note_written([Ended(claim(1, -40), GiveBack())], set())
    assert marks.since(KEY) is None


@pytest.mark.parametrize("outcome", [Done(), Retry(at(60), "x")], ids=str)
def test_a_row_that_somebody_moved_meanwhile_may_wait_anywhere(outcome: Outcome) -> None:
    marks = Marks()
    (claimed,) = claimed_from(marks, -50)
    marks.of(("default", 0, "other"), NOW).note(WHOLE, place_of(claimed))
    marks.note_written([Ended(claimed, outcome)], {claimed.id})
    assert marks.since(KEY) is None
    assert marks.since(("default", 0, "other")) is not None


def test_after_a_rescue_nothing_is_known() -> None:
    marks = Marks()
    looked(marks, lane(-70))
    marks.forget()
    assert marks.since(KEY) is None
    assert marks.head(KEY) is None


# Shares of the ids, where workers search one each

EVEN, ODD = Share(2, 0), Share(2, 1)


def test_what_is_found_in_one_share_says_nothing_about_the_others() -> None:
    marks = Marks()
    looked(marks, lane(-90))
    searches = marks.of(KEY, NOW)
    searches.note(EVEN, Place(at(-50), 2))
    assert searches.since(EVEN) == Place(at(-50), 2)
    assert searches.since(ODD) == searches.since(WHOLE) == marks.since(KEY) == Place(at(-90), 0)


def test_of_all_together_the_first_of_their_places_counts() -> None:
    marks = Marks()
    looked(marks, lane(-90))
    searches = marks.of(KEY, NOW)
    searches.note(EVEN, Place(at(-50), 2))
    searches.note(ODD, Place(at(-60), 3))
    assert marks.since(KEY) == Place(at(-60), 3)
    searches.note(WHOLE, Place(at(-55), 4))
    assert searches.since(EVEN) == Place(at(-50), 2)
    assert searches.since(ODD) == marks.since(KEY) == Place(at(-55), 4)


def test_other_shares_are_forgotten_when_there_are_more_workers() -> None:
    marks = Marks()
    looked(marks, lane(-90))
    searches = marks.of(KEY, NOW)
    searches.note(EVEN, Place(at(-50), 2))
    searches.note(ODD, Place(at(-60), 3))
    searches.note(Share(3, 1), Place(at(-40), 4))
    assert searches.since(EVEN) == marks.since(KEY) == Place(at(-90), 0)
    assert searches.since(Share(3, 1)) == Place(at(-40), 4)


def test_what_waits_again_is_before_the_places_of_all_shares() -> None:
    marks = Marks()
    searches = marks.of(KEY, NOW)
    searches.note(EVEN, Place(at(-30), 2))
    searches.note(ODD, Place(at(-60), 3))
    marks.note_written([Ended(claim(8, -40), GiveBack())], set())
    assert searches.since(EVEN) == Place(at(-40), 8)
    assert searches.since(ODD) == marks.since(KEY) == Place(at(-60), 3)


def test_a_full_look_is_about_all_shares() -> None:
    marks = Marks()
    searches = marks.of(KEY, NOW)
    searches.note(EVEN, Place(at(-30), 2))
    looked(marks, lane(-80))
    assert marks.of(KEY, NOW).since(EVEN) == Place(at(-80), 0)
