"""Steps for all tasks that match a filter."""

from datetime import timedelta
from typing import Any

import pytest

from django_tasks import signals
from django_tasks.client import changes
from django_tasks.client.changes import Piece, Step
from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.models import Task
from django_tasks.reads import filters
from django_tasks.reads.filters import TaskFilter
from django_tasks.reads.many import shift, steps
from django_tasks.values.status import Status
from tests.factories import NOW, a_row, in_utc, later, rows, table, the_row
from tests.worker.parts import heard

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("handlers", "now")]

PENDING, RUNNING, FAILED, PAUSED, CANCELLING, PAUSING = Status


@pytest.fixture(params=["few", "many"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two ways in which ids are found."""
    if request.param == "many":
        monkeypatch.setattr(changes, "FEW", 2)


def statuses() -> dict[str, Status]:
    return {num: Status(status) for num, status in table().values_list("biz_num", "status")}


@pytest.mark.usefixtures("size")
def test_batches_meet_each_task_once_and_say_how_to_go_on() -> None:
    rows(range(7), status=FAILED, when=later(99))
    a_row("waits", when=later(99))
    done = list(steps(TaskFilter(status=FAILED), Step.REQUEUE, batch_size=3))
    assert [(batch.seen, batch.changed, batch.left) for batch in done] == [
        (3, 3, 0),
        (3, 3, 0),
        (1, 1, 0),
    ]
    assert [batch.last_id for batch in done] == sorted(batch.last_id for batch in done)
    assert set(statuses().values()) == {PENDING}
    assert in_utc(the_row("6").when) == NOW
    assert in_utc(the_row("waits").when) == later(99)


@pytest.mark.usefixtures("size")
def test_another_call_goes_on_after_the_last_id() -> None:
    rows(range(5), when=later(99))
    first = next(steps(TaskFilter(code="order"), Step.RUN_NOW, batch_size=2))
    rest = list(steps(TaskFilter(code="order"), Step.RUN_NOW, after=first.last_id))
    assert [batch.seen for batch in (first, *rest)] == [2, 3]
    assert {in_utc(task.when) for task in Task.objects.all()} == {NOW}


@pytest.mark.parametrize(
    ("step", "after"),
    [
        (Step.RUN_NOW, {"p": PENDING, "r": RUNNING, "f": PENDING, "h": PENDING}),
        (Step.CANCEL, {"r": CANCELLING}),
        (Step.PAUSE, {"p": PAUSED, "r": PAUSING, "f": FAILED, "h": PAUSED}),
        (Step.RESUME, {"p": PENDING, "r": RUNNING, "f": FAILED, "h": PENDING}),
        (Step.REQUEUE, {"p": PENDING, "r": RUNNING, "f": PENDING, "h": PAUSED}),
        (Step.MOVE, {"p": PENDING, "r": RUNNING, "f": PENDING, "h": PAUSED}),
    ],
)
def test_each_step_is_that_of_one_task(step: Step, after: dict[str, Status]) -> None:
    a_row("p")
    a_row("r", status=RUNNING)
    a_row("f", status=FAILED)
    a_row("h", status=PAUSED)
    a_row("other", biz_code="other", status=FAILED)
    to = later(500) if step is Step.MOVE else None
    list(steps(TaskFilter(code="order"), step, to=to))
    assert statuses() == after | {"other": FAILED}
    if step is Step.MOVE:
        assert in_utc(the_row("h").when) == later(500)


def test_of_what_is_cancelled_the_running_ones_are_told_apart() -> None:
    a_row("p")
    a_row("r", status=RUNNING)
    (batch,) = steps(TaskFilter(code="order"), Step.CANCEL)
    assert batch[1:] == (2, 2, 0, 1)


@pytest.mark.usefixtures("size")
def test_what_does_not_match_any_more_is_left_alone() -> None:
    rows(range(4), status=FAILED)
    going = steps(TaskFilter(status=FAILED), Step.CANCEL, batch_size=2)
    next(going)
    table(biz_num="3").update(status=PENDING)
    last = list(going)
    assert sum(batch.changed for batch in last) == 1
    assert statuses() == {"3": PENDING}


def test_a_task_that_changes_between_look_and_write_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows(range(3), status=FAILED)
    real = changes._change

    def overtaken(*args: Any, **kwargs: Any) -> Any:
        table(biz_num="1").update(status=PENDING)
        return real(*args, **kwargs)

    monkeypatch.setattr(changes, "_change", overtaken)
    (batch,) = steps(TaskFilter(status=FAILED), Step.CANCEL)
    assert isinstance(batch, Piece)
    assert (batch.seen, batch.changed, batch.left) == (3, 2, 1)
    assert statuses() == {"1": PENDING}


@pytest.fixture
def eu(monkeypatch: pytest.MonkeyPatch) -> TaskFilter:
    """Numbers that begin with a part which others have within, in a code that is just too large.

    The ones that begin with it are a half: when they have gone the code is a small one.
    """
    monkeypatch.setattr(filters, "MOST_SEARCHED", 5)
    rows([*(f"eu-{number}" for number in range(4)), *(f"no-eu-{number}" for number in range(4))])
    return TaskFilter(code="order", search="eu-")


@pytest.fixture
def mail() -> TaskFilter:
    """A code, and numbers of another that begin with its name."""
    rows(range(3), biz_code="mail")
    rows(["mail-1", "mail-2"])
    return TaskFilter(search="mail")


@pytest.mark.usefixtures("size")
def test_a_code_that_gets_small_meanwhile_is_searched_as_before(eu: TaskFilter) -> None:
    done = list(steps(eu, Step.CANCEL, batch_size=2))
    assert sum(batch.changed for batch in done) == 4
    assert set(statuses()) == {f"no-eu-{number}" for number in range(4)}


@pytest.mark.usefixtures("size")
def test_a_code_that_gets_large_meanwhile_is_searched_as_before(eu: TaskFilter) -> None:
    table(biz_num__startswith="eu-").delete()
    going = steps(eu, Step.PAUSE, batch_size=2)
    next(going)
    rows(range(5))
    assert sum(batch.changed for batch in going) == 2
    paused = {number for number, status in statuses().items() if status == PAUSED}
    assert paused == {f"no-eu-{number}" for number in range(4)}


@pytest.mark.usefixtures("size")
def test_a_code_that_goes_meanwhile_is_not_taken_for_the_beginning_of_a_number(
    mail: TaskFilter,
) -> None:
    with heard(signals.tasks_changed) as told:
        done = list(steps(mail, Step.CANCEL, batch_size=2))
    assert sum(batch.changed for batch in done) == 3
    assert set(statuses()) == {"mail-1", "mail-2"}
    (fact,) = told
    assert fact["which"] == {"search": "mail", "search_as": "code"}


def test_a_move_by_a_length_keeps_to_the_code_that_was_meant(mail: TaskFilter) -> None:
    going = shift(mail, timedelta(hours=1), batch_size=2)
    next(going)
    table(biz_code="mail").delete()
    assert not list(going)
    assert {in_utc(row.when) for row in table()} == {NOW}


def test_a_move_by_a_length_keeps_to_the_part_of_a_number_that_was_meant(eu: TaskFilter) -> None:
    going = shift(eu, timedelta(hours=1), batch_size=2)
    next(going)
    table(biz_num__in=["eu-0", "eu-1", "eu-2"]).delete()
    assert sum(batch.changed for batch in going) == 1
    moved = {row.biz_num for row in table() if in_utc(row.when) != NOW}
    assert moved == {"eu-3"}


def test_one_signal_tells_of_all_batches_also_if_nobody_asks_for_the_last() -> None:
    rows(range(5), status=PAUSED)
    with heard(signals.tasks_changed) as told:
        going = steps(TaskFilter(status=PAUSED), Step.RESUME, batch_size=2)
        next(going), next(going)
        going.close()
    (fact,) = told
    assert (fact["change"], fact["count"], fact["which"]) == ("resumed", 4, {"status": "paused"})
    with heard(signals.tasks_changed) as told:
        assert not list(steps(TaskFilter(code="none"), Step.PAUSE))
    assert not told


@pytest.mark.parametrize(
    ("tasks", "step", "more"),
    [
        ({}, Step.CANCEL, {}),
        ({"code": "a"}, Step.MOVE, {}),
        ({"code": "a"}, Step.PAUSE, {"to": NOW}),
        ({"code": "a"}, Step.PAUSE, {"batch_size": 0}),
        ({"code": "a"}, Step.PAUSE, {"batch_size": 1001}),
    ],
)
def test_bad_input_is_refused_at_once(tasks: Any, step: Step, more: Any) -> None:
    with pytest.raises((TaskValueError, TaskTypeError)):
        steps(TaskFilter(**tasks), step, **more)


def test_all_that_failed_may_be_requeued() -> None:
    rows(range(3), status=FAILED)
    a_row("p")
    (batch,) = steps(TaskFilter(), Step.REQUEUE)
    assert batch.changed == 3
