"""Rows that were locked and do not change: a defect, which must not pass for an end."""

from types import SimpleNamespace
from typing import Any

import pytest

from django_tasks.store import ownership
from django_tasks.store.ownership import Fence, hand_over, remove, unchanged
from tests.factories import NOW

FENCES = [Fence(1, 5, 7), Fence(2, 5, 7)]


@pytest.fixture
def dialect(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A database without RETURNING that changes one row of two."""
    monkeypatch.setattr(ownership, "_locked", lambda *args: {1, 2})
    monkeypatch.setattr(ownership, "_hand_over_joined", lambda *args: ("", []))
    return SimpleNamespace(
        returns_updates=False, returns_deletes=False, execute=lambda template, params: 1
    )


def test_a_row_that_is_not_handed_over_is_a_defect(dialect: Any) -> None:
    with pytest.raises(AssertionError, match="1 rows changed where 2 were locked"):
        hand_over(dialect, [unchanged(fence) for fence in FENCES], NOW)


def test_a_row_that_is_not_removed_is_a_defect(dialect: Any) -> None:
    with pytest.raises(AssertionError, match="1 rows changed where 2 were locked"):
        remove(dialect, FENCES)


def test_nothing_to_remove_costs_no_statement() -> None:
    nothing: Any = None
    assert remove(nothing, []) == set()
