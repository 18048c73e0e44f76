"""The search for lanes finds each of them, whatever the names of queues and codes are."""

from itertools import product

import pytest
from django.db.models import Min

from django_tasks.store.lanes import Lane, every_lane, look_everywhere
from django_tasks.store.pauses import Scope, set_pause
from django_tasks.values.status import Status
from tests.factories import NOW, a_row, later, table

pytestmark = pytest.mark.django_db

USING = "default"
# In an order that depends on the collation, and names that some collations take for one.
NAMES = ["", "-", "A", "B", "a", "b", "ä", "é", "z", "中", "a b", "a-b", "ab"]


def grouped(status: Status) -> set[Lane]:
    """The lanes by another way, which reads all rows."""
    keys = ("queue", "priority", "biz_code")
    found = table(status=status).values_list(*keys).annotate(first=Min("when")).order_by()
    return {Lane(*row) for row in found}


@pytest.mark.parametrize("status", [Status.PENDING, Status.FAILED])
def test_each_lane_is_found_with_the_earliest_time_of_it(status: Status) -> None:
    other = Status.PAUSED if status == Status.FAILED else Status.FAILED
    lanes = list(product(NAMES[::2], (-1, 0, 5), NAMES[1::2]))
    for number, (queue, priority, code) in enumerate(lanes):
        place = {"queue": queue, "priority": priority, "biz_code": code, "status": status}
        a_row(f"{number}", when=later(number), **place)
        a_row(f"{number} again", when=later(number + 1), **place)
    a_row("of another status", queue="c", biz_code="c", status=other)

    found = every_lane(status, using=USING)

    assert len(found) == len(lanes)
    assert set(found) == grouped(status)


def test_what_is_paused_comes_along_and_hides_no_lane() -> None:
    a_row("1", queue="mail", biz_code="send")
    scopes = {Scope("mail", ""), Scope("", "send"), Scope("", "")}
    for scope in scopes:
        set_pause(scope, NOW, using=USING)

    found = look_everywhere(using=USING)

    assert [lane[:3] for lane in found.lanes] == [("mail", 0, "send")]
    assert found.pauses == scopes


def test_without_tasks_there_are_pauses_alone() -> None:
    set_pause(Scope("mail", ""), NOW, using=USING)
    found = look_everywhere(using=USING)
    assert not found.lanes
    assert found.pauses == {Scope("mail", "")}
