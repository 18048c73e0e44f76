"""The benchmarks run. How fast they find anything is no test's business."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import statements
from benchmarks.contenders import CATALOGUE
from benchmarks.plan import PLAN
from benchmarks.statements import Statement
from benchmarks.table import Results, Who
from benchmarks.take_over import taken_over
from benchmarks.targets import verdicts

CHECKOUT = Path(__file__).resolve().parents[1]
NAMES = ("ours", "floor", "seed")


def test_a_tiny_run_measures_ours_the_floor_and_the_seed_design(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    command = [sys.executable, "-m", "benchmarks.run", "--tiny", "--json", str(results)]
    command += ["--database", "sqlite", "--measure", "drain", "enqueue", "--contender", *NAMES]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads(results.read_text(encoding="utf-8"))
    measured = {(turn["measure"], turn["contender"]) for turn in record["turns"]}
    assert measured == {(measure, name) for measure in ("drain", "enqueue") for name in NAMES}
    assert "tasks/s" in done.stdout


def turn(contender: str, number: int, rate: float) -> dict[str, Any]:
    facts = {"database": "sqlite", "measure": "drain", "processes": 1, "tasks": 1}
    return {**facts, "contender": contender, "round": number, "rate": rate}


def test_shares_are_taken_within_a_round() -> None:
    turns = [turn("ours", 0, 10.0), turn("floor", 0, 20.0), turn("ours", 1, 1.0)]
    turns += [turn("floor", 1, 2.0), turn("ours", 2, 100.0), turn("floor", 2, 100.0)]
    results = Results({"turns": turns})
    ours, floor = Who("sqlite", "ours"), Who("sqlite", "floor")
    assert results.share("drain", ours, floor, "rate") == 0.5
    assert results.median("drain", ours, "rate") == 10.0


def test_a_turn_that_failed_is_reported_and_not_counted() -> None:
    failed = {**turn("ours", 1, 0.0), "error": "Traceback\nOSError: no"}
    results = Results({"turns": [turn("ours", 0, 10.0), failed]})
    assert results.values("drain", Who("sqlite", "ours"), "rate") == [10.0]
    assert list(results.failures().values()) == ["OSError: no"]


def test_a_missed_target_says_so() -> None:
    results = Results({"turns": [turn("ours", 0, 1.0), turn("floor", 0, 10.0)]})
    (verdict,) = verdicts(results)
    assert not verdict.reached
    assert "missed" in str(verdict)


def test_a_claim_is_all_from_the_first_look_to_the_update() -> None:
    said = [
        ("SELECT lanes FROM t_task", 0.0),
        ("SELECT id FROM t_task", 0.001),
        ("UPDATE t_task SET status = 1", 0.003),
        ("DELETE FROM t_task", 0.004),
        ("SELECT lanes FROM t_task", 0.005),
        ("UPDATE t_task_worker SET heartbeat = 1", 5.0),
    ]
    found = list(statements.claims([Statement(1, 1, at, at + 0.001, 1, sql) for sql, at in said]))
    assert [round(seconds, 3) for seconds, _ in found] == [0.004, 0.001]
    assert [statements.is_taking(group[-1]) for _, group in found] == [True, False]


def test_everything_in_the_plan_can_be_measured() -> None:
    for item in PLAN:
        for name in item.who():
            assert item.measure in CATALOGUE[name.partition(":")[0]].measures


def test_whom_a_target_is_about_takes_part_in_all_rounds() -> None:
    (drain,) = (item for item in PLAN if item.measure == "drain")

    def rounds(database: str, name: str) -> int:
        return sum(drain.takes_part(database, name, number) for number in range(5))

    assert [rounds("mariadb", name) for name in ("ours:2", "floor:2", "seed", "django-q2")] == [
        5
    ] * 4
    assert [rounds("sqlite", name) for name in ("ours", "floor", "huey")] == [5] * 3
    assert rounds("mariadb", "ours") == rounds("postgresql", "procrastinate") == 2


def test_measures_of_another_run_replace_those_of_the_page_and_say_of_which_run_they_are() -> None:
    facts = {"when": "2026-01-02T03:04:05", "commit": "abc", "cores": 2, "machine": "x86_64"}
    facts |= {"python": "3.13.0", "databases": {"sqlite": "3.40.1"}}
    old = {"turns": [turn("ours", 0, 1.0), {**turn("ours", 0, 2.0), "measure": "enqueue"}]}
    new = {**facts, "turns": [{**turn("ours", 0, 3.0), "load": 1.5}]}
    results = Results(taken_over(old, new))
    assert results.values("drain", Who("sqlite", "ours"), "rate") == [3.0]
    assert results.values("enqueue", Who("sqlite", "ours"), "rate") == [2.0]
    assert results.other_run("drain").startswith("2026-01-02 at commit abc on 2 cores")
    assert not results.other_run("enqueue")
