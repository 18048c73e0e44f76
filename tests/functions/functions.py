"""Functions for the tests of calls. Imported where TASKS names our backend: see ``conftest``."""

import builtins
from typing import Any
from uuid import UUID

from django.tasks import task

from django_tasks.api import add_task
from django_tasks.backend import options
from django_tasks.models import Task

# The arguments of each call that was run.
CALLS: list[Any] = []


@task
def note(*args: Any, **kwargs: Any) -> None:
    CALLS.append((args, kwargs))


@task
def echo(value: Any) -> Any:
    return value


@task
async def echo_async(value: Any) -> Any:
    return value


@task(takes_context=True)
@options(max_attempts=3, backoff=0)
def third_time(context: Any, value: Any = None) -> Any:
    CALLS.append(context.attempt)
    if context.attempt < 3:
        raise ValueError(f"not at {context.attempt}")
    result = context.task_result
    return [result.id, result.attempts, [error.traceback for error in result.errors]]


@task
def fail(kind: str = "") -> None:
    class Local(Exception):
        pass

    errors: dict[str, BaseException] = {
        "": ValueError("oh"),
        "exit": SystemExit(3),
        "interrupt": KeyboardInterrupt("stop"),
        "generator": GeneratorExit("gone"),
        "lines": ValueError("one:\ntwo: three"),
        "local": Local("here"),
    }
    raise errors[kind]


@task
def fail_in_groups() -> None:
    kind = vars(builtins)["ExceptionGroup"]  # new in Python 3.11
    raise kind("both", [ValueError("a"), KeyError("b")])


VALUES: dict[str, Any] = {
    "nan": float("nan"),
    "nul": "a\0b",
    "set": {1},
    "uuid": UUID(int=1),
    "object": object(),
    "big": "x" * 2_000_000,
    "long": 2**64,
}
DEEP: Any = []
for _ in range(40):
    DEEP = [DEEP]
VALUES["deep"] = DEEP


@task
def answer_badly(kind: str) -> Any:
    return VALUES[kind]


@task
@options(biz_code="cancel_unpaid")
def cancel_unpaid(number: str) -> str:
    CALLS.append(number)
    return f"cancelled {number}"


@task
@options(atomic=True, max_attempts=2, backoff=0)
def in_one_transaction() -> int:
    """Adds a task, and fails the first time: the second time nothing of it is there."""
    there = Task.objects.filter(biz_code="effect").count()
    add_task("effect")
    CALLS.append(there)
    if len(CALLS) == 1:
        raise ValueError("oh")
    return there


def plain() -> None:
    """No task, until a test makes it one."""


def hourly() -> str:
    CALLS.append("hour")
    return "done"
