"""The checker accuses workers that are silent without a reason, and those that forget a row."""

from dataclasses import replace
from typing import Any

import pytest

from django_tasks.worker import worker
from tests.faults import silence
from tests.faults.checker import check
from tests.faults.history import End, Fault, History, Run
from tests.faults.records import from_records

LEASE = 3.0
PID = 70
WORKER = 7
CLAIM = (1, WORKER)
NONCE = "a"


def beats(*spans: tuple[int, int]) -> list[float]:
    """One heartbeat a second, from the first to before the last second of each span."""
    return [float(second) for first, last in spans for second in range(first, last)]


def a_history(*faults: Fault, **more: Any) -> History:
    """A history of worker 7 in process 70, which sends heartbeats for 30 seconds."""
    facts = {"beats": {WORKER: beats((0, 30))}, "pids": {WORKER: PID}, "stopped": 30.0}
    return History(LEASE, faults=list(faults), **{**facts, **more})


def accused(*faults: Fault, **more: Any) -> list[str]:
    return [accusation.what for accusation in check(a_history(*faults, **more)).accusations]


# Silence

GAP = {WORKER: beats((0, 10), (16, 30))}


def test_a_worker_that_sends_heartbeats_is_fine():
    assert accused() == []


def test_a_worker_that_is_silent_for_a_lease_is_accused():
    assert accused(beats=GAP) == ["silent"]


def test_a_silence_of_less_than_a_lease_is_none():
    assert accused(beats={WORKER: beats((0, 10), (12, 30))}) == []


def test_a_worker_that_is_silent_at_the_end_is_accused():
    assert accused(beats={WORKER: beats((0, 20))}) == ["silent"]


def test_a_worker_that_a_run_without_end_has_cost_is_silent_from_its_end_on():
    own = {WORKER: beats((0, 20))}
    assert accused(beats=own, condemned={PID: 18.0}, lasts={PID: 20.5}) == []
    assert accused(beats=own, condemned={PID: 18.0}, lasts={PID: 25.0}) == ["silent"]


@pytest.mark.parametrize(
    ("act", "last", "expected"),
    [(20.5, 26.5, []), (23.0, 26.5, ["silent"]), (19.5, 29.8, ["silent"])],
    ids=["its log hangs", "no act in time", "for too long"],
)
def test_or_from_its_last_act_on(act: float, last: float, expected: list[str]):
    facts: dict[str, Any] = {"condemned": {PID: 18.0}, "last_acts": {(1, 1, WORKER): act}}
    assert accused(beats={WORKER: beats((0, 20))}, lasts={PID: last}, **facts) == expected


def test_that_is_the_time_after_which_the_worker_has_ended():
    assert silence.LAST_ACT_SECONDS == worker.LAST_ACT_SECONDS


def test_who_goes_on_under_a_new_number_was_silent_all_the_same():
    own = {WORKER: beats((0, 10)), 9: beats((16, 30))}
    assert accused(beats=own, pids={WORKER: PID, 9: PID}) == ["silent"]


@pytest.mark.parametrize(
    "fault",
    [
        Fault("outage", 10.0, 15.0, away=True),
        Fault("outage", 11.0, 11.5, away=True),
        Fault("outage", 5.0, 8.0, away=True),  # those that it has hit get up within a lease
        Fault("SIGSTOP", 10.0, 15.0, (PID,)),
    ],
)
def test_a_fault_that_takes_the_database_or_the_process_is_a_reason(fault):
    assert accused(fault, beats=GAP) == []


@pytest.mark.parametrize(
    "fault",
    [
        Fault("rows locked", 10.0, 15.0),  # others wait, and nobody must for so long
        Fault("SIGSTOP", 10.0, 15.0, (71,)),  # it was another one's
        Fault("outage", 1.0, 2.0, away=True),
        Fault("outage", 17.0, 18.0, away=True),
    ],
)
def test_another_fault_is_no_reason(fault):
    assert accused(fault, beats=GAP) == ["silent"]


@pytest.mark.parametrize("name", ["SIGKILL worker", "SIGTERM"])
def test_whoever_was_told_to_end_may_be_silent_from_then_on(name):
    assert accused(Fault(name, 9.5, 9.6, (PID,)), beats={WORKER: beats((0, 10))}) == []


def test_a_silence_without_a_reason_is_no_excuse_for_an_overlap():
    facts: dict[str, Any] = {"key": ("slow", "1"), "id": 1, "nonce": NONCE, "hop": 0, "when": 0.0}
    facts["how"] = "done"
    older = Run(version=1, worker=WORKER, pid=PID, start=9.0, end=19.0, **facts)
    younger = Run(version=3, worker=8, pid=80, start=14.0, end=15.0, **facts)
    both = {"beats": {**GAP, 8: beats((0, 30))}, "pids": {WORKER: PID, 8: 80}}
    found = accused(runs=[older, younger], **both)
    assert sorted(found) == ["overlap", "silent", "unfounded", "unfounded"]
    outage = Fault("outage", 10.0, 15.0, away=True)
    assert "overlap" not in accused(outage, runs=[older, younger], **both)


# Held for nothing


def looks(first: int, last: int, *more: int) -> list[tuple[float, frozenset[tuple[int, int]]]]:
    """A look each second; from ``first`` to ``last``, worker 7 holds row 1."""
    held = {*range(first, last + 1), *more}
    return [(float(at), frozenset([CLAIM] if at in held else [])) for at in range(30)]


def a_run(start: float, end: float | None, **more: Any) -> Run:
    facts = {"key": ("slow", "1"), "id": 1, "version": 1, "nonce": NONCE, "hop": 0, "when": 0.0}
    return Run(worker=WORKER, pid=PID, start=start, end=end, **{**facts, **more})


def stuck(*faults: Fault, **more: Any) -> bool:
    return "stuck" in accused(*faults, **more)


def test_a_row_that_is_held_and_never_runs_is_stuck():
    assert stuck(looks=looks(5, 13))


def test_a_row_that_is_found_within_a_few_heartbeats_is_not_stuck():
    assert not stuck(looks=looks(5, 12))  # 7 seconds: 7 heartbeats


def test_a_row_that_runs_is_not_stuck():
    assert not stuck(looks=looks(2, 28), runs=[a_run(2.1, 28.1)])


def test_a_run_whose_end_is_not_written_is_stuck():
    assert stuck(looks=looks(2, 14), runs=[a_run(2.1, 6.0)])
    assert not stuck(looks=looks(2, 12), runs=[a_run(2.1, 6.0)])


def test_a_task_of_a_batch_may_wait_for_its_next_call_while_others_are_called():
    first, second = a_run(2.1, 3.0, how="Trouble"), a_run(12.0, 13.0, how="done")
    assert not stuck(looks=looks(2, 14), runs=[first, second])
    given_back = End(12.0, first.claim, "GiveBack", "accepted")
    assert not stuck(looks=looks(2, 14), runs=[first], ends=[given_back])
    assert stuck(looks=looks(2, 14), runs=[first])
    assert stuck(looks=looks(2, 14), runs=[replace(first, is_charge=True), second])


def test_an_end_that_the_worker_tries_to_write_is_not_stuck():
    tries = [End(float(at), (1, 1, WORKER), "Done", "unknown") for at in range(6, 28)]
    assert not stuck(looks=looks(2, 28), runs=[a_run(2.1, 6.0)], ends=tries)
    others = [End(end.at, (2, 1, WORKER), "Done", "unknown") for end in tries]
    assert stuck(looks=looks(2, 28), runs=[a_run(2.1, 6.0)], ends=others)


def test_a_row_that_was_let_go_meanwhile_is_not_stuck():
    assert not stuck(looks=looks(5, 10, 12, 13, 14, 15, 16, 17, 18))


def test_the_time_that_a_projects_hook_took_does_not_count():
    nap = {PID: [(6.0, 12.0)]}
    assert stuck(looks=looks(2, 14), runs=[a_run(2.1, 6.0)])
    assert not stuck(looks=looks(2, 14), runs=[a_run(2.1, 6.0)], naps=nap)
    assert stuck(looks=looks(2, 14), runs=[a_run(2.1, 6.0)], naps={71: [(6.0, 12.0)]})


def test_a_process_of_its_own_may_take_its_time_to_start():
    starts = {(1, WORKER): [(2.0, 20.0)]}
    assert not stuck(looks=looks(2, 24), starts_apart=starts)
    assert stuck(looks=looks(2, 28), starts_apart=starts)
    assert stuck(looks=looks(2, 24), starts_apart={(2, WORKER): [(2.0, 20.0)]})


def test_a_worker_that_a_fault_was_in_the_way_of_may_hold_a_row():
    assert not stuck(Fault("outage", 6.0, 7.0, away=True), looks=looks(5, 13))
    assert not stuck(Fault("SIGSTOP", 6.0, 7.0, (PID,)), looks=looks(5, 13))
    assert stuck(Fault("rows locked", 6.0, 7.0), looks=looks(5, 13))


def test_of_a_dead_worker_nobody_says_that_it_forgot_a_row():
    assert not stuck(looks=looks(5, 28), beats={WORKER: beats((0, 5))}, stopped=5.0)


def test_a_row_that_is_held_to_the_end_is_stuck():
    assert stuck(looks=looks(20, 29))


# Journals


def test_journals_tell_of_looks_naps_complaints_and_the_end():
    records = [
        {"kind": "held", "at": 1.0, "rows": [[1, 7], [2, 8]]},
        {"kind": "nap", "at": 9.0, "from": 3.0, "pid": 70, "what": "log"},
        {"kind": "nap", "at": 9.2, "from": 9.1, "pid": 71, "parent": 70, "what": "log"},
        {"kind": "apart", "at": 9.5, "from": 4.0, "row": 2, "worker": 8},
        {"kind": "complaint", "at": 10.0, "text": "a word"},
        {"kind": "fault", "at": 12.0, "from": 11.0, "name": "outage", "pids": [], "away": True},
        {"kind": "stopping", "at": 20.0},
    ]
    history = from_records(records, History(LEASE))

    assert history.looks == [(1.0, frozenset({(1, 7), (2, 8)}))]
    assert history.naps == {70: [(3.0, 9.0), (9.1, 9.2)], 71: [(9.1, 9.2)]}
    assert history.starts_apart == {(2, 8): [(4.0, 9.5)]}
    assert history.faults == [Fault("outage", 11.0, 12.0, away=True)]
    assert history.stopped == 20.0
    assert [each.text for each in check(history).accusations] == ["a word"]
