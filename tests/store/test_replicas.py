"""A proxy that splits reads may have two replicas answer two questions of one rescue."""

import pytest

from django_tasks.store.rescue import rescue
from django_tasks.values.status import OWNED
from tests.factories import NOW, a_row, a_worker, state

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("status", OWNED)
def test_a_worker_that_is_in_the_table_after_all_keeps_its_rows(status):
    """One knew its rows already, and the other did not know the worker yet."""
    living = a_worker().pk
    a_row(status=status, version=4, claimed_by=living)

    rescued = rescue([living], lambda row: 3, NOW, using="default")

    assert (rescued.freed, rescued.failed) == ([], [])
    assert state() == (status, 4, living)
