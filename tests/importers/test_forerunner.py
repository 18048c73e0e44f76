"""A handler and calls that were written for the forerunner, with nothing changed but the import."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from django_tasks.api import (
    Task,
    TaskHandler,
    add_task,
    cancel_task,
    delete_tasks,
    get_task_handlers,
    get_tasks_by_code,
    register_task_handler,
    shutdown,
    start,
)
from tests.waiting import DEADLINE, eventually

pytestmark = pytest.mark.django_db(transaction=True)

ended: list[str] = []


class EndProductPromotionHandler(TaskHandler):
    def get_biz_code(self):
        return "end_product_promotion"

    def handle(self, task):
        ended.append(task.biz_num)


class PushMessageHandler(TaskHandler):
    def get_biz_code(self):
        return "push_message"

    def handle(self, task):
        ended.append(task.biz_num)
        again = ended.count(task.biz_num) < 3
        return datetime.now() + timedelta(milliseconds=5) if again else None


def test_the_example_of_the_forerunner_runs_with_nothing_changed_but_the_import(
    handlers: Callable[..., None],
) -> None:
    ended.clear()
    register_task_handler(EndProductPromotionHandler())
    register_task_handler(PushMessageHandler())
    assert {"end_product_promotion", "push_message"} <= set(get_task_handlers())

    in_three_days = datetime.now() + timedelta(days=3)
    task = Task(biz_code="end_product_promotion", biz_num="P001", when=in_three_days)
    add_task(task)
    task = Task(biz_code="end_product_promotion", biz_num="P002", when=in_three_days)
    add_task(task)
    cancel_task("end_product_promotion", "P002")
    waiting = get_tasks_by_code("end_product_promotion")
    assert [task.biz_num for task in waiting] == ["P001"]

    add_task(Task(biz_code="end_product_promotion", biz_num="P001", when=datetime.now()))
    add_task(Task(biz_code="push_message", biz_num="M1", when=datetime.now()))
    for number in ("X-1", "X-2"):
        add_task(Task(biz_code="push_message", biz_num=number, when=in_three_days))
    delete_tasks("push_message", "X")

    start()
    start()
    try:
        eventually(lambda: ended.count("M1") == 3 and "P001" in ended, "all have run")
        eventually(lambda: not get_tasks_by_code("push_message"), "the rows are gone")
    finally:
        shutdown(timeout=DEADLINE)
    assert sorted(ended) == ["M1", "M1", "M1", "P001"]
