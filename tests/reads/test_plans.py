"""The looks for people seek the claim index, and read no more rows than their bounds say."""

from typing import Any

import pytest
from django.db import connection

from django_tasks.reads import backlog
from django_tasks.reads.overview import overview, see
from django_tasks.values.status import Status
from tests.factories import NOW, a_worker, later, rows
from tests.plans import analyze
from tests.store.test_plans import plan_of, statements

pytestmark = pytest.mark.django_db(transaction=True)

FUTURE, LANES = 3000, 20


@pytest.fixture
def crowd(now: Any) -> None:
    """Thousands of tasks that wait and that have failed, beside lanes of which all have some."""
    rows(range(FUTURE), when=later(3600))
    for number in range(LANES):
        place = {"queue": f"q{number % 4}", "priority": number % 5, "biz_code": f"code{number}"}
        rows(range(5), when=later(-100), **place)
        rows(range(5, 10), when=later(600), **place)
        rows(range(10, 15), status=Status.FAILED, exception="E", **place)
    worker = a_worker()
    rows((f"r{number}" for number in range(20)), status=Status.RUNNING, claimed_by=worker.pk)
    rows((f"f{number}" for number in range(FUTURE)), status=Status.FAILED, biz_code="bad")
    analyze("t_task")


def reads_all(plan: list[Any]) -> bool:
    """Tell if a plan walks through the whole table of tasks or all of an index of it."""
    if connection.vendor == "mysql":
        return any(
            step["type"] in ("ALL", "index")
            and not str(step["table"]).startswith("<")
            and not (step["rows"] or 0) <= 2
            for step in plan
        )
    if connection.vendor == "postgresql":
        return any("Seq Scan on t_task" in line for line in plan)
    return any(line.startswith("SCAN t") or "TEMP B-TREE FOR ORDER BY" in line for line in plan)


def test_no_look_walks_through_all_tasks(crowd: None, queries: Any) -> None:
    with queries() as captured:
        found = overview(using="default", now=NOW)
    assert found.late.count.number == 5 * LANES
    seen = [sql for sql in statements(captured) if '"t_task"' in sql or "`t_task`" in sql]
    assert len(seen) >= 7
    for sql in seen:
        plan = plan_of(sql)
        assert not reads_all(plan), (sql[:300], plan)


def test_the_bounds_hold_in_one_long_lane(crowd: None) -> None:
    rows((f"d{number}" for number in range(2500)), when=later(-100))
    found = see(NOW, using="default")
    (order,) = [each for each in found.waiting if each.lane.biz_code == "order"]
    share = backlog.MOST_COUNTED // (LANES + 1)
    assert (order.due.number, order.due.is_more) == (share, True)
    assert found.failures.by_code["bad"].number == share
    assert sum(group.count.number for group in found.failures.groups) <= 1000
