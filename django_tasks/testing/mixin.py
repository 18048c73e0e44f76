"""The testing kit as methods of a django ``TestCase``."""

from django_tasks.testing.asserting import assert_no_task, assert_task_added, assertNumTasks
from django_tasks.testing.capturing import captured_tasks
from django_tasks.testing.clock import freeze_tasks, travel
from django_tasks.testing.crashing import crash_test
from django_tasks.testing.handlers import override_handlers
from django_tasks.testing.running import (
    adrain_tasks,
    arun_due_tasks,
    drain_tasks,
    run_due_tasks,
)
from django_tasks.testing.tasks import running_task


class TaskTestMixin:
    """Before ``TestCase``: ``class OrderTests(TaskTestMixin, TestCase)``. Each method is the
    function of its name.
    """

    adrain_tasks = staticmethod(adrain_tasks)
    arun_due_tasks = staticmethod(arun_due_tasks)
    assertNumTasks = staticmethod(assertNumTasks)
    assert_no_task = staticmethod(assert_no_task)
    assert_task_added = staticmethod(assert_task_added)
    captured_tasks = staticmethod(captured_tasks)
    crash_test = staticmethod(crash_test)
    drain_tasks = staticmethod(drain_tasks)
    freeze_tasks = staticmethod(freeze_tasks)
    override_handlers = staticmethod(override_handlers)
    run_due_tasks = staticmethod(run_due_tasks)
    running_task = staticmethod(running_task)
    travel = staticmethod(travel)
