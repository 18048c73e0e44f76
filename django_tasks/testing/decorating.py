"""Context managers that may stand above tests: above functions, coroutine functions and classes."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import wraps
from inspect import isasyncgenfunction, isclass, isgeneratorfunction
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar
from unittest import TestCase

from asgiref.sync import iscoroutinefunction

from django_tasks.exceptions import TaskTypeError

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")
Tests = TypeVar("Tests", bound=Callable[..., Any])

# Of a class: what stands above it, the uppermost first.
_CONTEXTS = "_django_tasks_contexts"


class Decorator(ABC):
    """Decorates tests: what it does holds for each call of a function, and for each test of a
    ``TestCase`` and, before them, for its ``setUpClass``.
    """

    @abstractmethod
    def _again(self) -> AbstractContextManager[Any]:
        """The context of one more call."""

    def __call__(self, tests: Tests) -> Tests:
        """Decorate. Raises TaskTypeError for a class that is no ``TestCase``, and for a generator
        function: it would have returned before its code runs.
        """
        decorated: Any = _class(self, tests) if isclass(tests) else _function(self, tests)
        return decorated  # type: ignore[no-any-return]


class Managed(Decorator, Generic[Value]):
    """A context manager that a generator function has made, see ``managed``."""

    def __init__(self, make: Callable[[], AbstractContextManager[Value]]) -> None:
        self._make = make
        self._block: AbstractContextManager[Value] | None = None

    def _again(self) -> AbstractContextManager[Value]:
        return self._make()

    def __enter__(self) -> Value:
        self._block = self._again()
        return self._block.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return None if self._block is None else self._block.__exit__(kind, error, trace)


def managed(
    function: Callable[Parameters, Iterator[Value]],
) -> Callable[Parameters, Managed[Value]]:
    """Make what ``contextlib.contextmanager`` makes, and a ``Decorator`` besides."""
    make = contextmanager(function)

    @wraps(function)
    def manager(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Managed[Value]:
        return Managed(lambda: make(*args, **kwargs))

    return manager


def _function(context: Decorator, function: Any) -> Any:
    if isgeneratorfunction(function) or isasyncgenfunction(function):
        raise TaskTypeError("function", function, "must not yield: write a with block in it")
    if iscoroutinefunction(function):

        @wraps(function)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            with context._again():
                return await function(*args, **kwargs)

        return coroutine

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with context._again():
            return function(*args, **kwargs)

    return call


def _class(context: Decorator, tests: Any) -> Any:
    if not issubclass(tests, TestCase):
        raise TaskTypeError("class", tests, "must be a TestCase: decorate the methods of this one")
    above = vars(tests).get(_CONTEXTS)
    if above is None:
        _have_contexts(tests)
    setattr(tests, _CONTEXTS, [context, *(above or ())])
    return tests


def _have_contexts(tests: Any) -> None:
    """Wrap the methods that go before tests. Anew for each test: none finds what another one has
    done to a clock, or to a list of tasks.
    """
    own_of_class, own = vars(tests).get("setUpClass"), vars(tests).get("setUp")

    def set_up_class(cls: Any) -> None:
        with _entered(tests, cls):
            (own_of_class.__get__(None, cls) if own_of_class else super(tests, cls).setUpClass)()

    def set_up(self: Any) -> None:
        with _entered(tests, type(self)) as stack:
            self.addCleanup(stack.pop_all().close)
        (own.__get__(self) if own else super(tests, self).setUp)()

    tests.setUpClass, tests.setUp = classmethod(set_up_class), set_up


def _entered(tests: type, cls: type) -> ExitStack:
    """The contexts of a class, which are those of its base classes first, as settings are in
    Django; none if ``tests`` is one of these, and so they are entered already.
    """
    decorated = [each for each in cls.__mro__ if _CONTEXTS in vars(each)]
    with ExitStack() as stack:
        for each in reversed(decorated) if decorated[0] is tests else ():
            for context in vars(each)[_CONTEXTS]:
                stack.enter_context(context._again())
        return stack.pop_all()
