"""A context for each call: its language, time zone, decimal precision and variables end with it."""

from collections.abc import Callable
from contextvars import copy_context
from decimal import getcontext, setcontext
from typing import Any, TypeVar

R = TypeVar("R")


class FreshContext:
    """Keeps the context in which it is made; each call has a copy of that."""

    def __init__(self) -> None:
        self._context = copy_context()
        self._decimal = getcontext().copy()

    def run(self, call: Callable[..., R], *args: Any) -> R:
        """The answer of ``call``. Raises what that does."""
        return self._context.copy().run(self._within, call, *args)

    def _within(self, call: Callable[..., R], *args: Any) -> R:
        setcontext(self._decimal.copy())  # copies of a context share what can be changed in place
        return call(*args)
