"""The pages of workers, locks and pauses: what they show, and what is asked there."""

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client, override_settings
from django.urls import reverse
from django.utils.html import escape

from django_tasks import api
from django_tasks.models import WorkerRow
from django_tasks.values.status import Status
from tests.doors.conftest import Staff
from tests.doors.test_admin import said, text
from tests.factories import a_row, a_worker, later, rows

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

WORKERS = "admin:django_tasks_workerrow_changelist"
PAUSES = "admin:django_tasks_pause_changelist"
PAUSE_ADD = "admin:django_tasks_pause_add"
HOSTILE = "<b>&\"'%s{0}</b><i>"


def page_of(worker: WorkerRow) -> str:
    return reverse("admin:django_tasks_workerrow_change", args=[worker.pk])


def ask_of(worker: WorkerRow, word: str) -> str:
    return reverse("admin:django_tasks_workerrow_ask", args=[worker.pk, word])


def a_full_worker(name: str = "w1", **fields: Any) -> WorkerRow:
    facts = {"host": "web-1", "pid": 4711, "version": "1.2", "codes": ["order", "mail"]}
    return a_worker(name, **(facts | {"busy": 3, "memory": 300 * 1024**2} | fields))


def test_no_worker_ever_is_an_empty_list(boss: Client) -> None:
    assert "0 workers" in text(boss.get(reverse(WORKERS)))


def test_the_list_tells_the_facts_of_each_worker(boss: Client) -> None:
    worker = a_full_worker(heartbeat=later(-4))
    a_full_worker("w2", heartbeat=later(-58))
    a_full_worker("w3", wish="quiet")
    a_row("1", status=Status.RUNNING, claimed_by=worker.pk, claim_time=later(-125))
    a_row("2", status=Status.PAUSING, claimed_by=worker.pk, claim_time=later(-5))
    page = text(boss.get(reverse(WORKERS)))
    for words in (
        "w1 web-1, process 4711 works 4 s ago 2 tasks the longest 2 min 5 s 5 of 8 are free",
        "300 MB 1.2 all 2 Go quiet Stop",
        "silent 58 s ago 48 s late",
        "Work again Stop",
    ):
        assert words in page


@pytest.mark.parametrize("use_tz", [True, False])
def test_a_workers_page_tells_what_it_runs_and_since_when(use_tz: bool, boss: Client) -> None:
    with override_settings(USE_TZ=use_tz, TIME_ZONE="Europe/Berlin"):
        worker = a_full_worker(counters={"done": 12, "failed": 1}, queues=["mail"])
        a_row("7", status=Status.RUNNING, claimed_by=worker.pk, claim_time=later(-125))
        page = text(boss.get(page_of(worker)))
    for words in (
        "web-1",
        "4711",
        "order",
        "done 12, failed 1",
        "1 claimed: what runs, and what waits for one of its threads.",
        "order/7 running 14:28:10 CEST, 2 min 5 s ago",
    ):
        assert words in page


def test_a_worker_with_very_many_tasks_shows_some(boss: Client) -> None:
    worker = a_full_worker()
    rows(range(150), status=Status.RUNNING, claimed_by=worker.pk)
    body = boss.get(page_of(worker)).content.decode()
    assert body.count("/task/") < 120
    assert f"worker={worker.pk}" in body


def test_the_list_takes_as_many_statements_for_many_workers(boss: Client, queries: Any) -> None:
    a_full_worker()
    boss.get(reverse(WORKERS))
    with queries() as few:
        boss.get(reverse(WORKERS))
    for number in range(20):
        worker = a_full_worker(f"more {number}")
        a_row(str(number), status=Status.RUNNING, claimed_by=worker.pk)
    with queries() as many:
        boss.get(reverse(WORKERS))
    assert len(many) == len(few)


def test_who_may_not_see_tasks_sees_workers_without_them(staff: Staff) -> None:
    worker = a_full_worker()
    a_row("secret", status=Status.RUNNING, claimed_by=worker.pk)
    who = staff("view_workerrow")
    for page in (reverse(WORKERS), page_of(worker)):
        shown = text(who.get(page))
        assert "secret" not in shown
        assert "1 task" not in shown
        assert "Go quiet" not in shown


@pytest.mark.parametrize("written", [{"counters": [], "queues": {}, "codes": "x"}])
def test_json_that_somebody_else_has_written_is_no_error(
    written: dict[str, Any], boss: Client
) -> None:
    worker = a_full_worker(wish="dance", **written)
    for page in (reverse(WORKERS), page_of(worker), reverse("admin:django_tasks_dashboard")):
        assert boss.get(page).status_code == 200


def test_names_that_are_markup_are_shown_as_text(boss: Client) -> None:
    fields = {"host": HOSTILE, "version": HOSTILE, "codes": [HOSTILE], "queues": [HOSTILE]}
    worker = a_full_worker(HOSTILE, state=HOSTILE, **fields)
    for page in (reverse(WORKERS), page_of(worker), ask_of(worker, "stop")):
        body = boss.get(page).content.decode()
        assert HOSTILE not in body
        assert escape(HOSTILE) in body


# What a worker is asked


@pytest.mark.parametrize(
    ("word", "before", "wish", "told"),
    [
        ("quiet", "", "quiet", "Worker w1 was asked to go quiet."),
        ("stop", "", "stop", "Worker w1 was asked to stop."),
        ("work", "quiet", "", "Worker w1 was asked to work again."),
    ],
)
def test_a_worker_is_asked_after_a_question(
    word: str, before: str, wish: str, told: str, boss: Client
) -> None:
    worker = a_full_worker(wish=before)
    page = boss.get(ask_of(worker, word))
    assert "in 10 s at most" in text(page)
    assert WorkerRow.objects.get().wish == before
    response = boss.post(ask_of(worker, word))
    assert response["Location"] == page_of(worker)
    assert WorkerRow.objects.get().wish == wish
    assert said(boss.get(page_of(worker))) == [told]
    assert LogEntry.objects.get().get_change_message() == told


def test_a_silent_worker_may_never_hear_of_it(boss: Client) -> None:
    worker = a_full_worker(heartbeat=later(-100))
    assert "may never hear of it" in text(boss.get(ask_of(worker, "stop")))


def test_a_worker_that_has_gone_and_a_word_that_is_none_are_not_found(boss: Client) -> None:
    worker = a_full_worker()
    assert boss.post(ask_of(worker, "dance")).status_code == 404
    WorkerRow.objects.all().delete()
    assert boss.post(ask_of(worker, "stop")).status_code == 404


def test_a_worker_that_goes_meanwhile_is_told(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = a_full_worker()
    monkeypatch.setattr("django_tasks.admin.workers.ask_worker", lambda *args, **kwargs: False)
    response = boss.post(ask_of(worker, "stop"))
    assert said(boss.get(response["Location"])) == ["Worker w1 is gone."]
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize("permissions", [("view_workerrow", "pause_task"), ("operate_task",)])
def test_to_ask_wants_the_permission_to_operate_and_to_see(
    permissions: tuple[str, ...], staff: Staff
) -> None:
    worker = a_full_worker()
    who = staff(*permissions)
    for response in (who.get(ask_of(worker, "stop")), who.post(ask_of(worker, "stop"))):
        assert response.status_code == 403
    assert WorkerRow.objects.get().wish == ""
    allowed = staff("view_workerrow", "operate_task")
    assert allowed.post(ask_of(worker, "stop")).status_code == 302


# Pauses


def test_to_pause_everything_is_asked_first(boss: Client) -> None:
    page = boss.post(reverse(PAUSE_ADD), {"biz_code": "", "queue": ""})
    assert page.status_code == 200
    assert "Pause everything?" in text(page)
    assert api.paused() == []
    sure = {"biz_code": "", "queue": "", "sure": "everything"}
    response = boss.post(reverse(PAUSE_ADD), sure)
    (pause,) = api.paused()
    assert (pause.biz_code, pause.queue, pause.by) == ("", "", "boss")
    assert said(boss.get(response["Location"])) == ["Paused: everything."]


def test_to_pause_a_code_is_not_asked_twice(boss: Client) -> None:
    a_row(biz_code="mail", queue="slow")
    response = boss.post(reverse(PAUSE_ADD), {"biz_code": "mail", "queue": "slow"})
    assert said(boss.get(response["Location"])) == ["Paused: code mail in queue slow."]
    assert "Code mail in queue slow" in text(boss.get(reverse(PAUSES)))


def test_a_pause_is_ended_by_its_button(boss: Client) -> None:
    api.pause_tasks(biz_code="mail", by="anna")
    api.pause_tasks(queue="slow")
    (pause,) = (each for each in api.paused() if each.biz_code)
    address = reverse("admin:django_tasks_pause_resume", args=[pause.pk])
    listed = boss.get(reverse(PAUSES))
    assert f'formaction="{address}"' in listed.content.decode()
    assert "anna" in text(listed)
    assert "Resume: code mail?" in text(boss.get(address))
    assert len(api.paused()) == 2
    boss.post(address)
    assert [each.queue for each in api.paused()] == ["slow"]
    assert said(boss.get(reverse(PAUSES))) == ["Resumed: code mail."]
    assert LogEntry.objects.get().get_change_message() == "Resumed: code mail."
    boss.post(address)
    assert said(boss.get(reverse(PAUSES))) == ["That pause has ended already."]


def test_who_may_only_see_pauses_has_no_button(staff: Staff) -> None:
    api.pause_tasks(biz_code="mail")
    (pause,) = api.paused()
    who = staff("view_task")
    assert "Resume" not in text(who.get(reverse(PAUSES)))
    address = reverse("admin:django_tasks_pause_resume", args=[pause.pk])
    assert who.get(address).status_code == who.post(address).status_code == 403
    assert who.post(reverse(PAUSE_ADD), {"biz_code": "", "queue": ""}).status_code == 403
    assert len(api.paused()) == 1
