"""Handlers in a line, for the tests of the testing kit."""

from collections.abc import Callable
from typing import Any

import pytest

from django_tasks.handlers.base import TaskHandler

Job = Callable[..., TaskHandler]


@pytest.fixture
def job(handlers: Callable[..., None]) -> Job:
    """Register a handler of the code "job", or of another, whose ``handle`` is a function."""

    def register(
        handle: Callable[[Any], Any], biz_code: str = "job", **members: Any
    ) -> TaskHandler:
        method = "handle_batch" if members.get("batch") else "handle"
        members = {"biz_code": biz_code, method: staticmethod(handle), **members}
        handler: TaskHandler = type("Job", (TaskHandler,), members)()
        handlers(handler)
        return handler

    return register
