"""The reference has an entry for each public name, and its tables have no other entries."""

import ast
import re
from collections.abc import Iterable
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest
from django.apps import apps
from django.core import checks
from django.core.management import get_commands, load_command_class
from django.db.models import Model
from django.dispatch import Signal

from devtools import CHECKOUT
from django_tasks import api, exceptions, schedules, signals, testing
from django_tasks.conf import Options
from django_tasks.handlers.base import TaskHandler
from django_tasks.logs import TaskFilter
from tests.site.entries import Entry, entries, paragraph

REFERENCE = CHECKOUT / "docs" / "reference"
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in REFERENCE.glob("*.rst")}
# Flags that every command of Django has.
OF_DJANGO = {
    *("--help", "--version", "--verbosity", "--settings", "--pythonpath", "--traceback"),
    *("--no-color", "--force-color", "--skip-checks"),
}
# Pages with the names of ``django_tasks.api``.
OF_API = ("functions", "handlers", "exceptions", "signals")
SHARED = "Shared flags"
# Defaults that are told in other words: two are found out on the host.
TOLD = {
    "PROCESSES": "2; 1 on SQLite or with one core",
    "WORKER_NAME": "the host's name",
    "PAYLOAD_DECODER": "json.JSONDecoder",
}
DAY = 86_400


def of_page(page: str) -> list[Entry]:
    return entries(REFERENCE / f"{page}.rst")


def missing(names: Iterable[str], *pages: str) -> list[str]:
    """The names that no first cell and no definition of the pages is about."""
    known = {name for page in pages for entry in of_page(page) for name in entry.names}
    return sorted(set(names) - known)


def first_cells(page: str) -> list[str]:
    """The names in the first column of the tables of a page."""
    return [head for entry in of_page(page) if entry.cells for head in entry.heads]


def public(module: str) -> list[str]:
    """``__all__`` of a module that cannot be imported on each Django."""
    path = CHECKOUT / "django_tasks" / module
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    raise LookupError(f"{module} has no __all__")


@dataclass
class Usage:
    """The words that a command takes: its positional arguments, in capitals, and its flags."""

    arguments: list[str] = field(default_factory=list)
    flags: set[str] = field(default_factory=set)


def usages_of_the_code() -> dict[str, Usage]:
    """The words that each of our commands takes, without Django's own flags."""
    found: dict[str, Usage] = {}
    for name, app in get_commands().items():
        if app == "django_tasks":
            actions = load_command_class(app, name).create_parser("manage.py", name)._actions
            flags = {option for action in actions for option in action.option_strings}
            found[name] = Usage(
                [action.dest.upper() for action in actions if not action.option_strings],
                set(_flags_in(flags)) - OF_DJANGO,
            )
    return found


def usages_of_the_reference() -> dict[str, Usage]:
    """The words that each command takes, as the page of commands has it."""
    found = {"starttask": Usage()}
    for entry in of_page("commands"):
        if entry.section == "starttask":
            found["starttask"].flags.update(_flags_in(entry.heads))
        for head in entry.heads:
            name, *arguments = head.split()
            if name.isalpha():
                usage = found.setdefault(name, Usage(arguments))
                usage.flags.update(_flags_in(entry.words), _flags_of_all(entry.section))
    return found


def _flags_in(words: Iterable[str]) -> list[str]:
    """Those of the words that are flags, without their values and without short forms."""
    return [word.split()[0] for word in words if word.startswith("--")]


def _flags_of_all(section: str) -> list[str]:
    """The flags that the first words of a section give to all of its commands."""
    return _flags_in(paragraph(REFERENCE / "commands.rst", section)) if section != SHARED else []


def models() -> list[type[Model]]:
    """The models that have a table."""
    found = apps.get_app_config("django_tasks").get_models()
    return [model for model in found if model._meta.managed]


def signal_names() -> list[str]:
    return [name for name, value in vars(signals).items() if isinstance(value, Signal)]


@pytest.mark.parametrize(
    ("module", "pages"),
    [
        (api, OF_API),
        (testing, ("testing",)),
        (schedules, ("schedules",)),
    ],
)
def test_every_public_name_has_its_entry(module: ModuleType, pages: tuple[str, ...]) -> None:
    assert missing(module.__all__, *pages) == []


@pytest.mark.parametrize("module", ["backend.py", "metrics/__init__.py"])
def test_every_public_name_of_an_integration_has_its_entry(module: str) -> None:
    assert missing(public(module), "integrations") == []


def test_what_has_no_module_of_its_own_has_its_entry() -> None:
    assert missing(["DjangoTasksIntegration", TaskFilter.__name__], "integrations") == []


def test_a_mention_is_no_entry(tmp_path: Path) -> None:
    page = tmp_path / "page.rst"
    page.write_text(dedent(SAMPLE), encoding="utf-8")
    names = [name for entry in entries(page) for name in entry.names]
    assert sorted(names) == ["cell", "handler", "term", "twin"]


SAMPLE = """
    Page
    ====

    A ``mention``.

    .. list-table::

       * - ``cell NUMBER``
         - with ``words``

    ``term(a, *, b=None)``, ``twin`` → ``int``
        With ``words``.

    ``@handler(code)``
        Words.
    """


def test_every_exception_has_its_entry() -> None:
    ours = [name for name, it in vars(exceptions).items() if isinstance(it, type)]
    public = [name for name in ours if name in api.__all__]
    assert public
    assert missing(public, "exceptions") == []


def test_every_attribute_of_a_handler_has_its_entry() -> None:
    (entry,) = [each for each in of_page("handlers") if each.names == ["TaskHandler"]]
    known = {word.partition("(")[0] for word in entry.words}
    assert {name for name in vars(TaskHandler) if not name.startswith("_")} - known == set()


def test_the_signals_are_those_of_the_code() -> None:
    assert sorted(first_cells("signals")) == sorted(signal_names())


def test_the_settings_are_those_of_the_code() -> None:
    ours = {name.upper() for name in Options.__dataclass_fields__}
    assert {name for name in first_cells("settings") if name.isupper()} == ours


def default_text(option: "Field[Any]") -> str:
    """The default of a setting as the reference has it."""
    value = option.default
    if isinstance(value, float):
        return f"{value / DAY:g} days" if value >= DAY else f"{value:g} s"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, type):
        return value.__name__
    if value is None:
        return "not set"
    return f'"{value}"' if value else "empty"


def test_the_defaults_of_settings_are_those_of_the_code() -> None:
    told = {entry.cells[0]: entry.cells[2] for entry in of_page("settings") if entry.cells[3:]}
    for option in fields(Options):
        name = option.name.upper()
        assert (name, told[name]) == (name, TOLD.get(name, default_text(option)))


def test_the_columns_are_those_of_the_models() -> None:
    ours = {field.column for model in models() for field in model._meta.concrete_fields}
    # The ten buckets of a histogram are one entry: its first and its last one.
    named = {re.sub(r"_[09]$", f"_{n}", name) for name in first_cells("tables") for n in range(10)}
    assert named == ours


def test_the_tables_are_those_of_the_models() -> None:
    ours = {model._meta.db_table for model in models()}
    assert set(re.findall(r"^``(t_\w+)``:", PAGES["tables"], re.MULTILINE)) == ours


def test_each_command_takes_what_its_entry_says() -> None:
    ours, told = usages_of_the_code(), usages_of_the_reference()
    assert told.keys() == ours.keys()
    for name, usage in ours.items():
        assert (name, told[name]) == (name, usage)


def test_the_checks_are_those_of_the_code() -> None:
    folder = CHECKOUT / "django_tasks"
    ours = {
        f"django_tasks.{number}"
        for path in folder.rglob("*.py")
        for number in re.findall(
            r'"(?:django_tasks\.)?([EW]\d{3})"', path.read_text(encoding="utf-8")
        )
    }
    assert checks.registry.registry.tag_exists("django_tasks")
    assert set(re.findall(r"django_tasks\.[EW]\d{3}", PAGES["checks"])) == ours
