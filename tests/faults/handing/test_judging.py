"""The judge of what arrived sees each kind of broken promise, and nothing in a good history."""

from typing import Any

import pytest

from tests.faults.handing.judging import accusations, arrivals
from tests.faults.handing.table import Row, Rows
from tests.faults.verdicts import Accusation

Record = dict[str, Any]


def added(num: str, nonce: str) -> Record:
    return {"kind": "added", "num": num, "nonce": nonce}


def arrived(nonce: str, call_id: str) -> Record:
    return {"kind": "arrived", "nonce": nonce, "id": call_id}


GOOD = [
    added("1", "a"),
    {"kind": "sends", "nonce": "a"},
    arrived("a", "id-a"),
    added("1", "b"),
    added("1", "c"),
    arrived("c", "id-c"),
    arrived("c", "id-c"),
]


def test_an_add_that_was_replaced_and_a_repeat_are_no_accusations() -> None:
    found = arrivals(GOOD)
    assert list(accusations(found)) == []
    assert (len(found.nonces), found.sends, found.messages, found.repeats) == (3, 1, 3, 1)


@pytest.mark.parametrize(
    ("more", "what"),
    [
        (added("2", "d"), "lost"),
        (added("1", "d"), "lost"),
        (arrived("z", "id-z"), "other"),
        (arrived("c", "id-d"), "two ids"),
        (arrived("b", "id-c"), "one id"),
    ],
)
def test_each_broken_promise_is_seen(more: Record, what: str) -> None:
    assert [accusation.what for accusation in accusations(arrivals([*GOOD, more]))] == [what]


LOST = Row("broker killed", adds=3, messages=2, accusations=[Accusation("lost", "a")])


def test_a_row_that_broke_a_promise_is_named_with_the_facts() -> None:
    rows = Rows()
    rows.add([Row("nothing", adds=3, messages=3), LOST])
    heading, first = rows.broken(1)
    assert heading.startswith("rabbitmq, broker killed, adds 3, sends 0, messages 2, lost 1")
    assert first == "  lost: a"


def test_two_turns_of_one_fault_are_added_up() -> None:
    rows = Rows()
    rows.add([LOST])
    rows.add([Row("broker killed", adds=1, messages=1, repeats=1)])
    (line,) = rows.broken(0)
    assert "adds 4, sends 0, messages 3, lost 1" in line
    assert line.endswith("repeats 1")


def test_nothing_played_is_nothing_said() -> None:
    rows = Rows()
    assert (rows.text(), rows.section(), rows.broken(5)) == ("", "", [])
