"""Claiming, and the lanes to claim from."""

import random

import pytest
from django.db import connection

from django_tasks.models import Task
from django_tasks.store.claim import (
    WHOLE,
    Claimer,
    claim,
    claim_alone,
    owned_ids,
    place_of,
)
from django_tasks.store.lanes import Lane, Look, Place, has_suspects, look_along
from django_tasks.store.pauses import Scope, set_pause
from django_tasks.store.upsert import upsert_one
from django_tasks.values import payload_text
from django_tasks.values.conflicts import OnConflict
from django_tasks.values.options import TaskOptions
from django_tasks.values.status import OWNED, Status
from tests.factories import (
    CODE,
    NOW,
    WORKER,
    a_claim,
    a_lane,
    a_new,
    a_row,
    in_utc,
    lanes,
    later,
    rows,
    state,
    table,
    the_row,
)
from tests.store.parts import From

pytestmark = pytest.mark.django_db

ME = Claimer(WORKER)


@pytest.fixture(params=[False, True], ids=["plain", "careful"])
def careful(request):
    return request.param


def take(limit=10, *, now=NOW, claimer=ME, lane=None, careful=False):
    return claim(claimer, lane or a_lane(), now, limit, using="default", careful=careful)


def test_a_claim_makes_the_row_running_and_ours(careful):
    a_row(version=3)

    (claimed,) = take(now=later(2), careful=careful)

    row = the_row()
    assert state() == (Status.RUNNING, 4, WORKER)
    assert in_utc(row.claim_time) == in_utc(row.update_time) == later(2)
    assert claimed.version == 4


def test_a_claim_brings_home_all_of_the_row(careful):
    row = a_row(
        when=later(-0.000001),
        biz_ext={"a": ["ü", None]},
        attempts=2,
        rescues=1,
        last_error="oops",
        version=8,
        create_time=later(-99),
        schedule="every 1h",
        scheduled_time=later(-5),
        options=TaskOptions(timeout=5),
        runs=3,
    )

    (claimed,) = take(now=later(1), careful=careful)

    assert isinstance(claimed.biz_ext, str)
    assert payload_text.load(claimed.biz_ext) == {"a": ["ü", None]}
    assert claimed._asdict() | {"biz_ext": None} == {
        "id": row.pk,
        "version": 9,
        "biz_code": CODE,
        "biz_num": "1",
        "biz_ext": None,
        "when": later(-0.000001),
        "queue": "default",
        "priority": 0,
        "attempts": 2,
        "rescues": 1,
        "create_time": later(-99),
        "last_error": "oops",
        "schedule": "every 1h",
        "scheduled_time": later(-5),
        "options": '{"timeout": 5.0}',
        "runs": 3,
        "worker_id": WORKER,
        "claim_time": later(1),
        "planned": None,
    }
    assert str(claimed) == "order/1"


def test_a_claim_without_a_payload_brings_none(careful):
    a_row()

    (claimed,) = take(careful=careful)

    assert claimed.biz_ext is None


def test_the_times_of_a_claim_are_utc(careful):
    a_row(when=later(-30))

    (claimed,) = take(careful=careful)

    for moment in (claimed.when, claimed.create_time, claimed.claim_time):
        assert moment.utcoffset().total_seconds() == 0


def test_nothing_is_claimed_before_its_time(careful):
    a_row(when=later(0.000001))

    assert take(careful=careful) == []
    assert state() == (Status.PENDING, 0, None)


def test_a_task_is_claimed_at_its_very_time(careful):
    a_row(when=NOW)

    assert len(take(careful=careful)) == 1


@pytest.mark.parametrize("status", [status for status in Status if status != Status.PENDING])
def test_only_pending_rows_are_claimed(status, careful):
    a_row(status=status, claimed_by=99 if status in OWNED else None)
    before = state()

    assert take(careful=careful) == []
    assert state() == before


def test_a_claim_keeps_to_its_lane(careful):
    a_row("mine")
    a_row("queue", queue="mail")
    a_row("case of queue", queue="Default")
    a_row("priority", priority=1)
    a_row("code", biz_code="push")

    assert [claimed.biz_num for claimed in take(careful=careful)] == ["mine"]
    assert Task.objects.filter(status=Status.PENDING).count() == 4


def test_the_earliest_are_claimed_first(careful):
    for seconds in random.sample(range(1, 21), 20):
        a_row(str(seconds), when=later(-seconds))

    claimed = take(5, careful=careful)

    assert [item.biz_num for item in claimed] == ["20", "19", "18", "17", "16"]
    assert Task.objects.filter(status=Status.RUNNING).count() == 5


def test_a_claim_takes_no_more_than_its_limit_and_all_that_it_may(careful):
    rows(range(12), when=later(-1))

    assert [len(take(5, careful=careful)) for _ in range(4)] == [5, 5, 2, 0]


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_a_claim_finds_all_that_is_due_however_many_workers_there_are(workers):
    for count in (1, 3, 30):
        rows(range(count), when=later(-1))
        found = []
        while batch := take(4, claimer=Claimer(WORKER, workers)):
            found += batch
        assert len({item.id for item in found}) == len(found) == count
        table().delete()


def test_no_two_workers_claim_a_row_and_on_mysql_each_has_a_share_that_goes_round():
    rows(range(400), when=later(-1))
    taken = [
        [item.id for item in take(20, now=later(second), claimer=Claimer(WORKER, 4, rank))]
        for second in range(4)
        for rank in range(4)
    ]
    assert all(len(ids) == 20 for ids in taken)
    assert len({row for ids in taken for row in ids}) == 4 * 4 * 20
    if connection.vendor == "mysql":
        rests = [{row % 4 for row in ids} for ids in taken]
        assert all(len(each) == 1 for each in rests)
        assert all(len(set.union(*rests[first : first + 4])) == 4 for first in (0, 4, 8, 12))
        assert len(set.union(*rests[::4])) == 4


def test_a_thousand_rows_are_claimed_at_once():
    rows(range(1000))

    assert len(take(1000)) == 1000
    assert len(owned_ids(WORKER, using="default")) == 1000


def test_rows_that_were_rescued_twice_are_left_to_claim_alone(careful):
    a_row("twice", rescues=2, when=later(-9))
    a_row("often", rescues=5, when=later(-8))
    a_row("once", rescues=1)

    assert [claimed.biz_num for claimed in take(careful=careful)] == ["once"]
    assert has_suspects(a_lane(), NOW, using="default")


def test_many_suspicious_rows_do_not_hide_an_ordinary_one(careful):
    rows((f"suspect{n}" for n in range(60)), rescues=2, when=later(-9))
    a_row("ordinary", when=later(-8))

    assert [claimed.biz_num for claimed in take(1, careful=careful)] == ["ordinary"]


def test_claim_alone_takes_one_suspicious_row_the_earliest():
    a_row("ordinary", rescues=1, when=later(-9))
    a_row("second", rescues=2, when=later(-1))
    a_row("first", rescues=3, when=later(-2))

    claimed = claim_alone(Claimer(WORKER, 4), a_lane(), NOW, using="default")

    assert [item.biz_num for item in claimed] == ["first"]
    assert claimed[0].rescues == 3
    assert owned_ids(WORKER, using="default") == {the_row("first").pk}


@pytest.mark.parametrize("rank", [0, 1])
def test_the_earliest_of_all_shares(rank):
    """One of the two rows lies in the share of each rank."""
    for number in range(2):
        a_row(f"later {number}", rescues=2, when=later(-1))
    a_row("earliest", rescues=2, when=later(-2))

    claimed = claim_alone(Claimer(WORKER, 8, rank), a_lane(), NOW, using="default")

    assert [item.biz_num for item in claimed] == ["earliest"]


def test_claim_alone_finds_nothing_where_nothing_is_suspicious_and_due():
    a_row("ordinary")
    a_row("future", rescues=2, when=later(1))
    a_row("paused", rescues=2, status=Status.PAUSED)

    assert not has_suspects(a_lane(), NOW, using="default")
    assert claim_alone(ME, a_lane(), NOW, using="default") == []


def test_owned_ids_are_those_of_one_worker_in_every_owned_status():
    mine = {a_row(str(status.label), status=status).pk for status in OWNED}
    a_row("other", status=Status.RUNNING, claimed_by=8)
    a_row("free")

    assert owned_ids(WORKER, using="default") == mine
    assert owned_ids(12345, using="default") == set()


# What others do between the look and the take


class Interposed:
    """Runs something once, just before the first UPDATE of tasks is sent."""

    def __init__(self, action):
        self.action, self.ran = action, False

    def __call__(self, execute, sql, params, many, context):
        if not self.ran and sql.lstrip().startswith("UPDATE"):
            self.ran = True
            self.action()
        return execute(sql, params, many, context)


def take_while(action, limit=10):
    interposed = Interposed(action)
    with connection.execute_wrapper(interposed):
        claimed = take(limit)
    assert interposed.ran
    return claimed


def test_a_row_that_was_added_again_meanwhile_is_claimed_as_it_is_now_or_not_at_all():
    a_row(biz_ext=1)

    def add():
        upsert_one(a_new(biz_ext="2"), OnConflict.REPLACE, NOW, using="default")

    claimed = take_while(add)

    row = the_row()
    if claimed:
        assert (claimed[0].version, claimed[0].biz_ext) == (row.version, "2")
    else:
        assert state() == (Status.PENDING, 1, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"status": Status.PAUSED, "version": 1},
        {"status": Status.RUNNING, "version": 1, "claimed_by": 8},
        {"when": later(60), "version": 1},
    ],
    ids=["paused", "claimed", "moved"],
)
def test_a_row_that_went_away_meanwhile_is_left_out_of_the_claim(changes):
    a_row("gone", when=later(-2))
    a_row("there", when=later(-1))
    from django_tasks.timezones import for_django

    changes = {
        name: for_django(value) if name == "when" else value for name, value in changes.items()
    }

    claimed = take_while(lambda: table(biz_num="gone").update(**changes))

    assert [item.biz_num for item in claimed] == ["there"]
    assert owned_ids(WORKER, using="default") == {the_row("there").pk}
    assert the_row("gone").version == 1


def test_a_row_that_was_deleted_meanwhile_is_left_out_of_the_claim():
    a_row("gone", when=later(-2))
    a_row("there", when=later(-1))

    claimed = take_while(lambda: table(biz_num="gone").delete())

    assert [item.biz_num for item in claimed] == ["there"]


def test_a_claimed_row_that_was_cancelled_and_added_before_the_answer_is_still_ours():
    """The claim's version is the one it wrote, so that its finish sees the add."""
    claimed = a_claim()

    upsert_one(a_new(biz_ext="2"), OnConflict.REPLACE, NOW, using="default")

    assert (claimed.version, the_row().version) == (1, 2)
    assert owned_ids(WORKER, using="default") == {claimed.id}


# Lanes


def test_no_pending_rows_no_lanes():
    a_row(status=Status.PAUSED)
    a_row("2", status=Status.RUNNING)

    assert lanes(using="default") == []


def test_each_queue_priority_and_code_is_a_lane_with_the_time_of_its_first():
    a_row("1", when=later(5))
    a_row("2", when=later(3))
    a_row("3", when=later(4))
    a_row("4", biz_code="push", when=later(9))
    a_row("5", queue="mail", when=later(8))
    a_row("6", priority=-1, when=later(7))
    a_row("7", priority=-1, when=later(-7), status=Status.PAUSED)

    assert set(lanes(using="default")) == {
        Lane("default", 0, CODE, later(3)),
        Lane("default", 0, "push", later(9)),
        Lane("mail", 0, CODE, later(8)),
        Lane("default", -1, CODE, later(7)),
    }


def test_lanes_stand_in_the_order_to_claim_them():
    a_row("1", priority=0, when=later(1))
    a_row("2", priority=5, when=later(9), biz_code="a")
    a_row("3", priority=5, when=later(8), biz_code="b")
    a_row("4", priority=-32_768, when=later(-9))
    a_row("5", priority=32_767, when=later(99))

    assert [lane.first for lane in lanes(using="default")] == [
        later(99),
        later(8),
        later(9),
        later(1),
        later(-9),
    ]


def test_lanes_whose_names_differ_in_case_or_accent_are_different():
    names = ["a", "A", "á", "ß", "ss", "a b", "Z", "_", "😀"]
    for name in names:
        a_row(name, queue=name)
        a_row(name, biz_code=name)

    found = lanes(using="default")

    assert {lane.queue for lane in found} == {*names, "default"}
    assert {lane.biz_code for lane in found} == {*names, CODE}
    assert len(found) == 2 * len(names)


def test_a_hundred_lanes_are_found_each_once():
    for n in range(100):
        rows(
            (f"{n}-{i}" for i in range(3)),
            queue=f"q{n % 5}",
            priority=n % 4,
            biz_code=f"code{n}",
            when=later(n),
        )

    found = lanes(using="default")

    assert len(found) == 100
    assert {(lane.biz_code, lane.first) for lane in found} == {
        (f"code{n}", later(n)) for n in range(100)
    }


def test_every_lane_leads_to_its_tasks(careful):
    for n in range(6):
        a_row(str(n), queue=f"q{n % 2}", priority=n % 3, when=later(-n))

    found = [item.biz_num for lane in lanes(using="default") for item in take(lane=lane)]

    assert sorted(found) == [str(n) for n in range(6)]


# From a place on


def placed(*seconds: float) -> list[Place]:
    """The places of rows that are due then, named by their order here."""
    return [
        Place(later(each), a_row(str(number), when=later(each)).pk)
        for number, each in enumerate(seconds)
    ]


def taken_since(place: Place | None, careful: bool = False, limit: int = 10) -> list[str]:
    places = From(place)
    claims = claim(ME, a_lane(), NOW, limit, using="default", careful=careful, places=places)
    first = place_of(claims[0]) if claims else None
    assert places.notes[-1:] == [(WHOLE, first)]
    return [claimed.biz_num for claimed in claims]


def test_a_claim_begins_at_a_place(careful):
    places = placed(-4, -3, -2, -1)
    assert taken_since(places[2], careful) == ["2", "3"]
    assert taken_since(places[1], careful) == ["1"]
    assert taken_since(None, careful) == ["0"]


def test_among_equal_times_the_id_is_the_place(careful):
    places = placed(-1, -1, -1, -1)
    assert taken_since(places[2], careful) == ["2", "3"]
    assert taken_since(places[0], careful) == ["0", "1"]


def test_a_place_between_two_rows_is_none_of_a_row(careful):
    first, _ = placed(-4, -2)
    assert taken_since(Place(later(-3), 10**9), careful) == ["1"]
    assert taken_since(Place(first.when, first.id + 10**9), careful) == []
    assert taken_since(Place(first.when, 0), careful) == ["0"]


def test_equal_times_are_claimed_in_the_order_of_their_ids(careful):
    placed(*[-1] * 6)
    assert taken_since(None, careful, limit=3) == ["0", "1", "2"]
    assert taken_since(None, careful) == ["3", "4", "5"]


def test_a_row_to_run_alone_is_looked_for_from_a_place_on(careful):
    places = placed(-3, -2)
    table().update(rescues=2)
    assert has_suspects(a_lane(), NOW, using="default", since=places[1])
    assert not has_suspects(a_lane(), NOW, using="default", since=Place(later(-1), 0))

    def alone(place: Place) -> list[str]:
        claims = claim_alone(ME, a_lane(), NOW, using="default", careful=careful, since=place)
        return [claimed.biz_num for claimed in claims]

    assert alone(Place(later(-1), 0)) == []
    assert alone(places[1]) == ["1"]


def test_a_look_along_lanes_finds_the_first_of_each_from_its_place_on():
    a_row("1", when=later(-9))
    a_row("2", when=later(-5))
    a_row("3", when=later(60), queue="mail")
    a_row("4", when=later(-9), biz_code="other")
    places = {
        ("default", 0, CODE): Place(later(-7), 0),
        ("mail", 0, CODE): None,
        ("nowhere", 5, CODE): None,
    }
    found = look_along(places, using="default")
    assert found == Look(
        [a_lane(first=later(-5)), a_lane(queue="mail", first=later(60))], frozenset()
    )


def test_a_look_along_lanes_knows_what_is_paused():
    a_row("1", when=later(-9))
    scope = Scope("default", "")
    set_pause(scope, NOW, using="default")
    assert look_along({("default", 0, CODE): None}, using="default") == Look([], frozenset({scope}))
    assert look_along({}, using="default") == Look([], frozenset({scope}))


def test_what_was_found_is_noted_of_the_share_that_was_searched():
    """Of the others it says nothing: they may have rows that wait before it."""
    places = placed(-4, -3, -2, -1)
    searches = From(None)
    (claimed,) = claim(
        Claimer(WORKER, workers=2), a_lane(), NOW, 1, using="default", places=searches
    )
    share, first = searches.notes[-1]
    assert first == place_of(claimed)
    assert all(place.id % share.divisor != share.rest for place in places if place < first)


def test_where_nothing_waits_that_is_noted_of_all():
    searches = From(None)
    assert (
        claim(Claimer(WORKER, workers=2), a_lane(), NOW, 1, using="default", places=searches) == []
    )
    assert searches.notes[-1] == (WHOLE, None)
