"""Finishing, giving back and handing over."""

import pytest
from django.db import transaction

from django_tasks.exceptions import ClaimLost
from django_tasks.models import Task, TaskRun
from django_tasks.store.claim import Claimer, claim
from django_tasks.store.claimed_rows import is_cancelled
from django_tasks.store.finish import Ended, FinishResult, finish, finish_inside
from django_tasks.store.upsert import upsert_one
from django_tasks.timezones import for_django
from django_tasks.values.conflicts import OnConflict
from django_tasks.values.outcomes import (
    Again,
    Done,
    Fail,
    GiveBack,
    Lost,
    Outcome,
    Reschedule,
    Retry,
    Settled,
    Unsettled,
)
from django_tasks.values.status import OWNED, UNOWNED, Status
from tests.factories import (
    NOW,
    WORKER,
    a_claim,
    a_lane,
    a_line,
    a_new,
    a_row,
    in_utc,
    later,
    state,
    table,
    the_row,
    there_is,
)

pytestmark = pytest.mark.django_db

AS_ASKED = FinishResult(set(), set(), set())
OUTCOMES: list[Outcome] = [
    Done(),
    Reschedule(later(60)),
    Reschedule(later(60), "[1]"),
    Retry(later(60), "oops"),
    Again(later(60)),
    Fail("oops"),
    GiveBack(),
    Unsettled(Retry(later(60), "oops")),
    Unsettled(Fail("oops")),
]
every_outcome = pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda value: str(value)[:30])


@pytest.fixture(params=[False, True], ids=["plain", "careful"])
def careful(request):
    return request.param


def end(claimed, outcome, *, now=NOW, careful=False):
    return finish([Ended(claimed, outcome)], now, using="default", careful=careful)


def set_status(claimed, status):
    table(pk=claimed.id).update(status=status)


def add_again(**fields):
    upsert_one(a_new(**fields), OnConflict.REPLACE, NOW, using="default")


# As asked


@pytest.mark.parametrize("status", [Status.RUNNING, Status.PAUSING])
def test_a_run_that_is_done_takes_its_row_along(status, careful):
    claimed = a_claim()
    set_status(claimed, status)

    assert end(claimed, Done(), careful=careful) == AS_ASKED
    assert not there_is()


AFTER = {Status.RUNNING: Status.PENDING, Status.PAUSING: Status.PAUSED}


@pytest.mark.parametrize("status", AFTER)
def test_a_next_time_makes_the_row_wait_for_it_without_its_failures(status, careful):
    claimed = a_claim(attempts=3, rescues=1, last_error="oops", biz_ext={"n": 1})
    set_status(claimed, status)

    result = end(claimed, Reschedule(later(60.5)), now=later(3), careful=careful)

    assert result == AS_ASKED
    row = the_row()
    assert state() == (AFTER[status], claimed.version + 1, None)
    assert (in_utc(row.when), row.biz_ext) == (later(60.5), {"n": 1})
    assert (row.attempts, row.rescues, row.last_error) == (0, 0, "")
    assert row.claim_time is None
    assert in_utc(row.update_time) == later(3)


@pytest.mark.parametrize(
    ("text", "value"),
    [('{"n": "ü😀\\\\u0000"}', {"n": "ü😀\\u0000"}), ("[]", []), ("0", 0), ('"x"', "x")],
)
def test_a_next_time_stores_the_payload_that_the_handler_changed(text, value):
    claimed = a_claim(biz_ext=1)

    end(claimed, Reschedule(later(60), text))

    assert the_row().biz_ext == value


def test_a_payload_that_became_none_is_stored_as_null():
    claimed = a_claim(biz_ext=1)

    end(claimed, Reschedule(later(60), "null"))

    assert Task.objects.filter(biz_ext__isnull=True).count() == 1


def test_the_text_null_is_a_payload_like_any_other():
    claimed = a_claim(biz_ext=1)

    end(claimed, Reschedule(later(60), '"null"'))

    assert the_row().biz_ext == "null"


@pytest.mark.parametrize("status", AFTER)
def test_a_retry_counts_the_attempt_and_keeps_the_error(status, careful):
    claimed = a_claim(attempts=1, rescues=1, biz_ext=[1])
    set_status(claimed, status)

    assert end(claimed, Retry(later(10), "öops 100% {x}"), careful=careful) == AS_ASKED
    row = the_row()
    assert state() == (AFTER[status], claimed.version + 1, None)
    assert (in_utc(row.when), row.biz_ext) == (later(10), [1])
    assert (row.attempts, row.rescues, row.last_error) == (2, 0, "öops 100% {x}")


@pytest.mark.parametrize("status", AFTER)
def test_a_failure_leaves_the_row_failed_with_its_error(status, careful):
    claimed = a_claim(attempts=4, biz_ext=[1], when=later(-5))
    set_status(claimed, status)

    assert end(claimed, Fail("oops"), careful=careful) == AS_ASKED
    row = the_row()
    assert state() == (Status.FAILED, claimed.version + 1, None)
    assert (in_utc(row.when), row.biz_ext) == (later(-5), [1])
    assert (row.attempts, row.last_error) == (5, "oops")


@pytest.mark.parametrize("status", AFTER)
def test_a_task_that_was_never_started_goes_back_as_it_was(status, careful):
    claimed = a_claim(attempts=2, rescues=1, last_error="oops", biz_ext=[1], when=later(-5))
    set_status(claimed, status)

    assert end(claimed, GiveBack(), careful=careful) == AS_ASKED
    row = the_row()
    assert state() == (AFTER[status], claimed.version + 1, None)
    assert (in_utc(row.when), row.biz_ext) == (later(-5), [1])
    assert (row.attempts, row.rescues, row.last_error) == (2, 1, "oops")


@pytest.mark.parametrize("status", AFTER)
def test_a_run_that_counts_for_nothing_waits_again_as_it_was(status, careful):
    claimed = a_claim(attempts=2, rescues=1, last_error="oops", biz_ext=[1], when=later(-5))
    set_status(claimed, status)

    assert end(claimed, Again(later(60)), careful=careful) == AS_ASKED
    row = the_row()
    assert state() == (AFTER[status], claimed.version + 1, None)
    assert (in_utc(row.when), row.biz_ext) == (later(60), [1])
    assert (row.attempts, row.rescues, row.last_error) == (2, 1, "oops")


@pytest.mark.parametrize("schedule", ["every 1h", None])
@pytest.mark.parametrize("outcome", [Again(later(60)), Retry(later(60), "oops")])
def test_a_run_that_is_to_come_again_is_still_that_of_its_time(outcome, schedule):
    claimed = a_claim(schedule=schedule, when=later(-5))

    assert end(claimed, outcome) == AS_ASKED
    assert in_utc(the_row().scheduled_time) == later(-5)


_RUNS = [
    Reschedule(later(60)),
    Reschedule(later(60), counts_as="parked"),
    Retry(later(60), "oops"),
    Fail("oops"),
    Unsettled(Fail("oops")),
]
_NO_RUNS = [
    Again(later(60)),
    GiveBack(),
    Reschedule(later(60), counts_as="skipped"),
    Unsettled(Again(later(60))),
]


@pytest.mark.parametrize("outcome", _RUNS)
def test_a_run_that_has_ended_is_counted_with_the_time_of_its_end(outcome, careful):
    claimed = a_claim(runs=3, last_run=later(-3600))

    end(claimed, outcome, careful=careful)

    assert (the_row().runs, in_utc(the_row().last_run)) == (4, NOW)


@pytest.mark.parametrize("outcome", _RUNS)
def test_the_last_run_of_a_row_is_known_by_the_end_in_its_line(outcome):
    line = a_line(ended=later(-1.234567))

    finish([Ended(a_claim(), outcome, line=line)], NOW, using="default")

    assert the_row().last_run == TaskRun.objects.get().ended == for_django(line.ended)


@pytest.mark.parametrize("outcome", _NO_RUNS)
def test_what_was_no_run_leaves_count_and_time_of_the_last_one(outcome, careful):
    claimed = a_claim(runs=3, last_run=later(-3600))

    end(claimed, outcome, careful=careful)

    assert (the_row().runs, in_utc(the_row().last_run)) == (3, later(-3600))


@pytest.mark.parametrize("outcome", [Done(), *_RUNS])
def test_a_run_whose_task_was_added_meanwhile_is_the_last_run_of_what_was_added(outcome):
    claimed = a_claim()
    add_again(when=later(500))

    end(claimed, outcome)

    assert (the_row().runs, in_utc(the_row().last_run)) == (1, NOW)


def test_a_batch_counts_some_of_its_rows(careful):
    claims = [a_claim(biz_num, runs=1, last_run=later(-9)) for biz_num in "123"]
    outcomes: list[Outcome] = [GiveBack(), Reschedule(later(60)), Again(later(60))]
    ends = [Ended(claimed, outcome) for claimed, outcome in zip(claims, outcomes, strict=True)]

    finish(ends, NOW, using="default", careful=careful)

    found = [(the_row(each).runs, in_utc(the_row(each).last_run)) for each in "123"]
    assert found == [(1, later(-9)), (2, NOW), (1, later(-9))]


def test_an_atomic_run_that_goes_on_keeps_the_end_in_its_line():
    line = a_line(ended=later(-1.5))
    with transaction.atomic():
        finish_inside([Ended(a_claim(), Reschedule(later(60)), line=line)], NOW, using="default")

    assert the_row().last_run == TaskRun.objects.get().ended == for_django(line.ended)


@pytest.mark.parametrize("status", Status)
def test_an_add_leaves_the_last_run_and_answers_with_it(status):
    a_row(runs=3, last_run=later(-3600), status=status)

    added, _ = upsert_one(a_new(), OnConflict.REPLACE, NOW, using="default")

    assert added.last_run == the_row().last_run == for_django(later(-3600))


def test_an_unsettled_run_that_is_still_ours_ends_as_its_alternative():
    claimed = a_claim()

    assert end(claimed, Unsettled(Fail("the COMMIT was not answered"))) == AS_ASKED
    assert state()[0] == Status.FAILED


@pytest.mark.parametrize("outcome", [Settled(), Lost()])
def test_an_outcome_that_wrote_itself_is_refused(outcome):
    claimed = a_claim()

    with pytest.raises(TypeError):
        end(claimed, outcome)
    assert state() == (Status.RUNNING, claimed.version, WORKER)


def test_a_long_error_is_kept_whole():
    claimed = a_claim()

    end(claimed, Fail("ü" * 100_000))

    assert the_row().last_error == "ü" * 100_000


# Batches


def test_a_batch_may_end_in_every_way_at_once(careful):
    claims = [a_claim(str(n), version=n) for n in range(len(OUTCOMES))]
    ends = [Ended(claim, outcome) for claim, outcome in zip(claims, OUTCOMES, strict=True)]

    assert finish(ends, NOW, using="default", careful=careful) == AS_ASKED
    failed = (Fail("oops"), Unsettled(Fail("oops")))
    assert {row.biz_num: Status(row.status) for row in Task.objects.all()} == {
        str(n): Status.FAILED if outcome in failed else Status.PENDING
        for n, outcome in enumerate(OUTCOMES)
        if outcome != Done()
    }
    assert all(row.version == int(row.biz_num) + 2 for row in Task.objects.all())


def test_each_row_of_a_batch_gets_its_own_values():
    claims = [a_claim(str(n)) for n in range(6)]
    ends = [
        Ended(claim, Reschedule(later(n), f"[{n}]") if n % 2 else Retry(later(n), f"error {n}"))
        for n, claim in enumerate(claims)
    ]

    finish(list(reversed(ends)), NOW, using="default")

    for n in range(6):
        row = the_row(str(n))
        expected = (later(n), [n] if n % 2 else None, "" if n % 2 else f"error {n}")
        assert (in_utc(row.when), row.biz_ext, row.last_error) == expected


@pytest.mark.parametrize("outcome", [Done(), Retry(later(60), "oops")])
def test_the_largest_batch_is_finished(outcome):
    table().bulk_create(
        Task(
            biz_code="order",
            biz_num=str(n),
            queue="default",
            priority=0,
            when=for_django(NOW),
        )
        for n in range(1000)
    )
    claims = claim(Claimer(WORKER), a_lane(), NOW, 1000, using="default")

    assert len(claims) == 1000
    result = finish([Ended(claimed, outcome) for claimed in claims], NOW, using="default")
    assert result == AS_ASKED
    assert not Task.objects.filter(status=Status.RUNNING).exists()


def test_nothing_to_finish_is_nothing(careful):
    assert finish([], NOW, using="default", careful=careful) == AS_ASKED


def test_only_the_rows_that_moved_are_handed_over_or_lost(careful):
    done, moved, gone, taken = (a_claim(name) for name in ("done", "moved", "gone", "taken"))
    add_again(biz_num="moved", when=later(60))
    table(biz_num="gone").delete()
    table(biz_num="taken").update(claimed_by=8, version=9)
    ends = [Ended(claimed, Done()) for claimed in (done, moved, gone, taken)]

    result = finish(ends, NOW, using="default", careful=careful)

    assert result == FinishResult({moved.id}, {gone.id, taken.id}, set())
    assert not there_is("done")
    assert state("moved") == (Status.PENDING, moved.version + 2, None)
    assert state("taken") == (Status.RUNNING, 9, 8)


# Added, cancelled, paused while it ran


@every_outcome
def test_what_was_added_while_it_ran_waits_as_it_was_added(outcome):
    claimed = a_claim(attempts=2, rescues=1, last_error="oops", biz_ext=1)
    add_again(when=later(99), biz_ext="2", queue="mail", priority=3)

    assert end(claimed, outcome) == FinishResult({claimed.id}, set(), set())
    row = the_row()
    assert state() == (Status.PENDING, claimed.version + 2, None)
    assert (in_utc(row.when), row.biz_ext) == (later(99), 2)
    assert (row.queue, row.priority) == ("mail", 3)
    assert (row.attempts, row.rescues, row.last_error) == (0, 0, "")
    assert row.claim_time is None


@every_outcome
def test_a_task_that_was_added_and_paused_while_it_ran_waits_paused(outcome):
    claimed = a_claim()
    add_again(when=later(99), biz_ext="2")
    set_status(claimed, Status.PAUSING)

    assert end(claimed, outcome) == FinishResult({claimed.id}, set(), set())
    assert state() == (Status.PAUSED, claimed.version + 2, None)
    assert the_row().biz_ext == 2


@every_outcome
def test_a_task_that_was_cancelled_while_it_ran_goes_when_its_run_ends(outcome):
    claimed = a_claim()
    set_status(claimed, Status.CANCELLING)
    table().update(version=claimed.version + 1)

    assert end(claimed, outcome) == FinishResult({claimed.id}, set(), set())
    assert not there_is()


@every_outcome
def test_a_cancelled_run_does_not_end_as_asked_even_if_its_version_is_the_same(outcome):
    claimed = a_claim()
    set_status(claimed, Status.CANCELLING)

    assert end(claimed, outcome) == FinishResult({claimed.id}, set(), set())
    assert not there_is()


# Lost


@every_outcome
@pytest.mark.parametrize("status", OWNED)
def test_a_worker_that_lost_its_claim_changes_nothing(status, outcome):
    claimed = a_claim()
    table().update(status=status, claimed_by=WORKER + 1)
    before = Task.objects.values().get()

    assert end(claimed, outcome) == FinishResult(set(), {claimed.id}, set())
    assert Task.objects.values().get() == before


@every_outcome
@pytest.mark.parametrize("status", UNOWNED)
def test_a_row_that_nobody_owns_is_not_changed_by_a_late_finish(status, outcome):
    claimed = a_claim()
    table().update(status=status, claimed_by=None, claim_time=None)
    before = Task.objects.values().get()

    assert end(claimed, outcome) == FinishResult(set(), {claimed.id}, set())
    assert Task.objects.values().get() == before


@every_outcome
def test_the_row_that_was_deleted_and_added_again_is_another_one(outcome):
    claimed = a_claim()
    table().delete()
    a_row(status=Status.RUNNING, version=claimed.version, claimed_by=WORKER)
    before = Task.objects.values().get()

    assert end(claimed, outcome) == FinishResult(set(), {claimed.id}, set())
    assert Task.objects.values().get() == before


@every_outcome
def test_a_second_finish_of_one_claim_is_refused(outcome):
    claimed = a_claim(when=later(-1))
    end(claimed, Reschedule(later(60)))
    before = Task.objects.values().get()

    assert end(claimed, outcome) == FinishResult(set(), {claimed.id}, set())
    assert Task.objects.values().get() == before


@every_outcome
def test_a_finish_that_is_repeated_leaves_the_same_workers_next_claim_alone(outcome):
    """Its answer was lost with the connection, and the worker has claimed the row again since."""
    claimed = a_claim(when=later(-1))
    end(claimed, Reschedule(NOW))
    (again,) = claim(Claimer(WORKER), a_lane(), later(1), 9, using="default")
    before = Task.objects.values().get()

    assert end(claimed, outcome) == FinishResult(set(), {claimed.id}, set())
    assert Task.objects.values().get() == before
    assert end(again, Done()) == AS_ASKED


# Inside an atomic run


def inside(claimed, outcome):
    with transaction.atomic():
        return not finish_inside([Ended(claimed, outcome)], NOW, using="default")


def test_an_atomic_run_writes_its_own_end():
    claimed = a_claim()

    assert inside(claimed, Done())
    assert not there_is()


def test_an_atomic_run_whose_task_was_added_again_stands_and_hands_it_over():
    claimed = a_claim()
    add_again(when=later(99), biz_ext="2")

    assert not inside(claimed, Reschedule(later(60)))
    assert state() == (Status.PENDING, claimed.version + 2, None)
    assert in_utc(the_row().when) == later(99)


def test_an_atomic_run_whose_task_was_cancelled_stands_and_the_row_goes():
    claimed = a_claim()
    set_status(claimed, Status.CANCELLING)

    assert not inside(claimed, Reschedule(later(60)))
    assert not there_is()


def test_an_atomic_run_that_lost_its_claim_says_so_and_is_rolled_back():
    claimed = a_claim()
    table().update(claimed_by=8)

    def run():
        a_row("effect")
        finish_inside([Ended(claimed, Done())], NOW, using="default")

    with pytest.raises(ClaimLost, match="order/1"), transaction.atomic():
        run()

    assert not there_is("effect")
    assert there_is()


# What a handler can ask


def test_a_run_is_not_cancelled_while_it_owns_its_row():
    claimed = a_claim()

    assert not is_cancelled(claimed, using="default")
    set_status(claimed, Status.PAUSING)
    assert not is_cancelled(claimed, using="default")
    add_again()
    assert not is_cancelled(claimed, using="default")


@pytest.mark.parametrize(
    "changes",
    [
        {"status": Status.CANCELLING},
        {"claimed_by": 8},
        {"claimed_by": None, "status": Status.PENDING},
    ],
)
def test_a_run_is_cancelled_when_it_was_cancelled_or_lost(changes):
    claimed = a_claim()
    table().update(**changes)

    assert is_cancelled(claimed, using="default")


def test_a_run_whose_row_is_gone_is_cancelled():
    claimed = a_claim()
    table().delete()

    assert is_cancelled(claimed, using="default")
