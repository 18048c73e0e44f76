"""Handlers: classes and decorated functions."""

from datetime import timedelta
from typing import Any

import pytest

from django_tasks.api import HandlerError, TaskHandler, task_handler
from django_tasks.backoff import as_backoff
from django_tasks.handlers.base import attempts_allowed, has_own, is_async, time_limit

# These handlers look at nothing of their tasks.
NO_TASK: Any = None


class Plain(TaskHandler):
    biz_code = "plain"

    def handle(self, task):
        return None


def test_a_handler_has_the_documented_defaults():
    handler = Plain()

    assert (handler.queue, handler.priority) == ("default", 0)
    assert (handler.max_attempts, handler.timeout, handler.atomic) == (None, None, False)
    assert handler.get_biz_code() == "plain"
    assert 0 <= as_backoff(handler.backoff).delay(1) <= 10
    assert time_limit(handler) is None


def test_a_handler_without_handle_says_so():
    with pytest.raises(NotImplementedError):
        TaskHandler().handle(NO_TASK)


def test_what_happens_on_failure_is_nothing_by_default():
    assert Plain().on_failure(NO_TASK, ValueError()) is None  # type: ignore[func-returns-value]


def test_the_attempts_of_a_handler_win_over_the_setting(settings):
    settings.DJANGO_TASKS = {"MAX_ATTEMPTS": 7}
    own = Plain()
    own.max_attempts = 2  # type: ignore[misc]

    assert [attempts_allowed(handler) for handler in (own, Plain(), None)] == [2, 7, 7]


@pytest.mark.parametrize(("timeout", "expected"), [(5, 5.0), (timedelta(minutes=1), 60.0)])
def test_a_timeout_is_a_timedelta_or_seconds(timeout, expected):
    handler = Plain()
    handler.timeout = timeout  # type: ignore[misc]

    assert time_limit(handler) == expected


def test_a_decorated_function_is_a_handler_and_still_a_function():
    @task_handler(
        "push",
        queue="mail",
        priority=3,
        max_attempts=2,
        timeout=9,
        max_running=4,
        rate_limit="5/s",
        atomic=True,
    )
    def push(task):
        """Pushes."""
        return ("ran", task)

    assert isinstance(push, TaskHandler)
    assert push.get_biz_code() == "push"
    assert (push.queue, push.priority, push.max_attempts) == ("mail", 3, 2)
    assert (push.timeout, push.atomic) == (9, True)
    assert (push.max_running, push.rate_limit) == (4, "5/s")
    task: Any = 1
    assert push.handle(task) == push(task) == ("ran", 1)
    assert push.__name__ == "push"
    assert push.__doc__ == "Pushes."
    assert push.__module__ == __name__
    assert push.__qualname__.endswith("push")


def test_two_decorated_functions_know_nothing_of_each_other():
    @task_handler("a", queue="mail")
    def first(task):
        return 1

    @task_handler("b")
    def second(task):
        return 2

    assert (first.queue, second.queue) == ("mail", "default")
    assert (first.biz_code, second.biz_code) == ("a", "b")
    assert (first(NO_TASK), second(NO_TASK)) == (1, 2)
    assert TaskHandler.biz_code == ""


def test_a_decorated_function_may_have_its_own_on_failure():
    failures = []

    @task_handler("a", on_failure=lambda task, exc: failures.append((task, exc)))
    def failing(task):
        return None

    task: Any = 1
    error: Any = 2
    failing.on_failure(task, error)
    assert failures == [(1, 2)]


ATTRIBUTES = sorted(
    name
    for name in {*vars(TaskHandler), *TaskHandler.__annotations__}
    if not name.startswith("_")
    and name not in ("biz_code", "get_biz_code", "handle", "handle_batch")
)


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_a_function_may_have_all_that_a_class_may(name):
    value = object()

    handler = task_handler("a", **{name: value})(lambda task: None)

    assert getattr(handler, name) is value


def test_what_the_function_itself_says_cannot_be_given():
    for name in ("get_biz_code", "handle"):
        with pytest.raises(HandlerError, match=name):
            task_handler("a", **{name: None})(lambda task: None)


def test_a_hook_is_known_as_ones_own_wherever_it_stands():
    class Hooked(Plain):
        def on_stuck(self, task, seconds):
            pass

    function = task_handler("a", on_stuck=lambda task, seconds: None)(lambda task: None)

    assert has_own(Hooked(), "on_stuck")
    assert has_own(function, "on_stuck")
    assert not has_own(function, "on_failure")
    assert not has_own(Plain(), "on_stuck")


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("colour", "task_handler() knows no 'colour'"),
        ("retries", "task_handler() knows no 'retries'; did you mean 'max_attempts'?"),
        ("max_attempt", "task_handler() knows no 'max_attempt'; did you mean 'max_attempts'?"),
    ],
)
def test_an_attribute_that_no_handler_has_is_refused(wrong, sentence):
    with pytest.raises(HandlerError) as caught:

        @task_handler("a", **{wrong: 3})
        def handler(task):
            return None

    assert str(caught.value) == sentence


def test_the_decorator_without_a_code_says_how_to_write_it():
    with pytest.raises(HandlerError) as caught:

        @task_handler  # type: ignore[arg-type]
        def push(task):
            return None

    written = "@task_handler needs a biz_code: write @task_handler('push') above def push(task)"
    assert str(caught.value) == written


def test_a_class_is_no_function():
    for decorator in (task_handler, task_handler("a")):
        with pytest.raises(HandlerError, match=r"@task_handler.* goes above a function"):

            @decorator  # type: ignore[arg-type]
            class Push:
                pass


def test_what_cannot_be_called_is_no_function():
    with pytest.raises(HandlerError, match="goes above a function, not 5"):
        task_handler("a")(5)  # type: ignore[arg-type]


def test_an_async_handler_is_told_from_a_plain_one():
    class Async(TaskHandler):
        async def handle(self, task):
            return None

    @task_handler("a")
    async def coroutine(task):
        return None

    assert is_async(Async())
    assert is_async(coroutine)
    assert not is_async(Plain())
