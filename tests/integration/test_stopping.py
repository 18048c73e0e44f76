"""Ends of workers: in order, at once, or not at all as they would have wished."""

import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from django_tasks.api import TaskOptions
from django_tasks.client.operating import ask_worker
from django_tasks.models import WorkerRow
from tests.factories import table
from tests.integration.conftest import Start
from tests.integration.freezing import freeze
from tests.integration.process import ROOT, Journal
from tests.integration.tasks import add, count, done, row, rows, workers
from tests.leader import is_alive
from tests.waiting import eventually, never

LEASE = ("--lease", "1")


def gated(gate: Path, *numbers: object) -> None:
    add("gated", *numbers, biz_ext={"gate": str(gate)})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_what_runs_end_and_gives_back_the_rest(
    start: Start, journal: Journal, gate: Path, number: signal.Signals
) -> None:
    gated(gate, 1, 2)
    worker = start("--threads", "2")
    journal.wait("start", times=2)
    add("run", *range(20))
    worker.send(number)
    worker.says("2 tasks still run")
    assert worker.is_running()
    gate.touch()
    assert worker.ended() == 0
    assert sorted(journal.keys("end")) == ["gated/1", "gated/2"]
    assert rows() == {f"run/{each}": 0 for each in range(20)}
    assert rows(claimed_by__isnull=False) == {}
    assert workers() == 0
    assert "Traceback" not in worker.log()


def test_while_it_drains_its_heartbeat_goes_on(start: Start, journal: Journal, gate: Path) -> None:
    gated(gate, 1)
    stopping = start(*LEASE, "--threads", "1")
    journal.wait("start")
    other = start(*LEASE, "--codes", "gated")
    eventually(lambda: workers() == 2, "the other one has joined", log=other.log)
    stopping.send(signal.SIGTERM)
    never(lambda: row("gated/1").rescues or other.log().count("Rescued"), "a rescue", seconds=2.5)
    gate.touch()
    assert stopping.ended() == 0
    assert len(journal.lines("start")) == 1
    assert other.stop() == 0
    assert count() == 0


def test_a_second_signal_ends_at_once(start: Start, journal: Journal, gate: Path) -> None:
    gated(gate, 1)
    worker = start(*LEASE)
    journal.wait("start")
    worker.send(signal.SIGTERM)
    worker.says("1 task still runs and has 20 s to end: gated/1")
    worker.send(signal.SIGTERM)
    never(lambda: not worker.is_running(), "the same stop ends it at once", seconds=1.1)
    worker.send(signal.SIGTERM)
    assert worker.ended(deadline=5) == 1
    assert "Second signal: ending at once; what still runs will be rescued: gated/1" in worker.log()
    gate.touch()
    other = start(*LEASE)
    journal.wait("end", "gated/1")
    assert len(journal.lines("start")) == 2
    assert other.stop() == 0


def test_a_second_signal_ends_children_which_name_what_they_leave(
    start: Start, journal: Journal, gate: Path
) -> None:
    gated(gate, 1, 2)
    worker = start("--processes", "2", "--threads", "1")
    journal.wait("start", times=2)
    worker.send_all(signal.SIGTERM)
    worker.says("1 task still runs", times=2)
    never(lambda: not worker.is_running(), "the same stop ends it at once", seconds=1.1)
    worker.send(signal.SIGTERM)
    assert worker.ended(deadline=5) == 1
    assert worker.children() == []
    assert worker.log().count("what still runs will be rescued: gated/1") == 1
    assert worker.log().count("what still runs will be rescued: gated/2") == 1


def test_at_the_deadline_it_ends_and_says_what_still_ran(
    start: Start, journal: Journal, gate: Path
) -> None:
    gated(gate, 1)
    worker = start("--shutdown-timeout", "0.3")
    journal.wait("start")
    worker.send(signal.SIGTERM)
    assert worker.ended(deadline=10) == 1
    assert "while 1 task still ran; it will be run again: gated/1" in worker.log()


HANGING = {"DJANGO_SETTINGS_MODULE": "tests.integration.hanging_stop"}


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_log_handler_that_hangs_over_a_stop_hides_no_second_signal(
    start: Start, journal: Journal, gate: Path, processes: str
) -> None:
    """Runs that go on are told as abandoned in order before the end: a stop is no death."""
    gated(gate, 1)
    table().update(rescues=1)
    worker = start("--processes", processes, *LEASE, **HANGING)
    journal.wait("start")
    worker.send(signal.SIGTERM)
    worker.says("1 task still runs")
    never(lambda: not worker.is_running(), "it ends by itself", seconds=1.1)
    worker.send(signal.SIGTERM)
    assert worker.ended(deadline=5) == 1
    assert row("gated/1").rescues == 0


@pytest.mark.parametrize("databases", [1, 2])
def test_nor_does_it_keep_children_from_telling_what_they_leave_at_the_deadline(
    start: Start, journal: Journal, gate: Path, tmp_path: Path, databases: int
) -> None:
    second = f"sqlite:///{tmp_path}/second"
    tables_at(second)
    gated(gate, 1)
    table().update(rescues=1)
    flags = ["--database", "default,second"] if databases == 2 else []
    terms = ("--processes", "2", "--shutdown-timeout", "0.3", *LEASE, *flags)
    worker = start(*terms, **HANGING, SECOND_DATABASE_URL=second)
    journal.wait("start")
    worker.send(signal.SIGTERM)
    assert worker.ended(deadline=10) == 1
    assert row("gated/1").rescues == 0


def tables_at(url: str) -> None:
    settings = {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "tests.integration.settings"}
    command = [sys.executable, "manage.py", "migrate", "-v", "0"]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **settings}, check=True)


GRACE = 5.0


@pytest.mark.parametrize("processes", ["1", "2"])
def test_stops_at_the_deadline_make_no_suspect_of_a_long_task(
    start: Start, journal: Journal, gate: Path, processes: str
) -> None:
    # In time at its first start, and none of the later ones is a misfire.
    terms = TaskOptions(misfire_grace_time=GRACE)
    for stops in range(1, 4):
        worker = start(*LEASE, "--shutdown-timeout", "0.2", "--processes", processes)
        if stops == 1:
            add("gated", 1, biz_ext={"gate": str(gate)}, options=terms)
        started = journal.wait("start", times=stops)
        # It has begun before, and is charged nothing.
        assert (started["attempt"], row("gated/1").attempts) == (min(stops, 2), 0)
        worker.send(signal.SIGTERM)
        assert worker.ended(deadline=10) == 1
        assert "Traceback" not in worker.log()
    eventually(
        lambda: timezone.now() - row("gated/1").when > timedelta(seconds=GRACE), "it is late"
    )
    gate.touch()
    last = start(*LEASE)
    assert journal.wait("end")["attempt"] == 2
    eventually(lambda: count() == 0, "the row is gone", log=last.log)
    assert last.stop() == 0


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_stop_at_the_deadline_has_counted_all_that_was_done(
    start: Start, journal: Journal, gate: Path, processes: str
) -> None:
    gated(gate, 1)
    add("run", *range(50))
    worker = start("--shutdown-timeout", "0.3", "--processes", processes)
    journal.wait("start")
    eventually(lambda: rows().keys() == {"gated/1"}, "all others are done", log=worker.log)
    worker.send(signal.SIGTERM)
    assert worker.ended(deadline=10) == 1
    assert done() == {"run": 50}


def test_what_a_killed_worker_held_is_rescued_and_runs_again(
    start: Start, journal: Journal, gate: Path
) -> None:
    gated(gate, 1, 2, 3)
    victim = start(*LEASE, "--threads", "2")
    journal.wait("start", times=2)
    victim.kill()
    gate.touch()
    add("run", 1)
    rescuer = start(*LEASE)
    ended = journal.wait("end", times=4)
    assert ended["pid"] == rescuer.pid
    eventually(lambda: count() == 0, "all rows are gone", log=rescuer.log)
    assert sorted(journal.keys("end")) == ["gated/1", "gated/2", "gated/3", "run/1"]
    again = [line for line in journal.lines("start") if line["pid"] == rescuer.pid]
    assert sorted(line["attempt"] for line in again) == [1, 2, 2]
    assert "Rescued 2 tasks" in rescuer.log()
    assert rescuer.stop() == 0
    assert workers() == 0


def test_a_worker_that_was_stopped_for_longer_than_its_lease_changes_nothing_it_lost(
    start: Start, journal: Journal, gate: Path
) -> None:
    gated(gate, "held")
    frozen = start(*LEASE)
    first = journal.wait("start", "gated/held")
    freeze(frozen)
    other = start(*LEASE)
    second = journal.wait("start", "gated/held", times=2)
    assert (first["pid"], second["pid"]) == (frozen.pid, other.pid)
    held = row("gated/held")
    frozen.send(signal.SIGCONT)
    frozen.says("was taken for dead")
    # Both are at the gate now, and the one that lost the task ends its run first.
    gate.with_name(f"{gate.name}.{frozen.pid}").touch()
    frozen.says("gated/held was lost")
    after = row("gated/held")
    assert (after.status, after.version) == (held.status, held.version)
    assert (after.claimed_by, after.when) == (second["worker"], held.when)
    gate.touch()
    eventually(lambda: count() == 0, "the other one ended it", log=other.log)
    assert len(journal.lines("start", "gated/held")) == 2
    assert frozen.stop() == 0
    assert other.stop() == 0
    assert "lost" not in other.log()
    assert workers() == 0


# Wishes


def ids() -> list[int]:
    return sorted(WorkerRow.objects.values_list("id", flat=True))


def test_a_worker_that_is_asked_to_stop_ends_its_process_with_0(
    start: Start, journal: Journal, gate: Path
) -> None:
    gated(gate, 1)
    worker = start(*LEASE, "--processes", "1", "--threads", "1")
    journal.wait("start")
    add("run", 1)
    assert ask_worker(ids()[0], "stop")
    worker.says("was asked to stop")
    eventually(lambda: rows()["run/1"] == 0, "what has not started is given back", log=worker.log)
    assert worker.is_running()
    gate.touch()
    assert worker.ended() == 0
    assert (rows(), workers()) == ({"run/1": 0}, 0)
    assert "Traceback" not in worker.log()


def test_a_child_that_is_asked_to_stop_is_not_replaced_and_the_last_one_ends_it_all(
    start: Start, journal: Journal
) -> None:
    worker = start("--processes", "2", *LEASE)
    eventually(lambda: workers() == 2, "both have joined", log=worker.log)
    first, second = ids()
    assert ask_worker(first, "stop")
    worker.says("has stopped as it was asked to: no other takes its place")
    add("run", 1)
    journal.wait("end", "run/1")
    assert ids() == [second]
    assert len(worker.children()) == 1
    assert ask_worker(second, "stop")
    assert worker.ended() == 0
    assert workers() == 0
    assert "starting another" not in worker.log()


# Several processes


def test_children_work_together_and_stop_in_order(start: Start, journal: Journal) -> None:
    worker = start("--processes", "2", "--threads", "2")
    eventually(lambda: workers() == 2, "two children have joined", log=worker.log)
    assert len(worker.children()) == 2
    add("slow", *range(200))
    eventually(lambda: count() == 0, "all have run", log=worker.log)
    assert worker.stop() == 0
    assert worker.children() == []
    assert len(journal.keys("end")) == 200
    assert workers() == 0


def test_a_child_that_dies_is_replaced(start: Start, journal: Journal) -> None:
    worker = start("--processes", "2", *LEASE)
    eventually(lambda: workers() == 2, "two children have joined", log=worker.log)
    victim, other = worker.children()
    os.kill(victim, signal.SIGKILL)
    worker.says(
        f"(pid {victim}) ended with code -9 (killed; was there not enough memory?); starting"
    )
    eventually(lambda: len(worker.children()) == 2, "there are two again", log=worker.log)
    assert other in worker.children()
    eventually(
        lambda: workers() == 2 and not WorkerRow.objects.filter(name__contains=f":{victim}:"),
        "the dead one's row is gone, and its successor has joined",
        log=worker.log,
    )
    assert worker.stop() == 0
    assert workers() == 0


def test_a_log_handler_that_hangs_over_it_holds_up_neither_its_successor_nor_a_stop(
    start: Start,
) -> None:
    settings = "tests.integration.hanging"
    worker = start("--processes", "2", *LEASE, DJANGO_SETTINGS_MODULE=settings)
    worker.says(" polls ", times=2)
    victim, other = worker.children()
    os.kill(victim, signal.SIGKILL)
    worker.says(f"(pid {victim}) ended with code -9")
    eventually(lambda: len(worker.children()) == 2, "there are two again", log=worker.log)
    assert other in worker.children()
    worker.says(" polls ", times=3)
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0
    assert worker.children() == []


def test_a_poller_that_ends_by_an_error_ends_starttask_with_1(start: Start) -> None:
    worker = start(TEST_HANDLERS="tests.integration.breaking.Run")
    assert worker.ended() == 1
    assert "SystemExit: a defect" in worker.log()
    assert "The worker on default has ended by an error" in worker.log()


def test_a_child_whose_poller_ends_by_an_error_is_replaced(start: Start) -> None:
    worker = start("--processes", "2", TEST_HANDLERS="tests.integration.breaking.Run")
    worker.says("ended with code 1; starting another in 0.5 s", times=2)
    worker.says("ended with code 1; starting another in 1.0 s", times=2)
    assert worker.is_running()
    worker.send(signal.SIGTERM)
    worker.ended()
    assert worker.children() == []


def test_children_end_when_their_supervisor_is_killed(
    start: Start, journal: Journal, gate: Path
) -> None:
    gated(gate, 1)
    worker = start("--processes", "2")
    eventually(lambda: workers() == 2, "two children have joined", log=worker.log)
    journal.wait("start")
    children = worker.children()
    worker.kill()
    gate.touch()
    eventually(lambda: not any(map(is_alive, children)), "the children ended", log=worker.log)
    assert "The supervisor is gone" in worker.log()
    assert (count(), workers()) == (0, 0)


def test_ctrl_c_for_the_whole_group_stops_it_in_order_and_once(
    start: Start, journal: Journal, gate: Path
) -> None:
    gated(gate, 1, 2)
    worker = start("--processes", "2", "--threads", "1")
    journal.wait("start", times=2)
    worker.send_all(signal.SIGINT)
    worker.says("1 task still runs", times=2)
    assert worker.is_running()
    gate.touch()
    assert worker.ended() == 0
    assert worker.children() == []
    assert "Second signal" not in worker.log()
    assert "KeyboardInterrupt" not in worker.log()
    assert sorted(journal.keys("end")) == ["gated/1", "gated/2"]
    assert (count(), workers()) == (0, 0)


def test_processes_that_were_to_end_by_themselves_are_not_replaced(
    start: Start, journal: Journal
) -> None:
    add("run", *range(20))
    assert start("--processes", "2", "--until-empty").ended() == 0
    assert len(journal.keys("end")) == 20
    assert (count(), workers()) == (0, 0)


def test_a_child_that_has_done_enough_is_replaced_between_tasks(
    start: Start, journal: Journal
) -> None:
    worker = start("--max-tasks-per-child", "5")
    add("run", *range(20))
    eventually(lambda: len(journal.keys("end")) == 20, "the first have run", log=worker.log)
    (first,) = worker.children()
    eventually(
        lambda: worker.children() not in ([], [first]), "another child is there", log=worker.log
    )
    add("run", *range(20, 25))
    eventually(lambda: len(journal.keys("end")) == 25, "the others have run", log=worker.log)
    assert worker.stop() == 0
    assert "has reached its limit, " in worker.log()
    assert "ended with code" not in worker.log()
    assert (count(), workers()) == (0, 0)


# Tasks that kill their process


@pytest.mark.parametrize("how", ["exit", "sigkill"])
def test_a_task_that_kills_its_process_fails_and_its_neighbours_all_run(
    start: Start, journal: Journal, how: str
) -> None:
    add("kill", how, seconds=-10)
    add("run", *range(12), seconds=-5)
    running = [start(*LEASE, "--threads", "4") for _ in range(2)]

    def settled() -> bool:
        for place, worker in enumerate(running):
            if not worker.is_running():
                running[place] = start(*LEASE, "--threads", "4")
        return rows() == {f"kill/{how}": 2}

    eventually(settled, "the killer has FAILED, and is all that is left", deadline=60)
    killer = row(f"kill/{how}")
    assert "died" in killer.last_error
    starts = journal.lines("start", f"kill/{how}")
    assert len(starts) <= 2 + 2
    assert killer.attempts == 2
    assert sorted(set(journal.keys("end"))) == sorted(f"run/{each}" for each in range(12))
    for worker in running:
        assert worker.stop() == 0
