"""The checker accuses the process that broke a promise, and nobody else."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_tasks import logs
from tests.faults.checker import check
from tests.faults.facts import (
    KEY,
    LEASE,
    a_call,
    a_cancel,
    a_history,
    a_run,
    an_add,
    an_end,
    an_update,
    beats,
)
from tests.faults.history import Add, Call, Clock, End, Fault, History, Misfire, Pause, Run, Update
from tests.faults.records import from_records
from tests.faults.simulation import Simulation
from tests.faults.verdicts import defects


def accused(*facts: Any, **more: Any) -> list[str]:
    return [accusation.what for accusation in check(a_history(*facts, **more)).accusations]


# 1. Lost


def test_an_add_that_ran_is_fine():
    assert accused(an_add(), a_run(), an_end(a_run())) == []


def test_an_acknowledged_add_that_never_ran_is_lost():
    assert accused(an_add()) == ["lost"]


@pytest.mark.parametrize("how", ["", "ValueError"])
def test_a_run_that_did_not_reach_its_end_does_not_count(how):
    assert accused(an_add(), a_run(how=how)) == ["lost"]


def test_a_run_with_the_payload_of_another_add_does_not_count():
    later = an_add("b", sent=14, version=1)
    assert "lost" in accused(an_add(), later, a_run())


def test_an_add_that_was_not_answered_may_be_missing():
    assert accused(an_add(answer="unknown", answered=float("inf"), id=None, stored=False)) == []


def test_an_add_that_a_later_one_superseded_may_be_missing():
    later = an_add("b", sent=14, version=1)
    run = a_run("b", start=16, version=2)
    assert accused(an_add(), later, run, an_end(run)) == []


def test_an_add_whose_row_had_gone_before_the_next_one_was_not_superseded():
    later = an_add("b", sent=14, version=0, id=2)
    run = a_run("b", start=16, version=1, id=2)
    assert accused(an_add(), later, run, an_end(run)) == ["lost"]


def test_an_add_that_did_not_store_supersedes_nothing():
    kept = an_add("b", sent=14, version=0, stored=False)
    assert accused(an_add(), kept) == ["lost"]


def test_an_unanswered_add_excuses_only_if_it_took_effect():
    unknown = an_add("b", 14, answer="unknown", answered=float("inf"), id=None, stored=False)
    run = a_run("b", start=16, version=2)
    assert accused(an_add(), unknown) == ["lost"]
    assert accused(an_add(), unknown, run, an_end(run)) == []


@pytest.mark.parametrize("result", ["cancelled", "cancelling"])
def test_an_add_that_was_cancelled_may_be_missing(result):
    assert accused(an_add(), a_cancel(14, result)) == []


def test_an_add_that_a_concurrent_cancel_may_have_hit_may_be_missing():
    assert accused(an_add(sent=10), a_cancel(9.5)) == []


def test_a_cancel_before_the_add_is_no_excuse():
    assert accused(an_add(sent=10), a_cancel(5)) == ["lost"]


def test_a_cancel_that_found_nothing_is_no_excuse():
    assert accused(an_add(), a_cancel(14, "not_found")) == ["lost"]


def test_an_unanswered_cancel_is_an_excuse():
    assert accused(an_add(), Call("cancel", KEY, 5)) == []


def test_an_add_whose_payload_an_update_may_have_replaced_may_be_missing():
    assert accused(an_add(), an_update("b", 14)) == []
    assert accused(an_add(), an_update("b", 14, result=False)) == ["lost"]
    assert accused(an_add(), an_update("b", 5)) == ["lost"]


def test_an_atomic_run_counts_by_its_effect():
    add = an_add(key=("atomic", "1"))
    run = a_run(key=("atomic", "1"), atomic=True)
    assert accused(add, run) == ["lost"]
    assert accused(add, run, effects=[(add.key, "a", 0, 1, 1)]) == []


def test_a_run_that_wrote_a_row_must_have_left_it():
    add = an_add(key=("effectful", "1"))
    run = a_run(key=("effectful", "1"))
    assert accused(add, run, an_end(run)) == ["lost"]
    assert accused(add, run, an_end(run), effects=[(add.key, "a", 0, 1, 1)]) == []


# Unfounded


def test_what_was_rolled_back_must_not_run():
    refused = an_add(answer="refused", stored=False, id=None)
    assert accused(refused, a_run()) == ["unfounded"]


def test_a_claim_has_the_payload_of_the_write_before_it():
    first, second = an_add("a"), an_add("b", sent=14, version=1)
    stale, right = a_run("a", start=16, version=2), a_run("b", start=18, version=4)
    assert "unfounded" in accused(first, second, stale, right)


def test_the_payload_of_an_update_may_run_if_the_update_found_its_task():
    run = a_run("b", start=16, version=2)
    assert accused(an_add(), an_update("b", 14), run, an_end(run)) == []
    assert accused(an_add(), an_update("b", 14, result=False), run) == ["lost", "unfounded"]


def test_a_payload_that_was_replaced_before_the_claim_must_not_run():
    facts = an_add(), a_run(), an_update("b", 14)
    late, sooner = (a_run(start=20, version=3, claimed=claimed) for claimed in (15.2, 15.0))
    assert accused(*facts, late) == ["stale"]
    assert accused(*facts, sooner) == []


def test_a_clock_that_is_known_badly_excuses_a_payload_from_before():
    facts = an_add(), a_run(), an_update("b", 14), a_run(start=20, version=3, claimed=15.2)
    assert accused(*facts, clock=Clock(error=0.5)) == []


# Calls that are made again


def called_twice(*changes: Call | Run, **facts: Any) -> list[str]:
    """The accusations if changes came in the first of two calls of one claim, from 12 to 13."""
    first, second = a_run(how="Trouble", **facts), a_run(start=13.1)
    return accused(an_add(), first, *changes, second)


def test_a_batch_is_called_again_in_halves():
    assert called_twice() == []


@pytest.mark.parametrize("name", ["pause", "reschedule", "run_now", "delete"])
def test_what_was_changed_during_a_call_is_in_no_further_call(name):
    assert called_twice(a_call(name, 12.4)) == ["called again"]
    assert called_twice(a_call(name, 12.4, result=False)) == []
    assert called_twice(a_call(name, 11.95)) == []
    assert called_twice(a_call(name, 12.95)) == []


def test_what_was_cancelled_updated_or_added_again_is_in_no_further_call():
    cancel = Call("cancel", KEY, 12.2, 12.4, "acknowledged", "cancelling")
    update = Update("update", KEY, 12.2, 12.4, "acknowledged", True, nonce="b")
    add = an_add("b", sent=12.2, answered=12.4, version=2)
    after = a_run("b", start=20, version=3)
    assert called_twice(cancel) == ["called again"]
    assert called_twice(update) == ["called again"]
    assert "called again" in called_twice(add, after)


def test_a_pause_that_was_undone_before_the_next_call_changes_nothing():
    assert called_twice(a_call("pause", 12.2), a_call("resume", 12.6)) == []
    assert called_twice(a_call("pause", 12.6), a_call("resume", 12.2)) == ["called again"]


# 2. Overlaps


def test_two_runs_at_once_of_living_workers_overlap():
    runs = a_run(start=12, end=14), a_run(start=13, end=15, version=3, worker=8)
    assert accused(an_add(), *runs) == ["overlap"]


def test_runs_one_after_the_other_do_not_overlap():
    runs = a_run(start=12, end=13), a_run(start=13, end=15, version=3, worker=8)
    assert accused(an_add(), *runs) == []


def test_the_run_of_a_worker_that_was_silent_for_a_lease_may_overlap():
    runs = a_run(start=12, end=19), a_run(start=16, end=18, version=3, worker=8)
    silent = {7: [*beats(0, 12), 19.0], 8: beats()}
    assert accused(an_add(), *runs, an_end(runs[0], "lost"), beats=silent) == []


def test_a_zombie_whose_end_was_accepted_overlaps():
    runs = a_run(start=12, end=19), a_run(start=16, end=18, version=3, worker=8)
    silent = {7: [*beats(0, 12), 19.0], 8: beats()}
    assert "overlap" in accused(an_add(), *runs, an_end(runs[0]), beats=silent)


def test_a_run_whose_process_died_ends_with_it():
    runs = a_run(end=None, how=""), a_run(start=12.5, version=3, worker=8)
    assert accused(an_add(), *runs) == []


def test_a_run_lasts_for_as_long_as_its_process_gives_signs_of_life():
    endless = a_run(end=None, how="", lasted=14.0)
    assert accused(an_add(), endless, a_run(start=13.9, version=3, worker=8)) == ["overlap"]
    assert accused(an_add(), endless, a_run(start=14.1, version=3, worker=8)) == []


def test_what_a_client_moves_in_the_last_moments_of_a_process_may_begin_beside_it():
    endless = a_run(end=None, how="", lasted=14.0)
    acted = {"last_acts": {endless.claim: 13.0}}
    other = a_run(start=13.9, version=4, worker=8)
    late, early = (Call("run_now", KEY, at, at + 0.1, "acknowledged", True) for at in (13.5, 12.5))
    assert accused(an_add(), endless, other, late, **acted) == []
    assert accused(an_add(), endless, other, early, **acted) == ["overlap"]


def test_a_process_that_was_stopped_from_outside_after_its_last_act_could_not_end_in_time():
    endless = a_run(end=None, how="", lasted=34.0)
    facts = an_add(), endless, a_run(start=24.0, version=3, worker=8)
    acted = {"last_acts": {endless.claim: 13.0}}
    assert accused(*facts, Fault("SIGSTOP", 13.1, 33.9, (70,)), **acted) == []
    assert accused(*facts, Fault("SIGSTOP", 13.1, 33.9, (71,)), **acted) == ["overlap"]
    assert accused(*facts, Fault("SIGSTOP", 11.0, 12.9, (70,)), **acted) == ["overlap"]


# 3. Early, after a cancel


def test_a_start_before_its_time_by_the_databases_clock_is_early():
    clock = Clock(offset=1000.0)
    assert accused(an_add(when=1013), a_run(start=12, when=1013.0), clock=clock) == ["early"]
    assert accused(an_add(when=1012), a_run(start=12, when=1012.0), clock=clock) == []


def test_a_start_within_the_error_of_the_clock_is_let_off():
    clock = Clock(offset=1000.0, error=0.5)
    assert accused(an_add(when=1012.4), a_run(start=12, when=1012.4), clock=clock) == []


def test_a_run_that_is_due_when_nobody_asked_is_early():
    assert accused(an_add(when=5), a_run(when=4.0)) == ["early"]


def test_nothing_starts_after_a_cancel_that_said_cancelled():
    assert accused(an_add(), a_cancel(11.5), a_run(start=13)) == ["after cancel"]


def test_what_was_added_again_after_the_cancel_may_start():
    again = an_add("b", sent=15, id=2)
    assert accused(an_add(), a_cancel(13), again, a_run("b", start=17, id=2)) == []


def test_a_run_that_began_before_the_cancel_was_answered_may_go_on():
    assert accused(an_add(), a_cancel(11.5), a_run(start=12.4)) == []


def test_a_process_that_was_frozen_between_its_last_look_and_its_start_is_let_off():
    thawed = Fault("SIGSTOP", 11.0, 12.9, (70,))
    assert accused(an_add(), a_cancel(11.5), a_run(start=13), thawed) == []


# 4. Ends


def test_a_claim_ends_once():
    run = a_run()
    assert accused(an_add(), run, an_end(run), an_end(run)) == ["duplicate"]


def test_an_id_that_two_keys_had_is_the_accusation_and_nothing_is_concluded_from_it():
    other = ("atomic", "2")
    first, second = a_run(), a_run("b", start=20, key=other, when=15.0)
    effects = [(KEY, "a", 0, 1, 1), (other, "b", 0, 1, 1)]
    adds = [an_add(), an_add("b", sent=16, key=other, when=15.0)]
    history = [*adds, first, an_end(first), second, an_end(second)]
    assert accused(*history, effects=effects) == ["id twice"]


def test_what_is_lost_is_lost_whatever_its_id_was_used_for():
    other = an_add("b", sent=16, key=("plain", "2"))
    assert sorted(accused(an_add(), other, a_run("b", key=other.key, start=20))) == [
        "id twice",
        "lost",
    ]


def test_a_row_that_was_removed_does_not_run_again():
    first, second = a_run(), a_run(start=20, version=3)
    assert accused(an_add(), first, an_end(first), second) == ["duplicate"]


def test_an_effect_of_an_atomic_handler_is_there_once():
    add = an_add(key=("atomic", "1"))
    run = a_run(key=("atomic", "1"), atomic=True)
    twice = [(add.key, "a", 0, 1, 1), (add.key, "a", 0, 1, 3)]
    assert accused(add, run, effects=twice) == ["duplicate"]
    moved = Call("reschedule", add.key, 12, 13, "acknowledged", True)
    assert accused(add, moved, run, effects=twice) == []


BEAT = ("beat", "1")


def test_a_schedule_has_one_accepted_run_for_each_of_its_times():
    add = an_add(key=BEAT)
    facts: dict[str, Any] = {"key": BEAT, "hop": 2, "scheduled": 12.0}
    first, second = a_run(**facts), a_run(start=20, version=3, **facts)
    ends = [an_end(first, outcome="Reschedule"), an_end(second)]
    assert accused(add, first, second, *ends) == ["duplicate"]
    refused = an_end(first, "lost", "Reschedule")
    assert "duplicate" not in accused(add, first, second, refused, ends[1])


def test_a_schedule_that_stops_by_itself_is_lost():
    add = an_add(key=BEAT)
    runs = [a_run(key=BEAT, hop=hop, start=12 + 2 * hop, version=1 + 2 * hop) for hop in range(3)]
    assert accused(add, *runs) == []
    assert accused(add, *runs[:2]) == ["lost"]


def test_an_end_that_was_refused_without_reason_is_an_accusation():
    run = a_run()
    assert accused(an_add(), run, an_end(run, "lost")) == ["unreleased"]


def test_of_a_run_that_was_given_up_and_ended_after_all_the_first_end_counts():
    run = a_run()
    first, second = an_end(run, outcome="Unsettled Again"), an_end(run, "lost", "Retry")
    assert accused(an_add(), run, first, second, given_up={run.claim: 13.0}) == []
    assert accused(an_add(), run, first, second) == ["unreleased"]


def test_an_end_that_may_have_been_written_before_may_be_refused():
    run = a_run()
    unknown = replace(an_end(run, "unknown"), at=13.05)
    assert accused(an_add(), run, unknown, an_end(run, "lost")) == []


@pytest.mark.parametrize(("lines", "is_fine"), [(0, False), (1, True), (2, False)])
def test_an_end_that_counted_has_one_line_in_the_history(lines, is_fine):
    found = accused(an_add(), a_run(), an_end(a_run()), lines={KEY: lines})
    assert found == ([] if is_fine else ["history"])


@pytest.mark.parametrize("lines", [0, 1])
@pytest.mark.parametrize("verdict", ["unknown", None])
def test_an_end_whose_answer_nobody_has_may_have_a_line(verdict, lines):
    ends = [an_end(a_run(), verdict)] if verdict else []
    assert accused(an_add(), a_run(), *ends, lines={KEY: lines}) == []


def test_a_lost_end_has_no_line_but_that_of_the_other():
    lost, won = a_run(), a_run(start=20, version=3, worker=8)
    facts = an_add(), lost, won, an_end(lost, "lost"), an_end(won)
    silent = {7: beats(0, 11), 8: beats()}
    assert accused(*facts, beats=silent, lines={KEY: 1}) == []
    assert accused(*facts, beats=silent, lines={KEY: 0}) == ["history"]


def test_a_committed_atomic_run_has_its_line():
    key = ("atomic", "1")
    add, run = an_add(key=key), a_run(key=key, atomic=True)
    effects = [(key, "a", 0, 1, 1)]
    assert accused(add, run, effects=effects, lines={key: 1}) == []
    assert accused(add, run, effects=effects, lines={}) == ["history"]


@pytest.mark.parametrize(("lines", "is_fine"), [(1, True), (2, True), (3, False)])
def test_an_end_of_a_run_that_could_not_begin_may_have_a_line(lines, is_fine):
    unbegun = replace(a_run(), version=3)
    facts = an_add(), a_run(), an_end(a_run()), an_end(unbegun)
    found = accused(*facts, lines={KEY: lines})
    assert found == ([] if is_fine else ["history"])


# 5. Stuck, hasty


def test_a_row_that_is_left_is_stuck():
    assert accused(an_add(), a_run(), rows=[{"id": 1}]) == ["stuck"]


def test_a_worker_that_is_left_is_stuck():
    assert accused(workers=[7]) == ["stuck"]


def test_whoever_had_a_gap_himself_must_not_rescue():
    gap = {7: [1.0, 2.0, 10.0, 11.0]}
    assert accused(beats=gap, rescues=[(7, 11.1)]) == ["hasty"]
    assert accused(beats=gap, rescues=[(7, 13.1)]) == []


# 6. Charges


def test_an_attempt_is_used_by_a_failure_of_the_run_itself():
    failed = a_run(how="Trouble", is_charge=True)
    again = a_run(start=20, version=3, attempts=1)
    assert accused(an_add(), failed, again) == []
    assert accused(an_add(), replace(failed, is_charge=False), again) == ["charged"]
    assert accused(an_add(), failed, replace(again, attempts=2)) == ["charged"]


def test_the_death_of_a_process_uses_an_attempt_of_a_suspect_alone():
    died = a_run(end=None, how="")
    again = a_run(start=20, version=3, attempts=1)
    suspect = replace(died, rescues=2)
    assert accused(an_add(), died, again) == ["charged"]
    assert accused(an_add(), suspect, again) == []


def test_what_uses_an_attempt_outside_of_the_journals_is_not_counted():
    add, key = an_add(key=("slow", "1")), ("slow", "1")
    assert accused(add, a_run(key=key, how=""), a_run(key=key, start=20, attempts=1)) == []


STOP = Fault("SIGTERM", 13.0, 14.0, (70,))


def test_orderly_stops_make_no_suspect():
    cut = a_run(end=None, how=""), STOP
    assert accused(an_add(), *cut, a_run(start=20, version=3, rescues=1)) == []
    assert accused(an_add(), *cut, a_run(start=20, version=3, rescues=2)) == ["suspect"]


def test_a_death_may_make_a_suspect():
    death = Fault("SIGKILL worker", 15.0, 15.5, (80,))
    run = a_run(start=20, version=3, rescues=2)
    assert accused(an_add(), a_run(end=None, how=""), STOP, death, run) == []


def test_a_stop_that_could_not_be_written_down_may_make_a_suspect():
    facts = an_add(), a_run(end=None, how=""), STOP, a_run(start=20, version=3, rescues=2)
    assert accused(*facts, unforgiven={70}) == []


# 7. Time


def a_misfire(at: float, when: float) -> Misfire:
    """A task that was due at ``when`` and is called too late, with a grace of 1.5 s."""
    return Misfire(at, 1, *KEY, when=when, grace=1.5)


def test_a_task_that_is_late_is_a_misfire():
    assert accused(an_add(when=12.0), a_misfire(14, when=12.0), a_run(start=14, when=12.0)) == []


def test_a_task_that_has_begun_before_is_none():
    cut = a_run(end=None, how="", when=12.0)
    again = a_run(start=16, version=3, when=12.0)
    facts = an_add(when=12.0), cut, a_misfire(15.9, when=12.0), again
    assert accused(*facts) == ["misfire"]


@pytest.mark.parametrize(
    ("at", "began", "is_fine"), [(16.0, 11.0, False), (17.0, 11.0, True), (16.0, 14.0, True)]
)
def test_lateness_counts_from_the_end_of_a_pause_that_began_in_time(at, began, is_fine):
    pause = Pause("plain", "", began, began + 0.1, 15.0, 15.1)
    facts = an_add(when=12.0), pause, a_misfire(at, when=12.0), a_run(start=at, when=12.0)
    assert accused(*facts) == ([] if is_fine else ["misfire"])


def test_nothing_is_claimed_in_a_pause_of_its_code_or_queue():
    run = a_run(start=13, claimed=12.9, queue="q")
    for code, queue in [("plain", ""), ("", "q"), ("", "")]:
        pause = Pause(code, queue, 12.0, 12.1, 15.0, 15.1)
        assert accused(an_add(), run, pause) == ["paused"]
        assert accused(an_add(), replace(run, claimed=12.05), pause) == []
    assert accused(an_add(), run, Pause("other", "", 12.0, 12.1, 15.0, 15.1)) == []


def test_nobody_waits_for_longer_than_there_is_patience():
    facts = an_add(when=12.0), a_run(start=20, when=12.0)
    assert accused(*facts) == []
    assert accused(*facts, patience=8.5) == []
    assert accused(*facts, patience=7.5) == ["late"]
    assert accused(*facts, a_call("pause", 13), patience=7.5) == []


# 8. What others have left


def test_a_run_that_found_what_another_one_had_left_is_an_accusation():
    assert accused(an_add(), a_run(), found=["plain/1 finds a language"]) == ["left behind"]


# Journals


def test_journals_become_histories():
    common = {"code": "plain", "num": "1"}
    records = [
        {"kind": "sent", "at": 1, "name": "x", "call": "add", "nonce": "a", "when": 2.0, **common},
        {"kind": "answer", "at": 2, "name": "x", "answer": "acknowledged", "stored": True}
        | {"id": 1, "version": 0},
        {"kind": "sent", "at": 3, "name": "y", "call": "cancel", **common},
        {"kind": "start", "at": 4, "run": "r", "id": 1, "version": 1, "worker": 7, "pid": 70}
        | {"nonce": "a", "hop": 0, "when": 2.0, "atomic": False, "scheduled": 2.0, **common},
        {"kind": "end", "at": 5, "run": "r", "how": "done"},
        {"kind": "finish", "at": 6, "ends": [[1, 1, 7, "Done", "accepted"]]},
        {"kind": "beat", "at": 7, "asked": 6.5, "worker": 7, "pid": 70, "renewed": True},
        {"kind": "fault", "at": 9, "from": 8, "name": "SIGKILL", "pids": [70]},
    ]
    history = from_records(records, History(LEASE))

    assert history.calls == [
        Add("add", KEY, 1, 2, "acknowledged", nonce="a", when=2.0, id=1, version=0, stored=True),
        Call("cancel", KEY, 3),
    ]
    assert [(run.start, run.end, run.how) for run in history.runs] == [(4, 5, "done")]
    assert history.ends == [End(6, (1, 1, 7), "Done", "accepted")]
    assert history.beats == {7: [6.5]}
    assert history.faults == [Fault("SIGKILL", 8, 9, (70,))]


def test_journals_tell_of_charges_pauses_and_ends():
    common = {"code": "plain", "num": "1", "nonce": "a"}
    start: dict[str, Any] = {
        "id": 1,
        "version": 1,
        "worker": 7,
        "hop": 0,
        "when": 2.0,
        "atomic": False,
    }
    start |= {"scheduled": 2.0, "queue": "q", "claimed": 3.9, "attempts": 2, "rescues": 1}
    pause: dict[str, Any] = {"code": "plain", "queue": "", "from": 3, "answered": 4, "end_asked": 5}
    misfire: dict[str, Any] = {
        "id": 1,
        "code": "plain",
        "queue": "q",
        "when": 2.0,
        "grace": 1.5,
        "lateness": 2.0,
    }
    records = [
        {"kind": "sent", "at": 1, "name": "x", "call": "update", **common},
        {"kind": "answer", "at": 2, "name": "x", "answer": "acknowledged", "result": True},
        {"kind": "start", "at": 4, "run": "r", "pid": 70, **common, **start},
        {"kind": "end", "at": 5, "run": "r", "pid": 70, "how": "Trouble", "is_charge": True},
        {"kind": "pause", "at": 6, "pid": 1, **pause},
        {"kind": "misfire", "at": 6, "pid": 70, "action": "run", **misfire},
        {"kind": "forgiving", "at": 7, "pid": 70},
        {"kind": "forgiving", "at": 7, "pid": 80},
        {"kind": "forgiven", "at": 8, "pid": 80, "worker": 8, "guilty": []},
        {"kind": "condemned", "at": 9, "pid": 70},
        {"kind": "sign", "at": 10, "pid": 70},
        {"kind": "patience", "at": 11, "pid": 1, "seconds": 15.0},
        {"kind": "found", "at": 12, "pid": 70, "text": "a language"},
    ]
    history = from_records(records, History(LEASE))

    assert history.calls == [Update("update", KEY, 1, 2, "acknowledged", True, nonce="a")]
    (run,) = history.runs
    assert (run.queue, run.claimed, run.attempts, run.rescues) == ("q", 3.9, 2, 1)
    assert (run.is_charge, run.lasted) == (True, 12)
    assert history.pauses == [Pause("plain", "", 3, 4, 5, 6)]
    assert history.misfires == [Misfire(6, 1, "plain", "q", 2.0, 1.5)]
    assert history.unforgiven == {70}
    assert history.condemned == {70: 9}
    assert history.patience == 15.0
    assert history.found == ["a language"]


def test_a_defect_that_a_worker_survives_is_a_defect(caplog):
    try:
        raise AssertionError("2 rows changed where 3 were locked")
    except AssertionError:
        logs.poller_failed("default")
    other = "Worker 3 has started\n"
    (accusation,) = defects(other + caplog.text + other)
    assert accusation.what == "defect"
    assert "2 rows changed" in accusation.text
    assert defects(other) == []


# Nobody is accused falsely


@settings(max_examples=300)
@given(st.data())
def test_a_correct_execution_is_never_accused(data):
    def choose(count: int) -> int:
        chosen: int = data.draw(st.integers(0, count - 1))
        return chosen

    simulation = Simulation(choose)
    for _ in range(data.draw(st.integers(0, 40))):
        simulation.step()

    assert check(simulation.end()).accusations == []
