"""checktasks and prunetasks."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from django_tasks.api import TaskHandler
from django_tasks.handlers import registry
from django_tasks.models import Task, TaskRun
from django_tasks.store import failed, runs
from django_tasks.timezones import for_django
from django_tasks.values.status import Status
from django_tasks.worker.pruner import Pruner
from tests.commands.conftest import Call
from tests.factories import CODE, NOW, a_row, a_run, later, rows, table
from tests.worker.parts import USING, joined

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
DAY = 86_400


class Order(TaskHandler):
    biz_code = CODE

    def handle(self, task: Any) -> None:
        """Nothing."""


@pytest.fixture(autouse=True)
def _handler(handlers: Callable[..., None]) -> None:
    handlers(Order)


def test_a_release_that_can_run_everything(call: Call) -> None:
    a_row("1")
    a_row("2", schedule="every 5m", status=Status.PAUSED)
    a_row("3", biz_code="old", status=Status.FAILED)
    said = call("checktasks")
    assert said.code == 0, said
    assert said == "All is well: this release has a handler for the 1 code that waits.\n"


@pytest.mark.parametrize("status", [Status.PENDING, Status.PAUSED, Status.RUNNING])
def test_a_code_without_a_handler(status: Status, call: Call) -> None:
    rows(range(3), biz_code="gone", status=status)
    said = call("checktasks")
    assert said.code == 1
    assert said == "No handler of gone: 3 tasks wait.\n"
    assert call("checktasks", "--ignore", "gone").code == 0
    assert call("checktasks", "--format", "json").json["missing"] == [
        {"code": "gone", "count": 3, "is_more": False}
    ]


def test_a_schedule_that_cannot_be_read(call: Call) -> None:
    a_row("1", schedule="now and then")
    said = call("checktasks")
    assert said.code == 1
    assert said.startswith("The schedule of order/1 cannot be read: ")
    assert call("checktasks", "--codes-only").code == 0


def test_a_trigger_that_only_the_code_knows(call: Call) -> None:
    a_row("@schedule", biz_code="other", schedule="trigger apscheduler")
    a_row("1", schedule="trigger apscheduler")
    said = call("checktasks", "--ignore", "other")
    assert said.code == 1
    assert said.splitlines()[0].startswith("The schedule of order/1")
    assert len(said.splitlines()) == 1


def test_a_handler_that_cannot_be_registered(call: Call) -> None:
    registry._problems.append("TASK_HANDLERS names 'a.b': no module named 'a'")
    said = call("checktasks")
    assert (said.code, "no module named" in said) == (1, True)


# prunetasks


def old_rows() -> None:
    a_row("old", status=Status.FAILED, when=later(-91 * DAY), update_time=later(-91 * DAY))
    a_row("tried again", status=Status.FAILED, when=later(-99 * DAY), update_time=later(-DAY))
    a_row("young", status=Status.FAILED, when=later(-89 * DAY), update_time=later(-89 * DAY))
    a_row("waits", when=later(-99 * DAY), update_time=later(-99 * DAY))
    old = {"when": later(-99 * DAY), "update_time": later(-99 * DAY), "status": Status.FAILED}
    a_row("recurs", schedule="every 5m", **old)
    a_row("elsewhere", biz_code="mail", queue="slow", **old)


def there() -> set[str]:
    return set(Task.objects.values_list("biz_num", flat=True))


def test_something_must_be_said(call: Call) -> None:
    assert call("prunetasks").code == 2
    assert call("prunetasks", "--failed", "soon").code == 2
    assert call("prunetasks", "--failed", "9999999d").code == 2


def test_old_failures_go(call: Call) -> None:
    old_rows()
    said = call("prunetasks", "--failed", "90d", "--dry-run")
    assert said.startswith("2 tasks that failed before ")
    assert len(there()) == 6
    assert call("prunetasks", "--failed", "90d").startswith("2 tasks that failed before ")
    assert there() == {"tried again", "young", "waits", "recurs"}


def test_old_runs_go(call: Call) -> None:
    a_run(biz_num="old", ended=later(-31 * DAY))
    a_run(biz_num="young", ended=later(-29 * DAY))
    read = call("prunetasks", "--history", "30d", "--format", "json").json
    assert read["history"]["count"] == 1
    assert [run.biz_num for run in TaskRun.objects.all()] == ["young"]


def test_more_than_one_statement_deletes(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "AT_ONCE", 3)
    rows(range(7), status=Status.FAILED, when=later(-99 * DAY), update_time=later(-99 * DAY))
    for number in range(7):
        a_run(biz_num=str(number), ended=later(-99 * DAY))
    call("prunetasks", "--failed", "90d", "--history", "90d")
    assert not Task.objects.exists()
    assert not TaskRun.objects.exists()


def test_a_row_that_was_requeued_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    rows(range(3), status=Status.FAILED, when=later(-99 * DAY), update_time=later(-99 * DAY))
    delete = failed._delete

    def meddle(*args: Any) -> int:
        table(biz_num="1").update(status=Status.PENDING)
        table(biz_num="2").update(update_time=for_django(NOW))
        return delete(*args)

    monkeypatch.setattr(failed, "_delete", meddle)
    assert failed.delete_old_failed(later(-90 * DAY), using="default") == 1
    assert there() == {"1", "2"}


def test_the_worker_deletes_them_if_the_project_wants_that(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_rows()
    membership = joined()
    monkeypatch.setattr(membership.clock, "now", lambda: NOW)
    for _ in range(5):
        Pruner(USING, membership)._prune_failed()
    assert len(there()) == 6
    settings.DJANGO_TASKS = {"FAILED_AGE": timedelta(days=90)}
    for _ in range(5):
        Pruner(USING, membership)._prune_failed()
    assert there() == {"tried again", "young", "waits", "recurs"}


def kept_in_many_lanes() -> None:
    """As many lanes as one look has, with rows that stay, before one whose row goes."""
    old = {"update_time": later(-99 * DAY), "status": Status.FAILED}
    for number in range(failed.MOST_LANES):
        kept = {"queue": f"q{number}", "schedule": "every 5m", **old}
        a_row(str(number), when=later(-999 * DAY), **kept)
    a_row("old", when=later(-99 * DAY), **old)


def test_old_failures_go_from_behind_many_lanes_with_rows_that_stay(call: Call) -> None:
    kept_in_many_lanes()
    assert call("prunetasks", "--failed", "90d").startswith("1 task that failed before ")
    assert "old" not in there()


def test_the_worker_finds_them_there_in_the_end(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_in_many_lanes()
    settings.DJANGO_TASKS = {"FAILED_AGE": timedelta(days=90)}
    membership = joined()
    monkeypatch.setattr(membership.clock, "now", lambda: NOW)
    for _ in range(10):  # each leaves out one lane of 101, by chance
        Pruner(USING, membership)._prune_failed()
    assert "old" not in there()


def test_it_is_a_chore_of_the_pruner(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.DJANGO_TASKS = {"FAILED_AGE": 60}
    asked: list[Any] = []

    def note(before: Any, using: str, most_lanes: int) -> int:
        asked.append(before)
        return 0

    monkeypatch.setattr(failed, "delete_old_failed", note)
    pruner = Pruner(USING, joined())
    for _ in range(6):
        pruner.prune_if_due()
    assert len(asked) == 1
