"""Counted minutes: rows are added, merged and deleted, and no sum is ever another one."""

from typing import Any

import pytest

from django_tasks.models import TaskMinute
from django_tasks.store import minutes
from django_tasks.store.minutes import (
    HOUR,
    Counted,
    add,
    mark,
    marks,
    merge_hours,
    merge_old,
    merge_workers,
    minute_of,
)
from django_tasks.values.figures import COLUMNS, COUNTED, Tally
from tests.conftest import DEADLINE, Elsewhere
from tests.factories import NOW
from tests.plans import analyze

pytestmark = pytest.mark.django_db

USING = "default"
THEN = minute_of(NOW) - minute_of(NOW) % HOUR  # the beginning of an hour


def counted(minute: int = THEN, code: str = "mail", exception: str = "", **counts: Any) -> Counted:
    return Counted(minute, code, exception, [counts.get(name, 0) for name in COLUMNS])


def total(**which: Any) -> dict[str, float]:
    found = minutes.sums(0, THEN + 10**6, using=USING, **which)
    values = found[0][2] if found else [0.0] * len(COLUMNS)
    return {name: value for name, value in zip(COLUMNS, values, strict=True) if value}


def spans() -> list[tuple[int, int]]:
    return sorted(TaskMinute.objects.values_list("minute", "span"))


@pytest.mark.parametrize("count", [1, 9, minutes.AT_ONCE + 1])
def test_what_is_added_is_summed(count: int) -> None:
    tally = Tally()
    tally.count_run("done", 0.1, 20.0)
    tally.count_run("failed", 9000.0, 0.0)
    tally.count("rescued")
    add(7, [Counted(THEN, "mail", "", tally.values)] * count, using=USING)
    assert total() == {
        "done": count,
        "failed": count,
        "rescued": count,
        "late_1": count,
        "late_9": count,
        "took_6": count,
        "took_0": count,
        "late_sum": pytest.approx(9000.1 * count),
        "took_sum": pytest.approx(20.0 * count),
    }
    assert set(TaskMinute.objects.values_list("worker", "span")) == {(7, 1)}


def test_one_statement_writes_a_minute_of_many_codes(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        add(1, [counted(code=f"code {n}", done=1) for n in range(100)], using=USING)


def test_sums_are_for_a_time_a_code_and_by_steps() -> None:
    add(1, [counted(THEN + n, done=1) for n in range(10)], using=USING)
    add(2, [counted(THEN + 3, "push", done=5)], using=USING)
    add(2, [counted(THEN + 3, "push", "builtins.ValueError", failed=4)], using=USING)
    assert total() == {"done": 15}  # what was counted by exception is in it already
    assert total(biz_code="push") == {"done": 5}

    def done(first: int, last: int, **how: Any) -> list[tuple[str, int, float]]:
        found = minutes.sums(THEN + first, THEN + last, using=USING, **how)
        return sorted((code, at - THEN if at else 0, values[0]) for code, at, values in found)

    assert done(2, 4) == [("", 0, 7)]
    assert done(0, 10, step=5) == [("", 0, 10), ("", 5, 5)]
    assert done(0, 10, by_code=True) == [("mail", 0, 10), ("push", 0, 5)]
    assert done(2, 4, by_code=True, step=2) == [("mail", 2, 2), ("push", 2, 5)]
    assert done(20, 30, by_code=True) == []


def test_failures_are_told_apart_by_exception() -> None:
    rows = [
        counted(THEN, "mail", "a.B", failed=1),
        counted(THEN + 5, "mail", "a.B", retried=2),
        counted(THEN + 2, "mail", "c.D", rescued=1),
        counted(THEN + 1, "push", "a.B", failed=9),
        counted(THEN + 1, "push", "", failed=9, done=1),
    ]
    add(1, rows, using=USING)
    assert minutes.failures(THEN, using=USING) == [
        ("push", "a.B", 9, THEN + 1, THEN + 1),
        ("mail", "a.B", 3, THEN, THEN + 5),
        ("mail", "c.D", 1, THEN + 2, THEN + 2),
    ]
    assert minutes.failures(THEN + 6, using=USING) == []


def test_the_minutes_of_an_hour_are_merged_once_it_is_over() -> None:
    for worker in range(3):
        rows = [counted(THEN + n, f"code {n % 2}", done=n, took_sum=1) for n in range(HOUR)]
        add(worker, rows, using=USING)
    add(
        1, [counted(THEN + HOUR, done=1), counted(THEN + 1, "code 0", "a.B", failed=2)], using=USING
    )
    before = total()
    for moment in (THEN, THEN + HOUR - 1):
        assert not merge_hours(moment, using=USING)
    assert merge_hours(THEN + HOUR + 1, using=USING)
    assert not merge_hours(THEN + HOUR + 1, using=USING)
    assert total() == before
    assert total(biz_code="code 1") == {"done": 3 * sum(range(1, HOUR, 2)), "took_sum": 90}
    assert spans() == [(THEN, HOUR)] * 3 + [(THEN + HOUR, 1)]
    assert minutes.failures(THEN, using=USING) == [("code 0", "a.B", 2, THEN, THEN + HOUR - 1)]


def test_the_rows_of_all_workers_are_merged_after_some_minutes() -> None:
    for worker in range(1, 4):
        rows = [counted(THEN + n, f"code {n % 2}", done=n) for n in range(10)]
        add(worker, [*rows, counted(THEN, "code 0", "a.B", failed=1)], using=USING)
    before, failed = total(), minutes.failures(THEN, using=USING)
    assert merge_workers(THEN + 8, using=USING)
    assert not merge_workers(THEN + 8, using=USING)
    assert (total(), minutes.failures(THEN, using=USING)) == (before, failed)
    found = TaskMinute.objects.values_list("worker", flat=True)
    assert sorted(found) == [0] * 9 + [1, 1, 2, 2, 3, 3]
    assert sum(values[0] for _, at, values in minutes.sums(THEN + 3, THEN + 4, using=USING)) == 9
    merge_hours(THEN + HOUR, using=USING)
    assert total() == before


def test_an_hour_of_many_rows_is_merged_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minutes, "AT_ONCE", 10)
    add(1, [counted(THEN + n % HOUR, done=1) for n in range(35)], using=USING)
    pieces = 0
    while merge_hours(THEN + HOUR, using=USING):
        pieces += 1
    assert pieces == 4
    assert total() == {"done": 35}
    assert TaskMinute.objects.filter(span=1).count() == 0


def many(minute: int, codes: int = 4) -> list[Counted]:
    """The counts of some codes, two of which have failures."""
    rows = [counted(minute, f"code {n}", done=1) for n in range(codes)]
    return rows + [counted(minute, f"code {n}", "a.B", failed=1) for n in range(2)]


def test_a_piece_of_an_hour_goes_through_one_code_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else each piece would leave a row of each code."""
    monkeypatch.setattr(minutes, "AT_ONCE", 50)
    groups, pieces = len(many(0)), 0
    for n in range(HOUR):
        add(1, many(THEN + n), using=USING)
    while merge_hours(THEN + HOUR, using=USING):
        pieces += 1
    assert pieces == -(-groups * HOUR // 50)
    assert groups <= TaskMinute.objects.count() <= groups + pieces - 1
    assert total() == {"done": 4 * HOUR}
    assert [each.times for each in minutes.failures(THEN, using=USING)] == [HOUR, HOUR]


def test_a_piece_of_all_workers_does_so_in_each_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minutes, "AT_ONCE", 7)
    groups, pieces = len(many(0)), 0
    for worker in range(1, 5):
        add(worker, many(THEN), using=USING)
    while merge_workers(THEN + 1, using=USING):
        pieces += 1
    assert pieces == 4
    assert groups <= TaskMinute.objects.count() <= groups + pieces - 1
    assert total() == {"done": 16}


def test_rows_of_workers_that_come_an_hour_late_wait_for_the_merge_of_their_hour() -> None:
    for worker in (1, 2):
        add(worker, [counted(done=1)], using=USING)
    assert not merge_workers(THEN + HOUR + 1, using=USING)
    assert merge_workers(THEN + HOUR, using=USING)


def test_counts_that_come_late_are_added_to_a_merged_hour() -> None:
    add(1, [counted(done=1)], using=USING)
    assert merge_hours(THEN + HOUR, using=USING)
    add(2, [counted(done=2)], using=USING)
    assert merge_hours(THEN + HOUR, using=USING)
    assert total() == {"done": 3}
    assert spans() == [(THEN, HOUR)] * 2


def test_what_is_old_becomes_one_row_of_each_code_for_ever() -> None:
    for hour in range(5):
        add(1, [counted(THEN + hour * HOUR, code, done=1) for code in "ab"], using=USING)
    add(1, [counted(THEN, "a", "a.B", failed=1)], using=USING)
    before = total()
    for last in (1, 3, 4):
        assert merge_old(THEN + last * HOUR, using=USING)
        assert not merge_old(THEN + last * HOUR, using=USING)
        assert total() == before
        assert spans()[:3] == [(0, 0), (0, 0), (THEN + last * HOUR, 1)]
    assert total(biz_code="a") == {"done": 5}
    assert minutes.failures(0, using=USING) == []


@pytest.mark.django_db(transaction=True)
def test_two_that_merge_the_same_hour_count_it_once(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them reads, and the other one has merged before it deletes."""
    add(1, [counted(THEN + n, done=1) for n in range(9)], using=USING)
    real = minutes._merge

    def late(*args: Any) -> bool:
        if not TaskMinute.objects.filter(span=HOUR).exists():
            monkeypatch.undo()
            assert elsewhere(merge_hours, THEN + HOUR, using=USING).result(DEADLINE)
        return real(*args)

    monkeypatch.setattr(minutes, "_merge", late)
    assert not merge_hours(THEN + HOUR, using=USING)
    assert total() == {"done": 9}
    assert spans() == [(THEN, HOUR)]


def test_numbers_beyond_32_bits_are_stored() -> None:
    big: dict[str, Any] = dict.fromkeys(COUNTED, 2**40)
    add(1, [counted(**big)], using=USING)
    merge_old(THEN + 1, using=USING)
    assert set(total().values()) == {2**40}


@pytest.mark.django_db(transaction=True)  # ANALYZE commits on MariaDB and MySQL
def test_the_time_alone_finds_what_is_summed() -> None:
    add(1, [counted(THEN + n, done=1) for n in range(2000)], using=USING)
    analyze("t_task_minute")
    explained = TaskMinute.objects.filter(minute__gte=THEN + 1990, minute__lt=THEN + 1995).explain()
    assert "t_task_minute_time" in explained


@pytest.mark.django_db(transaction=True)
def test_the_marks_read_their_index_and_nothing_of_failures() -> None:
    of_failures = [counted(THEN + n, exception="Boom", failed=1) for n in range(2000)]
    add(1, [*of_failures, counted(THEN + 5, done=1), counted(THEN + 9, done=1)], using=USING)
    analyze("t_task_minute")
    assert mark(THEN + 9, using=USING).rows == 1
    assert {at: each.rows for at, each in marks(THEN + 6, using=USING).items()} == {THEN + 9: 1}
    asked = TaskMinute.objects.filter(exception="", minute__gte=THEN, minute__lt=THEN + 9)
    assert "t_task_minute_mark" in asked.values("id").explain()
