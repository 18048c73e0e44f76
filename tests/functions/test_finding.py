"""Functions that a worker has not imported: which it imports, and which it never does."""

import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.checks import run_checks
from django.core.management import CommandError, call_command
from django.tasks import task, task_backends
from django.tasks.exceptions import InvalidTask
from django.test import override_settings

from django_tasks import api
from django_tasks.admin.standing import known_here
from django_tasks.backend import options
from django_tasks.checks.project import check_atomic_handlers
from django_tasks.client.adding import add_task
from django_tasks.functions import declared, finding
from django_tasks.functions.finding import FunctionFinder, UnknownFunction, is_allowed
from django_tasks.handlers import finders
from django_tasks.handlers.base import TaskHandler
from django_tasks.handlers.registry import get_task_handlers, handler_for
from django_tasks.importers.found import without_handler
from django_tasks.management.commands import starttask
from django_tasks.metrics import state
from django_tasks.models import Task
from django_tasks.reads import recurring
from django_tasks.testing import override_handlers, run_due_tasks
from django_tasks.worker.config import worker_config
from tests.functions.conftest import BACKENDS
from tests.functions.functions import echo

pytestmark = pytest.mark.django_db

SOURCE = """
from django.tasks import task
from django_tasks import api
from django_tasks.admin.standing import known_here
from django_tasks.backend import options

@task
def send(number):
    return number

@task
@options(biz_code="short")
def with_code():
    pass

def plain():
    pass

@task
def with_a_name_that_is_longer_than_forty_characters():
    pass
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[str]:
    """A module outside of the installed apps that MODULES names; nobody has imported it."""
    (tmp_path / "far_away.py").write_text(SOURCE)
    (tmp_path / "broken.py").write_text("raise RuntimeError('no such luck')")
    monkeypatch.syspath_prepend(tmp_path)
    default = BACKENDS["default"] | {"OPTIONS": {"MODULES": ["far_away", "broken"]}}
    settings.TASKS = BACKENDS | {"default": default}
    monkeypatch.setattr(finders, "_is_asked", True)  # an add that asks would import it
    monkeypatch.setattr(finders, "_find_at", cache(lambda path: None))
    known, by_path = dict(declared._handlers), dict(declared._by_path)
    yield "far_away"
    declared._handlers.clear()
    declared._handlers.update(known)
    declared._by_path.clear()
    declared._by_path.update(by_path)
    for name in ("far_away", "broken"):
        sys.modules.pop(name, None)


def find(code: str) -> bool:
    return finders.find(code, using="default")


def call(path: str, code: str | None = None, number: str = "1") -> None:
    """Store a call as another process has enqueued it."""
    words = echo.enqueue(1)
    enqueued = Task.objects.get(biz_num=words.id.rpartition(":")[2])
    facts = enqueued.biz_ext | {"call": path, "args": []}
    Task._base_manager.filter(pk=enqueued.pk)._raw_delete("default")
    add_task(code or path, number, biz_ext=facts)


def test_a_function_is_found_by_its_path(module: str, handlers: Any) -> None:
    call("far_away.send")
    assert find("far_away.send")
    assert handler_for("far_away.send") is not None


def test_a_worker_in_place_finds_it_as_well(module: str, handlers: Any) -> None:
    call("far_away.with_code", "short")
    add_task("far_away.plain", "1")
    (ran,) = run_due_tasks()
    assert (ran.code, ran.outcome) == ("short", "done")


def test_a_worker_in_place_may_be_asked_for_its_code_alone(module: str, handlers: Any) -> None:
    call("far_away.with_code", "short")
    (ran,) = run_due_tasks(codes=["short"])
    assert ran.code == "short"


def test_a_function_that_is_found_beside_other_handlers_stays(module: str, handlers: Any) -> None:
    with override_handlers(another=lambda task: None):
        assert handler_for("far_away.send") is not None
        assert handler_for("another") is not None
    assert handler_for("far_away.send") is not None
    assert handler_for("another") is None


def test_a_module_that_raises_keeps_a_worker_in_place_from_nothing_else(
    module: str, handlers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    for number in "12":
        call("far_away.with_code", "short", number)
    add_task("broken.send", "1")
    assert [ran.code for ran in run_due_tasks()] == ["short", "short"]
    assert caplog.text.count("RuntimeError: no such luck") == 2, (
        "when it begins, and when the row is met"
    )


def test_one_with_a_code_of_its_own_is_found_by_its_calls(module: str, handlers: Any) -> None:
    call("far_away.with_code", "short")
    assert find("short")


def test_so_is_one_whose_path_is_long(module: str, handlers: Any) -> None:
    path = "far_away.with_a_name_that_is_longer_than_forty_characters"
    from django_tasks.values.calls import code_of

    code = code_of(path)
    assert len(code) == 40
    call(path, code)
    assert find(code)


def test_without_a_call_the_code_is_the_path(module: str, handlers: Any) -> None:
    add_task("far_away.send", "1")
    assert find("far_away.send")


def test_one_that_was_imported_before_is_found_as_well(module: str, handlers: Any) -> None:
    call("far_away.send")
    assert find("far_away.send")
    get_task_handlers()
    from django_tasks.handlers import registry

    registry.forget()
    assert find("far_away.send")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("far_away.missing", None),
        ("far_away.plain", None),
        ("far_away.send", "another.code"),
        ("tests.functions.nowhere.send", None),
        ("no-path-at-all", None),
    ],
)
def test_what_is_not_there_is_not_found(
    path: str, code: str | None, module: str, handlers: Any
) -> None:
    call(path, code)
    assert not find(code or path)


@pytest.mark.parametrize("path", ["os.system", "subprocess.run", "antigravity.fly"])
def test_a_row_that_names_another_module_imports_nothing(
    path: str, module: str, handlers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported: list[str] = []
    monkeypatch.setattr(finding, "import_module", imported.append)
    call(path)
    assert not find(path)
    assert imported == []


def test_a_module_that_raises_says_so(module: str, handlers: Any) -> None:
    call("broken.send")
    with pytest.raises(RuntimeError, match="no such luck"):
        find("broken.send")


def test_modules_of_installed_apps_may_be_imported_and_no_others() -> None:
    assert is_allowed("testproject.shop.tasks")
    assert is_allowed("django.contrib.auth.hashers")
    assert not is_allowed("os")
    assert not is_allowed("django.core.management")


def test_before_it_starts_a_worker_imports_what_has_been_named(
    module: str, handlers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    finders.discover()
    assert handler_for("far_away.send") is not None
    assert "broken cannot be imported; tasks of its functions wait" in caplog.text


def test_the_tasks_of_an_app_are_imported_too(
    module: str, handlers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported: list[str] = []
    monkeypatch.setattr(finding, "import_module", imported.append)
    monkeypatch.setattr(finding, "module_has_submodule", lambda module, name: name == "tasks")
    FunctionFinder().discover()
    assert {f"{app.name}.tasks" for app in apps.get_app_configs()} <= set(imported)


@override_settings(TASKS={"default": {"BACKEND": "django.tasks.backends.dummy.DummyBackend"}})
def test_without_a_backend_of_ours_nothing_is_looked_for() -> None:
    assert not FunctionFinder().is_wanted()


@override_settings(TASKS={"default": {"BACKEND": "no.such.Backend"}})
def test_a_backend_that_cannot_be_made_is_none_of_ours() -> None:
    assert not FunctionFinder().is_wanted()


# Results


def test_the_result_of_a_function_that_is_gone_says_so(handlers: Any) -> None:
    call("testproject.shop.nowhere.send")
    with pytest.raises(UnknownFunction, match=r"testproject\.shop\.nowhere\.send"):
        task_backends["default"].get_result("testproject.shop.nowhere.send:1")


def test_it_is_caught_as_an_import_error_too(handlers: Any) -> None:
    call("os.system")
    with pytest.raises(ImportError, match=r"no @task at os\.system"):
        task_backends["default"].get_result("os.system:1")


# Two functions, and the names of functions


def function(name: str) -> Any:
    """A function of this module that has a name of its own."""

    def made() -> None:
        """Does nothing."""

    made.__qualname__ = name
    return made


@pytest.fixture
def no_problems() -> Iterator[None]:
    """Forget the functions whose code is taken."""
    yield
    declared._problems.clear()


@pytest.mark.usefixtures("handlers", "no_problems")
def test_two_functions_with_one_code_are_reported() -> None:
    task(options(biz_code="same")(function("one")))
    second = task(options(biz_code="same")(function("two")))
    sentence = f"{__name__}.two has the code 'same', as has {__name__}.one"
    problems = [each for each in task_backends["default"].check() if each.id.endswith("E008")]
    assert [(each.msg, each.hint) for each in problems] == [
        (f"{sentence}.", "Give one of them @options(biz_code=…).")
    ]
    assert finders.problems() == [sentence]  # as starttask says it
    with pytest.raises(InvalidTask, match="No worker could import"):
        second.enqueue()


@pytest.mark.usefixtures("no_problems")
def test_a_function_with_the_code_of_a_handler_is_reported(handlers: Any) -> None:
    handlers(type("Job", (TaskHandler,), {"biz_code": "same", "handle": lambda *given: None}))
    task(options(biz_code="same")(function("two")))
    assert finders.problems() == [f"{__name__}.two has the code 'same', as has {__name__}.Job"]


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize(
    ("name", "value"), [("rate_limit", "often"), ("backoff", "soon"), ("biz_code", "a:b")]
)
def test_a_bad_value_is_said_of_the_function(name: str, value: Any) -> None:
    with pytest.raises(InvalidTask) as raised:
        task(options(**{name: value})(function("one")))
    assert str(raised.value).startswith(f"{__name__}.one: ")
    assert repr(value) in str(raised.value)


@pytest.mark.usefixtures("handlers")
def test_w006_names_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_tasks.checks.project.sqlite_files", lambda: ["default"])
    task(options(biz_code="ship", atomic=True)(function("one")))
    (warning,) = check_atomic_handlers()
    assert f"The handler of 'ship' ({__name__}.one) is atomic" in warning.msg


def test_a_function_that_is_defined_again_takes_the_place_of_the_first(handlers: Any) -> None:
    def twice() -> None:
        """Is there first."""

    first = twice

    def made() -> Any:
        def twice() -> None:
            """Comes second."""

        return twice

    second = made()
    first.__qualname__ = second.__qualname__ = "twice"
    task(first)
    task(second)
    handler: Any = handler_for(f"{__name__}.twice"[-40:]) or handler_for(f"{__name__}.twice")
    assert handler.task.func is second
    assert declared.problems() == []


# One answer to which codes there are


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Path]:
    """A module of the project that nobody has imported yet."""
    monkeypatch.syspath_prepend(tmp_path)
    finders.forget()
    default = BACKENDS["default"] | {"OPTIONS": {"MODULES": ["late_jobs"]}}
    settings.TASKS = BACKENDS | {"default": default}
    known, by_path = dict(declared._handlers), dict(declared._by_path)
    yield tmp_path / "late_jobs.py"
    sys.modules.pop("late_jobs", None)
    finders.forget()
    declared._handlers.clear()
    declared._handlers.update(known)
    declared._by_path.clear()
    declared._by_path.update(by_path)


PUSH = """
from django.tasks import task

CALLS = []

@task(queue_name="mail", priority=7)
def push(subject, body=""):
    CALLS.append((subject, body))
"""


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("strict", ["raise", "warn"])
def test_an_add_knows_a_function_that_nobody_has_imported_yet(
    jobs: Path, settings: Any, strict: str, caplog: pytest.LogCaptureFixture
) -> None:
    jobs.write_text(PUSH)
    settings.DJANGO_TASKS = {"STRICT_CODES": strict}
    task = api.add_task("late_jobs.push", "1", biz_ext={"subject": "x"})
    assert (task.queue, task.priority) == ("mail", 7)
    assert caplog.text == ""
    assert known_here("late_jobs.push")
    if strict == "raise":
        with pytest.raises(api.TaskValueError, match="has no handler in this project"):
            api.add_task("late_jobs.pull", "1")


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize(
    "payload", [{"subject": "s", "body": "b"}, ["s", "b"], {"args": ["s"], "kwargs": {"body": "b"}}]
)
def test_a_row_of_an_importer_is_a_call(jobs: Path, payload: Any) -> None:
    jobs.write_text(PUSH)
    assert without_handler(["late_jobs.push", "nowhere.push"]) == ["nowhere.push"]
    api.add_task("late_jobs.push", "1", biz_ext=payload)
    (ran,) = run_due_tasks()
    assert ran.outcome == "done"
    assert sys.modules["late_jobs"].CALLS == [("s", "b")]


@pytest.mark.usefixtures("handlers")
def test_a_module_that_cannot_be_imported_is_red_everywhere(
    jobs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs.write_text("import no_such_library")
    sentence = (
        "late_jobs cannot be imported (ModuleNotFoundError: No module named 'no_such_library')"
    )
    found = [each for each in run_checks() if each.id == "django_tasks.E012"]
    assert [each.msg for each in found] == [f"{sentence}."]
    with pytest.raises(CommandError):
        call_command("checktasks")
    assert sentence in capsys.readouterr().out
    finders.discover()
    assert sentence in finders.problems()  # with which starttask refuses to start
    jobs.write_text(PUSH)
    assert [each for each in run_checks() if each.id == "django_tasks.E012"] == []


@pytest.mark.usefixtures("handlers")
def test_an_add_takes_a_path_as_a_worker_does(
    jobs: Path, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (package := jobs.parent / "late_jobs").mkdir()
    (package / "__init__.py").touch()
    (package / "mail.py").write_text(PUSH)
    (package / "bad.py").write_text("import no_such_library")
    settings.DJANGO_TASKS = {"STRICT_CODES": "raise"}
    try:
        assert api.add_task("late_jobs.mail.push", "1").queue == "mail"
        assert known_here("late_jobs.mail.push")
        call_command("addtask", "late_jobs.mail.push", "2")
        assert "No handler" not in capsys.readouterr().err
        for code in ("late_jobs.mail.pull", "late_jobs.bad.push", "late_jobs.none.push", "x.y"):
            with pytest.raises(api.TaskValueError, match="has no handler in this project"):
                api.add_task(code, "1")
            assert not known_here(code)
    finally:
        for name in ("late_jobs.mail", "late_jobs.bad"):
            sys.modules.pop(name, None)


@pytest.mark.usefixtures("handlers")
def test_a_code_without_a_handler_is_looked_for_once(
    jobs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (package := jobs.parent / "late_jobs").mkdir()
    (package / "__init__.py").touch()
    (package / "bad.py").write_text("import no_such_library")
    for _round in range(3):
        assert not known_here("late_jobs.bad.push")
    assert caplog.text.count("late_jobs.bad cannot be imported") == 1


@pytest.mark.usefixtures("handlers")
def test_what_is_shown_of_codes_does_not_depend_on_what_was_imported(jobs: Path) -> None:
    jobs.write_text(BEAT)
    assert "late_jobs.beat" in state.look(using="default").codes()
    finders.forget()
    assert "late_jobs.beat" in recurring.own_rows(using="default").missing


BEAT = """
from django.tasks import task
from django_tasks.backend import options

@task
@options(schedule="every 1h")
def beat():
    pass
"""


def never_running() -> list[str]:
    found = [each.msg for each in run_checks() if each.id == "django_tasks.W014"]
    return [each for each in found if each.startswith("shop_")]


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize(
    ("named", "is_warned"),
    [
        ("", True),
        ("import shop_views", False),
        ("from shop_views import beat", False),
        ("from shop_views import helper", False),
        ("import shop_urls", False),
    ],
)
def test_a_schedule_that_no_worker_would_import_is_told_of(
    jobs: Path, settings: Any, named: str, is_warned: bool
) -> None:
    jobs.write_text(named)
    (jobs.parent / "shop_views.py").write_text(f"{BEAT}\ndef helper(): pass\n")
    (jobs.parent / "shop_urls.py").write_text("from shop_views import beat\nurlpatterns = []\n")
    settings.ROOT_URLCONF = "shop_urls"
    try:
        assert never_running() == [
            "shop_views.beat has a schedule, and no worker imports shop_views."
        ] * int(is_warned)
    finally:
        for name in ("shop_views", "shop_urls"):
            sys.modules.pop(name, None)


@pytest.mark.usefixtures("handlers")
def test_one_that_djangos_start_has_imported_is_in_each_worker(
    jobs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.touch()
    (jobs.parent / "shop_ready.py").write_text(BEAT)
    monkeypatch.setattr(declared, "_at_start", set())
    try:
        with monkeypatch.context() as starting:
            starting.setattr(apps, "ready", False)
            import_module("shop_ready")
        assert never_running() == []
    finally:
        sys.modules.pop("shop_ready", None)


@pytest.mark.usefixtures("handlers")
def test_a_worker_inside_another_program_does_not_start_beside_a_broken_module(jobs: Path) -> None:
    jobs.write_text("import no_such_library")
    with pytest.raises(api.CannotStart, match="late_jobs cannot be imported") as refused:
        api.start()
    assert api.running() == []
    with pytest.raises(CommandError) as same:
        starttask._refuse_missing_handlers(worker_config("default"))
    assert str(same.value) == str(refused.value)


PAIR = """
from django.tasks import task

CALLS = []

@task
def pair(args, kwargs=None):
    CALLS.append((args, kwargs))
"""


@pytest.mark.usefixtures("handlers")
def test_parameters_named_as_importers_name_them_are_given_in_another_form(jobs: Path) -> None:
    jobs.write_text(PAIR)
    api.add_task("late_jobs.pair", "1", biz_ext={"args": [[1], {"a": 2}], "kwargs": {}})
    api.add_task("late_jobs.pair", "2", biz_ext={"args": [3], "kwargs": {}})
    assert [ran.outcome for ran in run_due_tasks()] == ["done", "done"]
    assert sorted(sys.modules["late_jobs"].CALLS, key=str) == [(3, None), ([1], {"a": 2})]
