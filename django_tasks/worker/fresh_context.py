"""A context for each call: its language, time zone, decimal precision and variables end with it."""

import decimal
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar

R = TypeVar("R")


class FreshContext:
    """Keeps the context in which it is made; each call has a copy of that."""

    def __init__(self) -> None:
        self._context = copy_context()
        # Copies of a context share what can be changed in place, and to copy it took as long as all
        # the rest: where the terms are those that each thread begins with, decimal makes its own.
        self._decimal: decimal.Context | None = None
        if _DECIMAL in self._context:
            if _terms(decimal.getcontext()) == _terms(decimal.DefaultContext):
                self._context = _without_decimal(self._context)
            else:
                self._decimal = decimal.getcontext().copy()

    def run(self, call: Callable[..., R], *args: Any) -> R:
        """The answer of ``call``. Raises what that does."""
        if self._decimal is None:
            return self._context.copy().run(call, *args)
        return self._context.copy().run(self._within, self._decimal.copy(), call, *args)

    def _within(self, terms: decimal.Context, call: Callable[..., R], *args: Any) -> R:
        decimal.setcontext(terms)
        return call(*args)


def _decimal_variable() -> ContextVar[Any]:
    """The variable in which ``decimal`` keeps its context, which has no public name."""
    decimal.getcontext()
    (variable,) = copy_context()
    return variable


_DECIMAL = Context().run(_decimal_variable)


def _terms(of: decimal.Context) -> tuple[Any, ...]:
    return of.prec, of.rounding, of.Emin, of.Emax, of.capitals, of.clamp, dict(of.traps)


def _without_decimal(context: Context) -> Context:
    def fill() -> None:
        for variable, value in context.items():
            if variable is not _DECIMAL:
                variable.set(value)

    bare = Context()
    bare.run(fill)
    return bare
