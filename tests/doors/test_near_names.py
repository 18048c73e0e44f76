"""The check of handlers' attributes (W008): which names it takes for slips, and which for the
project's own.
"""

from collections.abc import Callable
from typing import Any

import pytest
from django.core.checks import CheckMessage, run_checks

from django_tasks import checks
from django_tasks.handlers.base import TaskHandler, task_handler

pytestmark = pytest.mark.each_database

Handlers = Callable[..., None]


def warnings() -> list[CheckMessage]:
    return [each for each in run_checks(tags=[checks.TAG]) if each.id == "django_tasks.W008"]


def a_handler(**attributes: Any) -> type[TaskHandler]:
    members = {"biz_code": "push", "handle": lambda self, task: None} | attributes
    return type("Push", (TaskHandler,), {"__module__": "shop.tasks", **members})


def method(self: Any, *args: Any) -> None: ...


async def coroutine(self: Any, *args: Any) -> None: ...


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        *(("max_attempt", 3, "max_attempts"), ("attempts", 3, "max_attempts")),
        *(("MAX_ATTEMPTS", 3, "max_attempts"), ("time_out", 3, "timeout")),
        *(("ratelimit", "5/s", "rate_limit"), ("scheduled", "every 1h", "schedule")),
        *(("retry_one", (ValueError,), "retry_on"), ("queues", ["mail"], "queue")),
        *(("max_attempt", property(lambda self: 3), "max_attempts"),),
        *(("on_fail", method, "on_failure"), ("on_stack", coroutine, "on_stuck")),
        *(("merged", staticmethod(method), "merge"), ("get_bizcode", method, "get_biz_code")),
    ],
)
def test_a_name_that_is_nearly_known_is_named(
    name: str, value: Any, meant: str, handlers: Handlers
) -> None:
    handlers(a_handler(**{name: value}))
    (warning,) = warnings()
    assert warning.msg == f"shop.tasks.Push has {name!r}, which means nothing to django_tasks."
    assert warning.hint is not None
    assert warning.hint.startswith(f"Did you mean {meant!r}?")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("max_attempts", 3), ("_max_attempt", 3), ("client", object()), ("template", "a.html")),
        *(("send", method), ("queued", method), ("timed", method), ("handle_order", method)),
        ("Queues", type("Queues", (), {})),
    ],
)
def test_names_that_are_known_or_the_projects_own_are_silent(
    name: str, value: Any, handlers: Handlers
) -> None:
    handlers(a_handler(**{name: value}))
    assert warnings() == []


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        *(("retries", 3, "max_attempts"), ("max_retries", 3, "max_attempts")),
        *(("max_concurrency", 5, "max_running"), ("ignore_result", True, "history")),
        *(("cron", "0 8 * * *", "schedule"), ("crontab", "0 8 * * *", "schedule")),
        *(("time_limit", 60, "timeout"), ("soft_time_limit", 60, "timeout")),
        *(("autoretry_for", (ValueError,), "retry_on"), ("retry_backoff", True, "backoff")),
    ],
)
def test_a_name_of_another_library_is_named_with_ours(
    name: str, value: Any, meant: str, handlers: Handlers
) -> None:
    handlers(a_handler(**{name: value}))
    (warning,) = warnings()
    assert warning.hint is not None
    assert warning.hint.startswith(f"Did you mean {meant!r}?")


def test_of_two_that_may_be_meant_the_handler_has_one_and_is_told_of_the_other(
    handlers: Handlers,
) -> None:
    handlers(a_handler(timeout=30, time_limit=60, max_attempts=3, max_retries=2))
    (warning,) = warnings()
    assert warning.msg.startswith("shop.tasks.Push has 'time_limit'")
    assert warning.hint is not None
    assert warning.hint.startswith("Did you mean 'kill_after'?")


def test_a_name_like_one_that_the_handler_has_too_is_its_own(handlers: Handlers) -> None:
    handlers(a_handler(timeout=60, timeouts=(3, 10), handler="x", handled=method))
    assert warnings() == []


def test_a_slip_in_a_base_is_named_once_and_there(handlers: Handlers) -> None:
    base = type("Base", (TaskHandler,), {"__module__": "shop.base", "max_attempt": 3})
    members = {"handle": lambda self, task: None}
    handlers(*(type(code, (base,), {"biz_code": code, **members}) for code in ("a", "b")))
    (warning,) = warnings()
    assert warning.msg.startswith("shop.base.Base has 'max_attempt'")


def test_so_is_one_that_an_instance_was_given(handlers: Handlers) -> None:
    handler = a_handler()()
    handler.max_attempt = 3  # type: ignore[attr-defined]
    handlers(handler)
    (warning,) = warnings()
    assert warning.msg.startswith("shop.tasks.Push has 'max_attempt'")


def test_functions_are_silent(handlers: Handlers) -> None:
    @task_handler("push", queue="mail", on_failure=method)
    def push(task: Any) -> None: ...

    handlers(push)
    assert warnings() == []
