"""The id of a call: one for all tries of a run, another for every other run."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connections

from django_tasks.handover.handler import DIGEST_LENGTH, call_of
from tests.factories import NOW
from tests.handover.parts import a_run


def call_id(**facts: Any) -> str:
    return str(call_of(a_run(**facts)))


def test_it_begins_with_the_key_the_row_and_the_time() -> None:
    assert call_id().startswith("cancel:42:7:20300517T123015.123456Z:")


LATER = NOW + timedelta(minutes=1)


@pytest.mark.parametrize(
    "facts",
    [
        {"attempts": 1, "runs": 1, "when": LATER, "scheduled_time": NOW, "last_error": "oops"},
        {"rescues": 1, "worker_id": 2, "claim_time": LATER, "version": 5},
        {"queue": "mail", "priority": 9, "options": "{}"},
    ],
    ids=["retried", "rescued", "moved to another queue"],
)
def test_another_try_of_a_run_has_the_same_id(facts: dict[str, Any]) -> None:
    assert call_id(**facts) == call_id()


@pytest.mark.parametrize(
    "facts",
    [
        {"when": LATER},
        {"when": NOW + timedelta(microseconds=1)},
        {"biz_ext": '{"a": 1}'},
        {"id": 8},
        {"biz_num": "43"},
        {"schedule": "every 1m", "scheduled_time": LATER},
    ],
    ids=["moved", "moved a little", "added with a payload", "new row", "other key", "next time"],
)
def test_another_run_has_another_id(facts: dict[str, Any]) -> None:
    assert call_id(**facts) != call_id()


def test_a_run_that_was_wanted_before_its_time_has_one_for_all_its_tries() -> None:
    early = {"schedule": "every 1m", "planned": LATER}
    mine = call_id(**early)
    assert call_id(**early, when=LATER - timedelta(seconds=9), attempts=2, runs=2) == mine
    assert call_id(**early, runs=1) != mine  # another one before that time
    assert call_id(schedule="every 1m", when=LATER, runs=1) != mine  # and the one at that time


def test_equal_rows_of_two_databases_have_two_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = call_id()
    monkeypatch.setitem(connections["default"].settings_dict, "NAME", "another")
    assert call_id() != mine


@pytest.mark.parametrize("letter", ["x", "é", "中", "😀", "\ud800"])
def test_the_longest_key_fits_in_a_message_of_amqp(letter: str) -> None:
    run = {"biz_code": letter * 50, "biz_num": letter * 100, "id": 2**63 - 1}
    assert len(call_id(**run).encode()) <= 161


def test_keys_that_are_alike_for_long_have_two_ids() -> None:
    assert call_id(biz_num="x" * 99 + "1") != call_id(biz_num="x" * 99 + "2")


def test_a_time_zone_without_utc_changes_nothing(settings: Any) -> None:
    mine = call_id()
    settings.USE_TZ, settings.TIME_ZONE = False, "Europe/Berlin"
    assert call_id() == mine
    assert len(mine.rpartition(":")[2]) == DIGEST_LENGTH
