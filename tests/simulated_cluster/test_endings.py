"""Rules about stops, batches and runs that were given up: what they accuse of, and what not."""

from dataclasses import replace
from typing import Any

import pytest

from tests.faults.facts import KEY, a_history, a_run, an_add, an_end, beats
from tests.faults.history import Call, End, Fault, Run
from tests.faults.records import from_records
from tests.simulated_cluster import endings
from tests.simulated_cluster.endings import RULES

PID, OTHER = 70, 80
STORM = [{"kind": "storm", "at": 0.0}, {"kind": "calm", "at": 11.0}]
# A thread of another process, and what a run is that goes on until the end of its own.
THERE: dict[str, Any] = {"worker": 8, "pid": OTHER}
HANGS: dict[str, Any] = {"end": None, "how": ""}
REFUSED: dict[str, Any] = {"how": "Refused", "raised": True}


def accused(*facts: Any, records: Any = (), **more: Any) -> list[str]:
    history = a_history(*facts, **more)
    return [accusation.what for rule in RULES for accusation in rule(history, list(records))]


def a_call(call: str, sent: float, result: Any = True) -> Call:
    return Call(call, KEY, sent, sent + 0.1, "acknowledged", result)


# 3. Stops

STOPPED: dict[str, Any] = {"forgiven": [(7, 14.0, frozenset())], "exits": {PID: 14.1}}


@pytest.mark.parametrize(
    ("before", "after", "is_fine"),
    [
        ((0, 0), (0, 1), True),
        ((0, 1), (0, 1), True),
        ((2, 2), (2, 2), True),
        ((0, 1), (0, 2), False),  # a suspect
        ((0, 0), (0, 0), False),  # a misfire
        ((0, 0), (1, 1), False),  # charged
    ],
)
def test_a_run_that_a_stop_cut_off_has_one_rescue_and_no_attempt_more(before, after, is_fine):
    cut = a_run(attempts=before[0], rescues=before[1], **HANGS)
    again = a_run(start=20, version=3, attempts=after[0], rescues=after[1], **THERE)
    assert accused(cut, again, **STOPPED) == ([] if is_fine else ["charged"])


CUT, DEAD = a_run(**HANGS), a_run(start=20, version=3, rescues=2, **THERE)


def test_a_stop_counts_as_a_death_where_others_had_taken_the_worker_for_dead():
    silent = {7: beats(0, 11), 8: beats()}
    assert accused(CUT, DEAD, beats=silent, **STOPPED) == []


def test_a_run_that_has_ended_or_was_given_up_was_not_cut_off_by_the_stop():
    assert accused(a_run(), DEAD, **STOPPED) == []
    assert accused(CUT, an_end(CUT, outcome="Retry"), DEAD, **STOPPED) == []
    guilty = STOPPED | {"forgiven": [(7, 14.0, frozenset({1}))]}
    assert accused(CUT, DEAD, **guilty) == []


# 4. Batches


def two(**facts: Any) -> tuple[Run, Run]:
    """Two runs of one call."""
    return a_run(call="x", **facts), a_run("b", id=2, call="x", key=("plain", "2"), **facts)


def test_nobody_is_charged_for_a_call_that_has_failed_for_several():
    one, other = two(**REFUSED)
    assert accused(one, other, an_end(one, outcome="Retry")) == ["charged"]
    assert accused(one, other, an_end(one, outcome="Unsettled Again")) == []
    assert accused(one, an_end(one, outcome="Retry")) == []
    answered = replace(one, raised=False)
    assert accused(answered, other, an_end(answered, outcome="Retry")) == []


def test_a_task_is_charged_for_the_last_of_its_calls():
    one, other = two(**REFUSED)
    alone = replace(one, start=15.0, end=16.0, call="y")
    assert accused(one, other, alone, an_end(alone, outcome="Retry")) == []


@pytest.mark.parametrize("outcome", ["GiveBack", "Unsettled Again"])
def test_what_goes_back_is_as_it_was(outcome):
    run = a_run(attempts=1, rescues=1)
    again = a_run(start=20, version=3, attempts=1, rescues=1)
    assert accused(run, an_end(run, outcome=outcome), again) == []
    assert accused(run, an_end(run, outcome=outcome), replace(again, attempts=2)) == ["charged"]
    assert accused(run, an_end(run, outcome=outcome), replace(again, rescues=0)) == ["charged"]
    assert accused(run, an_end(run, "unknown", outcome), replace(again, attempts=2)) == []


@pytest.mark.parametrize("call", ["cancel", "delete", "reschedule", "run_now", "update", "pause"])
def test_what_was_touched_before_the_look_is_not_called_again(call):
    one, other = two(**REFUSED)
    again = replace(one, start=15.0, end=16.0, call="y")
    assert accused(one, other, again, a_call(call, 12.5)) == ["called again"]
    assert accused(one, other, again, a_call(call, 13.5)) == []
    assert accused(one, other, again, a_call(call, 11.5)) == []
    assert accused(one, other, again, a_call(call, 12.5, False)) == []


def test_the_look_comes_after_the_call_before_it_be_that_of_others():
    one, other = two(**REFUSED)
    between = replace(other, start=13.0, end=18.0, call="y", how="done", raised=False)
    again = replace(one, start=18.0, end=19.0, call="z")
    touched = a_call("cancel", 17.0)
    assert "called again" in accused(one, other, between, again, touched)
    assert "called again" not in accused(one, other, replace(between, thread=5), again, touched)


def test_what_was_added_again_is_not_called_again():
    one, other = two(**REFUSED)
    again = replace(one, start=15.0, end=16.0, call="y")
    assert accused(one, other, again, an_add("c", sent=12.5, id=1)) == []  # answered too late
    added = replace(an_add("c", sent=12.5, id=1), answered=12.6)
    assert accused(one, other, again, added) == ["called again"]
    assert accused(one, other, again, replace(added, stored=False)) == []


def test_what_was_paused_and_resumed_may_be_called_again():
    one, other = two(**REFUSED)
    again = replace(one, start=15.0, end=16.0, call="y")
    assert accused(one, other, again, a_call("pause", 12.2), a_call("resume", 12.6)) == []
    assert accused(one, other, again, a_call("pause", 12.2), settling=13.0) == []


def an_item(until: float) -> list[Run]:
    """A call that was refused, one half of it, and the other half, which ends at ``until``."""
    one, other = two(**REFUSED)
    half = replace(one, start=13.0, end=14.0, call="y", how="done", raised=False)
    return [one, other, half, replace(other, start=14.0, end=until, call="z", how="done")]


def test_the_end_of_a_half_does_not_wait_for_the_other_half():
    item = an_item(30.0)
    late, soon = End(30.1, item[2].claim, "Done", "accepted"), an_end(item[2])
    assert accused(*item, soon) == []
    assert accused(*item, late) == ["kept"]
    assert accused(*item) == ["kept"]
    assert accused(*item, late, records=STORM) == []
    assert accused(*an_item(17.0)) == []


def test_the_runs_of_another_item_are_no_other_half():
    one = a_run(call="y")
    other = a_run("b", id=2, key=("plain", "2"), start=14.0, end=40.0, call="z")
    assert accused(one, other) == []


# 5. Runs that were given up

GIVEN_UP = a_run(**HANGS)
CLAIM = GIVEN_UP.claim
KILLED: dict[str, Any] = {
    "given_up": {CLAIM: 20.0},
    "last_acts": {CLAIM: 21.0},
    "exits": {PID: 21.5},
}
RETRY = End(21.2, CLAIM, "Retry", "accepted")


def a_retry(start: float = 31.0, attempts: int = 1, when: float = 31.0) -> Run:
    return a_run(start=start, version=3, attempts=attempts, when=when, **THERE)


def test_a_run_that_was_given_up_is_tried_again_after_the_end_of_its_process():
    assert accused(GIVEN_UP, RETRY, a_retry(), **KILLED) == []


def test_nothing_runs_beside_a_run_that_was_given_up():
    lives = KILLED | {"exits": {PID: 31.5}}
    assert accused(GIVEN_UP, RETRY, a_retry(), records=STORM[:1], **lives) == ["beside"]
    frozen = Fault("SIGSTOP", 22.0, 31.4, (PID,))
    assert accused(GIVEN_UP, RETRY, a_retry(), frozen, records=STORM[:1], **lives) == []


def test_what_a_client_moves_after_the_last_act_may_begin_before_the_process_has_ended():
    lives = KILLED | {"exits": {PID: 21.9}}
    moved = replace(a_retry(start=21.6, when=15.0, attempts=0), version=4)
    handed_over = replace(RETRY, verdict="handed_over")
    assert accused(GIVEN_UP, handed_over, moved, a_call("run_now", 20.8), **lives) == ["beside"]
    assert accused(GIVEN_UP, handed_over, moved, a_call("run_now", 21.1), **lives) == []
    assert accused(GIVEN_UP, handed_over, moved, a_call("run_now", 21.7), **lives) == ["beside"]


def test_nothing_runs_beside_a_run_that_a_stop_has_cut_off():
    beside, exits = a_run(start=15.0, version=3, rescues=1, **THERE), {PID: 16.0}
    assert accused(GIVEN_UP, beside, exits=exits) == ["beside"]
    silent = {7: beats(0, 11), 8: beats()}
    assert accused(GIVEN_UP, beside, exits=exits, beats=silent) == []


def test_a_run_that_was_given_up_is_charged():
    assert accused(GIVEN_UP, RETRY, a_retry(attempts=0), **KILLED) == ["charged"]
    lost = replace(RETRY, verdict="lost")
    assert accused(GIVEN_UP, lost, a_retry(attempts=0), **KILLED) == []


def test_the_next_try_is_ten_seconds_away():
    assert accused(GIVEN_UP, RETRY, a_retry(start=25.0, when=25.0), **KILLED) == ["given up"]


def test_a_process_that_has_written_the_end_of_a_run_that_goes_on_ends_soon():
    lives = KILLED | {"exits": {PID: 33.0}}
    assert accused(GIVEN_UP, RETRY, **lives) == ["given up"]
    assert accused(GIVEN_UP, RETRY, records=STORM[:1], **lives) == []


def test_the_end_of_a_run_that_was_given_up_is_written():
    untried = KILLED | {"last_acts": {}}
    assert accused(GIVEN_UP, **untried) == ["given up"]
    assert accused(GIVEN_UP, **KILLED) == []  # its answer may have come too late
    at_a_deadline = untried | {"forgiven": [(7, 20.5, frozenset())]}
    assert accused(GIVEN_UP, **at_a_deadline) == []
    killed = untried | {"exits": {}}
    assert accused(GIVEN_UP, **killed) == []


def test_troubles_are_those_of_all_or_of_some_processes_and_last_for_a_while():
    fault = {"kind": "fault", "name": "SIGSTOP", "pids": [PID], "from": 40.0, "at": 50.0}
    stop = {**fault, "name": "SIGTERM"}
    storm, frozen = endings._troubles([*STORM, fault, stop])
    assert storm.is_of(OTHER, 40.9, 60.0)
    assert not storm.is_of(OTHER, 41.0, 60.0)
    assert frozen.is_of(PID, 79.0, 90.0)
    assert not frozen.is_of(OTHER, 41.0, 60.0)


def test_journals_tell_of_stops_and_of_runs_that_were_given_up():
    claims = [[1, 1, 7]]
    records = [
        {"kind": "given_up", "at": 20.0, "claims": claims},
        {"kind": "last_act", "at": 21.0, "claims": claims},
        {"kind": "forgiven", "at": 21.5, "pid": PID, "worker": 7, "guilty": [1]},
        {"kind": "exited", "at": 22.0, "pid": PID},
        {"kind": "settling", "at": 30.0},
    ]
    history = from_records(records, a_history())
    assert (history.given_up, history.last_acts) == ({CLAIM: 20.0}, {CLAIM: 21.0})
    assert history.forgiven == [(7, 21.5, frozenset({1}))]
    assert (history.exits, history.settling) == ({PID: 22.0}, 30.0)
