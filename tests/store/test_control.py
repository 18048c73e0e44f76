"""Cancel, pause, resume, move and requeue."""

import pytest
from django.db.models import Q
from django.db.models.signals import pre_delete

from django_tasks.models import Task
from django_tasks.store import control, search
from django_tasks.values.status import OWNED, UNOWNED, Status
from tests.factories import CODE, NOW, WORKER, a_row, in_utc, later, rows, state, the_row

pytestmark = pytest.mark.django_db

THE_TASK = search.key(CODE, "1")
PENDING, RUNNING, FAILED, PAUSED, CANCELLING, PAUSING = Status
every_status = pytest.mark.parametrize("old", list(Status))


def a_used_row(status):
    return a_row(
        status=status,
        version=4,
        attempts=2,
        rescues=1,
        last_error="oops",
        biz_ext=[1],
        when=later(30),
    )


def values():
    return Task.objects.values().get(biz_num="1")


@every_status
@pytest.mark.parametrize("listened_to", [False, True], ids=["alone", "with pre_delete"])
def test_cancelling_removes_an_unowned_row_and_marks_an_owned_one(old, listened_to):
    a_used_row(old)
    a_row("2")
    if listened_to:
        pre_delete.connect(_listener, sender=Task)

    try:
        done = control.cancel(THE_TASK, later(1), using="default")
    finally:
        pre_delete.disconnect(_listener, sender=Task)

    if old in OWNED:
        assert done == (0, 1)
        assert state() == (CANCELLING, 5, WORKER)
        assert in_utc(the_row().update_time) == later(1)
    else:
        assert done == (1, 0)
        assert not Task.objects.filter(biz_num="1").exists()
    assert state("2") == (PENDING, 0, None)


def _listener(**kwargs):
    pass


def test_cancelling_nothing_says_so():
    assert control.cancel(THE_TASK, NOW, using="default") == (0, 0)


def test_many_are_cancelled_at_once_and_counted_by_what_became_of_them():
    for number, status in enumerate(Status):
        a_row(f"a{number}", status=status)
        a_row(f"b{number}", status=status)

    done = control.cancel(Q(biz_num__startswith="a"), NOW, using="default")

    assert done == (len(UNOWNED), len(OWNED))
    left = Task.objects.filter(biz_num__startswith="a")
    assert set(left.values_list("status", flat=True)) == {CANCELLING}
    assert Task.objects.filter(biz_num__startswith="b").count() == len(Status)


@every_status
def test_pausing_holds_a_pending_row_and_marks_a_running_one(old):
    a_used_row(old)
    before = values()

    changed = control.pause(THE_TASK, later(1), using="default")

    expected = {PENDING: (PAUSED, 5), RUNNING: (PAUSING, 4)}
    check_switch(before, changed, expected.get(old))


@every_status
def test_resuming_undoes_pausing(old):
    a_used_row(old)
    before = values()

    changed = control.resume(THE_TASK, later(1), using="default")

    expected = {PAUSED: (PENDING, 5), PAUSING: (RUNNING, 4)}
    check_switch(before, changed, expected.get(old))


def check_switch(before, changed, expected):
    """Status and version as expected, all the rest as before; nothing at all without them."""
    assert changed == (expected is not None)
    if expected is None:
        assert values() == before
        return
    status, version = expected
    row, then = values(), before.pop("update_time")
    # That of an owned row says whether its payload is the one of its claim.
    assert in_utc(row.pop("update_time")) == (in_utc(then) if status in OWNED else later(1))
    assert row == before | {"status": status, "version": version}


AFTER_MOVE = {FAILED: PENDING, CANCELLING: RUNNING}
AFTER_RUN_NOW = AFTER_MOVE | {PAUSED: PENDING, PAUSING: RUNNING}


def check_move(old, changed, when, status):
    assert changed == 1
    row = the_row()
    assert state() == (status, 5, WORKER if old in OWNED else None)
    assert (in_utc(row.when), row.biz_ext) == (when, [1])
    assert in_utc(row.update_time) == later(1)
    kept = (2, 1, "oops") if old in OWNED else (0, 0, "")
    assert (row.attempts, row.rescues, row.last_error) == kept


@every_status
def test_rescheduling_is_an_add_that_keeps_the_payload(old):
    a_used_row(old)

    changed = control.reschedule(THE_TASK, later(99.000001), later(1), using="default")

    check_move(old, changed, later(99.000001), AFTER_MOVE.get(old, old))


@every_status
def test_running_now_makes_it_due_and_unpaused(old):
    a_used_row(old)

    changed = control.run_now(THE_TASK, later(1), using="default")

    check_move(old, changed, later(1), AFTER_RUN_NOW.get(old, old))


@every_status
def test_only_a_failed_row_is_requeued(old):
    a_used_row(old)
    before = values()

    changed = control.requeue(THE_TASK, later(1), using="default")

    if old == FAILED:
        check_move(old, changed, later(1), PENDING)
    else:
        assert changed == 0
        assert values() == before


@pytest.mark.parametrize(
    "operation",
    [control.pause, control.resume, control.run_now, control.requeue, control.reschedule],
)
def test_steering_a_key_that_is_not_there_changes_nothing(operation):
    a_row("2", status=FAILED)
    before = Task.objects.values().get()
    times = (later(5), NOW) if operation is control.reschedule else (NOW,)

    assert operation(THE_TASK, *times, using="default") == 0
    assert Task.objects.values().get() == before


def test_steering_counts_rows_also_when_nothing_about_them_is_new():
    """MySQL counts changed rows by itself; what matters is that they were found."""
    a_row(update_time=NOW)

    assert control.run_now(THE_TASK, NOW, using="default") == 1


def test_many_rows_are_steered_by_one_call():
    rows(range(30))

    assert control.pause(Q(biz_code=CODE), NOW, using="default") == 30
    assert control.resume(Q(biz_code=CODE), NOW, using="default") == 30
    assert set(Task.objects.values_list("status", "version")) == {(PENDING, 2)}


# Which rows


@pytest.mark.parametrize(
    ("fragment", "at_start", "expected"),
    [
        ("a", False, {"a", "xa", "a%", "a_b"}),
        ("a", True, {"a", "a%", "a_b"}),
        ("A", False, {"A", "xA"}),
        ("%", False, {"a%"}),
        ("_", False, {"a_b"}),
        ("á", False, {"xá"}),
        (" ", False, {"x y"}),
        ("\\", False, {"x\\y"}),
        ("'", False, {"x'y"}),
        ("😀", False, {"x😀"}),
        ("zz", False, set()),
    ],
)
def test_a_fragment_is_matched_letter_for_letter(fragment, at_start, expected):
    numbers = ["a", "A", "xa", "xA", "a%", "a_b", "xá", "x y", "x\\y", "x'y", "x😀", "y😁"]
    rows(numbers)
    a_row("a", biz_code="Order")

    found = Task.objects.filter(search.containing(CODE, fragment, at_start=at_start))

    assert {task.biz_num for task in found} == expected
    assert {task.biz_code for task in found} <= {CODE}


@pytest.mark.parametrize(
    ("fragment", "expected"),
    [
        ("a", {"a", "A", "xA", "a.b"}),
        ("A", {"a", "A", "xA", "a.b"}),
        ("A.B", {"a.b"}),
        ("ä", {"xä", "Äx"}),
        ("Ä", {"xä", "Äx"}),
        ("ж", {"Жук"}),
        ("[", {"x[y"}),
        ("x\\", {"x\\y"}),
        ("100%", {"100%"}),
        ("(?i)", set()),
        ("^", set()),
        ("#-&~", {"#-&~"}),
        ("😀", {"x😀"}),
    ],
)
def test_pending_tasks_are_found_by_a_fragment_in_any_case(fragment, expected):
    numbers = ["a", "A", "xA", "a.b", "xä", "Äx", "Жук", "x[y", "x\\y", "100%", "#-&~", "x😀"]
    rows(numbers)
    a_row("a paused", status=PAUSED)

    found = search.pending_like(CODE, fragment, using="default")

    assert {task.biz_num for task in found} == expected


def test_pending_tasks_come_earliest_first():
    for seconds in (3, 1, 2):
        a_row(str(seconds), when=later(seconds))

    found = search.pending_like(CODE, "", using="default")

    assert [task.biz_num for task in found] == ["1", "2", "3"]
