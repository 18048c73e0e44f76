"""The judgement about processes, from the board that they share."""

import os

import pytest

from django_tasks.host.clocks import ticks
from django_tasks.probes.board import Board
from django_tasks.probes.health import (
    LEAST_PATIENCE,
    WATCHER_PATIENCE,
    Health,
    ProbeFacts,
    facts,
    judge,
)
from django_tasks.worker.condition import Condition
from django_tasks.worker.condition import Condition as C

LEASE = 30.0


def board(*processes: tuple[Condition, ...]) -> Board:
    """A board of living processes with these workers."""
    made = Board(len(processes), len(processes[0]))
    made.watching.beat([C.WORKING])
    for line, conditions in zip(made.processes, processes, strict=True):
        line.beat(conditions)
    return made


def judged(board: Board, databases: tuple[str, ...] = ("default",), later: float = 0.0) -> Health:
    return judge(board.read(), facts(databases, LEASE), ticks() + later)


CASES = [
    # The conditions of each process, live, ready, state, words of the reason.
    ([(C.STARTING,), (C.STARTING,)], True, False, C.STARTING, "workers on default are starting"),
    ([(C.WORKING,), (C.STARTING,)], True, True, C.WORKING, "1 process works."),
    ([(C.WORKING,), (C.WORKING,)], True, True, C.WORKING, "2 processes work."),
    ([(C.WORKING,), (C.ENDED,)], True, True, C.WORKING, "1 process works."),
    ([(C.WORKING,), (C.WITHOUT_DATABASE,)], True, True, C.WORKING, "1 process works."),
    ([(C.QUIET,), (C.QUIET,)], True, True, C.QUIET, "asked to claim nothing"),
    ([(C.QUIET,), (C.WORKING,)], True, True, C.WORKING, "1 process works."),
    ([(C.WITHOUT_DATABASE,), (C.STARTING,)], True, False, C.WITHOUT_DATABASE, "Database default"),
    ([(C.STOPPING,), (C.ENDED,)], True, False, C.STOPPING, "workers on default are stopping"),
    ([(C.ENDED,), (C.ENDED,)], True, False, C.ENDED, "No worker on default is there"),
    ([(C.WORKING,), (C.HANGING,)], False, False, C.HANGING, "poller of process 2 on default hangs"),
]


@pytest.mark.parametrize(("processes", "live", "ready", "state", "words"), CASES)
def test_the_health_of_one_database(
    processes: list[tuple[Condition, ...]],
    live: bool,
    ready: bool,
    state: Condition,
    words: str,
) -> None:
    health = judged(board(*processes))
    assert (health.live, health.ready, health.state) == (live, ready, state)
    assert words in health.reason


def test_it_is_ready_when_there_is_somebody_on_each_database() -> None:
    databases = ("default", "second")
    apart = board((C.WORKING, C.WITHOUT_DATABASE), (C.WITHOUT_DATABASE, C.WORKING))
    assert judged(apart, databases).ready
    health = judged(board((C.WORKING, C.WITHOUT_DATABASE)), databases)
    assert (health.live, health.ready) == (True, False)
    assert "Database second" in health.reason


def test_a_poller_that_hangs_is_named_with_its_database() -> None:
    health = judged(board((C.WORKING, C.HANGING)), ("default", "second"))
    assert health.reason == "The poller of process 1 on second hangs."


def test_a_process_that_is_silent_for_longer_than_its_lease_needs_a_restart() -> None:
    one = board((C.WORKING,), (C.WORKING,))
    one.watching.beat([C.WORKING])
    signs = one.read()
    moment = signs.processes[0].moment
    patient = ProbeFacts(("default",), 10.0)
    assert judge(signs, patient, moment + 9.9).live
    health = judge(signs, patient, moment + 10.5)
    assert (health.live, health.ready) == (False, False)
    assert health.reason == "Process 1 has given no sign of life for more than 10 seconds."


def test_a_short_lease_is_no_reason_for_haste() -> None:
    assert facts(["default"], 1.0).patience == LEAST_PATIENCE
    assert facts(["default"], 60.0).patience == 60.0


def test_a_process_that_is_not_there_is_not_taken_for_a_silent_one() -> None:
    one = board((C.WORKING,), (C.WORKING,))
    one.processes[1].leave()
    assert judged(one).reason == "1 process works."
    assert [sign.is_there for sign in one.read().processes] == [True, False]


def test_a_silent_supervisor_needs_a_restart_even_if_it_was_stopping() -> None:
    for condition in (C.WORKING, C.STOPPING):
        one = board((C.WORKING,))
        one.watching.beat([condition])
        health = judged(one, later=WATCHER_PATIENCE + 1)
        assert (health.live, health.ready) == (False, False)
        assert "The supervisor has given no sign of life for more than 15 seconds." in health.reason


def test_a_stop_is_live_and_not_ready_whatever_the_workers_do() -> None:
    for condition in (C.WORKING, C.HANGING, C.ENDED):
        one = board((condition,))
        one.watching.beat([C.STOPPING])
        health = judged(one)
        assert (health.live, health.ready, health.state) == (True, False, C.STOPPING)


def test_the_document_has_every_database_and_process() -> None:
    one = board((C.WORKING, C.WITHOUT_DATABASE), (C.QUIET, C.STARTING))
    signs, both = one.read(), facts(("default", "second"), LEASE)
    document = judge(signs, both, ticks()).document(both, signs)
    assert document == {
        "live": True,
        "ready": False,
        "state": "without_database",
        "reason": "Database second does not answer, or cannot be worked with.",
        "databases": {"default": "working", "second": "without_database"},
        "processes": [
            {"default": "working", "second": "without_database"},
            {"default": "quiet", "second": "starting"},
        ],
    }


# The board


def test_a_new_board_expects_all_processes() -> None:
    health = judged(Board(2, 1))
    assert (health.live, health.ready, health.state) == (True, False, C.STARTING)


def test_what_a_child_writes_its_parent_reads() -> None:
    one = Board(2, 2)
    child = os.fork()
    if child == 0:
        one.processes[1].beat([C.WORKING, C.QUIET])
        os._exit(0)
    os.waitpid(child, 0)
    signs = one.read()
    assert signs.processes[1].conditions == (C.WORKING, C.QUIET)
    assert signs.processes[0].conditions == (C.STARTING, C.STARTING)
    assert signs.processes[1].moment >= signs.processes[0].moment
