"""The counts of a worker: what is counted, when it is written, and what an error costs."""

from collections.abc import Iterator
from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from django.db import DataError, OperationalError, connections
from django.db.models import Sum

from django_tasks import api
from django_tasks.api import add_task
from django_tasks.models import Task, TaskMinute
from django_tasks.reads.figures import (
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
from django_tasks.worker import counting, embedded
from django_tasks.worker import worker as workers
from django_tasks.worker.counting import MOST_EXCEPTIONS, Counts, Recorder
from django_tasks.worker.worker import Worker
from tests.factories import NOW
from tests.waiting import DEADLINE, eventually
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


class Unwalked(dict[Any, Any]):
    """A dict that must not be walked through: it may hold thousands, and ends come all the time."""

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("walked through")


def test_an_end_is_counted_without_a_look_at_all_the_others(counts: Counts) -> None:
    counts._tallies = Unwalked()
    with counts:
        counts.count(CODE, Fail("no", "a.B"), "failed")
    assert [row.exception for row in counts.take()] == ["", "a.B"]


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


def test_who_asks_has_the_counts_written_before_the_minute_is_over(
    counts: Counts, still: StillTicks
) -> None:
    recorder = Recorder(USING, counts.take)
    with counts:
        counts.count(CODE, DONE, "done")
    written = recorder.hurry()
    recorder.write_if_due(1)
    assert written.is_set()
    assert since_then().runs == 1
    assert recorder.seconds() == counting.WRITE_SECONDS


def test_who_asks_during_a_write_has_what_came_meanwhile_written_by_the_next(
    counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, asked = minutes.add, list[Event]()

    def slow(*args: Any, **kwargs: Any) -> None:
        if not asked:
            with counts:
                counts.count(CODE, DONE, "done")
            asked.append(recorder.hurry())
        real(*args, **kwargs)

    monkeypatch.setattr(minutes, "add", slow)
    recorder = Recorder(USING, counts.take)
    with counts:
        counts.count(CODE, DONE, "done")
    recorder.write(1)
    assert not asked[0].is_set()
    recorder.write_if_due(1)
    assert asked[0].is_set()
    assert since_then().runs == 2


def test_who_asks_in_an_outage_is_answered_after_a_while_and_nothing_is_lost(
    counts: Counts, still: StillTicks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*args: Any, **kwargs: Any) -> None:
        raise OperationalError(2006, "Server has gone away")

    recorder = Recorder(USING, counts.take)
    with counts:
        counts.count(CODE, DONE, "done")
    written, tries = recorder.hurry(), 0
    with monkeypatch.context() as patch:
        patch.setattr(counting, "drop_connection", lambda using: None)
        patch.setattr(minutes, "add", down)
        while not written.is_set():
            assert tries < counting.MOST_TRIES
            assert recorder.seconds() <= counting.HURRY_SECONDS
            recorder.write_if_due(1)
            tries += 1
    assert recorder.seconds() == counting.AFTER_ERROR_SECONDS
    recorder.write(1)
    assert since_then().runs == 1


# A stop with a run that does not end


@pytest.fixture
def gate() -> Iterator[Event]:
    """Opened, it lets the runs of "long" end."""
    gate = Event()
    yield gate
    gate.set()
    assert embedded.stop_workers(timeout=DEADLINE)


@pytest.fixture
def busy(register: Register, gate: Event) -> None:
    """A worker of this process has done 50 tasks, and runs a long one."""
    entered = Event()

    def handle(task: Any) -> None:
        entered.set()
        assert gate.wait(DEADLINE)

    register(lambda task: None)
    register(handle, "long")
    add_task("long", "1")
    for number in range(50):
        add_task(CODE, str(number))
    api.start(threads=2, poll_interval=0.05, shutdown_timeout=0.1)
    assert entered.wait(DEADLINE)
    (worker,) = embedded._workers
    # Not before they are counted: their rows are gone a moment earlier.
    eventually(lambda: worker.runs() == 50, "all others are done")
    assert codes() == {"long"}


def codes() -> set[str]:
    return set(Task.objects.values_list("biz_code", flat=True))


def done() -> dict[str, int]:
    """The number of runs that are counted as done, by code."""
    return dict(TaskMinute.objects.values_list("biz_code").annotate(Sum("done")))


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("busy")
def test_a_stop_writes_the_counts_when_it_begins() -> None:
    assert done() == {}
    assert not api.shutdown(wait=False)
    eventually(lambda: done() == {CODE: 50}, "the counts are written, while a task still runs")


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("busy")
def test_a_stop_that_was_given_up_neither_loses_nor_doubles_a_count(gate: Event) -> None:
    for _ in range(3):
        assert not api.shutdown(timeout=0.05)
    gate.set()
    assert api.shutdown(timeout=DEADLINE)
    assert done() == {CODE: 50, "long": 1}


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("busy")
def test_what_is_counted_until_the_process_ends_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The counts before it says what it abandons, beside that; the rest afterwards."""
    monkeypatch.setattr(workers, "LAST_SECONDS", DEADLINE)
    (worker,) = embedded._workers
    counts = worker._poller.counts

    def forgive() -> None:
        eventually(lambda: done() == {CODE: 50}, "the counts are written meanwhile")
        with counts:
            counts.count(CODE, DONE, "done")
        connections.close_all()

    monkeypatch.setattr(worker, "_forgive", forgive)
    worker.abandon()
    worker.abandon()  # of a second thread, once the first one hangs
    assert done() == {CODE: 51}


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("busy")
def test_a_worker_whose_poller_dies_leaves_no_count_behind(
    gate: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    (worker,) = embedded._workers

    def die() -> float:
        raise SystemExit("a defect")

    monkeypatch.setattr(worker._poller, "run_once", die)
    eventually(lambda: worker.failed, "its poller has died")
    gate.set()
    assert worker.join(DEADLINE)
    assert done() == {CODE: 50}


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
