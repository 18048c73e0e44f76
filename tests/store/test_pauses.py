"""Pauses: rows that keep lanes from being found and claimed."""

import pytest

from django_tasks.store.claim import Claimer, claim, claim_alone
from django_tasks.store.lanes import Look, look
from django_tasks.store.pauses import (
    Scope,
    forget_ends,
    pauses,
    set_pause,
    spans,
    unset_pause,
)
from django_tasks.values.status import Status
from tests.factories import CODE, NOW, WORKER, a_lane, a_row, in_utc, later, rows, state
from tests.store.test_plans import rows_read
from tests.vendor import MYSQL_FAMILY, is_on

pytestmark = pytest.mark.django_db

ME = Claimer(WORKER)
SCOPES = [Scope("", ""), Scope("default", ""), Scope("", CODE), Scope("default", CODE)]
OTHERS = [Scope("mail", ""), Scope("", "push"), Scope("mail", CODE), Scope("default", "Order")]


def pause(*scopes):
    return [set_pause(scope, NOW, using="default") for scope in scopes]


def test_a_pause_is_set_once_and_ended_once():
    scope = Scope("mail", CODE)
    assert pause(scope, scope) == [True, False]
    (row,) = pauses(using="default")
    assert (row.queue, row.biz_code, in_utc(row.since)) == ("mail", CODE, NOW)

    assert unset_pause(scope, NOW, using="default")
    assert not unset_pause(scope, NOW, using="default")
    assert pauses(using="default") == []


def test_an_end_ends_exactly_its_own_pause():
    pause(*SCOPES)

    assert unset_pause(SCOPES[1], NOW, using="default")

    assert {Scope(row.queue, row.biz_code) for row in pauses(using="default")} == {
        *SCOPES[:1],
        *SCOPES[2:],
    }


def held(after=NOW, queue="default"):
    return spans(queue, CODE, after, using="default")


@pytest.mark.parametrize("scope", SCOPES)
def test_the_spans_are_of_all_pauses_that_have_held_a_task(scope):
    for other in OTHERS:
        pause(other)
        assert unset_pause(other, later(9), using="default")
    assert held() == []
    for seconds in (1, 3):
        assert set_pause(scope, later(seconds - 1), using="default")
        assert unset_pause(scope, later(seconds), using="default")
    assert set_pause(scope, later(5), using="default")
    assert held() == [(NOW, later(1)), (later(2), later(3)), (later(5), None)]
    assert held(later(1)) == [(later(2), later(3)), (later(5), None)]
    assert held(later(9)) == [(later(5), None)]


def test_ends_are_forgotten_once_they_are_old():
    for seconds in (1, 3):
        pause(SCOPES[0])
        assert unset_pause(SCOPES[0], later(seconds), using="default")
    forget_ends(later(1), using="default")
    assert [span.ended for span in held()] == [later(1), later(3)]
    forget_ends(later(3), using="default")
    assert [span.ended for span in held()] == [later(3)]


def test_who_resumes_what_is_not_paused_leaves_no_end():
    assert not unset_pause(SCOPES[0], NOW, using="default")
    assert held() == []


@pytest.mark.parametrize("scope", SCOPES)
def test_a_look_leaves_out_lanes_that_are_paused_and_says_so(scope):
    a_row()

    pause(scope)

    assert look(using="default") == Look([], frozenset({scope}))


@pytest.mark.parametrize("scope", OTHERS)
def test_a_look_finds_what_another_pause_does_not_hold(scope):
    a_row()

    pause(scope)

    assert look(using="default") == Look([a_lane()], frozenset({scope}))


def test_a_look_at_an_empty_table_tells_of_pauses():
    pause(Scope("", CODE))

    assert look(using="default") == Look([], frozenset({Scope("", CODE)}))


@pytest.mark.parametrize("careful", [False, True], ids=["plain", "careful"])
@pytest.mark.parametrize("scope", SCOPES)
def test_a_lane_that_was_found_before_the_pause_is_not_claimed_after_it(scope, careful):
    a_row()
    a_row("alone", rescues=2)
    pause(scope)

    assert claim(ME, a_lane(), NOW, 9, using="default", careful=careful) == []
    assert claim_alone(ME, a_lane(), NOW, using="default") == []
    assert state() == (Status.PENDING, 0, None)


@pytest.mark.parametrize("careful", [False, True], ids=["plain", "careful"])
def test_pauses_of_others_keep_nobody_from_claiming(careful):
    a_row()
    a_row("alone", rescues=2)
    pause(*OTHERS)

    assert len(claim(ME, a_lane(), NOW, 9, using="default", careful=careful)) == 1
    assert len(claim_alone(ME, a_lane(), NOW, using="default")) == 1


def test_a_look_with_pauses_is_one_statement_and_reads_one_row_each(queries):
    rows(range(50), when=later(-1))
    counts = is_on(*MYSQL_FAMILY)  # the others do not count what they read
    free = rows_read(lambda: look(using="default")) if counts else 0

    pause(*OTHERS)

    with queries() as asked:
        look(using="default")
    assert len(asked) == 1
    if counts:
        assert rows_read(lambda: look(using="default")) <= free + len(OTHERS) + 1


@pytest.mark.django_db(transaction=True)
def test_many_who_pause_the_same_at_once_change_it_once(elsewhere):
    scope = Scope("", CODE)
    for operation in (lambda: set_pause(scope, NOW, using="default"),
                      lambda: unset_pause(scope, NOW, using="default")):  # fmt: skip
        answers = [elsewhere(operation) for _ in range(8)]
        assert sorted(answer.result() for answer in answers) == [False] * 7 + [True]
