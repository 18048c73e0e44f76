"""The testing kit as pytest fixtures. Each is the function of its name.

pytest loads this in every project of the environment, also in those without Django: so nothing of
ours is imported before a test asks for one of them.
"""

from typing import Any

import pytest

from django_tasks import testing


@pytest.fixture
def adrain_tasks() -> Any:
    """Run all that is due, and all that follows: for coroutines."""
    return testing.adrain_tasks


@pytest.fixture
def arun_due_tasks() -> Any:
    """Run what is due, in place: for coroutines."""
    return testing.arun_due_tasks


@pytest.fixture
def assertNumTasks() -> Any:
    """Assert how many tasks a block adds."""
    return testing.assertNumTasks


@pytest.fixture
def assert_no_task() -> Any:
    """Assert that there is no task."""
    return testing.assert_no_task


@pytest.fixture
def assert_task_added() -> Any:
    """Assert that a task was added."""
    return testing.assert_task_added


@pytest.fixture
def captured_tasks() -> Any:
    """Collect tasks in place of storing them."""
    return testing.captured_tasks


@pytest.fixture
def crash_test() -> Any:
    """Ask if a handler is safe to repeat."""
    return testing.crash_test


@pytest.fixture
def drain_tasks() -> Any:
    """Run all that is due, and all that follows."""
    return testing.drain_tasks


@pytest.fixture
def freeze_tasks() -> Any:
    """Stop the clock of tasks."""
    return testing.freeze_tasks


@pytest.fixture
def override_handlers() -> Any:
    """Have other handlers."""
    return testing.override_handlers


@pytest.fixture
def run_due_tasks() -> Any:
    """Run what is due, in place."""
    return testing.run_due_tasks


@pytest.fixture
def running_task() -> Any:
    """Make the object that a handler gets."""
    return testing.running_task


@pytest.fixture
def travel() -> Any:
    """Move the clock of tasks."""
    return testing.travel
