"""A worker hears of tasks that other processes add, without waiting for its next poll."""

from datetime import datetime, timedelta, timezone
from threading import Event, Semaphore
from time import monotonic
from types import SimpleNamespace

import pytest
from django.db import connections

from django_tasks.client.adding import add_task, add_tasks
from django_tasks.models import Task, WorkerRow
from django_tasks.store import workers
from django_tasks.store.workers import Door
from django_tasks.wakeup import doorbell, postgres, wake
from django_tasks.wakeup import listening as module
from django_tasks.wakeup.listening import ListenerThread
from tests.proxy import Proxy
from tests.vendor import MYSQL_FAMILY, POSTGRESQL, SQLITE, only_on
from tests.waiting import DEADLINE, eventually
from tests.worker.parts import CODE, USING, joined

pytestmark = pytest.mark.django_db(transaction=True)

SENDS_HINTS = postgres.are_sent(USING)
BESIDE = "elsewhere:1:ab"


@pytest.fixture(autouse=True)
def fresh():
    wake._doors.clear()
    yield
    wake._doors.clear()


@pytest.fixture
def rung(monkeypatch):
    """The doors that were rung at, and for how many tasks."""
    rings = []

    def ring(doors, tasks, *, overdue):
        rings.append((list(doors), tasks))

    monkeypatch.setattr(doorbell, "ring", ring)
    return rings


def a_worker(address="10.0.0.5:5"):
    now = datetime.now(timezone.utc)
    registration = workers.Registration(BESIDE, 30.0, 8, doorbell=address)
    workers.register(registration, now, using=USING)
    return Door(BESIDE, address)


def a_task(number="1", seconds=0.0):
    when = datetime.now(timezone.utc) + timedelta(seconds=seconds)
    return Task(biz_code=CODE, biz_num=number, when=when)


def a_listener(wake=lambda overdue: None, host="127.0.0.1", is_drawn=lambda lot: True):
    return ListenerThread(USING, host, wake, is_drawn)


def test_a_listener_worker_is_woken_by_whoever_adds():
    woken = Event()
    listener = a_listener(lambda overdue: woken.set())
    address = listener.open()
    listener.start()
    try:
        if SENDS_HINTS:
            assert address == ""
            add_task(a_task())
        else:
            doorbell.ring([Door(BESIDE, address)], 1, overdue=False)
        assert woken.wait(20)
    finally:
        listener.stop()


def test_a_worker_that_was_never_started_leaves_nothing_open():
    listener = a_listener()
    listener.open()
    listener.stop()
    listener.stop()


class Ear:
    """Stands in for what a worker hears with. It fails, or is too busy to notice a stop."""

    def __init__(self):
        self.errors = []
        self.listens, self.go_on, self.closed = Semaphore(0), Event(), Event()

    def listen(self, wake):
        self.listens.release()
        if self.errors:
            raise self.errors.pop(0)
        wake(False)
        assert self.go_on.wait(DEADLINE)

    def stop(self):
        pass

    def close(self):
        self.closed.set()


@pytest.fixture
def ear(monkeypatch):
    ear = Ear()
    monkeypatch.setattr(postgres, "are_sent", lambda using: True)
    monkeypatch.setattr(postgres, "Listener", lambda *args: ear)
    yield ear
    ear.go_on.set()


def test_a_worker_that_stops_does_not_wait_for_a_connection_that_hangs(ear, monkeypatch):
    monkeypatch.setattr(module, "STOP_SECONDS", 0.05)
    listener = a_listener()
    listener.open()
    listener.start()
    assert ear.listens.acquire(timeout=DEADLINE)
    begin = monotonic()
    listener.stop()
    assert monotonic() - begin < DEADLINE / 2
    assert not ear.closed.is_set(), "closed under the thread that uses it"
    ear.go_on.set()
    assert ear.closed.wait(DEADLINE)


def test_hints_that_are_missed_are_told_of_once_and_once_when_they_are_back(
    ear, monkeypatch, caplog
):
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.001)
    ear.errors = [OSError("no route"), OSError("no route"), OSError("no route")]
    woken = Event()
    listener = a_listener(lambda overdue: woken.set())
    listener.open()
    with caplog.at_level("INFO", "django_tasks"):
        listener.start()
        assert woken.wait(DEADLINE)
        ear.go_on.set()
        listener.stop()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "No hints from default (OSError: no route); polling goes on"),
        ("INFO", "Hints from default are back"),
    ]


@only_on(POSTGRESQL, because="the others ring a doorbell")
def test_a_session_that_listens_and_falls_silent_is_replaced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(postgres.Listener, "ask_seconds", 0.1)
    monkeypatch.setattr(postgres, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)
    woken = Event()
    caplog.set_level("INFO", "django_tasks")
    with Proxy.before(connections[USING].settings_dict) as proxy:
        monkeypatch.setitem(connections.settings[USING], "PORT", proxy.port)
        listener = a_listener(lambda overdue: woken.set())
        listener.open()
        listener.start()
        try:
            assert woken.wait(DEADLINE)
            proxy.silence()
            eventually(lambda: "no answer for 0.3 s" in caplog.text, "it has noticed")
            eventually(lambda: "Hints from default are back" in caplog.text, "it hears again")
        finally:
            listener.stop()


@only_on(POSTGRESQL, because="the database sends no hints")
def test_psycopg_2_hands_no_hints_over(monkeypatch):
    """It has no class of connections by that name."""
    monkeypatch.setattr(type(connections[USING]), "Database", SimpleNamespace())
    assert not postgres.are_sent(USING)


@only_on(SQLITE, *MYSQL_FAMILY, because="PostgreSQL sends hints")
def test_without_an_address_there_is_no_doorbell(caplog):
    assert a_listener(host="").open() == ""
    assert a_listener(host="192.0.2.1").open() == ""
    assert "No doorbell at 192.0.2.1" in caplog.text


def test_a_worker_tells_in_its_row_where_it_can_be_rung_at():
    membership = joined()
    membership.can_be_rung_at("10.0.0.5:7")
    again = membership.join()
    assert WorkerRow.objects.get(pk=again).doorbell == "10.0.0.5:7"


@only_on(SQLITE, *MYSQL_FAMILY, because="PostgreSQL sends hints")
def test_an_add_for_now_rings_and_one_for_later_does_not(rung):
    door = a_worker()
    a_worker("127.0.0.1:5")  # of another host
    a_worker("")

    add_task(a_task())
    add_task(a_task("2", seconds=60))

    assert rung == [([door], 1)]


@only_on(SQLITE, *MYSQL_FAMILY, because="PostgreSQL sends hints")
def test_nobody_rings_before_the_commit(rung):
    from django.db import transaction

    a_worker()
    with transaction.atomic():
        add_task(a_task())
        assert rung == []
    assert len(rung) == 1


@only_on(SQLITE, *MYSQL_FAMILY, because="PostgreSQL sends hints")
def test_the_list_of_doorbells_serves_for_a_while(rung, django_assert_num_queries):
    a_worker()
    add_task(a_task())
    with django_assert_num_queries(0):
        now = datetime.now(timezone.utc)
        wake._ring(now, 1, USING)
    assert len(rung) == 2


@only_on(SQLITE, *MYSQL_FAMILY, because="PostgreSQL sends hints")
def test_the_first_worker_is_rung_at_soon_after_it_has_come(rung, monkeypatch):
    monkeypatch.setattr(wake, "NO_DOORS_SECONDS", 0.0)
    add_task(a_task())
    door = a_worker()
    add_task(a_task("2"))
    assert rung == [([], 1), ([door], 1)]


@only_on(POSTGRESQL, because="the adder chooses among the doorbells")
def test_a_single_task_wakes_the_drawn_and_many_wake_all():
    woken, lots = Event(), []

    def not_us(lot):
        lots.append(lot)
        return False

    listener = a_listener(lambda overdue: woken.set(), is_drawn=not_us)
    listener.open()
    listener.start()
    try:
        assert woken.wait(20)  # once, for what was added before it listened
        woken.clear()
        eventually(lambda: add_task(a_task()) and lots, "a lot has come")
        assert not woken.is_set()
        assert 0 <= lots[0] < 1
        add_tasks([a_task("2"), a_task("3")])
        assert woken.wait(20)
    finally:
        listener.stop()
