"""The codes of functions, and rows that wait under codes of an earlier release."""

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.tasks import task_backends
from django.tasks.exceptions import InvalidTask

from django_tasks import api
from django_tasks.admin.standing import known_here
from django_tasks.client.adding import add_task
from django_tasks.handlers import finders, registry
from django_tasks.models import Task
from django_tasks.testing import captured_tasks, run_due_tasks
from django_tasks.values.calls import code_of, longest_key
from tests.functions import test_finding
from tests.worker.test_history import World

jobs = test_finding.jobs

LONG = "tell_the_customer_that_the_parcel_is_late"  # 41
LONGER = "tell_the_customer_that_the_parcel_is_late_once"
PUSH = "send_the_invoice_to_the_customer_"  # with its module 43
COUNT = "count_all_parcels_of_the_last_day"

# The names of functions

PROGRAM = """
import json
import sys
from importlib import import_module

from django.conf import settings

settings.configure(
    INSTALLED_APPS=["django_tasks", "depot.AppConfigOfTheDepot"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    TASKS={
        "default": {
            "BACKEND": "django_tasks.backend.DatabaseBackend",
            "OPTIONS": {"MODULES": ["depot.other.named"]},
        }
    },
)
import django

early, late = sys.argv[1].split(), sys.argv[2].split()
for module in early:
    import_module(module)
django.setup()
from django.tasks import task_backends
from django_tasks.api import get_task_handlers

for module in late:
    import_module(module)
clashes = [str(each.msg) for each in task_backends["default"].check() if "E008" in each.id]
codes = {handler.path: code for code, handler in get_task_handlers().items()}
print(json.dumps([codes, clashes]))
"""
FUNCTIONS = """
from django.tasks import task

@task
def {name}():
    pass
"""


@pytest.fixture
def depot(tmp_path: Path) -> Path:
    """An app whose label is not the name of its package."""
    package = tmp_path / "depot"
    for folder in (package, package / "other", package / "tasks"):
        folder.mkdir()
        (folder / "__init__.py").touch()
    (package / "other" / "named.py").touch()
    (package / "__init__.py").write_text(
        "from django.apps import AppConfig\n"
        "class AppConfigOfTheDepot(AppConfig):\n"
        "    name, label = 'depot', 'store'\n"
    )
    return package


def names_of(depot: Path, early: str = "", late: str = "") -> tuple[dict[str, str], list[str]]:
    """The codes by path, and the clashes, in a new process that imports modules in this order."""
    words = [sys.executable, "-c", PROGRAM, early, late]
    path = f"{depot.parent}:{Path(__file__).parents[2]}"
    done = subprocess.run(words, capture_output=True, text=True, env={"PYTHONPATH": path})
    assert done.stderr == ""
    codes, clashes = json.loads(done.stdout)
    return codes, clashes


def write(place: Path, *names: str) -> None:
    place.write_text("".join(FUNCTIONS.format(name=name) for name in names))


def test_a_path_that_fits_is_the_code_and_a_longer_one_gives_way_to_label_and_name(
    depot: Path,
) -> None:
    fits = "x" * (50 - len("depot.tasks."))
    long, too_long = "y" * 44, "z" * 45
    write(depot / "tasks" / "__init__.py", fits, long, too_long)
    write(depot / "other" / "named.py", LONG)
    write(depot / "other" / "unnamed.py", LONGER)
    codes, clashes = names_of(depot, late="depot.other.unnamed")
    unnamed, cut = f"depot.other.unnamed.{LONGER}", f"depot.tasks.{too_long}"
    assert codes == {
        f"depot.tasks.{fits}": f"depot.tasks.{fits}",
        f"depot.tasks.{long}": f"store.{long}",
        cut: code_of(cut),
        f"depot.other.named.{LONG}": f"store.{LONG}",
        unnamed: code_of(unnamed),
    }
    assert {len(codes[unnamed]), len(codes[cut])} == {40}
    assert clashes == []


def test_a_name_is_the_same_whatever_a_process_imports_first(depot: Path) -> None:
    write(depot / "tasks" / "__init__.py", LONG)
    write(depot / "other" / "unnamed.py", LONG)
    modules = ["depot.tasks", "depot.other.unnamed"]
    orders = [(), ("", "depot.other.unnamed"), ("", " ".join(modules)), (" ".join(modules[::-1]),)]
    seen = [names_of(depot, *order) for order in orders]
    path = f"depot.other.unnamed.{LONG}"
    wanted = {f"depot.tasks.{LONG}": f"store.{LONG}", path: code_of(path)}
    assert [clashes for _, clashes in seen] == [[]] * 4
    assert [codes for codes, _ in seen[1:]] == [wanted] * 3
    assert seen[0][0].items() <= wanted.items()


def test_two_functions_that_would_share_a_name_are_named_by_check(depot: Path) -> None:
    write(depot / "tasks" / "__init__.py", LONG)
    write(depot / "other" / "named.py", LONG)
    _, (clash,) = names_of(depot)
    first, second = f"depot.tasks.{LONG}", f"depot.other.named.{LONG}"
    assert clash == f"{second} has the code 'store.{LONG}', as has {first}."


# Rows of an earlier release


@pytest.fixture(autouse=True)
def _no_former_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "FORMER", {})
    for module in ("django_tasks.functions.declared", "django_tasks.handlers.registry"):
        monkeypatch.setattr(f"{module}.FORMER", registry.FORMER)


SOURCE = f"""
from django.tasks import task
from django_tasks.backend import options

CALLS = []

@task
def {PUSH}(*args):
    CALLS.append(args)
    return "sent"

@task
async def a{PUSH}(*args):
    CALLS.append(args)

@task
@options(schedule="every day", max_attempts=2, backoff=0)
def {COUNT}():
    CALLS.append("counted")
"""
PATH, COUNTED = f"late_jobs.{PUSH}", f"late_jobs.{COUNT}"
FORMER, FORMERLY_COUNTED = code_of(PATH), code_of(COUNTED)


@pytest.fixture
def parcels(jobs: Path, db: None, handlers: Any) -> None:
    """Functions whose names have changed, in a module that nobody has imported."""
    jobs.write_text(SOURCE)


def done() -> Any:
    return sys.modules["late_jobs"].CALLS


def call_of_old(number: str, path: str = PATH) -> None:
    """Store a call as a process of the earlier release has."""
    finders.discover()
    function = getattr(sys.modules["late_jobs"], path.rpartition(".")[2])
    result = function.using(key="away").enqueue(number)
    facts = Task.objects.get(biz_num="away").biz_ext
    Task._base_manager.filter(biz_num="away")._raw_delete("default")
    assert result.id == f"{path}:away"
    add_task(code_of(path), number, biz_ext=facts | {"key": number})


def forget() -> None:
    """Be a process that has imported nothing yet."""
    from django_tasks.functions import declared

    registries: Any = registry._handlers, registry.FORMER, declared._handlers, declared._by_path
    for known in registries:
        for key in [
            key for key, it in known.items() if getattr(it, "path", "").startswith("late_jobs.")
        ]:
            del known[key]
    sys.modules.pop("late_jobs")
    finders.forget()


def test_names_that_fit_are_whole(parcels: None) -> None:
    finders.discover()
    assert (len(FORMER), len(PATH)) == (40, 43)
    assert sys.modules["late_jobs"].__dict__[PUSH].biz_code == PATH


@pytest.mark.parametrize("path", [PATH, f"late_jobs.a{PUSH}"])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_worker_runs_what_waits_under_the_old_name(
    parcels: None, path: str, is_new: bool
) -> None:
    call_of_old("7", path)
    if is_new:
        forget()
    (ran,) = run_due_tasks()
    assert (ran.code, ran.outcome) == (code_of(path), "done")
    assert [list(args) for args in done()] == [["7"]]


def test_its_result_is_found_by_its_old_id(parcels: None) -> None:
    call_of_old("7")
    run_due_tasks()
    assert task_backends["default"].get_result(f"{FORMER}:7").return_value == "sent"


def test_admin_adds_and_checktasks_know_the_old_name(
    parcels: None, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    call_of_old("7")
    forget()
    call_command("checktasks")
    assert "All is well" in capsys.readouterr().out
    forget()
    assert known_here(FORMER)
    settings.DJANGO_TASKS = {"STRICT_CODES": "raise"}
    api.add_task(FORMER, "8", biz_ext=["8"])
    with pytest.raises(api.TaskValueError, match="has no handler in this project"):
        api.add_task(f"{FORMER}x", "1")


def test_nobody_hears_of_an_old_name_that_nothing_waits_under(parcels: None) -> None:
    finders.discover()
    assert PATH in api.get_task_handlers()
    assert FORMER not in api.get_task_handlers()


def test_a_key_that_waits_under_the_old_name_waits_once(parcels: None) -> None:
    call_of_old("7")
    function = sys.modules["late_jobs"].__dict__[PUSH]
    later = function.using(key="7", run_after=timedelta(days=1)).enqueue("again")
    (row,) = Task.objects.all()
    assert (row.biz_code, row.biz_ext["args"]) == (FORMER, ["again"])
    assert later.id == f"{FORMER}:7"
    later.refresh()
    assert function.using(key="8").enqueue("8").id == f"{PATH}:8"


def test_it_is_cancelled_by_its_key(parcels: None) -> None:
    call_of_old("7")
    function = sys.modules["late_jobs"].__dict__[PUSH]
    assert function.cancel("7") is api.CancelResult.CANCELLED
    assert function.cancel("7") is api.CancelResult.NOT_FOUND
    function.using(key="8").enqueue()
    assert function.cancel("8") is api.CancelResult.CANCELLED
    assert not Task.objects.exists()


def test_a_key_is_captured(parcels: None) -> None:
    finders.discover()
    function = sys.modules["late_jobs"].__dict__[PUSH]
    with captured_tasks() as tasks:
        for _ in range(2):
            function.using(key="7").enqueue()
    assert [each.biz_code for each in tasks] == [PATH]


# Schedules


def old_beat(when: timedelta) -> None:
    """The row that workers of the earlier release kept for the schedule."""
    add_task(FORMERLY_COUNTED, "beat", when=when, schedule=timedelta(days=1))
    Task._base_manager.filter(biz_num="beat").update(biz_num="@schedule")


def new_beat(since: timedelta) -> None:
    """That of this release, as of some time ago."""
    add_task(COUNTED, "beat", when=timedelta(hours=1), schedule=timedelta(days=1))
    row = Task._base_manager.filter(biz_code=COUNTED)
    row.update(biz_num="@schedule", create_time=row.get().create_time - since)


def worker() -> World:
    """A worker that has started, and then found the old row."""
    world = World()
    world.work()
    assert finders.find(FORMERLY_COUNTED, using="default")
    Task._base_manager.all().delete()
    return world


@pytest.mark.usefixtures("in_one_transaction")
def test_the_old_row_of_a_schedule_ends_where_the_new_one_has_its_time(parcels: None) -> None:
    finders.discover()
    world = worker()
    old_beat(timedelta(minutes=-5))
    new_beat(timedelta(minutes=10))
    world.work()
    assert done() == []
    assert [row.biz_code for row in Task.objects.all()] == [COUNTED]


@pytest.mark.usefixtures("in_one_transaction")
def test_what_it_had_missed_before_runs_once(parcels: None) -> None:
    finders.discover()
    world = worker()
    old_beat(timedelta(minutes=-10))
    new_beat(timedelta(minutes=5))
    world.work()
    assert done() == ["counted"]
    assert [row.biz_code for row in Task.objects.all()] == [COUNTED]


# Lengths


def test_ids_stay_short_where_the_code_is_long(parcels: None) -> None:
    finders.discover()
    function = sys.modules["late_jobs"].__dict__[PUSH]
    result = function.enqueue()
    assert (result.id.partition(":")[0], len(result.id)) == (PATH, 63)
    longest = longest_key(PATH)
    assert len(function.using(key="k" * longest).enqueue().id) == 63
    with pytest.raises(InvalidTask, match=f"more than the limit of {longest}"):
        function.using(key="k" * (longest + 1)).enqueue()
