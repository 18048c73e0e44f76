"""Parts of other projects: backends that an outbox meets, and Django 6.1's ``@task``."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.tasks import Task
from django.tasks.backends.dummy import DummyBackend

from django_tasks.backend import KeyedTask

if TYPE_CHECKING:
    AnyTask = Task[..., Any]
else:
    AnyTask = Task


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTask(AnyTask):
    """A task with the fields of django-ox, and of Django's new-features #142 and #144."""

    max_attempts: int | None = None
    backoff: Any = None
    timeout: int | None = None


class PolicyBackend(DummyBackend):
    """One whose tasks have options of their own. It runs nothing, and shows what it has."""

    task_class = PolicyTask


class Refusing(DummyBackend):
    """One that cannot be reached."""

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        raise BrokenPipeError("nobody there")


def declared(function: Callable[..., Any], *, backend: str = "default", **terms: Any) -> KeyedTask:
    """The task that ``@task(max_attempts=…)`` makes of a function from Django 6.1 on."""
    usual: dict[str, Any] = {"queue_name": "default", "run_after": None, "takes_context": False}
    return KeyedTask(func=function, backend=backend, priority=0, **usual, **terms)
