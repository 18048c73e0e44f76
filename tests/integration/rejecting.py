"""A handler, and a defect: statements of one room of the store that no server understands.

``TEST_REJECTED`` names the module whose statements they are, from the moment on when the file
``TEST_REJECTED_FROM`` is there.
"""

import os
import sys
from pathlib import Path
from typing import Any

from django_tasks.store.dialects.base import Dialect, Params
from tests.integration.handlers import Gated

__all__ = ["Gated"]

MODULE = f"django_tasks.store.{os.environ['TEST_REJECTED']}"
BEGIN = Path(os.environ["TEST_REJECTED_FROM"])

fetch, execute = Dialect.fetch, Dialect.execute


def spoilt(template: str) -> bool:
    frame = sys._getframe(2)
    while frame.f_back and frame.f_globals["__name__"].startswith("django_tasks.store.dialects"):
        frame = frame.f_back
    return frame.f_globals["__name__"] == MODULE and BEGIN.exists()


def spoilt_fetch(self: Dialect, template: str, params: Params = ()) -> list[tuple[Any, ...]]:
    if spoilt(template):
        return fetch(self, "SELECT nosuch FROM {task}")
    return fetch(self, template, params)


def spoilt_execute(self: Dialect, template: str, params: Params = ()) -> int:
    if spoilt(template):
        return execute(self, "UPDATE {task} SET nosuch = 1")
    return execute(self, template, params)


Dialect.fetch = spoilt_fetch  # type: ignore[method-assign]
Dialect.execute = spoilt_execute  # type: ignore[method-assign]
