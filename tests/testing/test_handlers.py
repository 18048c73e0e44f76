"""Other handlers for the length of a test."""

import re
from typing import Any
from unittest.mock import Mock

import pytest

from django_tasks.api import HandlerError, TaskHandler, TaskValueError, add_task, task_handler
from django_tasks.handlers import registry
from django_tasks.testing import override_handlers, run_due_tasks
from tests.testing.conftest import Job

pytestmark = pytest.mark.django_db


class Other(TaskHandler):
    biz_code = "job"
    sticky = True
    schedule = "every 1h"

    def handle(self, task: Any) -> None:
        """Nothing."""


def test_a_mock_takes_the_place_of_a_handler(job: Job) -> None:
    own = job(lambda task: None)
    mock = Mock(return_value=None)
    add_task("job", "1")
    with override_handlers(job=mock):
        run_due_tasks()
    assert str(mock.call_args.args[0]) == "job/1"
    assert registry.handler_for("job") is own


def test_classes_instances_and_functions_take_places(job: Job) -> None:
    own = job(lambda task: None)

    @task_handler("new")
    def new(task: Any) -> None:
        """Nothing."""

    instance = Other()
    with override_handlers(instance, new):
        assert registry.handler_for("job") is instance
        assert registry.handler_for("new") is new
        assert registry.sticky_codes() == {"job"}
    with override_handlers(Other):
        assert isinstance(registry.handler_for("job"), Other)
    assert registry.get_task_handlers() == {"job": own}
    assert registry.sticky_codes() == frozenset()
    assert registry.terms_for("job").queue == "default"


def test_workers_notice(job: Job) -> None:
    job(lambda task: None)
    before = registry.revision()
    with override_handlers(Other):
        within = registry.revision()
        assert within > before
    assert registry.revision() > within


def test_one_that_cannot_work_changes_nothing(job: Job) -> None:
    own = job(lambda task: None)

    class Broken(TaskHandler):
        biz_code = "broken"

    with (
        pytest.raises(HandlerError, match="does not define handle"),
        override_handlers(Other, Broken),
    ):
        pass
    assert registry.get_task_handlers() == {"job": own}
    with pytest.raises(TaskValueError, match="job must be a function"):
        override_handlers(job=5).__enter__()  # type: ignore[arg-type]


def test_the_example_of_its_words_works(job: Job) -> None:
    job(lambda task: None, "cancel_unpaid")
    add_task("cancel_unpaid", "1")
    (example,) = re.findall(r"``(override_handlers\(.+?)``", str(override_handlers.__doc__))
    with eval(example):  # noqa: S307 - our own
        (ran,) = run_due_tasks()
    assert ran.outcome == "done"


def test_it_decorates_functions(job: Job) -> None:
    job(lambda task: None)

    @override_handlers(Other)
    def inside() -> Any:
        return registry.handler_for("job")

    assert isinstance(inside(), Other)
