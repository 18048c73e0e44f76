"""Tests of ``django.tasks`` are there where Django has it; other sessions run them."""

from collections.abc import Iterator

import django
import pytest

from tests.handover.parts import received

collect_ignore = [] if django.VERSION >= (6, 0) else ["test_tasks.py"]


@pytest.fixture(autouse=True)
def _empty_broker() -> Iterator[None]:
    """Leave no message to the next test."""
    yield
    received()
