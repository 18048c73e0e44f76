"""One of many machines: a periodic task as a scheduler, a lock as the place of a leader."""

import signal
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from django.contrib.auth.models import Group

from django_tasks.models import Lock
from tests.integration.conftest import Start, url_of
from tests.integration.freezing import freeze
from tests.integration.process import Journal, StartTask
from tests.integration.tasks import add, payload_of, workers
from tests.waiting import eventually

# Heartbeats of a shorter one are missed when the machine is busy.
LEASE = 2.0
DEADLY = 5
# What a busy machine may add to it.
BUSY = 1.5


@pytest.mark.parametrize("schedule", ["every 0.05s", None])
def test_ticks_go_on_within_the_lease_after_the_worker_of_the_last_one_was_killed(
    schedule: str | None, start: Start, journal: Journal
) -> None:
    running = [start("--lease", str(LEASE), "--threads", "2") for _ in range(2)]
    eventually(lambda: workers() == 2, "both have joined", log=running[0].log)
    # Whoever is left may rescue after a whole lease of its own heartbeats.
    payload = {"ticks": 0, "deadly": DEADLY}
    add("tick", 1, seconds=1.5 * LEASE, biz_ext=payload, schedule=schedule)
    eventually(
        lambda: payload_of("tick/1")["ticks"] >= 2 * DEADLY,
        "ticks before and after the death of a worker",
        log=running[1].log,
    )
    # (machine, tick, when) of each run, accepted or not
    runs = [(line["pid"], line["payload"]["ticks"], line["now"]) for line in journal.lines("start")]
    victim = next(worker for worker in running if not worker.is_running())
    survivor = next(worker for worker in running if worker.is_running())
    assert survivor.stop() == 0

    died = next(place for place, run in enumerate(runs) if run[1] == DEADLY)
    assert runs[died][0] == victim.pid
    assert {pid for pid, _, _ in runs[died + 1 :]} == {survivor.pid}
    assert runs[died + 1][2] - runs[died][2] < LEASE + BUSY
    # The run that was cut short is the only one that comes twice, and nothing is left out.
    assert [tick for _, tick, _ in runs[: died + 1]] == [*range(1, DEADLY + 1)]
    assert [tick for _, tick, _ in runs[died + 1 :]] == [*range(DEADLY, runs[-1][1] + 1)]
    accepted = Group.objects.filter(name__startswith="tick ").order_by("id")
    last = payload_of("tick/1")["ticks"]
    assert [group.name for group in accepted] == [f"tick {n}" for n in range(1, last + 1)]
    assert "Rescued 1 task of worker" in survivor.log()


# A sticky handler


Steady = Callable[[float], StartTask]


@pytest.fixture
def steady(start: Start) -> Steady:
    """Start a worker for a sticky handler, with a lease."""
    environment = {"TEST_HANDLERS": "tests.integration.handlers.Steady"}
    return lambda lease: start("--lease", str(lease), **environment)


def counts(journal: Journal) -> list[tuple[int, int]]:
    """(process, number of runs in its memory), one run after the other."""
    return [(line["pid"], line["payload"]["count"]) for line in journal.lines("end")]


def are_active(journal: Journal) -> list[int]:
    """The processes that were active, one after the other."""
    return [pid for pid, _ in groupby(pid for pid, _ in counts(journal))]


def active_and_others(
    steady: Steady, journal: Journal, lease: float = LEASE
) -> tuple[StartTask, list[StartTask]]:
    """Three workers, of which the first is active and the others stand by."""
    first = steady(lease)
    journal.wait("end", times=3)
    others = [steady(lease) for _ in range(2)]
    both = {other.pid for other in others}
    eventually(
        lambda: {line["pid"] for line in journal.lines("passive")} == both,
        "both are told of the times",
        log=others[0].log,
    )
    return first, others


def test_one_worker_runs_a_sticky_handler_and_the_others_know_it(
    steady: Steady, journal: Journal
) -> None:
    first, others = active_and_others(steady, journal, lease=30.0)
    journal.wait("end", times=len(counts(journal)) + 10)
    runs = counts(journal)
    assert runs == [(first.pid, number) for number in range(1, len(runs) + 1)]
    for line in journal.lines("passive"):
        assert (line["key"], line["term"]) == ("steady/@schedule", 1)
        assert line["active"].split(":")[1] == str(first.pid)
    assert first.stop() == 0
    seen = len(counts(journal))
    stopped = monotonic()
    journal.wait("end", times=seen + 5)
    # Its lock was free; the others look each second if a run is late for one, and ask for it then.
    assert monotonic() - stopped < 3.0 + BUSY
    assert len(are_active(journal)) == 2
    for other in others:
        assert other.stop() == 0
    assert "This worker is now the active one of steady on default (term 1)" in first.log()


def test_another_worker_takes_over_within_the_lease_when_the_active_one_is_killed(
    steady: Steady, journal: Journal
) -> None:
    first, others = active_and_others(steady, journal)
    first.kill()
    killed = monotonic()
    seen = len(counts(journal))
    after = journal.wait("end", times=seen + 1)
    # The next wait for a rescue, if a run was cut short: after a whole lease of heartbeats.
    assert after["now"] - killed < 2 * LEASE + BUSY
    journal.wait("end", times=seen + 10)
    assert len(are_active(journal)) == 2
    for other in others:
        assert other.stop() == 0
    # In the memory of the second one each run counts, from the first on.
    runs = [number for pid, number in counts(journal) if pid != first.pid]
    assert runs[:5] == [1, 2, 3, 4, 5]


def test_a_worker_that_was_stopped_for_longer_than_its_lease_stands_by_when_it_wakes_up(
    steady: Steady, journal: Journal
) -> None:
    first, others = active_and_others(steady, journal)
    freeze(first)
    frozen = len(counts(journal))
    journal.wait("end", times=frozen + 5)
    first.send(signal.SIGCONT)
    told = len([line for line in journal.lines("passive") if line["pid"] == first.pid])
    eventually(
        lambda: len([each for each in journal.lines("passive") if each["pid"] == first.pid]) > told,
        "it stands by now",
        log=first.log,
    )
    journal.wait("end", times=len(counts(journal)) + 10)
    # A run that was under way when it froze ends afterwards.
    late = [pid for pid, _ in counts(journal)[frozen:]]
    assert late.count(first.pid) <= 1
    assert len(set(late) - {first.pid}) == 1
    for worker in (first, *others):
        assert worker.stop() == 0


Lead = Callable[[], StartTask]


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """``touch`` it to let the programs end."""
    return tmp_path / "gate"


@pytest.fixture
def lead(tmp_path: Path, journal: Journal, gate: Path, transactional_db: None) -> Iterator[Lead]:
    """Start a program that leads or stands by."""
    processes: list[StartTask] = []

    def lead() -> StartTask:
        values = {
            "DATABASE_URL": url_of(),
            "DJANGO_SETTINGS_MODULE": "tests.integration.settings",
            "TEST_JOURNAL": str(journal.path),
            "TEST_GATE": str(gate),
        }
        command = ("-m", "tests.integration.leader")
        log = tmp_path / f"leader-{len(processes)}.log"
        processes.append(StartTask(str(LEASE), log=log, environment=values, command=command))
        return processes[-1]

    yield lead
    for process in processes:
        process.end()


def leaders(journal: Journal) -> list[tuple[int, int]]:
    """(process, term) of those that led, one after the other."""
    lines = sorted(journal.lines("lead"), key=lambda line: line["now"])
    return [each for each, _ in groupby((line["pid"], line["term"]) for line in lines)]


def leader_and_other(lead: Lead, journal: Journal) -> tuple[StartTask, StartTask]:
    """Two programs, of which the first leads and the second stands by."""
    first = lead()
    journal.wait("lead", times=3)
    second = lead()
    journal.wait("stand by")
    return first, second


def wait_for_another(journal: Journal, leader: StartTask, *others: StartTask) -> dict[str, Any]:
    """The first line of the process that leads after ``leader``."""
    return eventually(
        lambda: [line for line in journal.lines("lead") if line["pid"] != leader.pid],
        "another one leads",
        log=others[0].log,
    )[0]


def test_when_the_leader_is_killed_another_one_leads_after_its_lease(
    lead: Lead, journal: Journal, gate: Path
) -> None:
    first, second = leader_and_other(lead, journal)
    first.kill()
    killed = monotonic()
    taken = wait_for_another(journal, first, second)
    assert taken["pid"] == second.pid
    # A lease, and a second between two looks at the lock.
    assert taken["now"] - killed < LEASE + 1.5
    last = max(line["now"] for line in journal.lines("lead") if line["pid"] == first.pid)
    assert last < taken["now"]
    assert leaders(journal) == [(first.pid, 1), (second.pid, 2)]
    gate.touch()
    assert second.ended() == 0
    assert Lock.objects.get(name="leader").holder == ""


def test_a_leader_that_was_stopped_for_longer_than_its_lease_knows_it_when_it_wakes_up(
    lead: Lead, journal: Journal, gate: Path
) -> None:
    first, second = leader_and_other(lead, journal)
    freeze(first)
    taken = wait_for_another(journal, first, second)
    first.send(signal.SIGCONT)
    lost = journal.wait("lost")
    assert (lost["pid"], taken["pid"]) == (first.pid, second.pid)
    eventually(
        lambda: [line for line in journal.lines("stand by") if line["pid"] == first.pid],
        "it stands by now",
    )
    # One step at the most: if it was stopped between the question and that step.
    late = [line for line in journal.lines("lead") if line["now"] > taken["now"]]
    assert len([line for line in late if line["pid"] == first.pid]) <= 1
    gate.touch()
    for program in (first, second):
        assert program.ended() == 0


def led(journal: Journal, term: int) -> list[dict[str, Any]]:
    return [line for line in journal.lines("lead") if line["term"] == term]


def test_one_leads_after_the_other_and_no_two_together(lead: Lead, journal: Journal) -> None:
    programs = [lead() for _ in range(3)]
    by_pid = {program.pid: program for program in programs}
    for turn in range(1, 4):
        leader = eventually(
            partial(led, journal, turn),
            f"somebody leads in term {turn}",
            log=programs[0].log,
        )[0]["pid"]
        by_pid[leader].kill()
    terms = leaders(journal)
    assert [term for _, term in terms] == [1, 2, 3]
    assert len({pid for pid, _ in terms}) == 3
