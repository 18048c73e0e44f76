"""A database that was made with a small character set, and errors that speak Chinese."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import DataError, connection

from django_tasks.models import Task, TaskRun
from django_tasks.store import finish as finishing
from django_tasks.store.finish import Ended
from django_tasks.values.status import Status
from django_tasks.worker import finisher
from tests.environments.workers import Start, ident
from tests.vendor import VENDOR
from tests.waiting import eventually
from tests.worker.parts import added, handler

pytestmark = pytest.mark.django_db(transaction=True)

SHORT_OF = "库存不足"
IN_ASCII = "\\u5e93\\u5b58\\u4e0d\\u8db3"
# As ``CREATE DATABASE`` makes them on MariaDB up to 11.5, and as the migration does in utf8mb4.
COLUMNS = {"t_task": "last_error", "t_task_run": "error"}
CHARSET = "ALTER TABLE {} MODIFY {} LONGTEXT CHARACTER SET {} NOT NULL"


@pytest.fixture
def small_charset(monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> Iterator[None]:
    """Columns of errors in latin1; where there is no such thing, an error of the same kind."""
    if VENDOR != "mysql":
        monkeypatch.setattr(finisher, "finish", in_latin1)
        yield
        return
    charset("latin1")
    try:
        yield
    finally:
        TaskRun.objects.all().delete()
        Task._base_manager.all().delete()
        charset("utf8mb4")


def charset(name: str) -> None:
    with connection.cursor() as cursor:
        for table, column in COLUMNS.items():
            cursor.execute(CHARSET.format(table, column, name))


def in_latin1(ended: list[Ended], *args: Any, **kwargs: Any) -> Any:
    for end in ended:
        texts = [getattr(end.outcome, "error", ""), end.line.error if end.line else ""]
        if not all(text.isascii() for text in texts):
            raise DataError("Incorrect string value")
    return finishing.finish(ended, *args, **kwargs)


@pytest.mark.usefixtures("small_charset")
def test_an_error_that_its_column_lacks_characters_for_is_stored_in_ascii_and_stops_nobody(
    start_worker: Start, handlers: Any
) -> None:
    def fail(task: Any) -> None:
        raise ValueError(SHORT_OF)

    handlers(
        handler(fail, "bad", max_attempts=2, backoff=0),
        handler(lambda task: None, "good"),
    )
    worker = start_worker()
    before = ident(worker)
    for number in range(3):
        added(str(number), "bad")
        added(str(number), "good")
    eventually(lambda: Task.objects.filter(status=Status.FAILED).count() == 3, "three have failed")
    eventually(lambda: not Task.objects.filter(biz_code="good"), "the others are done")
    for row in Task.objects.all():
        assert f"ValueError: {IN_ASCII}" in row.last_error
        assert row.attempts == 2
    outcomes = TaskRun.objects.filter(biz_num="0").order_by("id").values_list("outcome", "error")
    assert [outcome for outcome, _ in outcomes] == ["retried", "failed"]
    assert all(IN_ASCII in error for _, error in outcomes)
    assert ident(worker) == before
