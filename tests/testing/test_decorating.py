"""Decorators of the kit above tests: above functions, coroutine functions and classes."""

import asyncio
import unittest
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any
from unittest.mock import Mock

import pytest
from django.test import SimpleTestCase, TestCase

from django_tasks.api import Task, add_task, get_task
from django_tasks.client import storing
from django_tasks.exceptions import TaskTypeError
from django_tasks.handlers import registry
from django_tasks.store import clock
from django_tasks.testing import (
    assert_no_task,
    assert_task_added,
    assertNumTasks,
    captured_tasks,
    freeze_tasks,
    override_handlers,
    travel,
)
from django_tasks.timezones import for_django

NOON = datetime(2040, 5, 17, 12, tzinfo=timezone.utc)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)

Make = Callable[[], Any]


def now() -> datetime:
    return clock.now("default")


# Each way to make one, and to ask if it is at work.
DECORATORS: dict[str, tuple[Make, Callable[[], bool]]] = {
    "freeze_tasks": (
        lambda: freeze_tasks(NOON),
        lambda: clock.source() is not clock.database_now and now() == NOON,
    ),
    "travel": (lambda: travel(HOUR), lambda: clock.source() is not clock.database_now),
    "override_handlers": (
        lambda: override_handlers(other=Mock(return_value=None)),
        lambda: registry.handler_for("other") is not None,
    ),
    "captured_tasks": (
        captured_tasks,
        lambda: not isinstance(storing.storage(), storing.Database),
    ),
}
each = pytest.mark.parametrize(("make", "is_at_work"), DECORATORS.values(), ids=DECORATORS)
WITH_COROUTINES = (SimpleTestCase, unittest.IsolatedAsyncioTestCase)


def result_of(tests: type[unittest.TestCase]) -> unittest.TestResult:
    """Run a class as unittest does."""
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(tests).run(result)
    return result


def passed(tests: type[unittest.TestCase]) -> int:
    """The number of tests that have passed; none may fail."""
    result = result_of(tests)
    assert [text for _, text in (*result.errors, *result.failures)] == []
    return result.testsRun


@each
@pytest.mark.parametrize(
    "kind", [unittest.TestCase, SimpleTestCase, unittest.IsolatedAsyncioTestCase]
)
def test_the_tests_of_a_class_are_run_within(make: Make, is_at_work: Any, kind: Any) -> None:
    seen = []

    class Tests(kind):  # type: ignore[misc]
        @classmethod
        def setUpClass(cls) -> None:
            super().setUpClass()
            seen.append((cls.__name__, is_at_work()))

        def setUp(self) -> None:
            seen.append(("set up", is_at_work()))

        def test_it(self) -> None:
            seen.append(("test", is_at_work()))

        def tearDown(self) -> None:
            seen.append(("tear down", is_at_work()))

    assert make()(Tests) is Tests
    assert passed(Tests) == 1
    assert seen == [("Tests", True), ("set up", True), ("test", True), ("tear down", True)]
    assert not is_at_work()


@each
@pytest.mark.parametrize("kind", WITH_COROUTINES)
def test_coroutines_of_a_class_are_run_within(make: Make, is_at_work: Any, kind: Any) -> None:
    seen = []

    @make()
    class OfClass(kind):  # type: ignore[misc]
        async def test_it(self) -> None:
            await asyncio.sleep(0)
            seen.append(is_at_work())

    class OfMethod(kind):  # type: ignore[misc]
        @make()
        async def test_it(self) -> None:
            await asyncio.sleep(0)
            seen.append(is_at_work())

    assert passed(OfClass) == passed(OfMethod) == 1
    assert seen == [True, True]
    assert not is_at_work()


@each
def test_a_coroutine_function_stays_one(make: Make, is_at_work: Any) -> None:
    @make()
    async def answer(value: int) -> tuple[int, bool]:
        await asyncio.sleep(0)
        return value, is_at_work()

    assert asyncio.iscoroutinefunction(answer)
    coroutine = answer(5)
    assert not is_at_work()
    assert asyncio.run(coroutine) == (5, True)
    assert asyncio.run(answer(6)) == (6, True)
    assert not is_at_work()


@each
def test_functions_may_be_called_again_and_within_each_other(make: Make, is_at_work: Any) -> None:
    @make()
    def deep(times: int) -> list[bool]:
        """Its words."""
        return [*(deep(times - 1) if times else []), is_at_work()]

    assert deep(2) == deep(2) == [True, True, True]
    assert (deep.__name__, deep.__doc__) == ("deep", "Its words.")
    assert not is_at_work()


@each
def test_what_would_hold_nowhere_is_refused(make: Make, is_at_work: Any) -> None:
    class Tests:
        """Of pytest."""

    def fixture() -> Iterator[None]:
        yield

    async def async_fixture() -> AsyncIterator[None]:
        yield

    with pytest.raises(TaskTypeError, match="class must be a TestCase: decorate the methods"):
        make()(Tests)
    for function in (fixture, async_fixture):
        with pytest.raises(TaskTypeError, match="function must not yield: write a with block"):
            make()(function)


def test_a_number_of_tasks_is_no_decorator() -> None:
    with pytest.raises(TypeError, match="not callable"):
        assertNumTasks(1)(now)  # type: ignore[operator]


def test_each_test_of_a_class_has_it_anew() -> None:
    time = freeze_tasks(NOON)

    @time
    @captured_tasks()
    class Tests(unittest.TestCase):
        def test_one(self) -> None:
            self.is_as_at_the_beginning()

        test_two = test_one

        def is_as_at_the_beginning(self) -> None:
            assert_no_task()
            assert now() == NOON
            time.tick(HOUR)
            add_task("other", "1")
            assert_task_added("other")

    assert passed(Tests) == 2


def test_the_uppermost_one_is_the_outer_one() -> None:
    seen = []

    @travel(HOUR)
    @freeze_tasks(NOON)
    class Inner(unittest.TestCase):
        def test_it(self) -> None:
            seen.append(now())

    @freeze_tasks(NOON)
    @travel(HOUR)
    class Outer(Inner):
        """The same test."""

    assert passed(Inner) == passed(Outer) == 1
    assert seen == [NOON, NOON + HOUR]


def test_a_class_has_those_of_its_base_classes_and_its_own_count() -> None:
    seen: list[Any] = []

    class Mixin(unittest.TestCase):
        @classmethod
        def setUpClass(cls) -> None:
            seen.append((cls.__name__, now()))
            super().setUpClass()

        def setUp(self) -> None:
            seen.append(now())
            super().setUp()

    @freeze_tasks(NOON)
    @override_handlers(other=Mock(return_value=None))
    class Base(unittest.TestCase):
        def test_it(self) -> None:
            seen.append((now(), registry.handler_for("other") is not None))

    class Heir(Mixin, Base):
        """It has no decorator."""

    @freeze_tasks(NOON + DAY)
    class Other(Base, Mixin):
        def setUp(self) -> None:
            super().setUp()
            seen.append("its own")

    @travel(HOUR)
    class Both(Other):
        """Two above it."""

    assert passed(Base) == 1
    assert seen == [(NOON, True)]
    del seen[:]
    assert passed(Other) == 1
    other = NOON + DAY
    assert seen == [("Other", other), other, "its own", (other, True)]
    del seen[:]
    assert passed(Both) == 1
    both = NOON + DAY + HOUR
    assert seen == [("Both", both), both, "its own", (both, True)]
    del seen[:]
    with freeze_tasks(NOON - DAY):
        assert passed(Heir) == 1
    assert seen == [("Heir", NOON - DAY), NOON - DAY, (NOON, True)]


def test_each_is_entered_once_where_a_class_and_its_base_class_have_some() -> None:
    @captured_tasks()
    class Base(unittest.TestCase):
        def test_it(self) -> None:
            assert_task_added("other", when=NOON)

    @freeze_tasks(NOON)
    class Tests(Base):
        def setUp(self) -> None:
            add_task("other")
            super().setUp()

    assert passed(Tests) == 1


@each
@pytest.mark.parametrize("place", ["setUpClass", "setUp", "tearDown"])
def test_an_error_ends_it(make: Make, is_at_work: Any, place: str) -> None:
    def fails(*args: Any) -> None:
        raise ZeroDivisionError

    @make()
    class Tests(unittest.TestCase):
        def test_it(self) -> None:
            """Nothing."""

        locals()[place] = classmethod(fails) if place == "setUpClass" else fails

    assert len(result_of(Tests).errors) == 1
    assert not is_at_work()


@freeze_tasks(NOON)
@pytest.mark.django_db
class FrozenTests(TestCase):
    """A class with rows, as projects have it: pytest runs it."""

    task: Task

    @classmethod
    def setUpTestData(cls) -> None:
        cls.task = add_task("other", "1", when=HOUR)

    def test_the_data_of_a_class_are_made_within(self) -> None:
        stored = get_task("other", "1")
        assert stored is not None
        assert stored.when == self.task.when == for_django(NOON + HOUR)

    async def test_coroutines_are_run_within(self) -> None:
        await asyncio.sleep(0)
        assert now() == NOON
