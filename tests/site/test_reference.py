"""The reference has an entry for each public name, and its tables have no other entries."""

import re
from collections.abc import Iterable
from types import ModuleType

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

REFERENCE = CHECKOUT / "docs" / "reference"
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in REFERENCE.glob("*.rst")}
# Flags that every command of Django has.
OF_DJANGO = {
    *("--help", "--version", "--verbosity", "--settings", "--pythonpath", "--traceback"),
    *("--no-color", "--force-color", "--skip-checks"),
}
FIRST_CELLS = re.compile(r"^   \* - (``.+)$", re.MULTILINE)
LITERAL = re.compile(r"``(.+?)``")


def missing(names: Iterable[str], *pages: str) -> list[str]:
    """The names that stand on none of the pages."""
    text = "\n".join(PAGES[page] for page in pages)
    return [name for name in names if not re.search(rf"(?<![\w.-])@?{name}(?![\w-])", text)]


def first_cells(page: str) -> list[str]:
    """The names in the first column of the tables of a page."""
    return [name for cell in FIRST_CELLS.findall(PAGES[page]) for name in LITERAL.findall(cell)]


def flags() -> dict[str, set[str]]:
    """The flags of each of our commands, without Django's own."""
    return {
        name: {
            option
            for action in load_command_class(app, name).create_parser("manage.py", name)._actions
            for option in action.option_strings
            if option.startswith("--")
        }
        - OF_DJANGO
        for name, app in get_commands().items()
        if app == "django_tasks"
    }


def models() -> list[type[Model]]:
    """The models that have a table."""
    found = apps.get_app_config("django_tasks").get_models()
    return [model for model in found if model._meta.managed]


def signal_names() -> list[str]:
    return [name for name, value in vars(signals).items() if isinstance(value, Signal)]


@pytest.mark.parametrize(
    ("module", "pages"),
    [
        (api, ("functions", "handlers", "exceptions", "schedules", "settings", "signals")),
        (testing, ("testing",)),
        (schedules, ("schedules",)),
    ],
)
def test_every_public_name_has_its_entry(module: ModuleType, pages: tuple[str, ...]) -> None:
    assert missing(module.__all__, *pages) == []


def test_every_exception_has_its_entry() -> None:
    ours = [name for name, it in vars(exceptions).items() if isinstance(it, type)]
    public = [name for name in ours if name in api.__all__]
    assert public
    assert missing(public, "exceptions") == []


def test_every_attribute_of_a_handler_has_its_entry() -> None:
    assert missing([n for n in vars(TaskHandler) if not n.startswith("_")], "handlers") == []


def test_the_signals_are_those_of_the_code() -> None:
    assert sorted(first_cells("signals")) == sorted(signal_names())


def test_the_settings_are_those_of_the_code() -> None:
    ours = {name.upper() for name in Options.__dataclass_fields__}
    assert {name for name in first_cells("settings") if name.isupper()} == ours


def test_the_columns_are_those_of_the_models() -> None:
    ours = {field.column for model in models() for field in model._meta.concrete_fields}
    # The ten buckets of a histogram are one entry: its first and its last one.
    named = {re.sub(r"_[09]$", f"_{n}", name) for name in first_cells("tables") for n in range(10)}
    assert named == ours


def test_the_tables_are_those_of_the_models() -> None:
    ours = {model._meta.db_table for model in models()}
    assert set(re.findall(r"^``(t_\w+)``:", PAGES["tables"], re.MULTILINE)) == ours


def test_every_flag_of_every_command_has_its_entry() -> None:
    ours = flags()
    assert missing(ours, "commands") == []
    assert missing({flag for each in ours.values() for flag in each}, "commands") == []


def test_no_command_has_a_flag_of_the_reference_only() -> None:
    known = OF_DJANGO.union(*flags().values())
    named = set(re.findall(r"``(--[a-z-]+)", PAGES["commands"]))
    assert named - known == set()


def test_the_checks_are_those_of_the_code() -> None:
    folder = CHECKOUT / "django_tasks"
    ours = {
        f"django_tasks.{number}"
        for path in folder.rglob("*.py")
        for number in re.findall(r"django_tasks\.([EW]\d{3})", path.read_text(encoding="utf-8"))
    }
    assert checks.registry.registry.tag_exists("django_tasks")
    assert set(re.findall(r"django_tasks\.[EW]\d{3}", PAGES["checks"])) == ours
