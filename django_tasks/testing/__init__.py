"""The testing kit, for projects that use this package: see docs/how-to/test-handlers.rst.

Nothing of Django is imported before one of these names is asked for: pytest loads the plugin also
where there is no Django.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_tasks.testing.asserting import (
        assert_no_task,
        assert_task_added,
        assertNumTasks,
    )
    from django_tasks.testing.capturing import captured_tasks
    from django_tasks.testing.clock import TaskClock, freeze_tasks, travel
    from django_tasks.testing.crashing import CrashTest, crash_test
    from django_tasks.testing.handlers import override_handlers
    from django_tasks.testing.mixin import TaskTestMixin
    from django_tasks.testing.running import (
        TooManyRuns,
        adrain_tasks,
        arun_due_tasks,
        drain_tasks,
        run_due_tasks,
    )
    from django_tasks.testing.runs import Ran
    from django_tasks.testing.scenes import NotClaimed
    from django_tasks.testing.tasks import running_task

__all__ = [
    "CrashTest",
    "NotClaimed",
    "Ran",
    "TaskClock",
    "TaskTestMixin",
    "TooManyRuns",
    "adrain_tasks",
    "arun_due_tasks",
    "assertNumTasks",
    "assert_no_task",
    "assert_task_added",
    "captured_tasks",
    "crash_test",
    "drain_tasks",
    "freeze_tasks",
    "override_handlers",
    "run_due_tasks",
    "running_task",
    "travel",
]

_MODULES = {
    **dict.fromkeys(("assert_no_task", "assert_task_added", "assertNumTasks"), "asserting"),
    **dict.fromkeys(("TaskClock", "freeze_tasks", "travel"), "clock"),
    **dict.fromkeys(("CrashTest", "crash_test"), "crashing"),
    **dict.fromkeys(("TooManyRuns", "run_due_tasks", "drain_tasks"), "running"),
    **dict.fromkeys(("arun_due_tasks", "adrain_tasks"), "running"),
    "NotClaimed": "scenes",
    "Ran": "runs",
    "TaskTestMixin": "mixin",
    "captured_tasks": "capturing",
    "override_handlers": "handlers",
    "running_task": "tasks",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
