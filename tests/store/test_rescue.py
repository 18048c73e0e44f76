"""Rescuing: rows of dead workers, suspects and their neighbours."""

from threading import Event

import pytest
from django.db import transaction

from django_tasks.models import Task, TaskRun
from django_tasks.store.finish import Ended, finish
from django_tasks.store.rescue import ROWS_AT_ONCE, forgive, give_back_strays, rescue
from django_tasks.values.outcomes import Done
from django_tasks.values.status import OWNED, UNOWNED, Status
from tests.conftest import DEADLINE
from tests.factories import (
    NOW,
    WORKER,
    a_claim,
    a_line,
    a_row,
    in_utc,
    later,
    rows,
    state,
    table,
    the_row,
)
from tests.vendor import SERVERS, only_on

pytestmark = pytest.mark.django_db

DEAD = 5
AFTER = {Status.RUNNING: Status.PENDING, Status.PAUSING: Status.PAUSED}


def rescued(*owners, allowed=3, now=NOW):
    return rescue(owners or (DEAD,), lambda code: allowed, now, using="default")


@pytest.mark.parametrize("status", AFTER)
@pytest.mark.parametrize("rescues", [0, 1])
def test_a_row_of_a_dead_worker_waits_again_and_its_rescue_is_counted(status, rescues):
    a_row(
        status=status,
        version=4,
        claimed_by=DEAD,
        rescues=rescues,
        attempts=2,
        last_error="before",
        biz_ext=[1],
        when=later(-9),
    )

    result = rescued(now=later(5))

    assert (len(result.freed), result.failed) == (1, [])
    row = the_row()
    assert state() == (AFTER[status], 5, None)
    assert (row.attempts, row.rescues, row.last_error) == (2, rescues + 1, "before")
    assert (row.biz_ext, in_utc(row.when), row.claim_time) == ([1], later(-9), None)
    assert in_utc(row.update_time) == later(5)


@pytest.mark.parametrize("stops", [1, 2, 5])
def test_however_many_stops_cut_a_run_off_they_count_as_one_rescue(stops):
    """It has begun, so it is no misfire; and no worker has died of it."""
    task = a_row()
    for _ in range(stops):
        table().filter(pk=task.pk).update(status=Status.RUNNING, claimed_by=DEAD)
        forgive(DEAD, using="default")
        rescued()
        assert the_row().rescues == 1


@pytest.mark.parametrize("status", AFTER)
def test_a_rescue_that_was_forgiven_counts_for_nothing_more(status):
    a_row(status=status, claimed_by=DEAD, rescues=1, version=4)
    a_row("2", status=status, claimed_by=DEAD + 1, rescues=1)
    a_row("3", rescues=1)

    assert forgive(DEAD, using="default") == 1

    assert state() == (status, 4, DEAD)  # its run goes on, and may end
    rescued()
    rescues = dict(Task.objects.values_list("biz_num", "rescues"))
    assert rescues == {"1": 1, "2": 1, "3": 1}


def test_of_a_row_that_has_cost_its_worker_it_is_not_forgiven():
    guilty = a_row(status=Status.RUNNING, claimed_by=DEAD, rescues=1)
    a_row("2", status=Status.RUNNING, claimed_by=DEAD, rescues=1)
    assert forgive(DEAD, [guilty.id], using="default") == 1
    assert dict(Task.objects.values_list("biz_num", "rescues")) == {"1": 1, "2": 0}


@only_on(*SERVERS, because="there are no locks of rows there")
@pytest.mark.django_db(transaction=True)
def test_a_row_that_a_run_holds_locked_keeps_no_other_one_from_being_forgiven(elsewhere):
    """An ``atomic`` run that has saved its row holds the lock to its end."""
    for number in "123":
        a_row(number, status=Status.RUNNING, claimed_by=DEAD, rescues=1)
    locked, done = Event(), Event()

    def hold():
        with transaction.atomic():
            table(biz_num="2").update(last_error="saved")
            locked.set()
            assert done.wait(DEADLINE)

    holding = elsewhere(hold)
    assert locked.wait(DEADLINE)
    try:
        count = elsewhere(forgive, DEAD, using="default").result(DEADLINE / 2)
    finally:
        done.set()
    holding.result(DEADLINE)
    assert count == 2
    rescues = dict(Task.objects.values_list("biz_num", "rescues"))
    assert rescues == {"1": 0, "2": 1, "3": 0}


@pytest.mark.parametrize("rescues", [0, 2])
def test_a_cancelled_row_of_a_dead_worker_goes(rescues):
    a_row(status=Status.CANCELLING, claimed_by=DEAD, rescues=rescues)

    assert len(rescued().freed) == 1
    assert not Task.objects.exists()


@pytest.mark.parametrize("status", AFTER)
def test_a_death_of_a_row_that_ran_alone_is_a_failed_attempt(status):
    a_row(status=status, version=4, claimed_by=DEAD, rescues=2, attempts=1)

    result = rescued(allowed=3)

    assert (len(result.freed), result.failed) == (1, [])
    row = the_row()
    assert state() == (AFTER[status], 5, None)
    assert (row.attempts, row.rescues) == (2, 2)
    assert row.last_error


@pytest.mark.parametrize("status", AFTER)
def test_a_row_that_killed_its_worker_alone_too_often_has_failed(status):
    a_row(status=status, version=4, claimed_by=DEAD, rescues=2, attempts=2)

    result = rescued(allowed=3)

    assert len(result.freed) == 1
    (failed,) = result.failed
    assert (failed.biz_code, failed.biz_num) == ("order", "1")
    row = the_row()
    assert state() == (Status.FAILED, 5, None)
    assert row.attempts == 3
    assert "died" in row.last_error


def test_how_many_attempts_are_allowed_is_asked_for_each_row():
    a_row("1", biz_code="a", status=Status.RUNNING, claimed_by=DEAD, rescues=2)
    a_row("1", biz_code="b", status=Status.RUNNING, claimed_by=DEAD, rescues=2)

    allowed = {"a": 1, "b": 2}
    result = rescue([DEAD], lambda row: allowed[row.biz_code], NOW, using="default")

    assert [row.biz_code for row in result.failed] == ["a"]
    assert state(biz_code="a")[0] == Status.FAILED
    assert state(biz_code="b")[0] == Status.PENDING


def test_a_killer_ends_failed_after_at_most_two_runs_more_than_its_attempts():
    """And every run of it after the second is one that it is alone in."""
    from django_tasks.store.claim import Claimer, claim, claim_alone
    from tests.factories import a_lane

    a_row()
    runs = 0
    while state()[0] == Status.PENDING:
        rescues = the_row().rescues
        taken = claim(Claimer(DEAD), a_lane(), NOW, 9, using="default")
        assert bool(taken) == (rescues < 2)
        taken = taken or claim_alone(Claimer(DEAD), a_lane(), NOW, using="default")
        runs += len(taken)
        rescued(allowed=3)

    assert state()[0] == Status.FAILED
    assert runs == 3 + 2


@pytest.mark.parametrize("status", OWNED)
def test_rows_of_the_living_are_left_alone(status):
    a_row(status=status, claimed_by=WORKER)
    before = Task.objects.values().get()

    assert len(rescued().freed) == 0
    assert Task.objects.values().get() == before


@pytest.mark.parametrize("status", UNOWNED)
def test_rows_of_nobody_are_left_alone(status):
    a_row(status=status)
    before = Task.objects.values().get()

    assert len(rescued().freed) == 0
    assert Task.objects.values().get() == before


def test_nobody_dead_is_nobody_rescued():
    a_row(status=Status.RUNNING, claimed_by=DEAD)

    assert len(rescue([], lambda code: 3, NOW, using="default").freed) == 0
    assert state()[0] == Status.RUNNING


def test_several_dead_workers_are_rescued_from_at_once():
    for owner in (4, 5, 6):
        a_row(str(owner), status=Status.RUNNING, claimed_by=owner)

    assert len(rescued(4, 6).freed) == 2
    assert [state(str(owner))[0] for owner in (4, 5, 6)] == [0, 1, 0]


def test_more_rows_than_fit_are_freed_by_calling_again():
    rows(range(ROWS_AT_ONCE + 10), status=Status.RUNNING, claimed_by=DEAD)

    assert [len(rescued().freed) for _ in range(3)] == [ROWS_AT_ONCE, 10, 0]
    assert Task.objects.filter(status=Status.PENDING, rescues=1).count() == ROWS_AT_ONCE + 10


def test_a_worker_that_was_rescued_from_can_finish_nothing():
    claimed = a_claim(worker=DEAD)
    rescued()
    before = Task.objects.values().get()

    result = finish([Ended(claimed, Done())], NOW, using="default")

    assert result.lost == {claimed.id}
    assert Task.objects.values().get() == before


# Strays: rows that a living worker owns without knowing


@pytest.mark.parametrize("status", AFTER)
def test_a_stray_goes_back_as_it_was(status):
    a_row(
        status=status,
        version=4,
        claimed_by=DEAD,
        rescues=1,
        attempts=2,
        last_error="before",
        biz_ext=[1],
    )

    assert give_back_strays(DEAD, [], NOW, using="default") == 1
    row = the_row()
    assert state() == (AFTER[status], 5, None)
    assert (row.attempts, row.rescues, row.last_error, row.biz_ext) == (2, 1, "before", [1])


def test_a_cancelled_stray_goes():
    a_row(status=Status.CANCELLING, claimed_by=DEAD)

    assert give_back_strays(DEAD, [], NOW, using="default") == 1
    assert not Task.objects.exists()


def test_rows_that_the_worker_knows_of_and_those_of_others_are_no_strays():
    mine = a_row("1", status=Status.RUNNING, claimed_by=DEAD)
    a_row("2", status=Status.RUNNING, claimed_by=WORKER)
    a_row("3", status=Status.RUNNING, claimed_by=DEAD)

    assert give_back_strays(DEAD, {mine.pk}, NOW, using="default") == 1
    assert [state(num)[0] for num in "123"] == [Status.RUNNING, Status.RUNNING, Status.PENDING]


def test_strays_are_found_behind_more_rows_than_one_look_has():
    rows(range(ROWS_AT_ONCE + 1), status=Status.RUNNING, claimed_by=DEAD)
    held = set(table().values_list("id", flat=True))
    a_row("stray", status=Status.RUNNING, claimed_by=DEAD)

    assert give_back_strays(DEAD, held, NOW, using="default") == 1
    assert state("stray")[0] == Status.PENDING


# Long texts


# As long as an error is kept; so many of them are more than MariaDB's server takes at once.
LONG = "\U0001f600" * 10_000
MANY = 500


def many_rows_with_long_errors():
    for start in range(0, MANY, 100):  # in parts: Django's bulk_create does not split
        numbers = range(start, start + 100)
        rows(numbers, status=Status.RUNNING, claimed_by=DEAD, last_error=LONG)


def test_many_rows_and_lines_with_long_errors_are_rescued():
    many_rows_with_long_errors()
    line = a_line(error=LONG)

    result = rescue((DEAD,), lambda row: 3, NOW, lambda row, failed: line, using="default")
    assert len(result.freed) == MANY
    assert Task.objects.filter(status=Status.PENDING, last_error=LONG).count() == MANY
    assert TaskRun.objects.filter(error=LONG).count() == MANY


def test_many_strays_with_long_errors_go_back():
    many_rows_with_long_errors()

    assert give_back_strays(DEAD, [], NOW, using="default") == MANY
    assert Task.objects.filter(status=Status.PENDING, last_error=LONG).count() == MANY
