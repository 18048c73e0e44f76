"""The promises of the docstrings of ``django_tasks.api``."""

import inspect
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from asgiref.sync import async_to_sync, iscoroutinefunction
from django.db import DEFAULT_DB_ALIAS, connection, transaction
from django.utils import timezone as django_timezone

from django_tasks import api, signals
from django_tasks.api import (
    CancelResult,
    OnConflict,
    TaskException,
    TaskExists,
    TaskHandler,
    TaskValueError,
    UnknownDatabase,
    add_task,
    add_tasks,
    cancel_task,
    delete_tasks,
    get_task,
    get_tasks_by_code,
    pause_task,
    requeue_task,
    reschedule_task,
    resume_task,
    run_task_now,
)
from django_tasks.client import adding, control, many, operating, pauses, queries, storing
from django_tasks.locks import locking
from django_tasks.models import Task
from django_tasks.store import clock
from django_tasks.values.status import OWNED, UNOWNED, Status
from django_tasks.wakeup import local
from tests.conftest import DEADLINE
from tests.factories import (
    CODE,
    NOW,
    UTC,
    a_claim,
    a_row,
    a_run,
    a_task,
    in_utc,
    later,
    rows,
    state,
    table,
    the_row,
    there_is,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("handlers")]

PENDING, RUNNING, FAILED, PAUSED, CANCELLING, PAUSING = Status
SHANGHAI = ZoneInfo("Asia/Shanghai")


@pytest.fixture
def heard(request):
    """Everything that a signal told, in order."""
    told = []

    def listen(signal):
        def receiver(sender, signal, **kwargs):
            told.append((sender, kwargs))

        signal.connect(receiver, weak=False)
        request.addfinalizer(lambda: signal.disconnect(receiver))
        return told

    return listen


@pytest.fixture
def rings():
    """The wake-ups of sleeping workers of this process."""
    heard = []
    wake = lambda overdue: heard.append(overdue)  # noqa: E731
    local.listen("default", wake)
    yield heard
    local.stop_listening("default", wake)


# add_task


def test_an_added_task_is_stored_and_returned_as_stored(now):
    stored = add_task(a_task(when=later(60), biz_ext={"a": 1}, queue="mail", priority=3))

    row = the_row()
    assert stored == row
    assert (in_utc(stored.when), stored.biz_ext) == (later(60), {"a": 1})
    assert (stored.queue, stored.priority, stored.status, stored.version) == ("mail", 3, PENDING, 0)
    assert in_utc(stored.create_time) == in_utc(stored.update_time) == now


def test_the_task_that_was_handed_in_is_left_as_it_was():
    task = a_task()
    before = dict(vars(task))

    add_task(task)
    add_tasks([task])

    assert dict(vars(task)) == before


def test_adding_again_moves_the_task_and_keeps_its_id():
    first = add_task(a_task(biz_ext=1))
    second = add_task(a_task(when=later(60), biz_ext=2))

    assert second.pk == first.pk
    assert (second.version, second.biz_ext, in_utc(second.when)) == (1, 2, later(60))
    assert second.create_time == first.create_time


def test_only_the_documented_fields_are_read(now):
    add_task(
        a_task(
            status=FAILED,
            version=9,
            attempts=5,
            rescues=3,
            claimed_by=7,
            claim_time=NOW,
            last_error="x",
            create_time=later(-9),
            update_time=later(-9),
        )
    )

    row = the_row()
    assert state() == (PENDING, 0, None)
    assert (row.attempts, row.rescues, row.last_error, row.claim_time) == (0, 0, "", None)
    assert in_utc(row.create_time) == in_utc(row.update_time) == now


def test_a_task_that_was_read_can_be_changed_and_added_again():
    add_task(a_task(biz_ext=1))
    task = get_task(CODE, "1")
    assert task is not None
    task.biz_ext = 2

    assert add_task(task).version == 1
    assert add_tasks([task]) == 1
    assert (the_row().version, the_row().biz_ext) == (2, 2)


def test_a_task_whose_row_has_gone_can_be_added_again():
    task = add_task(a_task())
    table().delete()

    again = add_task(task)

    assert again.pk != task.pk
    assert state() == (PENDING, 0, None)


def test_a_naive_time_is_taken_in_the_current_time_zone(settings):
    settings.USE_TZ = True
    with django_timezone.override(ZoneInfo("America/New_York")):
        stored = add_task(a_task(when=datetime(2030, 1, 1, 12)))

    assert stored.when == datetime(2030, 1, 1, 17, tzinfo=UTC)


@pytest.mark.parametrize("use_tz", [True, False])
def test_a_time_comes_back_as_django_gives_it(settings, use_tz):
    settings.USE_TZ, settings.TIME_ZONE = use_tz, "Asia/Shanghai"
    when = datetime(2030, 1, 1, 20, tzinfo=timezone(timedelta(hours=1)))

    stored = add_task(a_task(when=when))

    expected = when if use_tz else datetime(2030, 1, 2, 3)
    assert stored.when == the_row().when == expected
    found = get_tasks_by_code(CODE, when=expected)
    assert [task.when for task in found] == [expected]


def test_a_naive_time_is_stored_as_it_is_without_time_zones(settings):
    settings.USE_TZ = False

    add_task(a_task(when=datetime(2030, 1, 1, 12)))

    assert the_row().when == datetime(2030, 1, 1, 12)


class Mail(TaskHandler):
    biz_code, queue, priority = CODE, "mail", 7

    def handle(self, task):
        return None


def test_without_queue_and_priority_its_handlers_are_stored(handlers):
    handlers(Mail)

    stored = add_task(a_task())
    add_tasks([a_task("2")])

    for task in (stored, the_row("2")):
        assert (task.queue, task.priority) == ("mail", 7)


def test_the_tasks_own_queue_and_priority_win(handlers):
    handlers(Mail)

    stored = add_task(a_task(queue="own", priority=0))

    assert (stored.queue, stored.priority) == ("own", 0)


def test_without_a_handler_there_are_defaults():
    stored = add_task(a_task(biz_code="unknown"))

    assert (stored.queue, stored.priority) == ("default", 0)


def test_a_failed_task_that_is_added_waits_again_and_a_running_one_runs_again():
    a_row("failed", status=FAILED, attempts=5)
    a_claim("running")

    assert add_task(a_task("failed")).status == PENDING
    assert add_task(a_task("running")).status == RUNNING


@pytest.mark.parametrize("mode", [*OnConflict, "replace", "keep", "earliest", "raise"])
def test_every_mode_stores_what_is_new(mode):
    assert add_task(a_task("1"), on_conflict=mode).version == 0
    assert add_tasks([a_task("2"), a_task("3")], on_conflict=mode) == 2


def test_keep_returns_the_task_that_was_there():
    a_row(biz_ext="old", version=4)

    kept = add_task(a_task(biz_ext="new"), on_conflict="keep")

    assert (kept.biz_ext, kept.version) == ("old", 4)
    assert the_row().biz_ext == "old"


def test_earliest_moves_only_to_an_earlier_time():
    a_row(when=NOW)

    assert add_task(a_task(when=later(1)), on_conflict="earliest").version == 0
    assert add_task(a_task(when=later(-1)), on_conflict="earliest").version == 1


def test_raise_names_the_task_that_exists():
    a_row(biz_ext="old")

    with pytest.raises(TaskExists, match=r"biz_num.*order.*1") as caught:
        add_task(a_task(biz_ext="new"), on_conflict="raise")

    assert isinstance(caught.value, TaskValueError)
    assert (caught.value.field, caught.value.value, caught.value.index) == ("biz_num", "1", None)
    assert (the_row().biz_ext, the_row().version) == ("old", 0)


@pytest.mark.parametrize("mode", list(OnConflict))
def test_a_task_that_is_being_cancelled_counts_as_absent(mode):
    a_row(status=CANCELLING, when=later(-60))

    assert add_task(a_task(biz_ext="new"), on_conflict=mode).status == RUNNING
    assert the_row().biz_ext == "new"


# add_tasks


@pytest.mark.parametrize("batch_size", [1, 3, 500, 1000])
def test_many_tasks_are_stored_whatever_the_batch(batch_size):
    count = add_tasks((a_task(str(n), biz_ext=n) for n in range(10)), batch_size=batch_size)

    assert count == 10
    assert {row.biz_num: row.biz_ext for row in Task.objects.all()} == {
        str(n): n for n in range(10)
    }


def test_no_tasks_are_no_statement(queries):
    with queries() as captured:
        assert add_tasks([]) == 0
    assert not [query for query in captured.captured_queries if "t_task" in query["sql"]]


def test_of_a_key_that_comes_twice_the_last_one_wins():
    tasks = [a_task("1", biz_ext=n) for n in range(4)] + [a_task("2")]

    assert add_tasks(tasks, batch_size=1) == 2
    assert (the_row().biz_ext, the_row().version) == (3, 0)


def test_batches_count_what_was_inserted_or_moved():
    rows(["1", "2"])

    tasks = [a_task(str(n)) for n in range(5)]
    assert add_tasks(tasks, on_conflict="keep") == 3
    assert add_tasks(tasks, on_conflict="keep") == 0
    assert add_tasks(tasks, on_conflict="earliest") == 0
    assert add_tasks(tasks) == 5


@pytest.mark.parametrize("batch_size", [1, 2, 500])
def test_one_key_that_exists_refuses_all_of_a_batch_that_insists(batch_size):
    a_row("3", biz_ext="old")
    tasks = [a_task(str(n)) for n in (9, 3, 1, 7)]

    with pytest.raises(TaskExists, match=r"item 1.*'3'") as caught:
        add_tasks(tasks, on_conflict="raise", batch_size=batch_size)

    assert (caught.value.value, caught.value.index) == ("3", 1)
    assert [row.biz_ext for row in Task.objects.all()] == ["old"]


def test_what_the_iterable_raises_passes_and_nothing_is_stored():
    def tasks():
        yield a_task("1")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        add_tasks(tasks(), batch_size=1)
    assert not Task.objects.exists()


# Transactions


@pytest.mark.parametrize("mode", list(OnConflict))
def test_an_add_that_is_rolled_back_leaves_nothing(mode):
    a_row("there", biz_ext="old", when=later(60))

    def run():
        add_task(a_task(), on_conflict=mode)
        add_tasks([a_task("2"), a_task("3")], on_conflict=mode)
        if mode is not OnConflict.RAISE:
            add_task(a_task("there", biz_ext="new"), on_conflict=mode)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), transaction.atomic():
        run()

    assert [(row.biz_num, row.biz_ext) for row in Task.objects.all()] == [("there", "old")]


@pytest.mark.parametrize(
    "function",
    [cancel_task, pause_task, run_task_now, lambda c, n: reschedule_task(c, n, later(60))],
)
def test_what_is_rolled_back_did_not_happen(function):
    a_row()
    before = Task.objects.values().get()

    def run():
        function(CODE, "1")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), transaction.atomic():
        run()

    assert Task.objects.values().get() == before


def test_an_add_that_was_refused_does_not_spoil_the_callers_transaction():
    a_row()

    with transaction.atomic():
        a_row("before")
        with pytest.raises(TaskExists):
            add_task(a_task(), on_conflict="raise")
        with pytest.raises(TaskExists):
            add_tasks([a_task("new"), a_task()], on_conflict="raise", batch_size=1)
        with pytest.raises(TaskValueError):
            add_task(a_task(""))
        a_row("after")

    assert sorted(Task.objects.values_list("biz_num", flat=True)) == ["1", "after", "before"]


@pytest.mark.django_db(transaction=True)
def test_others_see_a_task_when_its_transaction_is_committed(elsewhere):
    with transaction.atomic():
        add_task(a_task())
        assert elsewhere(get_task, CODE, "1").result(DEADLINE) is None
    assert elsewhere(get_task, CODE, "1").result(DEADLINE) is not None


FIRST = {
    "add_task": lambda: add_task(a_task("new")),
    "add_task keep": lambda: add_task(a_task("new"), on_conflict="keep"),
    "add_task earliest": lambda: add_task(a_task("new"), on_conflict="earliest"),
    "add_task raise": lambda: add_task(a_task("new"), on_conflict="raise"),
    "add_tasks": lambda: add_tasks([a_task("new")]),
    "cancel_task": lambda: cancel_task(CODE, "1"),
    "delete_tasks": lambda: delete_tasks(CODE, "1"),
    "get_task": lambda: get_task(CODE, "1"),
    "get_runs": lambda: api.get_runs(CODE, "1"),
    "get_tasks_by_code": lambda: get_tasks_by_code(CODE, "1"),
    "reschedule_task": lambda: reschedule_task(CODE, "1", later(60)),
    "run_task_now": lambda: run_task_now(CODE, "1"),
    "pause_task": lambda: pause_task(CODE, "1"),
    "resume_task": lambda: resume_task(CODE, "2"),
    "requeue_task": lambda: requeue_task(CODE, "3"),
    "update_task": lambda: api.update_task(CODE, "1", timeout=5),
    "cancel_tasks": lambda: api.cancel_tasks(biz_code=CODE),
    "find_tasks": lambda: list(api.find_tasks(CODE)),
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", FIRST)
def test_every_function_may_be_the_first_that_a_process_does_with_its_database(elsewhere, name):
    """A thread's connection is opened by the first statement."""
    a_row("1")
    a_row("2", status=PAUSED)
    a_row("3", status=FAILED)
    a_run()

    assert elsewhere(FIRST[name]).result(DEADLINE)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", FIRST)
def test_every_function_works_in_a_transaction_that_the_caller_manages_by_hand(name):
    a_row("1")
    a_row("2", status=PAUSED)
    a_row("3", status=FAILED)
    a_run()
    before = list(Task.objects.order_by("pk").values())
    connection.ensure_connection()
    transaction.set_autocommit(False)
    try:
        assert FIRST[name]()
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)
    # sqlite3 commits at a savepoint when autocommit is off: Django's backend calls it a bug.
    if connection.vendor != "sqlite":
        assert list(Task.objects.order_by("pk").values()) == before


# Waking workers, telling listeners


DEBOUNCED: Any = {"task": Task(biz_code=CODE, biz_num="new"), "on_conflict": "debounce", "wait": 5}

WAKERS = {
    "add_task": lambda: add_task(a_task("new")),
    "add_task, debounced": lambda: add_task(**DEBOUNCED),
    "add_tasks": lambda: add_tasks([a_task("new")]),
    "reschedule_task": lambda: reschedule_task(CODE, "1", NOW),
    "run_task_now": lambda: run_task_now(CODE, "1"),
    "resume_task": lambda: resume_task(CODE, "2"),
    "requeue_task": lambda: requeue_task(CODE, "3"),
    "update_task": lambda: api.update_task(CODE, "1", when=NOW),
    "requeue_tasks": lambda: api.requeue_tasks(biz_code=CODE),
    "move_tasks": lambda: api.move_tasks(NOW, biz_code=CODE),
    "resume": lambda: api.resume(biz_code=CODE),
}


@pytest.mark.parametrize("name", WAKERS)
def test_workers_are_woken_when_the_transaction_is_committed(
    name, rings, django_capture_on_commit_callbacks
):
    a_row("1")
    a_row("2", status=PAUSED)
    a_row("3", status=FAILED)

    with django_capture_on_commit_callbacks() as callbacks:
        WAKERS[name]()
        assert rings == []
    for callback in callbacks:
        callback()

    assert rings


@pytest.mark.parametrize("name", [name for name in WAKERS if not name.startswith("add")])
def test_workers_sleep_on_when_nothing_changed(name, rings, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        assert not WAKERS[name]()
    assert rings == []


@pytest.mark.parametrize("mode", ["keep", "earliest"])
def test_workers_sleep_on_when_an_add_left_everything_as_it_was(
    mode, rings, django_capture_on_commit_callbacks, heard
):
    a_row()
    told = heard(signals.task_added)

    with django_capture_on_commit_callbacks(execute=True):
        add_task(a_task(), on_conflict=mode)
        add_tasks([a_task()], on_conflict=mode)

    assert rings == []
    assert told == []


@pytest.mark.parametrize(
    "fields", [{"task": a_task(biz_ext=1)}, DEBOUNCED], ids=["as it is", "debounced"]
)
def test_an_add_is_told_with_the_task_as_stored(fields, heard):
    told = heard(signals.task_added)

    stored = add_task(**fields)

    assert told == [(Task, {"task": stored, "using": "default"})]
    assert told[0][1]["task"] is stored


def test_an_add_of_many_wakes_workers_for_as_many(monkeypatch):
    woken = []
    monkeypatch.setattr(storing, "wake_workers", lambda *args: woken.append(args))
    add_tasks([a_task(str(number), when=later(number)) for number in range(3)])
    assert woken == [(NOW, "default", 3)]


def test_each_add_of_a_batch_is_told_with_the_task_as_stored(heard):
    told = heard(signals.task_added)

    add_tasks([a_task("1"), a_task("2")])

    tasks = [kwargs["task"] for _, kwargs in told]
    assert [(task.biz_num, task.queue, task.priority) for task in tasks] == [
        ("1", "default", 0),
        ("2", "default", 0),
    ]
    assert [task.pk for task in tasks] == [the_row("1").pk, the_row("2").pk]
    assert [(sender, kwargs["using"]) for sender, kwargs in told] == [(Task, "default")] * 2


def test_a_listener_that_raises_harms_nothing(request):
    def receiver(**kwargs):
        raise ZeroDivisionError

    signals.task_added.connect(receiver, weak=False)
    request.addfinalizer(lambda: signals.task_added.disconnect(receiver))

    add_task(a_task("1"))
    add_tasks([a_task("2")])

    assert there_is("1")
    assert there_is("2")


CHANGES = {
    "rescheduled": (PENDING, lambda number: reschedule_task(CODE, number, NOW)),
    "due now": (PENDING, lambda number: run_task_now(CODE, number)),
    "paused": (PENDING, lambda number: pause_task(CODE, number)),
    "resumed": (PAUSED, lambda number: resume_task(CODE, number)),
    "requeued": (FAILED, lambda number: requeue_task(CODE, number)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_told_with_its_kind(change, heard):
    status, make = CHANGES[change]
    told = heard(signals.task_changed)
    a_row(status=status)

    assert make("1")
    assert not make("nothing")

    facts = {"biz_code": CODE, "biz_num": "1", "change": change, "using": "default"}
    assert told == [(Task, facts)]


@pytest.mark.parametrize(("status", "result"), [(PENDING, "cancelled"), (RUNNING, "cancelling")])
def test_a_cancel_is_told_with_its_result(heard, status, result):
    told = heard(signals.task_cancelled)
    a_row(status=status)

    cancel_task(CODE, "1")
    cancel_task(CODE, "nothing")

    expected = {"biz_code": CODE, "biz_num": "1", "result": CancelResult(result)}
    assert told == [(Task, expected | {"using": "default"})]


@pytest.mark.parametrize("status", [PENDING, RUNNING])
def test_a_deletion_is_told_once_with_its_count(heard, status):
    told = heard(signals.tasks_cancelled)
    heard(signals.task_cancelled)  # which would stand among them
    for number in ("1", "x1", "2"):
        a_row(number, status=status)

    delete_tasks(CODE, "1", dry_run=True)
    delete_tasks(CODE, "1")
    delete_tasks(CODE, "nothing")

    facts = {"biz_code": CODE, "biz_num": "1", "match": "contains", "count": 2}
    assert told == [(Task, facts | {"using": "default"})]


# cancel_task, delete_tasks


@pytest.mark.parametrize("status", list(Status))
def test_cancelling_says_what_it_found(status):
    a_row(status=status)

    result = cancel_task(CODE, "1")

    assert result is (CancelResult.CANCELLING if status in OWNED else CancelResult.CANCELLED)
    assert there_is() == (status in OWNED)


def test_cancelling_what_is_not_there_says_so():
    a_row("2")

    assert cancel_task(CODE, "1") is CancelResult.NOT_FOUND
    assert cancel_task("other", "2") is CancelResult.NOT_FOUND
    assert there_is("2")


def test_a_cancel_result_is_a_string():
    assert {result.value for result in CancelResult} == {"cancelled", "cancelling", "not_found"}
    for result in CancelResult:
        assert result == result.value
        assert str(result) == f"{result}" == result.value


def test_only_a_cancel_that_found_nothing_is_false():
    a_row("1")
    a_row("2", status=Status.RUNNING)

    assert cancel_task(CODE, "1")
    assert cancel_task(CODE, "2")
    assert not cancel_task(CODE, "3")


def test_tasks_are_deleted_by_a_fragment_of_their_number():
    rows(["a1", "xa1", "A1", "b", "a%1"])
    a_row("a1", biz_code="other")

    assert delete_tasks(CODE, "a1") == 2
    assert sorted(Task.objects.values_list("biz_num", flat=True)) == ["A1", "a%1", "a1", "b"]


@pytest.mark.parametrize(
    ("match", "expected"),
    [("exact", {"a1"}), ("prefix", {"a1", "a12"}), ("contains", {"a1", "a12", "xa1"})],
)
def test_a_match_may_be_exact_or_a_prefix(match, expected):
    rows(["a1", "a12", "xa1", "A1"])

    assert delete_tasks(CODE, "a1", match=match, dry_run=True) == len(expected)
    assert Task.objects.count() == 4
    assert delete_tasks(CODE, "a1", match=match) == len(expected)
    assert {"a1", "a12", "xa1", "A1"} - expected == set(
        Task.objects.values_list("biz_num", flat=True)
    )


def test_deleting_cancels_what_runs_and_counts_it():
    for number, status in enumerate(Status):
        a_row(f"x{number}", status=status)

    assert delete_tasks(CODE, "x", dry_run=True) == 6
    assert delete_tasks(CODE, "x") == 6
    assert set(Task.objects.values_list("status", flat=True)) == {CANCELLING}
    assert Task.objects.count() == len(OWNED)


def test_deleting_what_is_not_there_is_0():
    assert delete_tasks(CODE, "x") == 0


# get_task, get_tasks_by_code


@pytest.mark.parametrize("status", list(Status))
def test_a_task_is_found_in_whatever_status(status):
    row = a_row(status=status)

    assert get_task(CODE, "1") == row


def test_no_task_is_none():
    a_row("A")

    assert get_task(CODE, "a") is None
    assert get_task("Order", "A") is None


def test_runs_are_those_of_the_key_the_last_one_first():
    for number, outcome in (("1", "retried"), ("1", "failed"), ("11", "lost"), ("a", "lost")):
        a_run(biz_num=number, outcome=outcome)
    a_run(biz_code="Order", outcome="lost")

    assert [run.outcome for run in api.get_runs(CODE, "1")] == ["failed", "retried"]
    assert [run.outcome for run in api.get_runs(CODE, "1", 1)] == ["failed"]
    assert api.get_runs(CODE, "1", limit=0) == api.get_runs(CODE, "A") == []


@pytest.mark.parametrize("limit", [-1, 2.5, "5", None, True])
def test_a_limit_that_is_no_number_is_refused(limit):
    with pytest.raises(TaskValueError, match="limit must be a whole number from 0"):
        api.get_runs(CODE, "1", limit)


def test_only_pending_tasks_of_exactly_the_code_are_listed_the_earliest_first():
    for number, status in enumerate(Status):
        a_row(str(number), status=status)
    a_row("first", when=later(-5))
    a_row("0", biz_code="Order")
    a_row("0", biz_code="orders")

    assert [task.biz_num for task in get_tasks_by_code(CODE)] == ["first", "0"]


def test_tasks_are_listed_by_a_fragment_in_any_case():
    rows(["aB1", "xAb", "ab", "b"])

    assert {task.biz_num for task in get_tasks_by_code(CODE, "Ab")} == {"aB1", "xAb", "ab"}
    assert not get_tasks_by_code(CODE, "a%")
    assert not get_tasks_by_code(CODE, ".")


def test_tasks_are_listed_by_their_time_or_else_those_that_are_later():
    for seconds in (0, 10, 20):
        a_row(str(seconds), when=later(seconds))

    def found(seconds, number=""):
        return [task.biz_num for task in get_tasks_by_code(CODE, number, later(seconds))]

    assert found(10) == ["10"]
    assert found(5) == ["10", "20"]
    assert found(9.999999) == ["10", "20"]
    assert found(21) == []
    assert found(0, "2") == ["20"]


def test_no_tasks_are_an_empty_list():
    assert not get_tasks_by_code("nothing")


# reschedule_task, run_task_now, pause_task, resume_task, requeue_task


@pytest.mark.parametrize("status", list(Status))
def test_every_task_can_be_moved_and_keeps_its_payload(status):
    a_row(status=status, biz_ext=[1])

    assert reschedule_task(CODE, "1", later(99)) is True
    row = the_row()
    assert (in_utc(row.when), row.biz_ext, row.version) == (later(99), [1], 1)
    after = {FAILED: PENDING, CANCELLING: RUNNING}
    assert row.status == after.get(status, status)


@pytest.mark.parametrize("status", list(Status))
def test_every_task_can_be_made_due_now(status, now):
    a_row(status=status, when=later(99))

    assert run_task_now(CODE, "1") is True
    assert in_utc(the_row().when) == now
    assert the_row().status == (RUNNING if status in OWNED else PENDING)


@pytest.mark.parametrize("status", list(Status))
def test_pausing_says_whether_it_changed_anything(status):
    a_row(status=status)

    expected = {PENDING: PAUSED, RUNNING: PAUSING}
    assert pause_task(CODE, "1") is (status in expected)
    assert the_row().status == expected.get(status, status)


@pytest.mark.parametrize("status", list(Status))
def test_resuming_says_whether_it_changed_anything(status):
    a_row(status=status)

    expected = {PAUSED: PENDING, PAUSING: RUNNING}
    assert resume_task(CODE, "1") is (status in expected)
    assert the_row().status == expected.get(status, status)


@pytest.mark.parametrize("status", list(Status))
def test_only_a_failed_task_is_requeued(status, now):
    a_row(status=status, attempts=5, when=later(-99))

    assert requeue_task(CODE, "1") is (status == FAILED)
    row = the_row()
    if status == FAILED:
        assert (row.status, row.attempts, in_utc(row.when)) == (PENDING, 0, now)
    else:
        assert (row.status, row.attempts, row.version) == (status, 5, 0)


def test_moving_what_is_not_there_is_false():
    assert reschedule_task(CODE, "1", NOW) is False
    for function in (run_task_now, pause_task, resume_task, requeue_task):
        assert function(CODE, "1") is False


def test_unowned_and_owned_are_all_there_is():
    assert {*OWNED, *UNOWNED} == set(Status)


# Databases


class Router:
    """Sends reads and writes of tasks to aliases of its own."""

    reads = writes = DEFAULT_DB_ALIAS

    def db_for_read(self, model, **hints):
        return self.reads

    def db_for_write(self, model, **hints):
        return self.writes


READERS = ["get_task", "get_runs", "get_tasks_by_code", "find_tasks"]


@pytest.fixture
def routed(settings):
    settings.DATABASE_ROUTERS = [Router()]
    return settings.DATABASE_ROUTERS[0]


@pytest.mark.parametrize("name", FIRST)
def test_the_router_decides_where_to_read_and_to_write(routed, name):
    kind = "reads" if name in READERS else "writes"
    setattr(routed, kind, "elsewhere")

    with pytest.raises(UnknownDatabase, match="elsewhere"):
        FIRST[name]()


def test_an_alias_wins_over_the_router(routed):
    routed.reads = routed.writes = "elsewhere"

    add_task(a_task(), using="default")
    assert add_tasks([a_task("2")], using="default") == 1
    assert get_task(CODE, "1", using="default")
    assert api.get_runs(CODE, "1", using="default") == []
    assert len(get_tasks_by_code(CODE, using="default")) == 2
    assert reschedule_task(CODE, "1", NOW, using="default")
    assert run_task_now(CODE, "1", using="default")
    assert pause_task(CODE, "1", using="default")
    assert resume_task(CODE, "1", using="default")
    assert not requeue_task(CODE, "1", using="default")
    assert cancel_task(CODE, "1", using="default") == "cancelled"
    assert delete_tasks(CODE, "2", using="default") == 1


# Async twins


# lock and alock are context managers, of the one and of the other kind: see test_locks.py.
TWINS = [name for name in api.__all__ if f"a{name}" in api.__all__ and name != "lock"]


def test_every_function_that_asks_the_database_has_an_async_twin():
    modules = (adding, control, locking, many, operating, queries, pauses)
    asking = {
        name
        for name, function in (item for each in modules for item in vars(each).items())
        if inspect.isfunction(function) and "using" in inspect.signature(function).parameters
    }
    # A queryset asks when it is read, and has async ways of its own to be read.
    assert {name for name in asking if name in api.__all__} - {"lock", "alock"} == {
        *TWINS,
        "find_tasks",
    }
    assert len(TWINS) == 26


@pytest.mark.parametrize("name", TWINS)
def test_a_twin_is_a_coroutine_function(name):
    assert iscoroutinefunction(getattr(api, f"a{name}"))


def test_the_twins_do_what_their_originals_do():
    async def day():
        stored = await api.aadd_task(a_task(when=later(60)), on_conflict="raise")
        assert await api.aadd_tasks([a_task("2")], batch_size=1) == 1
        assert await api.aget_task(CODE, "1") == stored
        assert len(await api.aget_tasks_by_code(CODE)) == 2
        assert await api.aget_runs(CODE, "1") == []
        assert await api.areschedule_task(CODE, "1", later(5))
        assert await api.apause_task(CODE, "1")
        assert await api.aresume_task(CODE, "1")
        assert await api.arun_task_now(CODE, "1")
        assert not await api.arequeue_task(CODE, "1")
        assert await api.acancel_task(CODE, "1") == "cancelled"
        assert await api.adelete_tasks(CODE, "2") == 1
        with pytest.raises(TaskValueError):
            await api.aadd_task(a_task(""))

    async_to_sync(day)()

    assert not Task.objects.exists()


# The face


def test_everything_that_is_promised_is_there():
    for name in api.__all__:
        assert getattr(api, name) is not None
    assert api.__all__ == sorted(api.__all__)


def test_every_error_is_of_the_family():
    errors = [
        value
        for name, value in vars(api).items()
        if inspect.isclass(value) and issubclass(value, Exception)
    ]
    assert len(errors) > 5
    assert all(issubclass(error, TaskException) for error in errors)


def test_a_task_is_shown_by_its_key():
    assert str(a_task("7")) == "order/7"


# The clients' clock


def test_the_clock_of_the_database_is_read_once_in_a_while(monkeypatch):
    from django_tasks.clock import ClockReading

    looks = []

    def read_clock(*, using):
        looks.append(using)
        return ClockReading(later(100 * len(looks)), ticks[0])

    ticks = [1000.0]
    monkeypatch.setattr(clock, "_readings", {})
    monkeypatch.setattr(clock, "read_clock", read_clock)
    monkeypatch.setattr(clock, "ticks", lambda: ticks[0])

    assert clock.now("default") == later(100)
    assert clock.now("default") == later(100)
    ticks[0] += 9.5
    assert clock.now("default") == later(109.5)
    ticks[0] += 1
    assert clock.now("default") == later(200)
    ticks[0] -= 0.1  # set back, as where a process is moved to another host
    assert clock.now("default") == later(300)
    assert looks == ["default"] * 3


def test_each_database_has_its_clock(monkeypatch):
    from django_tasks.clock import ClockReading
    from django_tasks.host import clocks

    monkeypatch.setattr(clock, "_readings", {})
    monkeypatch.setattr(
        clock, "read_clock", lambda using: ClockReading(later(len(using)), clocks.ticks())
    )

    assert abs(clock.now("a") - later(1)) < timedelta(seconds=1)
    assert abs(clock.now("abcde") - later(5)) < timedelta(seconds=1)
    assert abs(clock.now("a") - later(1)) < timedelta(seconds=1)
