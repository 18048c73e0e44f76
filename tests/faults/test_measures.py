"""Figures: how late, and how long until everything went on."""

from tests.faults.checker import check
from tests.faults.facts import a_history, a_run, an_add
from tests.faults.history import Clock, Fault


def test_the_recovery_of_a_killed_worker_is_the_time_until_its_runs_went_on():
    killed = Fault("SIGKILL", 12.5, 12.6, (70,))
    runs = a_run(start=12, end=None, how=""), a_run(start=17, version=3, worker=8, pid=80)
    assert check(a_history(an_add(), *runs, killed)).recovery == [4.5]


def test_what_a_stopping_worker_still_ended_was_not_interrupted():
    stopped = Fault("SIGTERM", 12.5, 13.5, (70,))
    runs = a_run(start=12), a_run(start=17, version=3, worker=8, pid=80)
    assert check(a_history(an_add(), *runs, stopped)).recovery == []


def test_the_recovery_of_an_outage_is_the_time_until_each_worker_had_an_answer():
    outage = Fault("outage", 5.0, 11.0)
    seen = {7: [1.0, 11.5], 8: [2.0, 14.0], 9: [13.0]}  # the last one is new
    facts = an_add(), a_run(start=12.0), outage
    verdict = check(a_history(*facts, beats=seen, pids={7: 70, 8: 80, 9: 90}))
    assert verdict.recovery == [0.5, 3.0]


def test_lateness_is_told_by_the_databases_clock():
    history = a_history(an_add(when=1011), a_run(start=12, when=1011.0), clock=Clock(1000.0))
    assert check(history).lateness == [1.0]
