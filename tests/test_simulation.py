"""The model of many workers does what workers do. What it finds is no test's business."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.simulation import __main__ as command
from benchmarks.simulation.check import compare
from benchmarks.simulation.costs import DATABASES, capacity
from benchmarks.simulation.model import Case, Outcome, Simulation, simulate
from benchmarks.simulation.report import BEGIN, END
from benchmarks.simulation.rows import Rows, Share
from benchmarks.simulation.runs import LOADS, PLACES

COSTS = DATABASES["mariadb"]


def drain(strategy: str, workers: int) -> Outcome:
    return simulate(Case(COSTS, strategy, workers, warm_up=1.0, seconds=0.5))


def test_the_same_seed_gives_the_same_numbers() -> None:
    case = Case(COSTS, "shares", 8, rate=1000, warm_up=1.2, seconds=0.3)
    assert simulate(case) == simulate(case)
    assert simulate(case) != simulate(replace(case, seed=2))


@pytest.mark.parametrize("strategy", PLACES)
def test_one_worker_wastes_nothing(strategy: str) -> None:
    assert drain(strategy, 1).wasted == 0


def test_whoever_reads_the_head_loses_more_the_more_there_are() -> None:
    wasted = [drain("head", workers).wasted for workers in (1, 2, 4, 8, 32)]
    assert wasted == sorted(wasted)
    assert wasted[-1] > 0.8


@pytest.mark.parametrize("workers", [4, 8])
def test_shares_waste_less_than_random_places_and_those_less_than_the_head(workers: int) -> None:
    wasted = [drain(strategy, workers).wasted for strategy in ("shares", "random", "head")]
    assert wasted == sorted(wasted)
    assert wasted[0] < wasted[1] < wasted[2]


def test_who_steps_over_locked_rows_wastes_nothing() -> None:
    assert drain("locked", 32).wasted == 0


@pytest.mark.parametrize("strategy", PLACES)
@pytest.mark.parametrize("handler", [0.0, 0.01])
def test_every_task_ends_exactly_once(strategy: str, handler: float) -> None:
    case = Case(COSTS, strategy, 8, rate=1000, handler=handler, seconds=1.0)
    simulation = Simulation(case)
    simulation.rows = Rows(1000, rate=1000, start=1.0)  # the last is due a second before the end
    simulation.run()
    assert set(simulation.rows.ends) == {1}


def test_nothing_starts_before_it_is_due() -> None:
    simulation = Simulation(Case(COSTS, "shares", 8, rate=2000, seconds=0.5))
    simulation.run()
    started = simulation.tally.started
    assert started
    assert all(at >= simulation.rows.due_at(row) for row, at in started.items())


def test_lateness_does_not_depend_on_the_batch_when_little_is_due() -> None:
    case = Case(COSTS, "shares", 1, rate=20, seconds=2.0)
    large, small = simulate(case), simulate(replace(case, batch=50))
    assert large.p50 == pytest.approx(small.p50, rel=0.1)
    assert large.p99 < 0.02


def test_a_hint_is_quicker_than_the_next_poll() -> None:
    case = Case(COSTS, "shares", 4, rate=20, added=True, seconds=2.0)
    assert simulate(case).p99 < 0.05


def test_more_than_the_server_can_do_is_said_to_be_behind() -> None:
    assert simulate(Case(COSTS, "locked", 8, rate=1.5 * capacity(COSTS), seconds=1.0)).behind


def test_a_share_is_every_so_many_of_the_ids() -> None:
    rows = Rows(100, rate=0)
    assert rows.candidates(0.0, 3, Share(8, 5)) == ([5, 13, 21], 19)
    assert rows.candidates(0.0, 3, Share(8, 5, offset=2))[0] == [21, 29, 37]
    rows.commit(rows.take([5, 21]))
    assert rows.candidates(0.0, 3, Share(8, 5))[0] == [13, 29, 37]
    assert rows.take([5, 13]) == [13]


@pytest.fixture
def page(tmp_path: Path) -> Path:
    page = tmp_path / "scaling.rst"
    page.write_text(f"before\n\n{BEGIN}\n\nold\n\n{END}\n\nafter\n", encoding="utf-8")
    return page


@pytest.fixture
def arguments(monkeypatch: pytest.MonkeyPatch, page: Path) -> None:
    given = ["--quick", "--workers", "1", "2", "--strategy", "shares", "--rst", str(page)]
    monkeypatch.setattr(sys, "argv", ["simulation", *given])


@pytest.mark.usefixtures("arguments")
def test_the_command_puts_its_numbers_into_the_page(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main() == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert text.count("csv-table") == len(LOADS)
    assert "shares" in capsys.readouterr().out


def test_the_model_is_set_beside_what_was_measured() -> None:
    facts = {"database": "postgresql", "measure": "processes", "contender": "ours", "round": 0}
    turns = [{**facts, "processes": count, "tasks": 1, "rate": 30_000.0} for count in (1, 2)]
    head, *lines = compare({"turns": turns})
    assert "model" in head
    assert [line.split()[:3] for line in lines] == [
        ["PostgreSQL", "1", "30,000"],
        ["PostgreSQL", "2", "30,000"],
    ]
