"""The handlers of the codes."""

import sys
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import wraps
from threading import Event
from types import ModuleType
from unittest.mock import Mock

import pytest

from django_tasks.api import (
    HandlerError,
    TaskException,
    TaskHandler,
    get_task_handlers,
    register_task_handler,
    task_handler,
)
from django_tasks.handlers import registry
from django_tasks.handlers.registry import handler_for, load, problems, revision
from tests.waiting import DEADLINE

pytestmark = pytest.mark.usefixtures("handlers")


def a_handler(code="order", **attributes):
    """A new handler class."""
    attributes = {"biz_code": code, "handle": lambda self, task: None} | attributes
    return type("Handler", (TaskHandler,), attributes)


@task_handler("function")
def a_function(task):
    return None


def test_a_class_is_registered_as_an_instance():
    handler = a_handler()

    register_task_handler(handler)

    assert isinstance(get_task_handlers()["order"], handler)
    assert handler_for("order") is get_task_handlers()["order"]
    assert handler_for("Order") is None


def test_an_instance_is_registered_as_it_is():
    handler = a_handler()()

    register_task_handler(handler)

    assert handler_for("order") is handler


def test_a_decorated_function_is_registered_as_it_is():
    register_task_handler(a_function)

    assert handler_for("function") is a_function


@pytest.mark.parametrize("make", [a_handler, lambda: a_handler()(), lambda: a_function])
def test_the_same_handler_twice_is_nothing(make):
    handler = make()

    register_task_handler(handler)
    known = dict(get_task_handlers())
    register_task_handler(handler)

    assert get_task_handlers() == known


@pytest.mark.parametrize("second", [a_handler, lambda: a_handler()()])
@pytest.mark.parametrize("first", [a_handler, lambda: a_handler()()])
def test_another_handler_for_a_code_is_refused_and_the_first_stays(first, second):
    register_task_handler(first())
    known = handler_for("order")

    with pytest.raises(HandlerError, match=r"order.*two handlers"):
        register_task_handler(second())
    assert handler_for("order") is known


def test_a_second_instance_of_a_class_takes_the_place_of_the_first():
    handler, before = a_handler(), revision()
    first, second = handler(), handler()

    register_task_handler(first)
    register_task_handler(second)
    assert handler_for("order") is second
    assert revision() == before + 2

    register_task_handler(handler)
    assert handler_for("order") is second


def test_two_functions_for_one_code_are_refused():
    register_task_handler(a_function)

    with pytest.raises(HandlerError, match="two handlers"):
        register_task_handler(task_handler("function")(lambda task: None))


def test_handlers_of_different_codes_stand_beside_each_other():
    for code in ("a", "A", "á"):
        register_task_handler(a_handler(code))

    assert set(get_task_handlers()) == {"a", "A", "á"}


def test_the_code_may_be_computed():
    register_task_handler(a_handler("", get_biz_code=lambda self: "computed"))

    assert "computed" in get_task_handlers()


def test_what_one_gets_cannot_be_changed():
    register_task_handler(a_handler())

    with pytest.raises(TypeError):
        get_task_handlers()["x"] = None  # type: ignore[index]


def test_what_one_got_stays_as_it_was():
    register_task_handler(a_handler("a"))
    before = get_task_handlers()

    register_task_handler(a_handler("b"))

    assert set(before) == {"a"}
    assert set(get_task_handlers()) == {"a", "b"}


def test_the_revision_moves_with_each_handler_that_is_new():
    handler, before = a_handler("a"), revision()

    register_task_handler(handler)
    assert revision() == before + 1

    register_task_handler(handler)
    with pytest.raises(HandlerError):
        register_task_handler(a_handler("a"))
    with pytest.raises(HandlerError):
        register_task_handler(a_handler(""))
    assert revision() == before + 1

    register_task_handler(a_function)
    assert revision() == before + 2


def test_who_sees_a_revision_sees_its_handlers_whatever_threads_register():
    codes = [f"code {number}" for number in range(400)]
    before, seen, over = revision(), [], Event()

    def look():
        while not over.is_set():
            seen.append((revision() - before, len(get_task_handlers())))

    with ThreadPoolExecutor(max_workers=9) as pool:
        looking = pool.submit(look)
        try:
            list(pool.map(lambda code: register_task_handler(a_handler(code)), codes))
        finally:
            over.set()
        looking.result(DEADLINE)

    assert revision() == before + len(codes)
    assert set(get_task_handlers()) == set(codes)
    assert all(handlers >= count for count, handlers in seen)


class Needy(TaskHandler):
    biz_code = "needy"

    def __init__(self, what):
        self.what = what

    def handle(self, task):
        return None


class Abstract(TaskHandler, ABC):
    biz_code = "abstract"

    @abstractmethod
    def handle(self, task):
        return None


async def coroutine(self, task):
    return None


def generator(self, task):
    yield task


async def async_generator(self, task):
    yield task


def wrapped(function):
    """As a decorator that hands over more than it is given."""

    @wraps(function)
    def wrapper(self, task):
        return function(self, task, "more")

    return wrapper


def a_batch(**attributes):
    values = {"biz_code": "order", "batch": 5, "handle_batch": lambda self, tasks: None}
    return type("Batch", (TaskHandler,), values | attributes)


UNUSABLE = {
    "no code": a_handler(""),
    "code of another type": a_handler(5),
    "code too long": a_handler("x" * 51),
    "code with blanks": a_handler(" x"),
    "code with NUL": a_handler("a\0"),
    "no handle": type("Lazy", (TaskHandler,), {"biz_code": "lazy"}),
    "handle without a task": a_handler(handle=lambda self: None),
    "handle with too much": a_handler(handle=lambda self, task, more: None),
    "handle that is no function": a_handler(handle=5),
    "a function without a task": task_handler("function")(lambda: None),  # type: ignore[arg-type, misc]
    "a generator": a_handler(handle=generator),
    "an async generator": a_handler(handle=async_generator),
    "empty queue": a_handler(queue=""),
    "queue of another type": a_handler(queue=None),
    "queue too long": a_handler(queue="x" * 51),
    "priority of another type": a_handler(priority="1"),
    "priority out of range": a_handler(priority=32_768),
    "backoff of another type": a_handler(backoff="10"),
    "negative backoff": a_handler(backoff=-1),
    "empty backoff": a_handler(backoff=[]),
    "timeout of another type": a_handler(timeout="10"),
    "negative timeout": a_handler(timeout=timedelta(-1)),
    "no attempts": a_handler(max_attempts=0),
    "another history": a_handler(history="some"),
    "none at once": a_handler(max_running=0),
    "at once of another type": a_handler(max_running="5"),
    "a rate of another form": a_handler(rate_limit="5 a minute"),
    "a rate of another type": a_handler(rate_limit=5),
    "attempts of another type": a_handler(max_attempts="5"),
    "async and atomic": a_handler(handle=coroutine, atomic=True),
    "a batch of none": a_batch(batch=0),
    "a batch of too many": a_batch(batch=501),
    "a batch of another type": a_batch(batch="5"),
    "handle_batch without a batch": a_batch(batch=None),
    "a batch without handle_batch": a_handler(batch=5),
    "both methods": a_handler(batch=5, handle_batch=lambda self, tasks: None),
    "handle_batch without tasks": a_batch(handle_batch=lambda self: None),
    "a function of a batch without tasks": task_handler("function", batch=5)(lambda: None),  # type: ignore[arg-type, misc]
    "a batch that is a generator": a_batch(handle_batch=generator),
    "a batch that is async and atomic": a_batch(handle_batch=coroutine, atomic=True),
    "constructor with arguments": Needy,
    "abstract": Abstract,
    "no handler": object,
    "an instance of something else": object(),
    "a path": "a.b.C",
    "None": None,
    "the base": TaskHandler,
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_a_handler_that_cannot_work_is_refused(what):
    with pytest.raises(HandlerError) as caught:
        register_task_handler(UNUSABLE[what])

    assert isinstance(caught.value, TaskException)
    assert isinstance(caught.value, ValueError)
    assert not get_task_handlers()


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("handle without a task", "must take one task: write def handle(self, task)"),
        ("a function without a task", "must take one task: write def <lambda>(task)"),
        ("no handle", "does not define handle()"),
        ("a batch without handle_batch", "does not define handle_batch()"),
        ("both methods", "defines handle() and handle_batch(): keep one"),
        ("handle_batch without a batch", "give it a batch from 1 to 500"),
        ("a batch of too many", "batch must be a whole number from 1 to 500: 501"),
        ("handle_batch without tasks", "must take a list of tasks: write def handle_batch(self, t"),
        ("a function of a batch without tasks", "must take a list of tasks: write def <lambda>("),
        ("a generator", "must return its answer, not yield it"),
        ("an async generator", "must return its answer, not yield it"),
    ],
)
def test_what_is_wrong_with_handle_is_said(what, sentence):
    with pytest.raises(HandlerError) as caught:
        register_task_handler(UNUSABLE[what])

    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("attributes", "sentence"),
    [
        ({"max_attempts": "three"}, "max_attempts must be a whole number from 1 to 10000: 'three'"),
        ({"history": "some"}, "history must be 'all', 'problems' or 'none': 'some'"),
        ({"timeout": "10"}, "timeout must be a timedelta or a number of seconds: '10'"),
        ({"timeout": -1}, "timeout must not be negative: -1"),
        ({"kill_after": "10"}, "kill_after must be a timedelta or a number of seconds: '10'"),
        (
            {"misfire_grace_time": "10m"},
            "misfire_grace_time must be a timedelta or a number of seconds: '10m'",
        ),
        ({"backoff": -1}, "backoff: a duration cannot be -1"),
        ({"backoff": ["a"]}, "backoff: a timedelta or a number of seconds is wanted, not 'a'"),
    ],
)
def test_an_attribute_that_cannot_be_used_is_named_with_its_value(attributes, sentence):
    handler = a_handler(**attributes)
    with pytest.raises(HandlerError) as caught:
        register_task_handler(handler)

    assert str(caught.value) == f"{__name__}.Handler: {sentence}"


@pytest.mark.parametrize("name", ["bizcode", "biz_codes", "biz_Code", "BIZ_CODE"])
def test_a_code_that_is_misspelt_is_named(name):
    with pytest.raises(HandlerError, match=f"has no biz_code; is '{name}' meant to be it"):
        register_task_handler(type("Handler", (TaskHandler,), {name: "a", "handle": print}))


def test_a_handlers_schedule_has_no_policies_and_the_error_names_its_attributes():
    with pytest.raises(HandlerError) as caught:
        register_task_handler(a_handler(schedule="every 30m | grace 10m"))

    assert "has a '|'" in str(caught.value)
    assert "misfire_grace_time" in str(caught.value)


@pytest.mark.parametrize(
    "handle",
    [
        staticmethod(lambda task: None),
        classmethod(lambda cls, task: None),
        lambda self, *args: None,
        lambda self, task, more=None: None,
        wrapped(lambda self, task, more: None),
        Mock(),
        print,
    ],
    ids=["static", "of the class", "any", "default", "wrapped", "mock", "built in"],
)
def test_whatever_can_be_called_with_one_task_is_a_handle(handle):
    register_task_handler(a_handler(handle=handle))

    assert "order" in get_task_handlers()


# At start


@pytest.fixture
def module(settings, monkeypatch):
    """A module of handlers that no app has; no app has any other."""
    settings.TASK_HANDLERS = []
    monkeypatch.setattr(registry, "module_has_submodule", lambda package, name: False)
    made = ModuleType("shop_handlers")
    monkeypatch.setitem(sys.modules, made.__name__, made)

    def put(**members):
        for name, value in members.items():
            if isinstance(value, type):
                value.__module__ = made.__name__
            setattr(made, name, value)

    vars(made)["put"] = put
    return made


def test_settings_name_classes_instances_and_functions(module, settings):
    module.put(A=a_handler("a"), b=a_handler("b")(), c=a_function)
    settings.TASK_HANDLERS = ["shop_handlers.A", "shop_handlers.b", "shop_handlers.c"]

    load()

    assert list(get_task_handlers()) == ["a", "b", "function"]
    assert problems() == []


@pytest.mark.parametrize(
    "path",
    [
        *("nowhere.Handler", "shop_handlers.Missing", "plain", "", "shop_handlers.number"),
        *(5, None, "shop_handlers.Bad"),
    ],
)
def test_what_cannot_be_registered_is_a_problem_and_the_others_are_there(module, settings, path):
    module.put(Good=a_handler("good"), Bad=a_handler(""), number=5)
    settings.TASK_HANDLERS = [path, "shop_handlers.Good"]

    load()

    assert list(get_task_handlers()) == ["good"]
    (problem,) = problems()
    assert repr(path) in problem


@pytest.mark.parametrize("where", ["settings", "module"])
def test_a_problem_names_its_handler_once(where, module, settings):
    bad = a_handler(max_attempts="three")
    bad.__qualname__ = bad.__name__ = "Bad"
    module.put(Bad=bad)
    if where == "settings":
        settings.TASK_HANDLERS = ["shop_handlers.Bad"]
        load()
    else:
        found_in(module)

    problem = "shop_handlers.Bad: max_attempts must be a whole number from 1 to 10000: 'three'"
    assert problems() == [problem]


def test_a_taken_code_is_a_problem(module, settings):
    module.put(A=a_handler("a"), B=a_handler("a"))
    settings.TASK_HANDLERS = ["shop_handlers.A", "shop_handlers.B"]

    load()

    (problem,) = problems()
    assert "two handlers" in problem


def test_settings_that_are_no_list_are_a_problem(module, settings):
    settings.TASK_HANDLERS = "shop_handlers.A"

    load()

    (problem,) = problems()
    assert "TASK_HANDLERS must be a list" in problem


def found_in(module):
    registry._register_module(module.__name__)
    return list(get_task_handlers())


def test_a_module_registers_the_handlers_that_it_defines(module):
    imported = a_handler("imported")
    imported.__module__ = "elsewhere"
    base = a_handler("")
    derived = type("Derived", (base,), {"biz_code": "derived"})
    function = task_handler("function")(lambda task: None)
    function.__module__ = module.__name__
    abstract = type("AbstractHere", (Abstract,), {})
    module.put(
        Base=base,
        Derived=derived,
        One=a_handler("one"),
        function=function,
        AbstractHere=abstract,
        text="x",
    )
    module.Imported = imported
    module.TaskHandler, module.anything = TaskHandler, object
    module.imported_function = a_function

    assert found_in(module) == ["derived", "one", "function"]
    assert problems() == []


def test_a_handler_that_forgot_its_code_is_a_problem_of_its_module(module):
    module.put(Forgetful=a_handler(""), One=a_handler("one"))

    assert found_in(module) == ["one"]
    (problem,) = problems()
    assert problem.startswith("shop_handlers.")


def test_a_module_that_cannot_be_imported_is_a_problem(monkeypatch):
    monkeypatch.setitem(sys.modules, "broken_handlers", None)

    registry._register_module("broken_handlers")

    (problem,) = problems()
    assert problem.startswith("broken_handlers")


def test_a_decorator_without_its_code_is_a_problem_of_its_module(tmp_path, monkeypatch):
    source = """
from django_tasks.api import task_handler

@task_handler
def push(task):
    return None
"""
    (tmp_path / "forgetful_handlers.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)

    registry._register_module("forgetful_handlers")

    (problem,) = problems()
    assert problem.startswith("forgetful_handlers: @task_handler needs a biz_code")


def test_an_app_with_task_handlers_is_discovered(module, settings, monkeypatch):
    from django.apps import apps

    app = apps.get_app_config("shop")
    discovered = ModuleType(f"{app.name}.task_handlers")
    handler = a_handler("discovered")
    handler.__module__ = discovered.__name__
    vars(discovered)["Handler"] = handler
    monkeypatch.setitem(sys.modules, discovered.__name__, discovered)
    monkeypatch.setattr(
        registry, "module_has_submodule", lambda package, name: package is app.module
    )

    load()

    assert list(get_task_handlers()) == ["discovered"]
