"""The words of a function in ``@options``, and those of a backend in its OPTIONS."""

from typing import Any, cast

import pytest
from django.core.checks import run_checks
from django.tasks import task, task_backends
from django.tasks.exceptions import InvalidTask
from django.test import override_settings

from django_tasks.api import HandlerError
from django_tasks.backend import options
from django_tasks.handlers.registry import get_task_handlers
from tests.functions.conftest import BACKENDS

PATH = "django_tasks.backend.DatabaseBackend"


def a_function(name: str = "made") -> Any:
    def made(context: Any = None) -> None:
        """Does nothing."""

    made.__qualname__ = name
    return made


def handler_of(wishes: dict[str, Any], **manners: Any) -> Any:
    made = task(**manners)(options(biz_code="made", **wishes)(a_function()))
    assert made
    return get_task_handlers()["made"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_attempts", 7),
        ("backoff", [1, 2]),
        ("timeout", 5),
        ("max_running", 2),
        ("rate_limit", "5/s"),
        ("atomic", True),
        ("schedule", "every hour"),
        ("history", "problems"),
    ],
)
def test_a_function_says_what_a_handler_says(name: str, value: Any, handlers: Any) -> None:
    assert getattr(handler_of({name: value}), name) == value


def test_a_function_that_says_nothing_is_run_once(handlers: Any) -> None:
    handler = handler_of({})
    assert (handler.max_attempts, handler.history) == (1, "all")


def test_its_backend_says_the_rest(handlers: Any) -> None:
    handler = handler_of({}, backend="other")
    assert (handler.max_attempts, handler.backoff) == (2, 0)
    assert handler.queue == "default"


def test_the_queue_and_the_priority_are_djangos(handlers: Any) -> None:
    handler = handler_of({}, queue_name="mail", priority=9)
    assert (handler.queue, handler.priority) == ("mail", 9)


@pytest.mark.parametrize("name", ["queue", "batch", "on_failure", "max_attempt"])
def test_a_word_that_means_nothing_is_refused(name: str) -> None:
    with pytest.raises(HandlerError, match=name):
        options(**{name: 1})


def test_a_near_miss_is_named() -> None:
    with pytest.raises(HandlerError, match="did you mean 'max_attempts'"):
        options(max_attempt=3)


def test_above_task_it_is_refused(handlers: Any) -> None:
    with pytest.raises(HandlerError, match="below @task"):
        options(max_attempts=3)(cast(Any, task(a_function())))


@pytest.mark.parametrize(
    "wishes", [{"max_attempts": 0}, {"timeout": -1}, {"backoff": "x"}, {"rate_limit": "often"}]
)
def test_a_value_that_cannot_be_used_is_refused_where_it_stands(
    wishes: dict[str, Any], handlers: Any
) -> None:
    with pytest.raises(InvalidTask):
        handler_of(wishes)


def test_a_schedule_is_for_a_function_without_arguments(handlers: Any) -> None:
    def needs(number: int) -> None:
        """Needs an argument."""

    needs.__qualname__ = "needs"
    with pytest.raises(InvalidTask, match="has a schedule, so it must need no arguments"):
        task(options(schedule="every hour")(needs))


def test_with_a_context_it_may_have_one(handlers: Any) -> None:
    assert handler_of({"schedule": "every hour"}, takes_context=True)


def test_under_another_backend_it_says_nothing() -> None:
    made = task(backend="immediate")(options(max_attempts=9)(a_function()))
    assert made.call() is None


# OPTIONS


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        ({"MAX_ATTEMPT": 3}, "OPTIONS['MAX_ATTEMPT'] means nothing; did you mean 'MAX_ATTEMPTS'?"),
        ({"TO": "other"}, "OPTIONS['TO'] means nothing"),
        ({"DATABASE": "nowhere"}, "DATABASE must be one of 'default'"),
        ({"MAX_ATTEMPTS": "many"}, "MAX_ATTEMPTS"),
        ({"BACKOFF": "soon"}, "BACKOFF cannot be used"),
        ({"RESULTS": "some"}, "RESULTS must be one of 'all', 'problems', 'none'"),
        ({"MODULES": "shop"}, "MODULES must be a list of the paths of modules"),
        ({"MODULES": 5}, "MODULES"),
        ({"MODULES": ["no_such_module"]}, "MODULES names 'no_such_module', and there is none"),
        ({"MODULES": ["no_such.module"]}, "MODULES names 'no_such.module', which cannot be found"),
        ({"MODULES": [""]}, "MODULES names '', which cannot be found"),
        (None, "OPTIONS must be a dict, not None"),
        (["MAX_ATTEMPTS"], "OPTIONS must be a dict, not ['MAX_ATTEMPTS']"),
    ],
)
def test_what_cannot_be_used_is_reported(wishes: Any, words: str) -> None:
    with override_settings(TASKS={"default": {"BACKEND": PATH, "OPTIONS": wishes}}):
        (problem,) = task_backends["default"].check()
    assert problem.id == "django_tasks.E007"
    assert problem.msg.startswith("TASKS['default']: ")
    assert words in problem.msg


def test_what_can_be_used_is_not() -> None:
    for alias in BACKENDS:
        assert list(task_backends[alias].check()) == []


@pytest.mark.django_db
def test_the_backports_name_is_reported_with_its_cure() -> None:
    old = "django_tasks.backends.database.DatabaseBackend"
    with override_settings(TASKS={"old": {"BACKEND": old}}):
        found = [
            each for each in run_checks(tags=["django_tasks"]) if str(each.id).endswith("W009")
        ]
    (problem,) = found
    assert "TASKS['old'] names a backend of the PyPI distribution 'django-tasks'" in problem.msg
    assert "django_tasks.backend.DatabaseBackend" in str(problem.hint)
