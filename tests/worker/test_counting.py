"""The counts of a worker: what is counted, when it is written, and what an error costs."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import DataError, OperationalError

from django_tasks.api import add_task
from django_tasks.models import TaskMinute
from django_tasks.monitoring.figures import (
    failures_by_exception,
    figures,
    figures_by_code,
    series,
    series_by_code,
)
from django_tasks.store import clock, minutes
from django_tasks.values.figures import NO_FIGURES, Figures
from django_tasks.values.outcomes import (
    DONE,
    LOST,
    Again,
    Fail,
    GiveBack,
    Reschedule,
    Retry,
    Settled,
    Unsettled,
)
from django_tasks.worker import counting
from django_tasks.worker.counting import MOST_EXCEPTIONS, Counts, Recorder
from django_tasks.worker.worker import Worker
from tests.factories import NOW
from tests.waiting import DEADLINE
from tests.worker.conftest import Register
from tests.worker.parts import CODE, USING, StillTicks, config

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


@pytest.fixture
def counts() -> Counts:
    return Counts(lambda: NOW)


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> StillTicks:
    ticks = StillTicks()
    monkeypatch.setattr(counting, "ticks", ticks)
    return ticks


def since_then(biz_code: str = "") -> Figures:
    return figures(NOW - HOUR, until=NOW + HOUR, biz_code=biz_code, using=USING)


def test_each_end_counts_under_its_word_but_those_that_are_none(counts: Counts) -> None:
    ends: list[tuple[Any, str]] = [
        (DONE, "done"),
        (Settled("rescheduled"), "rescheduled"),
        (Reschedule(NOW), "rescheduled"),
        (Reschedule(NOW, counts_as="skipped"), "skipped"),
        (Reschedule(NOW, counts_as="failed", exception="a.B"), "failed"),
        (Retry(NOW, "no", exception="a.B"), "retried"),
        (Fail("no", "c.D"), "failed"),
        (LOST, "lost"),
        (Unsettled(Retry(NOW, "no")), "retried"),
        (Unsettled(Again(NOW)), "retried"),
        (Again(NOW), "retried"),
        (GiveBack(), "given back"),
    ]
    with counts:
        for outcome, word in ends:
            counts.count(CODE, outcome, word, 0.5, 0.01)
        counts.count_rescued(CODE, "rescued")
        counts.count("other", DONE, "done")
    Recorder(USING, counts.take).write(1)
    found = since_then(CODE)
    assert found.outcomes == {
        "done": 1,
        "rescheduled": 2,
        "skipped": 1,
        "retried": 2,
        "failed": 2,
        "lost": 1,
        "rescued": 1,
    }
    assert (found.runs, found.failures) == (9, 5)
    assert found.late.total == found.took.total == 9  # nobody has timed the rescued one
    assert [group[:3] for group in failures_by_exception(NOW - HOUR, using=USING)] == [
        (CODE, "a.B", 2),
        (CODE, "c.D", 1),
    ]
    assert since_then("other").late.total == 0


def test_exceptions_without_number_are_counted_together(counts: Counts) -> None:
    with counts:
        for number in range(MOST_EXCEPTIONS + 30):
            counts.count(CODE, Fail("no", f"made.Up{number}"), "failed")
    Recorder(USING, counts.take).write(1)
    groups = failures_by_exception(NOW - HOUR, using=USING)
    assert len(groups) == MOST_EXCEPTIONS + 1
    assert groups[0][:3] == (CODE, "other", 30)


def test_it_writes_once_a_minute_and_nothing_when_idle(
    counts: Counts, still: StillTicks, django_assert_num_queries: Any
) -> None:
    recorder = Recorder(USING, counts.take)
    for second in range(1, 301):
        still.now += 1
        if second % 10 == 0 and second <= 120:
            with counts:
                counts.count(CODE, DONE, "done", 0.0, 0.0)
        with django_assert_num_queries(int(second in (60, 120))):
            recorder.write_if_due(1)
        assert recorder.seconds() <= 60
    assert since_then().runs == 12
    assert TaskMinute.objects.count() == 2


def test_what_the_database_did_not_take_is_written_later(
    counts: Counts, still: StillTicks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*args: Any, **kwargs: Any) -> None:
        raise OperationalError(2006, "Server has gone away")

    recorder = Recorder(USING, counts.take)
    with monkeypatch.context() as patch:
        patch.setattr(counting, "drop_connection", lambda using: None)
        patch.setattr(minutes, "add", down)
        for _ in range(3):
            with counts:
                counts.count(CODE, DONE, "done")
            still.now += 60
            recorder.write_if_due(1)
            assert recorder.seconds() <= counting.AFTER_ERROR_SECONDS
    still.now += counting.AFTER_ERROR_SECONDS
    recorder.write_if_due(1)
    assert since_then().runs == 3
    recorder.write(1)
    assert since_then().runs == 3


def test_what_the_database_refuses_for_good_is_given_up_and_said_once(
    counts: Counts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real, tried = minutes.add, []

    def picky(worker_id: int, rows: Any, **kwargs: Any) -> None:
        tried.append(len(rows))
        if any(row.exception for row in rows):
            raise DataError("value of that name")
        real(worker_id, rows, **kwargs)

    monkeypatch.setattr(counting, "drop_connection", lambda using: None)
    monkeypatch.setattr(minutes, "add", picky)
    recorder = Recorder(USING, counts.take)
    with counts:
        counts.count(CODE, Fail("no", "bad.Näme"), "failed")
    assert not recorder.finish(1)
    assert recorder.finish(1)
    assert tried == [2, 1]
    assert since_then().outcomes["failed"] == 1
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_worker_that_stops_waits_for_its_last_counts_but_not_for_ever(
    counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*args: Any, **kwargs: Any) -> None:
        raise OperationalError(2006, "Server has gone away")

    monkeypatch.setattr(counting, "drop_connection", lambda using: None)
    monkeypatch.setattr(minutes, "add", down)
    recorder = Recorder(USING, counts.take)
    assert recorder.finish(1)  # nothing was counted
    with counts:
        counts.count(CODE, DONE, "done")
    tries = 2
    while not recorder.finish(1):
        tries += 1
    assert tries == counting.MOST_TRIES


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("atomic", [False, True])
def test_a_worker_leaves_no_count_behind(register: Register, atomic: bool) -> None:
    def handle(task: Any) -> Any:
        if task.biz_num == "bad":
            raise ValueError("no")
        if task.biz_num == "again" and task.runs == 0:
            return timedelta(0)
        return None

    register(handle, atomic=atomic, max_attempts=1)
    for number in ("1", "2", "bad", "again"):
        add_task(CODE, number, when=timedelta(seconds=-2))
    worker = Worker(config(until_empty=True))
    worker.start()
    assert worker.join(DEADLINE)
    begun = clock.now(USING) - HOUR
    found = figures(begun, using=USING)
    counted = {outcome: count for outcome, count in found.outcomes.items() if count}
    assert counted == {"done": 3, "rescheduled": 1, "failed": 1}
    assert found.late.total == found.took.total == 5
    late = found.late.quantile(0.2)
    assert late is not None
    assert 0 <= late <= 15
    (group,) = failures_by_exception(begun, using=USING)
    assert (group.exception, group.times) == ("builtins.ValueError", 1)


def test_figures_of_codes_and_of_steps() -> None:
    first = minutes.minute_of(NOW)
    for minute, code in [(0, "a"), (0, "b"), (7, "a")]:
        counts = Counts(lambda minute=minute: NOW + timedelta(minutes=minute))  # type: ignore[misc]
        with counts:
            counts.count(code, DONE, "done", 0.0, 0.0)
        Recorder(USING, counts.take).write(1)
    found = figures_by_code(NOW - HOUR, until=NOW + HOUR, using=USING)
    assert {code: each.runs for code, each in found.items()} == {"a": 2, "b": 1}
    start = NOW - timedelta(minutes=first % 5)
    steps = series(start, start + timedelta(minutes=20), timedelta(minutes=5), using=USING)
    assert len(steps) == 4
    assert [each.runs for _, each in steps].count(0) == 2
    assert (steps[0][1].runs, steps[3][1]) == (2, NO_FIGURES)
    by_code = series_by_code(
        start, start + timedelta(minutes=20), timedelta(minutes=5), using=USING
    )
    assert [each.runs for _, each in by_code["b"]] == [1, 0, 0, 0]
    only = series(
        start, start + timedelta(minutes=5), timedelta(minutes=5), biz_code="b", using=USING
    )
    assert [each.runs for _, each in only] == [1]
