"""A handler that does things twice is found, and told by statement and row."""

import asyncio
import logging
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.core import mail
from django.db import models, transaction
from django.utils.translation import activate, get_language

from django_tasks import logs
from django_tasks.api import (
    HandlerError,
    RunningTask,
    Task,
    TaskHandler,
    TaskValueError,
    add_task,
    cancel_tasks,
    find_tasks,
    get_task,
    pause_tasks,
)
from django_tasks.models import WorkerRow
from django_tasks.testing import NotClaimed, captured_tasks, crash_test, running_task
from testproject.shop.models import Order, Partner, Product

pytestmark = [
    pytest.mark.django_db,
    # Of Django 6.1, to projects without its new setting.
    pytest.mark.filterwarnings("ignore:Django 2028 will not have a default mailer"),
]

TASK = Task(biz_code="job", biz_num="1")


@pytest.fixture
def product() -> Product:
    return Product.objects.create(name="lamp", price=Decimal(9), stock=10)


def handler(function: Any, **members: Any) -> TaskHandler:
    method = "handle_batch" if members.get("batch") else "handle"
    members = {"biz_code": "job", method: staticmethod(function), **members}
    made: TaskHandler = type("Job", (TaskHandler,), members)()
    return made


def failure(function: Any, task: Any = TASK, **members: Any) -> str:
    """The words with which a crash test fails."""
    with pytest.raises(AssertionError) as caught:
        crash_test(handler(function, **members), task)
    return str(caught.value)


def take_one(task: Any = None) -> None:
    """Lower the stock by what was read: twice if it is run twice."""
    product = Product.objects.get(name="lamp")
    product.stock -= 1
    product.save()


def test_one_that_may_be_repeated_is_counted(product: Product) -> None:
    def handle(task: RunningTask) -> None:
        Product.objects.filter(name="lamp").update(stock=3)
        Partner.objects.get_or_create(name=task.biz_num)
        add_task("other", task.biz_num, when=timedelta(hours=1))

    result = crash_test(handler(handle), TASK)
    assert result.statements >= 4
    # Twice alone, twice in a row, cancelled, and two runs for all else.
    assert result.runs == 2 + 2 + 1 + 2 * (result.deaths + 2)
    assert result.left_out == ()


def test_nothing_is_left_of_it(product: Product) -> None:
    add_task("job", "1", biz_ext={"kept": True})
    with pytest.raises(AssertionError):
        crash_test(handler(take_one), TASK)
    product.refresh_from_db()
    stored = get_task("job", "1")
    assert product.stock == 10
    assert stored is not None
    assert stored.biz_ext == {"kept": True}
    assert (stored.version, stored.rescues) == (0, 0)
    assert not WorkerRow.objects.exists()
    assert mail.outbox == []


def test_each_run_begins_as_the_test_and_leaves_it_nothing_of_its_context() -> None:
    def handle(task: Any) -> None:
        seen.add(get_language())
        activate("de")
        Partner.objects.update_or_create(name="made")

    seen: set[str] = set()
    before = get_language()
    crash_test(handler(handle), TASK)
    assert get_language() == before
    assert seen == {before}


def test_what_is_done_twice_is_told_by_statement_and_row(product: Product) -> None:
    told = failure(take_one)
    assert told.startswith("tests.testing.test_crashing.Job is not safe to repeat (job/1).\n")
    assert "Killed after statement 2 of 2, UPDATE" in told
    assert "test_crashing.py:" in told
    assert f"shop.Product {product.pk} has stock=8; after a single run 9" in told
    assert "Killed at its end, before that was written, and run again:" in told
    assert "Lost after statement 1 of 2" in told


def test_a_row_too_many_is_told(product: Product) -> None:
    told = failure(lambda task: Order.objects.create(product=product, customer="c") and None)
    assert "shop.Order has 2 new rows; after a single run 1 new row. Too many: " in told
    assert "customer='c'" in told


def test_a_second_run_that_raises_is_told() -> None:
    told = failure(lambda task: Partner.objects.create(name="once") and None)
    assert "the second run raises IntegrityError" in told


def test_what_never_comes_after_a_death_is_told(product: Product) -> None:
    """The death comes between the commit and what it has set off."""

    def handle(task: RunningTask) -> None:
        with transaction.atomic():
            taken = Product.objects.filter(name="lamp", stock=10).update(stock=9)
            if taken:
                transaction.on_commit(lambda: Partner.objects.create(name="told") and None)

    told = failure(handle)
    assert "COMMIT" in told
    assert "shop.Partner has 0 new rows; after a single run 1 new row. Missing: name='told'" in told


def test_a_block_of_the_handlers_is_done_or_not_done(product: Product) -> None:
    def handle(task: RunningTask) -> None:
        with transaction.atomic():
            if Partner.objects.get_or_create(name=task.biz_num)[1]:
                take_one()

    assert crash_test(handler(handle), TASK).deaths >= 3


def test_mails_are_effects() -> None:
    def handle(task: RunningTask) -> None:
        mail.send_mail("reminder", "pay", None, ["c@example.com"])
        Partner.objects.get_or_create(name="1")

    told = failure(handle)
    assert "Killed before statement 1 of" in told
    assert "mail.outbox: there were 2 mails sent; by a single run 1: (('c@example.com',)" in told
    assert mail.outbox == []


def test_a_mail_that_was_not_sent_before_the_death_is_none() -> None:
    def handle(task: RunningTask) -> None:
        try:
            Partner.objects.filter(name="1").update(webhook="w")
        finally:
            mail.send_mail("never", "by a dead process", None, ["c@example.com"])

    told = failure(handle)
    assert "Killed at its end" in told
    assert "Killed after statement 1 of 1" not in told


def test_tasks_are_effects() -> None:
    told = failure(lambda task: add_task("other") and None)
    assert "django_tasks.Task has 2 new rows; after a single run 1 new row" in told
    assert "biz_code='other'" in told


def test_tasks_with_keys_are_added_once() -> None:
    crash_test(handler(lambda task: add_task("other", task.biz_num) and None), TASK)
    assert not find_tasks("other").exists()


def test_an_atomic_handler_may_count(product: Product) -> None:
    def handle(task: RunningTask) -> None:
        take_one()
        add_task("other")

    assert crash_test(handler(handle, atomic=True), TASK).deaths >= 2


def test_an_atomic_handler_sends_mails_twice_all_the_same(product: Product) -> None:
    def handle(task: RunningTask) -> None:
        mail.send_mail("reminder", "pay", None, ["c@example.com"])
        take_one()

    told = failure(handle, atomic=True)
    assert "mail.outbox" in told
    assert "has stock" not in told


def test_a_batch_handler_can_be_asked(product: Product) -> None:
    assert "stock=8" in failure(lambda tasks: take_one(), batch=5)


def test_an_async_handler_can_be_asked() -> None:
    async def handle(task: RunningTask) -> None:
        await asyncio.sleep(0)
        await Partner.objects.acreate(name=str(await Partner.objects.acount()))

    told = failure(handle)
    assert "shop.Partner has 2 new rows" in told
    assert "in handle)" in told


def test_one_that_catches_the_death_is_told() -> None:
    def handle(task: RunningTask) -> None:
        with suppress(BaseException):
            Partner.objects.get_or_create(name="1")

    assert "it catches BaseException, and so the end of its own process" in failure(handle)


def steps(task: RunningTask, *, heeds: bool) -> None:
    """Go on with what was saved. One that ``heeds`` ends when somebody has moved its task."""
    for step in range(task.biz_ext["step"], 3):
        with transaction.atomic():
            Partner.objects.create(name=f"step {step}")
            if not task.save({"step": step + 1}) and heeds:
                transaction.set_rollback(True)
                return


def test_one_that_goes_on_with_what_was_saved_is_safe() -> None:
    task = Task(biz_code="job", biz_num="1", biz_ext={"step": 0})
    made = handler(lambda task: steps(task, heeds=True))
    assert crash_test(made, task).deaths >= 7


def test_one_that_does_not_heed_a_move_is_told() -> None:
    task = Task(biz_code="job", biz_num="1", biz_ext={"step": 0})
    told = failure(lambda task: steps(task, heeds=False), task)
    assert "Killed" not in told
    assert "Moved after statement" in told


def test_a_run_after_a_death_is_a_second_attempt() -> None:
    seen = set()
    crash_test(handler(lambda task: seen.add((task.attempt, task.rescues))), TASK)
    assert seen == {(1, 0), (2, 1)}


def test_a_long_one_may_stop_when_it_is_cancelled() -> None:
    def handle(task: RunningTask) -> None:
        for number in range(4):
            if task.cancel_requested:
                return
            Partner.objects.get_or_create(name=str(number))

    crash_test(handler(handle), TASK)


def test_one_that_fails_when_it_is_cancelled_is_told() -> None:
    def handle(task: RunningTask) -> None:
        Partner.objects.get_or_create(name="1")
        if task.cancel_requested:
            raise ValueError("cancelled")

    told = failure(handle)
    assert "Cancelled after statement" in told
    assert "it raises ValueError('cancelled')" in told


def test_columns_that_differ_each_time_are_left_out(product: Product) -> None:
    def handle(task: RunningTask) -> None:
        Order.objects.update_or_create(
            product=product, defaults={"customer": "c@example.com", "number": Order().number}
        )

    result = crash_test(handler(handle), TASK)
    assert set(result.left_out) == {"shop.Order.number", "shop.Order.placed_at"}


def test_columns_and_models_can_be_left_out(product: Product) -> None:
    count = models.F("stock") + 1

    def handle(task: RunningTask) -> None:
        Product.objects.update(stock=count)
        Partner.objects.create(name=str(Partner.objects.count()))

    crash_test(handler(handle), TASK, ignore=["shop.Product.stock", "shop.Partner"])
    with pytest.raises(AssertionError, match="stock"):
        crash_test(handler(handle), TASK, ignore=["shop.Partner"])


def test_rows_that_point_to_new_rows_are_compared(product: Product) -> None:
    def handle(task: RunningTask) -> None:
        partner, _ = Partner.objects.get_or_create(name="new")
        Product.objects.get_or_create(name="new", price=1, partner=partner)
        Product.objects.filter(name="lamp").update(partner=partner)

    assert crash_test(handler(handle), TASK).left_out == ()


def test_the_number_of_deaths_can_be_bounded() -> None:
    def handle(task: RunningTask) -> None:
        for number in range(20):
            Partner.objects.update_or_create(name=str(number))

    assert crash_test(handler(handle), TASK, deaths=5).deaths == 5


def test_the_log_is_silent_in_it_and_only_in_it(caplog: pytest.LogCaptureFixture) -> None:
    """A try is lost to another worker, as the log would tell of it in production."""
    own = logging.getLogger("shop")
    crash_test(handler(lambda task: own.warning("of the project")), TASK)
    assert {record.getMessage() for record in caplog.records} == {"of the project"}
    with pytest.raises(AssertionError):
        crash_test(handler(lambda task: add_task("other") and None), TASK)
    assert {record.name for record in caplog.records} == {"shop"}
    logs.logger.warning("afterwards")
    assert caplog.records[-1].name == "django_tasks"


def test_a_stored_task_and_a_running_one_will_do() -> None:
    payloads = []
    made = handler(lambda task: payloads.append(task.biz_ext))
    crash_test(made, add_task("job", "1", biz_ext="stored"))
    crash_test(type(made), running_task("job", "2", biz_ext="made"))
    assert set(payloads) == {"stored", "made"}


def test_limits_and_other_tasks_are_no_matter() -> None:
    ran = set()
    add_task("job", "other")
    made = handler(lambda task: ran.add(task.biz_num), max_running=1, rate_limit="1/d")
    crash_test(made, TASK)
    assert ran == {"1"}


def test_captured_tasks_do_not_come_between() -> None:
    made = handler(lambda task: add_task("other", task.biz_num) and None)
    with captured_tasks() as tasks:
        crash_test(made, add_task("job", "1"))
    assert [str(task) for task in tasks] == ["job/1"]


def test_one_that_asks_no_database_dies_at_its_end_alone() -> None:
    result = crash_test(handler(lambda task: None), TASK, ignore=["django_tasks.Task.name"])
    assert (result.statements, result.deaths) == (0, 1)


def test_an_error_of_the_single_run_passes() -> None:
    with pytest.raises(ZeroDivisionError):
        crash_test(handler(lambda task: 1 // 0), TASK)


def test_what_is_paused_is_told() -> None:
    pause_tasks(biz_code="job")
    with pytest.raises(NotClaimed, match="job/1 cannot start: it is paused"):
        crash_test(handler(lambda task: None), TASK)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"task": ("job", "1")}, "task must be a Task or a running_task"),
        ({"task": Task(biz_code="other", biz_num="1")}, "task is none of 'job'"),
        ({"ignore": "shop.Order"}, "ignore must be a list"),
        ({"ignore": ["shop.Nothing"]}, "ignore must be 'app.Model'"),
        ({"ignore": ["shop.Order.nothing"]}, "ignore must be 'app.Model'"),
        ({"deaths": 0}, "deaths"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_arguments_are_named(wrong: dict[str, Any], error: str) -> None:
    given: dict[str, Any] = {"handler": handler(lambda task: None), "task": TASK} | wrong
    with pytest.raises(TaskValueError, match=error):
        crash_test(given.pop("handler"), given.pop("task"), **given)


def test_a_handler_that_cannot_be_registered_is_refused() -> None:
    class Broken(TaskHandler):
        biz_code = "job"

    with pytest.raises(HandlerError, match="does not define handle"):
        crash_test(Broken, TASK)
    with pytest.raises(HandlerError, match="is not a TaskHandler"):
        crash_test("job", TASK)  # type: ignore[arg-type]


@pytest.mark.django_db(transaction=True)
def test_it_works_without_a_transaction_of_the_test(product: Product) -> None:
    assert "stock=8" in failure(take_one)
    product.refresh_from_db()
    assert product.stock == 10
    assert cancel_tasks(biz_code="job") == 0
