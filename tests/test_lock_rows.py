"""Named locks in the table: who gets one, until when, and what those who lost it can still do."""

import pytest

from django_tasks.locks import rows
from django_tasks.locks.rows import Hold, free, renew, take
from django_tasks.models import Lock
from django_tasks.store.clock import read_clock

pytestmark = pytest.mark.django_db

LEASE = 30.0
# Just longer than others wait.
OVER = LEASE * rows.SLEWING + 0.1


def taken(holder="me", name="report", lease=LEASE):
    hold = take(name, holder, lease, using="default")
    assert hold is not None
    return hold


def refused(holder="you", name="report"):
    return take(name, holder, LEASE, using="default") is None


def row(name="report"):
    return Lock.objects.get(name=name)


def test_the_first_take_of_a_name_makes_its_row():
    before = rows.now_in_microseconds(using="default")

    assert taken() == Hold("report", 1, "me")

    assert (row().term, row().holder) == (1, "me")
    after = rows.now_in_microseconds(using="default")
    length = int(LEASE * rows.SLEWING * 1_000_000)
    assert before + length <= row().until <= after + length


def test_a_lock_that_is_held_is_refused_and_nothing_is_written(queries):
    taken()
    with queries() as sent:
        assert refused()

    assert not [query for query in sent if not query["sql"].startswith("SELECT")]
    assert (row().term, row().holder) == (1, "me")


def test_what_was_freed_can_be_taken_and_the_term_rises_each_time():
    terms = []
    for turn in range(4):
        hold = taken(f"holder {turn}")
        terms.append(hold.term)
        assert free(hold, using="default")
        assert (row().holder, row().until, row().term) == ("", 0, hold.term)

    assert terms == [1, 2, 3, 4]


def test_a_lock_can_be_taken_over_when_its_lease_has_passed_and_not_before(world):
    taken("dead")
    world.ahead = LEASE - 1  # and the second that this host may take to ask
    assert refused()

    world.ahead = OVER
    assert taken("next") == Hold("report", 2, "next")


def test_a_renewal_begins_the_lease_again(world):
    hold = taken()
    world.ahead = LEASE - 1
    assert renew(hold, LEASE, using="default")
    world.ahead = 2 * LEASE - 2
    assert refused()

    world.ahead = LEASE - 1 + OVER
    assert taken("next").term == 2


def test_whoever_was_overtaken_changes_nothing(world):
    """Stopped for longer than its lease, woken up when another one has the lock."""
    zombie = taken("zombie")
    world.ahead = OVER
    taken("next")
    stands = row().term, row().holder, row().until

    assert not renew(zombie, 10 * LEASE, using="default")
    assert not free(zombie, using="default")
    assert (row().term, row().holder, row().until) == stands


def test_the_same_holder_in_an_earlier_term_changes_nothing(world):
    zombie = taken("me")
    world.ahead = OVER
    taken("me")

    assert not renew(zombie, LEASE, using="default")
    assert not free(zombie, using="default")


def test_a_renewal_that_arrives_after_the_next_one_shortens_nothing():
    hold = taken()
    assert renew(hold, 2 * LEASE, using="default")
    until = row().until

    assert renew(hold, LEASE, using="default")
    assert row().until == until


def test_a_renewal_after_the_lease_holds_as_long_as_nobody_else_came(world):
    hold = taken()
    world.ahead = OVER

    assert renew(hold, LEASE, using="default")
    assert refused()


def test_what_was_freed_cannot_be_renewed_or_freed_again():
    hold = taken()
    assert free(hold, using="default")

    assert not renew(hold, LEASE, using="default")
    assert not free(hold, using="default")
    assert row().holder == ""


@pytest.fixture
def before_the_write(monkeypatch):
    """Call it with what somebody else does between a take's look at the lock and its write."""

    def arrange(act):
        def act_first(*, using):
            monkeypatch.setattr(rows, "read_clock", read_clock)
            act()
            return read_clock(using=using)

        monkeypatch.setattr(rows, "read_clock", act_first)

    return arrange


def test_of_two_takers_that_see_a_free_lock_the_first_one_has_it(before_the_write):
    before_the_write(lambda: taken("faster"))

    assert refused()
    assert (row().term, row().holder) == (1, "faster")


def test_of_two_takers_that_see_a_passed_lease_the_first_one_has_it(before_the_write, world):
    taken("dead")
    world.ahead = OVER
    before_the_write(lambda: taken("faster"))

    assert refused()
    assert (row().term, row().holder) == (2, "faster")


def test_a_lock_that_was_taken_and_freed_meanwhile_is_left_to_the_next_try(before_the_write):
    """A caller that read an old term must not write the next one twice."""
    before_the_write(lambda: free(taken("faster"), using="default"))

    assert refused("slower")
    assert taken("slower").term == 2


def test_a_renewal_that_comes_just_before_a_takeover_keeps_the_lock(before_the_write, world):
    hold = taken()
    world.ahead = OVER
    before_the_write(lambda: renew(hold, LEASE, using="default"))

    assert refused()
    assert (row().term, row().holder) == (1, "me")


def test_names_are_told_apart_letter_for_letter():
    for number, name in enumerate(["report", "Report", "répört", "report 2"]):
        assert taken(f"holder {number}", name).term == 1

    assert Lock.objects.count() == 4


def test_the_longest_name_and_holder_are_stored_as_they_are():
    hold = taken("h" * 200, "n" * 100)

    assert renew(hold, LEASE, using="default")
    assert free(hold, using="default")
