"""Our backend in the clothes of Django's own two, for Django's own tests of them."""

import threading
from contextlib import suppress
from typing import Any

from django.db import connections

from django_tasks.backend import DatabaseBackend
from django_tasks.models import Task, TaskRun
from django_tasks.testing import run_due_tasks


def forget() -> None:
    """Forget all calls."""
    Task._base_manager.all()._raw_delete("default")
    TaskRun._base_manager.all()._raw_delete("default")


class Waiting(DatabaseBackend):
    """As DummyBackend: it runs nothing, and shows what it has."""

    @property
    def results(self) -> list[Any]:
        """The results of all calls, the first one first."""
        rows = list(Task.objects.order_by("id").values_list("biz_code", "biz_num"))
        return [self.get_result(":".join(key)) for key in rows]

    def get_result(self, result_id: str) -> Any:
        try:
            return super().get_result(result_id)
        finally:
            # An async test has a thread of its own, and nobody closes what is opened there.
            if threading.current_thread() is not threading.main_thread():
                connections.close_all()

    def clear(self) -> None:
        """Forget all calls."""
        forget()


class Immediate(DatabaseBackend):
    """As ImmediateBackend: a call has run when ``enqueue`` returns, by the rules of a worker."""

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        forget()  # or what other tests have left would run as well
        result = super().enqueue(task, args, kwargs)
        code, _ = result.id.split(":")
        with suppress(SystemExit, KeyboardInterrupt):  # raised once the end is written
            run_due_tasks(codes=code, raise_errors=False)
        result.refresh()
        return result
