"""A ring wakes another process's worker at once, and nothing depends on it."""

import os
import socket
from threading import Thread

import pytest

from django_tasks.store.workers import Door
from django_tasks.wakeup import doorbell
from django_tasks.wakeup.doorbell import Doorbell

HOST = socket.gethostname()
ELSEWHERE = "elsewhere:1:ab"
BESIDE = f"{HOST}:1:ab"


@pytest.fixture
def bell():
    bell = Doorbell("127.0.0.1")
    yield bell
    bell.stop()
    bell.close()


def listening(bell, woken):
    thread = Thread(target=bell.listen, args=(woken,))
    thread.start()
    return thread


@pytest.mark.parametrize("overdue", [False, True])
def test_a_ring_wakes_and_says_if_it_is_for_what_was_due_already(bell, overdue):
    heard = []

    def hear(is_overdue):
        heard.append(is_overdue)
        bell.stop()

    thread = listening(bell, hear)
    doorbell.ring([Door(BESIDE, bell.address)], 1, overdue=overdue)
    thread.join(10)
    assert not thread.is_alive()
    assert heard == [overdue]


def test_many_rings_at_once_are_one_reason_to_look(bell):
    calls = []
    for number in range(50):
        doorbell.ring([Door(BESIDE, bell.address)], 1, overdue=number == 7)

    def once(overdue):
        calls.append(overdue)
        bell.stop()

    thread = listening(bell, once)
    thread.join(10)

    assert calls == [True]


@pytest.mark.parametrize(("tasks", "expected"), [(1, 2), (5, 5), (10_000, 16)])
def test_more_workers_are_woken_for_more_tasks(monkeypatch, tasks, expected):
    rung = []

    monkeypatch.setattr(doorbell, "_send", lambda *place: rung.append(place))

    doorbell.ring(
        [Door(BESIDE, f"127.0.0.1:{port}") for port in range(1, 41)], tasks, overdue=False
    )

    assert len(set(rung)) == expected


@pytest.mark.parametrize("address", ["127.0.0.1:0", "nonsense", "127.0.0.1:x", "256.1.1.1:5", ":"])
def test_a_bell_that_cannot_be_rung_harms_nobody(address):
    doorbell.ring([Door(BESIDE, address)], 1, overdue=False)


@pytest.mark.parametrize(
    ("name", "address", "expected"),
    [
        (BESIDE, "127.0.0.1:5", True),
        (ELSEWHERE, "127.0.0.1:5", False),
        (ELSEWHERE, "[::1]:5", False),
        (ELSEWHERE, "10.0.0.5:5", True),
        (BESIDE, "", False),
        pytest.param(f"{HOST}:{os.getpid()}:ab", "127.0.0.1:5", False, id="this process"),
        ("", "10.0.0.5:5", True),
    ],
)
def test_only_workers_of_other_processes_within_reach_are_rung(name, address, expected):
    assert Door(name, address).can_be_reached() is expected


def test_an_address_of_another_machine_is_refused_at_once():
    with pytest.raises(OSError, match="assign"):
        Doorbell("192.0.2.1")
