"""Habits of projects are chosen from the seed, can be forced, and do what they say."""

import json
import logging
import threading
from contextvars import copy_context
from decimal import getcontext, setcontext
from itertools import chain
from typing import Any

import pytest
from django.db import connection

from django_tasks.store.connection import leave_transactions, tidy
from tests.faults import forks, habits, journal, run, slowness, untidiness
from tests.faults.acts import SCENARIOS
from tests.faults.databases import Site
from tests.faults.options import parsed
from tests.faults.table import Row
from tests.faults.verdicts import Verdict

FAULT = "nothing"


@pytest.fixture
def journalled(tmp_path, monkeypatch):
    """The journal of this process."""
    monkeypatch.setenv(journal.DIRECTORY, str(tmp_path))

    def records() -> list[dict[str, Any]]:
        return [{**record, "at": None} for record in journal.read(tmp_path)]

    yield records
    journal.forget()


def test_one_seed_chooses_the_same_habits_every_time():
    choices = [habits.chosen(seed, "mariadb", "mariadb", FAULT) for seed in range(20)]
    assert choices == [habits.chosen(seed, "mariadb", "mariadb", FAULT) for seed in range(20)]
    assert len(set(choices)) > 5


def test_in_one_run_every_fault_has_habits_of_its_own():
    choices = {habits.chosen(7, "mariadb", "mariadb", fault) for fault in SCENARIOS}
    assert len(choices) > 5


@pytest.mark.parametrize("vendor", ["sqlite", "mysql", "mariadb", "postgresql"])
def test_every_habit_that_is_possible_is_chosen_somewhere(vendor):
    chosen = chain(*(habits.chosen(seed, vendor, vendor, FAULT) for seed in range(100)))
    assert set(chosen) == {name for name, it in habits.KNOWN.items() if vendor in it.vendors}


def test_what_a_database_does_not_know_is_left_out():
    assert habits.possible(list(habits.KNOWN), "sqlite") == (
        "kept",
        "time-zone",
        "slow-receivers",
        "slow-logs",
        "forks",
        "untidy",
    )


def test_pooled_connections_are_not_kept():
    assert habits.possible(["kept", "pooled"], "postgresql") == ("pooled",)
    assert habits.possible(["kept", "pooled"], "mariadb") == ("kept",)


def test_habits_can_be_forced_and_forbidden():
    assert parsed("", []).habit is None
    assert parsed("", ["--habit"]).habit == []
    assert parsed("", ["--habit", "forks", "kept"]).habit == ["forks", "kept"]


def test_a_scenario_may_be_without_a_habit():
    site, stops = Site("mariadb", ("mysql://localhost",)), SCENARIOS["orderly stops"]
    found = {name for seed in range(100) for name in run._habits(stops, site, None, seed)}
    possible = {name for name, it in habits.KNOWN.items() if "mariadb" in it.vendors}
    assert found == possible - {"slow-logs"}


@pytest.mark.parametrize(
    ("there", "words"), [(("forks", "kept"), "[forks kept]"), ((), "[no habits]")]
)
def test_the_line_of_a_fault_names_the_habits(there, words):
    assert f"sqlite, nothing {words}, tasks 0" in str(Row("sqlite", FAULT, Verdict(), True, there))


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("health-checks", {"CONN_HEALTH_CHECKS": True}),
        ("kept", {"CONN_MAX_AGE": None}),
        ("pooled", {"OPTIONS": {"sslmode": "disable", "pool": habits.POOL}}),
        ("time-zone", {"TIME_ZONE": habits.ZONE}),
        ("forks", {}),
        ("untidy", {}),
    ],
)
def test_a_habit_of_settings_is_in_the_settings(monkeypatch, name, settings):
    monkeypatch.setenv(habits.HABITS, f"slow-logs,{name}")
    database = {"NAME": "x", "OPTIONS": {"sslmode": "disable"}}
    assert habits.accustomed(database) == {**database, **settings}


# Slow code


@pytest.fixture
def short_naps(monkeypatch):
    monkeypatch.setattr(slowness, "NAP", 0.01)
    monkeypatch.setattr(slowness, "_own", threading.local())


@pytest.mark.usefixtures("short_naps")
def test_naps_are_taken_one_at_a_time_and_seldom(journalled, monkeypatch):
    naps = slowness.Naps("x")
    naps.take()
    naps.take()
    assert [record["what"] for record in journalled()] == ["x"]
    monkeypatch.setattr(slowness, "BETWEEN", 0.0)
    naps.take()
    assert len(journalled()) == 2


@pytest.mark.usefixtures("short_naps")
def test_one_thread_takes_few_naps_of_any_kind(journalled):
    slowness.Naps("x").take()
    slowness.Naps("y").take()
    another = threading.Thread(target=slowness.Naps("z").take)
    another.start()
    another.join()
    assert [record["what"] for record in journalled()] == ["x", "z"]


@pytest.mark.usefixtures("short_naps")
@pytest.mark.parametrize(("there", "count"), [("slow-receivers", 1), ("slow-logs", 0)])
def test_a_hook_is_slow_if_that_is_a_habit(journalled, monkeypatch, there, count):
    monkeypatch.setenv(habits.HABITS, there)
    monkeypatch.setitem(slowness._HOOKS, "on_failure", slowness.Naps("on_failure"))
    slowness.hook("on_failure")
    assert len(journalled()) == count


@pytest.mark.usefixtures("short_naps")
def test_a_slow_log_still_writes(journalled, capsys):
    record = logging.LogRecord("django_tasks", logging.WARNING, "", 0, "a word", None, None)
    handler = slowness.SlowLog()
    handler.handle(record)
    handler.close()
    assert "WARNING a word" in capsys.readouterr().err
    assert [record["what"] for record in journalled()] == ["log"]


# Forks


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_children_that_can_be_terminated_give_no_reason_to_complain(journalled, monkeypatch):
    monkeypatch.setattr(forks, "POOLS", 1.0)
    forks.compute("slow/1")
    forks.compute_in_a_pool()
    assert journalled() == []


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_that_cannot_be_terminated_is_a_complaint(journalled, monkeypatch):
    monkeypatch.setattr(forks, "SECONDS", 0.05)
    monkeypatch.setattr(forks, "monotonic", lambda: 0.0)  # a slow fork is no excuse here
    monkeypatch.setattr(forks.CONTEXT.Process, "terminate", lambda self: None)
    forks.compute("slow/1")
    (record,) = journalled()
    assert record["kind"] == "complaint"
    assert "slow/1 was terminated, and ended with 0" in json.dumps(record)


# Untidiness


@pytest.fixture
def untidy(journalled, monkeypatch):
    """The journal where the habit is in force, and each run leaves something."""
    monkeypatch.setenv(habits.HABITS, "untidy")
    monkeypatch.setattr(untidiness, "SHARE", 1.0)
    return journalled


def leave_and_look():
    """Two runs of one context, which a worker never has."""
    setcontext(getcontext().copy())
    untidiness.leave(is_atomic=True)
    untidiness.look("plain/1", is_atomic=True)


def test_a_run_that_finds_everything_clean_has_nothing_to_say(untidy):
    copy_context().run(untidiness.look, "plain/1", is_atomic=True)
    assert untidy() == []


def test_a_run_that_finds_what_another_one_has_set_complains(untidy):
    copy_context().run(leave_and_look)
    (record,) = untidy()
    words = f"a decimal precision of {untidiness.DIRTY_PRECISION}, the time zone {habits.ZONE}"
    assert f"finds what another run has left: {words}, a language, a variable" in record["text"]
    assert getcontext().prec == untidiness.PRECISION


def test_who_is_tidy_leaves_nothing(journalled, monkeypatch):
    monkeypatch.setattr(untidiness, "SHARE", 1.0)
    copy_context().run(leave_and_look)
    assert journalled() == []


BROKEN = "a transaction that is to be rolled back"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("leave", "words"),
    [
        (untidiness._leave_open, ["a transaction"]),
        (untidiness._leave_in_a_generator, ["a transaction"]),
        (untidiness._leave_broken, ["a transaction", BROKEN]),
        (untidiness._leave_closed, ["a transaction"]),
        (untidiness._leave_uncommitted, ["autocommit off"]),
    ],
)
def test_what_a_run_leaves_of_the_database_is_found_until_it_is_cleared_away(leave, words):
    leave()
    found = list(untidiness._found(is_atomic=False))
    leave_transactions([connection])
    tidy([connection], is_busy=True)
    assert [word for word in words if word in found] == words
    assert list(untidiness._found(is_atomic=False)) == []
