"""Nights on call: each test is something that somebody wants done, from the first page on."""

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from threading import Event

import pytest
from django.contrib.admin.models import LogEntry
from playwright.sync_api import expect

from django_tasks import api
from django_tasks.handlers.running_task import RunningTask
from django_tasks.models import Gate, Pause, Task, WorkerRow
from django_tasks.store import clock
from django_tasks.values.status import Status, WorkerWish
from django_tasks.worker.worker import Worker, stop_all
from tests.browser.night import HANDLERS, ImportCatalogue, Night
from tests.browser.person import Person
from tests.factories import rows, table, the_row
from tests.waiting import DEADLINE, eventually
from tests.worker.parts import config

MANY = 2_100


@pytest.fixture
def night(transactional_db: None, handlers: Callable[..., None]) -> Night:
    """The same night as in the pictures, but now."""
    handlers(*HANDLERS)
    return Night(clock.now("default")).falls()


class Catalogue(ImportCatalogue):
    """An import that goes on until it hears that it is cancelled."""

    def __init__(self) -> None:
        self.begun, self.heard = Event(), Event()

    def handle(self, task: RunningTask) -> None:
        self.begun.set()
        eventually(lambda: task.cancel_requested, "the run hears of its cancel")
        self.heard.set()


@pytest.fixture
def catalogue(handlers: Callable[..., None]) -> Catalogue:
    handler = Catalogue()
    handlers(handler)
    return handler


@pytest.fixture
def worker(transactional_db: None, catalogue: Catalogue) -> Iterator[Worker]:
    """A real one, in this process."""
    running = Worker(config(poll_interval=0.1, lease=1.5))
    running.start()
    yield running
    assert not stop_all([running], DEADLINE)


def test_the_late_ones_are_one_click_from_the_dashboard(desk: Person, night: Night) -> None:
    page = desk.opens("django_tasks_dashboard")
    page.get_by_role("link", name="Late").first.click()
    late = page.locator("#result_list tbody tr")
    expect(late).to_have_count(7)
    expect(late.filter(has_text="refund").first).to_contain_text("no handler")
    expect(late.filter(has_text="cancel_unpaid").first).to_contain_text("late")


def test_a_task_is_rescheduled_by_half_an_hour(desk: Person, night: Night) -> None:
    before = the_row("20270311-1057", "cancel_unpaid")
    page = desk.opens("django_tasks_task_change", before.pk)
    page.get_by_role("link", name="Reschedule to…").click()
    page.get_by_role("button", name="in 30 minutes").click()
    expect(page.locator(".messagelist")).to_contain_text("is due at")
    moved = the_row("20270311-1057", "cancel_unpaid").when - night.at(minutes=30)
    assert timedelta() <= moved < timedelta(minutes=5)
    assert "Rescheduled" in str(LogEntry.objects.get(object_id=str(before.pk)))


def test_a_running_task_hears_that_somebody_cancels_it(
    desk: Person, worker: Worker, catalogue: Catalogue
) -> None:
    task = api.add_task("import_catalogue", "2027-03-10")
    assert catalogue.begun.wait(DEADLINE)
    page = desk.opens("django_tasks_task_change", task.pk)
    page.get_by_role("link", name="Cancel", exact=True).click()
    expect(page.locator("#content")).to_contain_text("Nobody stops this run")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".messagelist")).to_contain_text("is gone when this run ends")
    assert catalogue.heard.wait(DEADLINE)
    eventually(lambda: not table().exists(), "the task goes with its run")


def test_all_that_failed_with_one_exception_are_requeued(desk: Person, night: Night) -> None:
    page = desk.opens("django_tasks_failures")
    group = page.get_by_role("row").filter(has_text="ConnectionError")
    expect(group).to_contain_text("takes no mail at the moment")
    group.get_by_role("link", name="Requeue").click()
    expect(page.locator("#content")).to_contain_text("9 tasks")
    page.get_by_role("button", name="Requeue").click()
    expect(page.locator(".messagelist")).to_contain_text("9 tasks changed")
    assert Task.objects.filter(biz_code="send_invoice", status=Status.FAILED).count() == 0
    assert Task.objects.filter(biz_code="resize_image", status=Status.FAILED).count() == 3


def test_a_code_is_paused_and_resumed(desk: Person, night: Night) -> None:
    page = desk.opens("django_tasks_codes")
    page.get_by_role("link", name="send_invoice").click()
    page.get_by_role("link", name="Pause…").click()
    expect(page.locator("#content")).to_contain_text("No task of it starts, on any worker")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#content")).to_contain_text("By anna.")
    assert Pause.objects.get(biz_code="send_invoice").by == "anna"
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".messagelist")).to_contain_text("is resumed")
    assert not Pause.objects.filter(biz_code="send_invoice").exists()


def test_a_limit_is_set_for_the_whole_cluster(desk: Person, night: Night) -> None:
    page = desk.opens("django_tasks_code", code="send_invoice")
    page.get_by_label("Starts in a time").fill("30/m")
    page.get_by_role("button", name="Set limits").click()
    expect(page.locator(".messagelist")).to_contain_text("30/m")
    assert Gate.objects.get(biz_code="send_invoice").rate_limit == "30/m"


def test_thousands_are_cancelled_while_their_number_is_told(
    desk: Person, night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_tasks.admin.bulk.SECONDS", 0.0)  # a page for each batch
    rows(range(MANY), biz_code="push_message", when=night.at(days=1))
    page = desk.opens("django_tasks_task_changelist", biz_code="push_message")
    expect(page.locator("#content")).to_contain_text("2,100 tasks")
    page.get_by_text("Change all of them").click()
    page.get_by_role("link", name="Cancel").click()
    expect(page.locator("#content")).to_contain_text("This cannot be undone")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("progressbar")).to_be_visible()
    expect(page.locator(".messagelist")).to_contain_text("2,100 tasks changed")
    assert not Task.objects.filter(biz_code="push_message").exists()
    line = LogEntry.objects.get(object_id=None)
    assert "2,100" in line.change_message


def test_the_page_of_workers_tells_who_is_silent_and_what_runs(desk: Person, night: Night) -> None:
    page = desk.opens("django_tasks_workerrow_changelist")
    silent = page.get_by_role("row").filter(has_text="web-2")
    expect(silent).to_contain_text("4698")
    expect(silent).to_contain_text(re.compile(r"\d+ s late"))
    desk.opens("django_tasks_workerrow_change", night.first.pk)
    expect(page.locator("#content")).to_contain_text("import_catalogue")
    expect(page.locator("#content")).to_contain_text("web-1.example.com")


def test_a_worker_is_asked_to_go_quiet(desk: Person, night: Night) -> None:
    page = desk.opens("django_tasks_workerrow_change", night.first.pk)
    page.locator("#content").get_by_text("Quiet").first.click()
    page.get_by_role("button", name="quiet").click()
    expect(page.locator(".messagelist")).to_contain_text("was asked to go quiet")
    assert WorkerRow.objects.get(pk=night.first.pk).wish == WorkerWish.QUIET


def test_a_new_schedule_is_looked_at_before_it_is_saved(desk: Person, night: Night) -> None:
    task = the_row("nightly", "import_catalogue")
    page = desk.opens("django_tasks_recurring")
    row = page.get_by_role("row").filter(has_text="nightly")
    row.get_by_role("link", name="Edit").click()
    page.get_by_label("Schedule").fill("cron 15 4 * * * Europe/Berlin")
    page.get_by_role("button", name="Show its next times").click()
    expect(page.locator("#content ol li")).to_have_count(10)
    expect(page.locator("#content ol")).to_contain_text("04:15:00")
    assert the_row("nightly", "import_catalogue").schedule == task.schedule
    page.get_by_role("button", name="Save this schedule").click()
    expect(page.locator(".messagelist")).to_be_visible()
    saved = the_row("nightly", "import_catalogue")
    assert saved.schedule == "cron 15 4 * * * Europe/Berlin"


def test_the_failed_ones_can_be_requeued_by_telephone(phone: Person, night: Night) -> None:
    page = phone.opens("django_tasks_task_changelist", status__exact=2)
    page.get_by_text(night.invoice.biz_num).first.click()
    expect(page.locator("#content")).to_contain_text("takes no mail at the moment")
    page.get_by_role("button", name="Requeue").tap()
    expect(page.locator(".messagelist")).to_contain_text("waits again")
    assert the_row(night.invoice.biz_num, "send_invoice").status == Status.PENDING
