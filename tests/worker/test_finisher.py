"""Claims that a worker holds, and the ends it has still to write."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from django.db import DatabaseError, DataError, IntegrityError, OperationalError, connections

from django_tasks import signals
from django_tasks.client.adding import add_task
from django_tasks.client.control import cancel_task, pause_task
from django_tasks.models import Task, TaskRun, WorkerRow
from django_tasks.store import claim as claims_of
from django_tasks.store import errors, rescue, runs
from django_tasks.store.claim import Claimer
from django_tasks.store.dialects.postgresql import PostgreSQL
from django_tasks.store.finish import Ended, finish
from django_tasks.values.claimed import Claimed
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
from django_tasks.values.runs import line_of
from django_tasks.values.status import Status
from django_tasks.wakeup import wake
from django_tasks.worker import finisher as module
from django_tasks.worker.finisher import Finisher
from django_tasks.worker.marks import Marks
from tests.factories import NOW, WORKER, a_lane, rows
from tests.worker.parts import USING, added, ahead, claimed, config, heard, joined, row, stored

pytestmark = pytest.mark.django_db

NEXT = datetime(2031, 1, 1, tzinfo=timezone.utc)


def now() -> datetime:
    return datetime.now(timezone.utc)


def holding(count: int = 1, **wishes: Any) -> tuple[Finisher, list[Claimed]]:
    """A finisher that holds claims of tasks 0, 1, 2 …"""
    membership = joined()
    for number in range(count):
        added(str(number))
    finisher = Finisher(config(**wishes), Marks())
    claims = sorted(claimed(membership.worker_id, limit=count), key=lambda each: int(each.biz_num))
    assert len(claims) == count
    finisher.hold(claims)
    return finisher, claims


def write(finisher: Finisher, claims: Sequence[Claimed], *outcomes: Outcome) -> None:
    finisher.add(Ended(*pair) for pair in zip(claims, outcomes, strict=True))
    finisher.write(now(), careful=False)


def taken_for_dead(worker_id: int) -> None:
    """Others fence a worker and rescue what it has."""
    WorkerRow.objects.filter(pk=worker_id).delete()
    rescue.rescue([worker_id], lambda row: 5, now(), using=USING)


def status(number: int) -> Status | None:
    found = row(str(number))
    return None if found is None else Status(found.status)


def test_each_outcome_changes_its_row_as_the_protocol_says() -> None:
    finisher, claims = holding(6)
    outcomes: list[Outcome] = [
        Done(),
        Reschedule(NEXT, '{"page": 2}'),
        Retry(NEXT, "once"),
        Fail("for good"),
        GiveBack(),
        Unsettled(Retry(NEXT, "no answer")),
    ]
    write(finisher, claims, *outcomes)
    assert [status(number) for number in range(6)] == [
        None,
        Status.PENDING,
        Status.PENDING,
        Status.FAILED,
        Status.PENDING,
        Status.PENDING,
    ]
    assert (stored("1").when, stored("1").biz_ext, stored("1").attempts) == (NEXT, {"page": 2}, 0)
    assert (stored("2").when, stored("2").last_error, stored("2").attempts) == (NEXT, "once", 1)
    assert (stored("3").last_error, stored("3").attempts) == ("for good", 1)
    assert stored("4").attempts == 0
    assert (stored("5").last_error, stored("5").attempts) == ("no answer", 1)
    assert {task.claimed_by for task in Task.objects.all()} == {None}
    assert finisher.is_empty()
    assert finisher.held_ids(claims[0].worker_id) == set()
    assert dict(finisher.counters) == {
        "done": 1,
        "rescheduled": 1,
        "retried": 2,
        "failed": 1,
        "given back": 1,
    }


def test_ends_are_held_until_they_are_written() -> None:
    finisher, claims = holding(2)
    owner = claims[0].worker_id
    assert finisher.held_ids(owner) == {claims[0].id, claims[1].id}
    finisher.add([Ended(claims[0], Done())])
    assert finisher.held_ids(owner) == {claims[0].id, claims[1].id}
    assert not finisher.is_empty()
    assert finisher.unwritten() == 1
    finisher.write(now(), careful=False)
    assert finisher.held_ids(owner) == {claims[1].id}
    assert finisher.unwritten() == 0


def test_an_end_that_wrote_itself_only_counts() -> None:
    finisher, claims = holding(1)
    with heard(signals.task_lost) as lost:
        finisher.add([Ended(claims[0], Settled())])
    assert finisher.is_empty()
    assert finisher.held_ids(claims[0].worker_id) == set()
    assert dict(finisher.counters) == {"done": 1}
    assert lost == []


def test_an_end_that_was_lost_is_told(caplog: pytest.LogCaptureFixture) -> None:
    finisher, claims = holding(1)
    with heard(signals.task_lost) as lost:
        finisher.add([Ended(claims[0], Lost())])
    assert lost == [{"sender": None, "task": claims[0], "using": USING}]
    assert dict(finisher.counters) == {"lost": 1}
    assert "job/0 was lost" in caplog.text


@pytest.mark.parametrize(
    "outcome", [Done(), Reschedule(NEXT), Retry(NEXT, "x"), Fail("x")], ids=repr
)
def test_the_end_of_a_run_whose_row_went_to_somebody_else_changes_nothing(
    outcome: Outcome,
) -> None:
    finisher, claims = holding(1)
    taken_for_dead(claims[0].worker_id)
    (theirs,) = claimed(joined().worker_id)
    before = Task.objects.values().get()
    with heard(signals.task_lost) as lost:
        write(finisher, claims, outcome)
    assert Task.objects.values().get() == before
    assert before["claimed_by"] == theirs.worker_id
    assert len(lost) == 1
    assert finisher.held_ids(claims[0].worker_id) == set()


@pytest.mark.parametrize("outcome", [GiveBack(), Unsettled(Retry(NEXT, "x"))], ids=repr)
def test_it_is_no_news_when_what_never_started_or_may_be_settled_does_not_match(
    outcome: Outcome,
) -> None:
    finisher, claims = holding(1)
    taken_for_dead(claims[0].worker_id)
    with heard(signals.task_lost) as lost:
        write(finisher, claims, outcome)
    assert lost == []
    assert finisher.counters["lost"] == 0


@pytest.mark.parametrize(
    "outcome",
    [Done(), Reschedule(NEXT, '"mine"'), Retry(NEXT, "x"), Fail("x"), GiveBack()],
    ids=repr,
)
def test_a_task_added_during_its_run_runs_again_as_it_was_added(outcome: Outcome) -> None:
    finisher, claims = holding(1)
    again = ahead()
    add_task(Task(biz_code="job", biz_num="0", when=again, biz_ext="theirs"))
    with heard(signals.task_lost) as lost:
        write(finisher, claims, outcome)
    task = stored("0")
    assert (task.status, task.when, task.biz_ext) == (Status.PENDING, again, "theirs")
    assert (task.attempts, task.rescues, task.claimed_by) == (0, 0, None)
    assert lost == []


@pytest.mark.parametrize(
    "outcome", [Done(), Reschedule(NEXT), Retry(NEXT, "x"), Fail("x"), GiveBack()], ids=repr
)
def test_a_task_cancelled_during_its_run_goes_whatever_its_end(outcome: Outcome) -> None:
    finisher, claims = holding(1)
    cancel_task("job", "0")
    write(finisher, claims, outcome)
    assert row("0") is None


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Done(), None),
        (Reschedule(NEXT), Status.PAUSED),
        (Retry(NEXT, "x"), Status.PAUSED),
        (Fail("x"), Status.FAILED),
        (GiveBack(), Status.PAUSED),
    ],
    ids=repr,
)
def test_a_task_paused_during_its_run_ends_paused(
    outcome: Outcome, expected: Status | None
) -> None:
    finisher, claims = holding(1)
    pause_task("job", "0")
    write(finisher, claims, outcome)
    assert status(0) == expected


# The same worker, the same row, twice


@pytest.mark.parametrize("outcome", [Settled(), Lost()], ids=repr)
def test_the_late_end_of_one_claim_does_not_let_go_of_the_next_one(outcome: Outcome) -> None:
    """An atomic run writes its next time itself; the poller may claim the task again before it
    collects that end. The second claim must stay held: what is not held is given back as a stray,
    while it runs."""
    finisher, (first,) = holding(1)
    finish([Ended(first, Reschedule(now() - timedelta(minutes=1)))], now(), using=USING)
    (second,) = claimed(first.worker_id)
    assert (second.id, second.worker_id) == (first.id, first.worker_id)
    finisher.hold([second])
    finisher.add([Ended(first, outcome)])
    assert finisher.held_ids(first.worker_id) == {second.id}


# When the database does not take an end, or is not there


def test_a_database_error_passes_and_all_ends_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    finisher, claims = holding(3)

    def down(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("gone away")

    with monkeypatch.context() as patch:
        patch.setattr(module, "finish", down)
        with pytest.raises(OperationalError):
            write(finisher, claims, Done(), Done(), Retry(NEXT, "x"))
    assert finisher.unwritten() == 3
    assert len(finisher.held_ids(claims[0].worker_id)) == 3
    finisher.write(now(), careful=False)
    assert [status(number) for number in range(3)] == [None, None, Status.PENDING]


def contention() -> OperationalError:
    """The driver's error when somebody holds a row locked: surely nothing was written."""
    error = OperationalError(1205, "database is locked")
    error.__cause__ = type("Cause", (Exception,), {"sqlstate": "55P03"})(1205, "is locked")
    return error


def test_a_lost_end_is_told_even_if_a_lock_held_it_up_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def locked(*args: Any, **kwargs: Any) -> None:
        raise contention()

    finisher, claims = holding(1)
    with monkeypatch.context() as patch:
        patch.setattr(module, "finish", locked)
        with pytest.raises(OperationalError):
            write(finisher, claims, Done())
    taken_for_dead(claims[0].worker_id)
    with heard(signals.task_lost) as lost:
        finisher.write(now(), careful=False)
    assert len(lost) == 1


def test_ends_are_written_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    finisher, claims = holding(7, batch_size=3)
    sizes: list[int] = []

    def counting(ended: Sequence[Ended], *args: Any, **kwargs: Any) -> Any:
        sizes.append(len(ended))
        return finish(ended, *args, **kwargs)

    monkeypatch.setattr(module, "finish", counting)
    write(finisher, claims, *[Done()] * 7)
    assert sizes == [3, 3, 1]
    assert not Task.objects.exists()


@pytest.mark.parametrize("late", [Again(NEXT), Retry(NEXT, "no answer")], ids=repr)
@pytest.mark.parametrize("outcome", [GiveBack(), Retry(NEXT, "x"), Done()], ids=repr)
def test_two_ends_of_one_row_are_told_apart(late: Again | Retry, outcome: Outcome) -> None:
    """The end of an atomic run was written, its answer was lost, and the row was claimed again
    before the thread had noticed: both ends come at once, and the second one counts."""
    finisher, first = holding(2)
    finish([Ended(first[0], Reschedule(now()))], now(), using=USING)
    (again,) = claimed(first[0].worker_id)
    assert again.id == first[0].id
    finisher.hold([again])
    ends = [
        Ended(first[0], Unsettled(late)),
        Ended(first[1], Retry(NEXT, "x")),
        Ended(again, outcome),
    ]
    with heard(signals.task_lost) as lost:
        finisher.add(ends)
        finisher.write(now(), careful=False)
    assert not lost
    assert finisher.is_empty()
    assert not finisher.held_ids(again.worker_id)
    assert status(0) == (None if outcome == Done() else Status.PENDING)
    kept = row("0")
    assert kept is None or kept.last_error == ("x" if isinstance(outcome, Retry) else "")
    assert finisher.counters["lost"] == 0


def refusing(bad: set[int], error: Exception, *, even_as_failed: bool = False) -> Any:
    """A ``finish`` for a database that cannot store some of the ends."""

    def refuse(ended: Sequence[Ended], *args: Any, **kwargs: Any) -> Any:
        for claim, outcome, *_ in ended:
            mended = isinstance(outcome, Fail) and not even_as_failed
            if claim.id in bad and not mended:
                raise error
        return finish(ended, *args, **kwargs)

    return refuse


def test_an_error_that_the_column_does_not_take_is_written_in_ascii(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ascii_only(ended: Sequence[Ended], *args: Any, **kwargs: Any) -> Any:
        for end in ended:
            outcome: Any = getattr(end.outcome, "otherwise", end.outcome)
            if not outcome.error.isascii():
                raise DataError("Incorrect string value")
        return finish(ended, *args, **kwargs)

    finisher, claims = holding(3)
    monkeypatch.setattr(module, "finish", ascii_only)
    retry = Retry(NEXT, "no 日")
    outcomes: list[Outcome] = [retry, Unsettled(retry), Reschedule(NEXT, error="no 日")]
    finisher.add(map(Ended, claims, outcomes))
    assert written_in(finisher, 20) is not None
    kept = [row(str(number)) for number in range(3)]
    assert [each and each.last_error for each in kept] == ["no \\u65e5"] * 3
    assert [status(number) for number in range(3)] == [Status.PENDING] * 3


@pytest.mark.parametrize(
    "error",
    [
        DataError("too long"),
        IntegrityError("check"),
        ValueError("NUL"),
        OverflowError("date"),
        AssertionError("1 row changed where 2 were locked"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("place", [0, 2, 4])
def test_an_end_that_no_database_takes_is_failed_and_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    place: int,
) -> None:
    finisher, claims = holding(5)
    monkeypatch.setattr(module, "finish", refusing({claims[place].id}, error))
    write(finisher, claims, *[Reschedule(NEXT)] * 5)
    wanted = [Status.PENDING] * 5
    wanted[place] = Status.FAILED
    assert [status(number) for number in range(5)] == wanted
    assert type(error).__name__ in stored(str(place)).last_error
    assert finisher.is_empty()
    assert f"The end of job/{place} could not be written" in caplog.text


def test_an_end_that_cannot_even_be_failed_is_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    finisher, claims = holding(3)
    refuse = refusing({claims[1].id}, DataError("no"), even_as_failed=True)
    monkeypatch.setattr(module, "finish", refuse)
    write(finisher, claims, *[Done()] * 3)
    assert [status(number) for number in range(3)] == [None, Status.RUNNING, None]
    assert finisher.is_empty()
    assert finisher.held_ids(claims[0].worker_id) == set()


# As long as an error is kept; so many of them are more than MariaDB's server takes at once.
LONG = "\U0001f600" * 10_000
MANY = 500


def many_claims_with_long_errors() -> list[Claimed]:
    for start in range(0, MANY, 100):  # in parts: Django's bulk_create does not split
        rows(range(start, start + 100), last_error=LONG)
    claims = claims_of.claim(Claimer(WORKER), a_lane(), NOW, MANY, using=USING)
    assert len(claims) == MANY
    return claims


@pytest.mark.parametrize(
    "outcome",
    [
        Retry(NEXT, LONG),
        Fail(LONG),
        Again(NEXT),
        GiveBack(),
        Unsettled(Retry(NEXT, LONG)),
        Reschedule(NEXT, f'"{LONG}"', error=LONG),
    ],
    ids=lambda outcome: type(outcome).__name__,
)
def test_many_ends_with_long_texts_are_written(outcome: Outcome) -> None:
    claims = many_claims_with_long_errors()
    finisher = Finisher(config(batch_size=1000), Marks())
    finisher.hold(claims)
    write(finisher, claims, *[outcome] * MANY)

    assert finisher.is_empty()
    assert not Task.objects.filter(status=Status.RUNNING).exists()
    assert not Task.objects.exclude(last_error=LONG).exists()
    assert finisher.counters == {outcome.counts_as: MANY}


def test_after_a_bad_end_others_go_in_batches_again(monkeypatch: pytest.MonkeyPatch) -> None:
    finisher, claims = holding(8)
    refuse = refusing({claims[1].id, claims[2].id}, DataError("no"))
    sizes: list[int] = []

    def counting(ended: Sequence[Ended], *args: Any, **kwargs: Any) -> Any:
        sizes.append(len(ended))
        return refuse(ended, *args, **kwargs)

    monkeypatch.setattr(module, "finish", counting)
    write(finisher, claims[:4], *[Done()] * 4)
    sizes.clear()
    write(finisher, claims[4:], *[Done()] * 4)
    assert sizes == [4]


# Statements that are always cut off


def cut_off(monkeypatch: pytest.MonkeyPatch) -> OperationalError:
    """The driver's error when its server has ended a statement that took too long."""
    monkeypatch.setattr(errors, "judge_of", lambda using: PostgreSQL(connections[using]))
    error = OperationalError("canceling statement due to statement timeout")
    error.__cause__ = type("Cause", (Exception,), {"sqlstate": "57014"})()
    return error


def written_in(finisher: Finisher, cycles: int) -> int | None:
    """The number of cycles until all ends were written; None: more than ``cycles``."""
    for cycle in range(1, cycles + 1):
        try:
            finisher.write(now(), careful=False)
        except OperationalError:
            continue
        return cycle
    return None


def test_a_batch_that_is_always_cut_off_is_halved_and_grows_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finisher, claims = holding(8)
    error, sizes = cut_off(monkeypatch), []

    def slow(ended: Sequence[Ended], *args: Any, **kwargs: Any) -> Any:
        sizes.append(len(ended))
        if len(ended) > 2:
            raise error
        return finish(ended, *args, **kwargs)

    monkeypatch.setattr(module, "finish", slow)
    finisher.add(Ended(claim, Done()) for claim in claims)
    assert written_in(finisher, 10) == 5
    assert sizes == [8, 4, 2, 4, 2, 4, 2, 2]
    assert finisher.counters == {"done": 8}
    assert not Task.objects.exists()


def test_an_end_that_is_cut_off_alone_fails_nobody_and_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finisher, claims = holding(4)
    error = cut_off(monkeypatch)
    monkeypatch.setattr(module, "finish", refusing({claims[0].id}, error))
    finisher.add(Ended(claim, Done()) for claim in claims)
    assert written_in(finisher, 20) is None
    assert [status(number) for number in range(4)] == [Status.RUNNING, None, None, None]
    assert finisher.unwritten() == 1
    monkeypatch.setattr(module, "finish", finish)
    assert written_in(finisher, 1) == 1
    assert finisher.counters == {"done": 4}


# Errors of no known kind


class Strange(DatabaseError):
    """Of a number that nobody knows: the world's, or of one end."""


def refusing_if(is_refused: Callable[[Sequence[Ended]], bool]) -> Any:
    def refuse(ended: Sequence[Ended], *args: Any, **kwargs: Any) -> Any:
        if is_refused(ended):
            raise Strange("what is this?")
        return finish(ended, *args, **kwargs)

    return refuse


def tries(finisher: Finisher, count: int) -> list[bool | None]:
    """The answers of ``write`` in so many cycles; None: the error passed."""
    answers: list[bool | None] = []
    for _ in range(count):
        try:
            answers.append(finisher.write(now(), careful=False))
        except Strange:
            answers.append(None)
    return answers


def test_an_end_that_is_refused_for_no_known_reason_does_not_keep_its_worker_from_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Only what else the worker claims can show if the database takes anything."""
    finisher, claims = holding(8)
    bad, *others = claims
    refuse = refusing_if(lambda ended: any(end[:2] == (bad, Done()) for end in ended))
    monkeypatch.setattr(module, "finish", refuse)
    finisher.add([Ended(bad, Done())])
    assert tries(finisher, 4) == [None, None, True, True]
    assert finisher.unwritten() == 1
    answers = []
    for other in others:
        finisher.add([Ended(other, Done())])
        answers.append(tries(finisher, 4))
    # The cycle in which it is taken for the culprit ends with its error, as those before.
    unfinished = [[None, None, True, True], [None, None, None, False]]
    assert answers == unfinished + [[False] * 4] * 5
    assert finisher.is_empty()
    assert [status(number) for number in range(8)] == [Status.FAILED, *[None] * 7]
    (said,) = [line for line in caplog.messages if "cannot be written" in line]
    assert said.startswith("1 end on default cannot be written (Strange: what is this?)")


def test_a_batch_of_an_odd_size_is_halved_too(monkeypatch: pytest.MonkeyPatch) -> None:
    finisher, claims = holding(7)
    sizes: list[int] = []

    def refuse(ended: Sequence[Ended], *args: Any, **kwargs: Any) -> Any:
        sizes.append(len(ended))
        raise Strange("what is this?")

    monkeypatch.setattr(module, "finish", refuse)
    finisher.add(Ended(claim, Done()) for claim in claims)
    tries(finisher, 6)
    assert sizes == [7, 7, 7, 3, 1, 1]


def test_a_database_that_comes_and_goes_with_a_strange_error_fails_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finisher, (first, second) = holding(2)
    monkeypatch.setattr(module, "finish", refusing_if(lambda ended: True))
    finisher.add([Ended(first, Done())])
    tries(finisher, 20)
    # It is there for a moment, and has gone again.
    of_first = refusing_if(lambda ended: any(end.claimed == first for end in ended))
    monkeypatch.setattr(module, "finish", of_first)
    finisher.add([Ended(second, Done())])
    tries(finisher, 5)
    assert status(1) is None
    assert finisher.unwritten() == 1
    monkeypatch.setattr(module, "finish", finish)
    assert tries(finisher, 1) == [False]
    assert status(0) is None
    assert finisher.counters == {"done": 2}


@pytest.mark.parametrize("error", [IntegrityError("t_task_run_pkey"), Strange("no privilege")])
def test_a_line_that_the_history_does_not_take_fails_no_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    def refuse(ended: Sequence[Ended], *args: Any, **kwargs: Any) -> Any:
        if any(end.line for end in ended):
            raise error
        return finish(ended, *args, **kwargs)

    finisher, claims = holding(8)
    monkeypatch.setattr(module, "finish", refuse)
    line = line_of(claims[0], Done(), now(), now(), worker="w")
    finisher.add([Ended(claims[0], Done(), line=line)])
    for other in claims[1:]:
        finisher.add([Ended(other, Done())])
        tries(finisher, 4)
    assert finisher.is_empty()
    assert [status(number) for number in range(8)] == [None] * 8
    assert finisher.counters == {"done": 8}
    assert f"{type(error).__name__}: {error}" in caplog.text


def test_an_end_that_had_to_be_failed_is_in_the_history_as_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finisher, claims = holding(1)
    monkeypatch.setattr(module, "finish", refusing({claims[0].id}, DataError("no")))
    write(finisher, claims, Reschedule(NEXT))
    (line,) = TaskRun.objects.all()
    assert (line.biz_num, line.outcome) == ("0", "failed")


def test_lines_of_lost_runs_that_the_history_does_not_take_hold_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise Strange("no privilege")

    finisher, claims = holding(1)
    taken_for_dead(claims[0].worker_id)
    monkeypatch.setattr(runs, "record", refuse)
    write(finisher, claims, Retry(NEXT, "x"))
    assert finisher.is_empty()


def test_a_receiver_of_task_lost_that_raises_harms_nothing() -> None:
    def receive(**_: Any) -> None:
        raise RuntimeError("receiver")

    finisher, claims = holding(2)
    taken_for_dead(claims[0].worker_id)
    signals.task_lost.connect(receive)
    try:
        write(finisher, claims, Done(), Done())
    finally:
        signals.task_lost.disconnect(receive)
    assert finisher.counters["lost"] == 2
    assert finisher.is_empty()


def test_what_was_given_back_is_offered_to_other_workers_once_it_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offers: list[int] = []

    def offer(tasks: int, *, using: str) -> None:
        assert status(0) is status(1) is Status.PENDING
        offers.append(tasks)

    monkeypatch.setattr(wake, "offer", offer)
    finisher, claims = holding(2)
    finisher.give_back(claims)
    assert not offers
    finisher.write(now(), careful=False)
    finisher.write(now(), careful=False)
    assert offers == [2]
