"""Calls on a database other than the default one, and calls that are killed at each statement."""

from datetime import timedelta
from typing import Any

import pytest
from django.tasks import TaskResultStatus, task, task_backends

from django_tasks.api import CancelResult
from django_tasks.backend import enqueue_many, options
from django_tasks.handlers.registry import handler_for
from django_tasks.models import Task
from django_tasks.testing import crash_test, run_due_tasks
from tests import test_second_database
from tests.functions import functions
from tests.functions.conftest import BACKENDS
from tests.functions.functions import cancel_unpaid, echo
from tests.functions.test_enqueueing import keyed

second = test_second_database.second


@pytest.fixture
def there(second: str, settings: Any) -> str:
    """A backend whose calls are on the second database; to use the first one is an error."""
    path = "django_tasks.backend.DatabaseBackend"
    settings.TASKS = BACKENDS | {
        "there": {"BACKEND": path, "QUEUES": [], "OPTIONS": {"DATABASE": second}}
    }
    return second


def test_all_of_a_call_is_on_the_database_of_its_backend(there: str) -> None:
    later = keyed(cancel_unpaid, backend="there", key="42", run_after=timedelta(hours=1))
    result = later.enqueue("42")
    assert Task._base_manager.using(there).count() == 1
    assert task_backends["there"].get_result(result.id) == result
    result.refresh()
    assert result.status == TaskResultStatus.READY
    assert later.cancel() is CancelResult.CANCELLED
    made = enqueue_many(echo.using(backend="there"), [([1], {}), ([2], {})])
    assert len(made) == Task._base_manager.using(there).count() == 2


@pytest.mark.django_db
@pytest.mark.parametrize("atomic", [True, False])
def test_a_call_is_killed_at_each_statement_and_run_again(
    atomic: bool, handlers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ``atomic`` its effects happen once; without, twice where it says so itself."""

    def grow() -> int:
        from django.contrib.auth.models import Group

        for _ in range(2):
            Group.objects.create(name=f"group {Group.objects.count()}")
        return Group.objects.count()

    grow.__module__, grow.__qualname__ = functions.__name__, "plain"
    made = task(options(biz_code=f"grow_{atomic}", atomic=atomic)(grow))
    monkeypatch.setattr(functions, "plain", made)
    made.enqueue()
    row = Task.objects.get()
    handler: Any = handler_for(f"grow_{atomic}")
    if atomic:
        crash_test(handler, row)
    else:
        with pytest.raises(AssertionError, match="is not safe to repeat"):
            crash_test(handler, row)
    (ran,) = run_due_tasks()
    assert ran.outcome == "done"
