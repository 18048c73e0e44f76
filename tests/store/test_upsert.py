"""Adding by key."""

import pytest
from django.db import DatabaseError, connection, transaction

from django_tasks.models import Task
from django_tasks.store.upsert import upsert, upsert_one
from django_tasks.values.conflicts import OnConflict
from django_tasks.values.status import OWNED, UNOWNED, Status
from tests.factories import CODE, NOW, WORKER, a_new, a_row, in_utc, later, table, the_row

pytestmark = pytest.mark.django_db

MODES = list(OnConflict)
GUARDED = [OnConflict.KEEP, OnConflict.EARLIEST, OnConflict.RAISE]


def add(new, on_conflict=OnConflict.REPLACE, now=NOW):
    return upsert_one(new, on_conflict, now, using="default")


def add_batch(news, on_conflict=OnConflict.REPLACE, now=NOW):
    return upsert(news, on_conflict, now, using="default")


@pytest.mark.parametrize("mode", MODES)
def test_a_new_key_is_a_pending_row_of_version_0(mode):
    new = a_new("9", when=later(60.000001), biz_ext='{"a": [1]}', queue="mail", priority=-3)

    stored, moved = add(new, mode, later(1))

    assert moved
    row = the_row("9")
    assert stored.pk == row.pk
    assert (row.status, row.version) == (Status.PENDING, 0)
    assert in_utc(row.when) == later(60.000001)
    assert (row.biz_ext, row.queue, row.priority) == ({"a": [1]}, "mail", -3)
    assert (row.attempts, row.rescues, row.last_error) == (0, 0, "")
    assert (row.claimed_by, row.claim_time, row.schedule) == (None, None, None)
    assert in_utc(row.create_time) == in_utc(row.update_time) == later(1)


@pytest.mark.parametrize("mode", MODES)
def test_what_an_add_returns_is_the_row_as_django_reads_it(mode):
    payload = '{"b": null, "a": "ü", "float": 1e20, "minus": -0.0}'
    stored, _ = add(a_new(biz_ext=payload, when=later(5)), mode)

    row = the_row()
    assert repr(stored.biz_ext) == repr(row.biz_ext)
    for field in Task._meta.concrete_fields:
        name = field.attname
        assert getattr(stored, name) == getattr(row, name), name
        assert type(getattr(stored, name)) is type(getattr(row, name)), name
    assert stored._state.db == "default"
    assert not stored._state.adding


@pytest.mark.parametrize("mode", MODES)
def test_no_payload_is_null_and_not_the_json_word(mode):
    add(a_new(), mode)

    assert Task.objects.filter(biz_ext__isnull=True).count() == 1


AFTER_ADD = {
    Status.PENDING: Status.PENDING,
    Status.RUNNING: Status.RUNNING,
    Status.FAILED: Status.PENDING,
    Status.PAUSED: Status.PAUSED,
    Status.CANCELLING: Status.RUNNING,
    Status.PAUSING: Status.PAUSING,
}


@pytest.mark.parametrize("old", list(Status))
@pytest.mark.parametrize("batch", [False, True], ids=["one", "batch"])
def test_adding_an_existing_key_replaces_everything_and_moves_the_version(old, batch):
    before = a_row(status=old, version=4, attempts=2, rescues=1, last_error="oops", biz_ext=1)
    new = a_new(when=later(60), biz_ext='{"n": 2}', queue="mail", priority=9)

    if batch:
        assert add_batch([new], now=later(2)) == {(CODE, "1")}
    else:
        _, moved = add(new, now=later(2))
        assert moved

    row = the_row()
    assert row.pk == before.pk
    assert (row.status, row.version) == (AFTER_ADD[old], 5)
    assert (in_utc(row.when), row.biz_ext) == (later(60), {"n": 2})
    assert (row.queue, row.priority) == ("mail", 9)
    assert in_utc(row.create_time) == NOW
    assert in_utc(row.update_time) == later(2)


@pytest.mark.parametrize("old", UNOWNED)
def test_adding_forgets_the_failures_of_an_unowned_row(old):
    a_row(status=old, attempts=2, rescues=1, last_error="oops")

    add(a_new())

    row = the_row()
    assert (row.attempts, row.rescues, row.last_error) == (0, 0, "")


@pytest.mark.parametrize("old", OWNED)
def test_adding_leaves_an_owned_row_its_owner_and_its_counters(old):
    before = a_row(status=old, attempts=2, rescues=1, last_error="oops")

    add(a_new())

    row = the_row()
    assert (row.attempts, row.rescues, row.last_error) == (2, 1, "oops")
    assert row.claimed_by == WORKER
    assert row.claim_time == before.claim_time


def unchanged(before):
    """Tell if the row is as it was, in every column."""
    row = Task.objects.get(pk=before.pk)
    return all(
        getattr(row, field.attname) == getattr(before, field.attname)
        for field in Task._meta.concrete_fields
    )


@pytest.mark.parametrize("old", [status for status in Status if status != Status.CANCELLING])
@pytest.mark.parametrize("mode", [OnConflict.KEEP, OnConflict.RAISE])
def test_keep_and_raise_leave_an_existing_row_alone(mode, old):
    before = a_row(status=old, version=4, attempts=2, biz_ext=1)
    before.refresh_from_db()

    stored, moved = add(a_new(when=later(-60), biz_ext="2"), mode, later(5))

    assert not moved
    assert unchanged(before)
    assert (stored.pk, stored.version, stored.biz_ext) == (before.pk, 4, 1)


@pytest.mark.parametrize("old", [status for status in Status if status != Status.CANCELLING])
@pytest.mark.parametrize(
    "when", [NOW, later(0.000001), later(60)], ids=["same", "microsecond", "minute"]
)
def test_earliest_leaves_a_row_that_is_not_later_alone(old, when):
    before = a_row(status=old, version=4, biz_ext=1)
    before.refresh_from_db()

    _, moved = add(a_new(when=when, biz_ext="2"), OnConflict.EARLIEST, later(5))

    assert not moved
    assert unchanged(before)


@pytest.mark.parametrize("old", list(Status))
@pytest.mark.parametrize("sooner", [0.000001, 0.123456, 86_400 * 365 * 40])
def test_earliest_moves_a_row_to_an_earlier_time(old, sooner):
    a_row(status=old, version=4, biz_ext=1)

    stored, moved = add(a_new(when=later(-sooner), biz_ext="2"), OnConflict.EARLIEST)

    assert moved
    row = the_row()
    assert (row.status, row.version, row.biz_ext) == (AFTER_ADD[old], 5, 2)
    assert in_utc(row.when) == in_utc(stored.when) == later(-sooner)


@pytest.mark.parametrize("mode", GUARDED)
@pytest.mark.parametrize("seconds", [-60, 0, 60])
def test_a_task_that_is_being_cancelled_counts_as_absent(mode, seconds):
    a_row(status=Status.CANCELLING, version=4, biz_ext=1)

    _, moved = add(a_new(when=later(seconds), biz_ext="2"), mode)

    assert moved
    row = the_row()
    assert (row.status, row.version, row.biz_ext) == (Status.RUNNING, 5, 2)
    assert row.claimed_by == WORKER


@pytest.mark.parametrize("mode", MODES)
def test_a_batch_answers_with_the_keys_that_it_inserted_or_moved(mode):
    a_row("there", when=later(-60))
    a_row("later", when=later(60))
    a_row("going", status=Status.CANCELLING, when=later(-60))
    news = [a_new(num) for num in ("there", "new", "going", "later")]

    moved = {num for _, num in add_batch(news, mode)}

    expected = {
        OnConflict.REPLACE: {"there", "later", "going", "new"},
        OnConflict.KEEP: {"going", "new"},
        OnConflict.EARLIEST: {"later", "going", "new"},
        OnConflict.RAISE: {"going", "new"},
    }
    assert moved == expected[mode]
    assert Task.objects.count() == 4


@pytest.mark.parametrize("mode", MODES)
def test_every_task_of_a_batch_gets_its_own_values(mode):
    news = [
        a_new(str(n), when=later(n), biz_ext=f"[{n}]", queue=f"q{n}", priority=n) for n in range(5)
    ]

    add_batch(list(reversed(news)), mode)

    for n in range(5):
        row = the_row(str(n))
        assert (in_utc(row.when), row.biz_ext) == (later(n), [n])
        assert (row.queue, row.priority) == (f"q{n}", n)


@pytest.mark.parametrize("mode", MODES)
def test_keys_that_differ_in_case_or_accent_are_different_tasks(mode):
    nums = [
        "a",
        "A",
        "á",
        "ä",
        "a b",
        "\uff41",
        "a%",
        "a_",
        "ß",
        "ss",
        "\u0131",
        "i",
        "I",
        "😀",
        "😁",
    ]

    for num in nums:
        _, moved = add(a_new(num), mode)
        assert moved
    for code in ("Order", "ordér"):
        add(a_new("a", biz_code=code), mode)

    assert set(Task.objects.filter(biz_code=CODE).values_list("biz_num", flat=True)) == set(nums)
    assert Task.objects.count() == len(nums) + 2
    assert {num for num in nums if the_row(num).biz_num == num} == set(nums)


@pytest.mark.parametrize("mode", MODES)
def test_the_largest_batch_is_stored(mode):
    news = [a_new(str(n)) for n in range(1000)]

    assert len(add_batch(news, mode)) == 1000
    assert Task.objects.count() == 1000


@pytest.mark.parametrize("mode", MODES)
def test_an_id_is_never_used_again(mode):
    first, _ = add(a_new(), mode)
    table().delete()

    second, _ = add(a_new(), mode)

    assert second.pk > first.pk


@pytest.mark.parametrize("mode", MODES)
def test_what_the_database_refuses_is_an_error_in_every_mode(mode):
    """And not something that is tried for ever."""
    statements = []

    def bounded(execute, sql, params, many, context):
        statements.append(sql)
        assert len(statements) < 20
        return execute(sql, params, many, context)

    with connection.execute_wrapper(bounded), pytest.raises(DatabaseError):
        add_broken(mode)


def add_broken(mode):
    with transaction.atomic():
        add(a_new(biz_ext="{this is no JSON"), mode)
