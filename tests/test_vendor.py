"""Tests of some databases alone are run on those, and skipped nowhere."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import pytest_collection_modifyitems
from tests.vendor import MYSQL, POSTGRESQL, SERVERS, SQLITE, VENDOR, only_on


class Item:
    """Stands in for a collected test."""

    def __init__(self, *marks: pytest.MarkDecorator) -> None:
        self.marks = [each.mark for each in marks]

    def iter_markers(self, name: str) -> list[pytest.Mark]:
        return [each for each in self.marks if each.name == name]


def kept(*items: Item) -> list[Item]:
    """The tests that are run here, once the others are told of as deselected."""
    left, gone = list(items), []
    hook = SimpleNamespace(pytest_deselected=lambda items: gone.extend(items))
    config: Any = SimpleNamespace(hook=hook)
    pytest_collection_modifyitems(config, left)  # type: ignore[arg-type]
    assert set(left) | set(gone) == set(items)
    return left


def test_a_test_of_any_database_is_run_on_each() -> None:
    plain = Item(pytest.mark.usefixtures("x"))
    assert kept(plain) == [plain]


@pytest.mark.parametrize("vendor", [SQLITE, MYSQL, POSTGRESQL])
def test_a_test_of_one_database_is_run_there_alone(vendor: str) -> None:
    one = Item(only_on(vendor, because="it is so"))
    assert bool(kept(one)) == (vendor == VENDOR)


def test_of_several_marks_each_counts() -> None:
    both = Item(only_on(*SERVERS, because="a"), only_on(POSTGRESQL, because="b"))
    assert bool(kept(both)) == (VENDOR == POSTGRESQL)
