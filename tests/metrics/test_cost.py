"""The cost of a scrape: the same statements however much there is. Plans: ``test_page_plans``."""

from collections.abc import Callable
from typing import Any

import pytest

from django_tasks.models import Task, TaskMinute, WorkerRow
from django_tasks.values.status import Status
from tests.factories import NOW, a_worker, later, rows
from tests.metrics.reading import scrape

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

MINUTE = int(NOW.timestamp()) // 60


def seed(codes: int) -> None:
    """Tasks of every state and counts of so many codes, in several queues and priorities."""
    for number in range(codes):
        place = {"biz_code": f"code {number}", "queue": f"q{number % 3}", "priority": number % 4}
        rows(("due",), when=later(-100), **place)
        rows(("later",), when=later(100), **place)
        rows(("failed",), status=Status.FAILED, **place)
        rows(("runs",), status=Status.RUNNING, **place)
        TaskMinute.objects.create(biz_code=f"code {number}", minute=MINUTE - 500, done=1)
        a_worker(f"w{number}", codes=[f"code {number}"], version="1")


def test_the_number_of_statements_does_not_depend_on_the_codes(
    queries: Callable[[], Any], handlers: Any
) -> None:
    counts = []
    for codes in (1, 60):
        Task._base_manager.all().delete()
        WorkerRow.objects.all().delete()
        TaskMinute.objects.all().delete()
        seed(codes)
        for _ in range(2):  # the first one sums what is closed
            with queries() as captured:
                found = scrape()
            counts.append(len(captured.captured_queries))
        assert len(found.labels("due", "code")) == codes
        assert found.get("runs_total", code="code 0", outcome="done") == 1
    assert counts[:2] == counts[2:]
    assert counts[1] < counts[0] <= 11
