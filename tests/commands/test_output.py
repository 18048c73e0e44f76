"""Tables that fit, times as people type them, who it was."""

import getpass
import json
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone as django_timezone

from django_tasks.exceptions import TaskValueError
from django_tasks.management import base, output, times
from tests.factories import NOW, UTC

WIDE = [["mail", "42", "a" * 300], ["refund", "7", "日本語" * 40]]


@pytest.mark.parametrize("most", [24, 40, 80, 500])
def test_a_table_fits(most: int) -> None:
    lines = list(output.table(["code", "number", "error"], WIDE, most))
    assert len(lines) == 3
    assert all(output._width(line) <= most for line in lines)
    assert ("…" in lines[1]) == (most < 300)


def test_short_columns_keep_their_words() -> None:
    lines = list(output.table(["code", "number", "error"], WIDE, 60))
    assert lines[1].startswith("mail    42      aaaa")
    assert lines[2].startswith("refund  7       日本")


def test_a_table_narrower_than_its_columns_keeps_something_of_each() -> None:
    (_head, row) = output.table(["a", "b", "c"], [["x" * 50] * 3], 10)
    assert row.count("…") == 3


def test_a_time_is_not_cut_for_an_error_on_its_right() -> None:
    when = "2027-03-11 09:07:31 CST"
    heads, cells = ["number", "when", "error"], ["42", when, "ConnectionError: no"]
    (_head, row) = output.table(heads, [cells], 45)
    assert when in row
    assert row.endswith("…")


ROW = ["42", "39 s ago", "2", "ConnectionError: payments.example.com: no route to host"]


@pytest.mark.parametrize(
    ("most", "shown"),
    [
        (80, [True, True, True, True]),
        (44, [True, False, True, True]),
        (30, [True, False, False, True]),
        (20, [True, False, False, True]),
    ],
)
def test_spare_columns_are_left_out_before_an_error_is_cut_to_less_than_a_time(
    most: int, shown: list[bool]
) -> None:
    heads = ["number", "away", "attempts", "error"]
    head, row = output.table(heads, [ROW], most, spare=(1, 2))
    assert [name in head for name in heads] == shown
    assert all(len(line) <= most for line in (head, row))


def test_an_empty_column_is_left_out() -> None:
    lines = list(output.table(["code", "worker"], [["mail", None], ["refund", ""]], 80))
    assert lines == ["code", "mail", "refund"]


def test_nothing_moves_the_cursor() -> None:
    (_, row) = output.table(["error"], [["a\x1b[2J\r\nb\u202e"]], 80)
    assert row == "a\\x1b[2J\\r\\nb\\u202e"
    assert list(output.block("one\n\x1b]0;title\x07")) == ["    one", "    \\x1b]0;title\\x07"]


@pytest.mark.parametrize("odd", ["\x9b2J", "\x7f", "\u2028", "\x1b[31m", "\ud800", "\U000e0001"])
def test_json_moves_no_cursor_and_says_the_same(odd: str) -> None:
    text = output.as_json({"key": [f"ä 日{odd}"]})
    assert all(each.isprintable() or each == "\n" for each in text)
    assert "ä 日" in text
    assert json.loads(text) == {"key": [f"ä 日{odd}"]}


def test_json_is_in_utc(settings: Any) -> None:
    assert '"2030-05-17T12:30:15.123456+00:00"' in output.as_json({"at": NOW, "in": [NOW]})


def here(text: str) -> datetime:
    """A moment in the zone of the project, aware UTC."""
    zone = django_timezone.get_current_timezone()
    return datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)


LOCAL = here("2030-05-17 12:30")


@pytest.mark.parametrize(
    ("text", "past", "future"),
    [
        ("2h", "2030-05-17 10:30", "2030-05-17 14:30"),
        ("1h30m", "2030-05-17 11:00", "2030-05-17 14:00"),
        ("2 days", "2030-05-15 12:30", "2030-05-19 12:30"),
        ("midnight", "2030-05-17 00:00", "2030-05-18 00:00"),
        ("today", "2030-05-17 00:00", "2030-05-17 00:00"),
        ("yesterday", "2030-05-16 00:00", "2030-05-16 00:00"),
        ("tomorrow", "2030-05-18 00:00", "2030-05-18 00:00"),
        ("now", "2030-05-17 12:30", "2030-05-17 12:30"),
        ("04:00", "2030-05-17 04:00", "2030-05-18 04:00"),
        ("9:05", "2030-05-17 09:05", "2030-05-18 09:05"),
        ("22:00:30", "2030-05-16 22:00:30", "2030-05-17 22:00:30"),
        ("2030-01-02", "2030-01-02 00:00", "2030-01-02 00:00"),
        ("2030-01-02 03:04", "2030-01-02 03:04", "2030-01-02 03:04"),
        ("2030-01-02T03:04:05", "2030-01-02 03:04:05", "2030-01-02 03:04:05"),
    ],
)
def test_times_as_people_type_them(text: str, past: str, future: str) -> None:
    assert times.past("since", text, LOCAL) == here(past)
    assert times.future("to", text, LOCAL) == here(future)


BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("now", "text", "past", "future"),
    [
        # On 25 October 2026 it is 2:00 to 3:00 twice: from 0:00 to 1:00, and from 1:00 to 2:00 UTC.
        ("25T00:20", "02:10", "25T00:10", "25T01:10"),
        ("25T00:40", "02:30", "25T00:30", "25T01:30"),
        ("25T01:20", "02:30", "25T00:30", "25T01:30"),
        ("25T01:40", "02:30", "25T01:30", "26T01:30"),
        ("25T01:20", "03:10", "24T01:10", "25T02:10"),
        ("24T12:00", "02:30", "24T00:30", "25T00:30"),
        ("26T00:00", "02:30", "25T01:30", "26T01:30"),
    ],
)
def test_a_time_of_day_in_the_hour_that_comes_twice(
    now: str, text: str, past: str, future: str
) -> None:
    def at(day: str) -> datetime:
        return datetime.fromisoformat(f"2026-10-{day}+00:00")

    with django_timezone.override(BERLIN):
        assert times.past("since", text, at(now)) == at(past)
        assert times.future("to", text, at(now)) == at(future)


def test_a_time_of_day_that_is_left_out_comes_after_it() -> None:
    with django_timezone.override(BERLIN):
        now = datetime(2026, 3, 29, 0, 20, tzinfo=UTC)  # at 1:00 it is 3:00 there
        assert times.future("to", "02:30", now) == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)


def test_a_time_may_name_its_zone() -> None:
    assert times.past("since", "2030-01-02T03:04+00:00", LOCAL) == datetime(
        2030, 1, 2, 3, 4, tzinfo=UTC
    )


@pytest.mark.parametrize(
    "text", ["", "soon", "25:00", "12:61", "2 moons", "7", "2030-02-31", "h", "9999999999w", "1y"]
)
def test_a_time_that_nobody_can_read(text: str) -> None:
    for read in (times.past, times.future):
        if text == "h":  # an hour
            assert read("since", text, LOCAL) != LOCAL
            continue
        with pytest.raises(TaskValueError) as caught:
            read("since", text, LOCAL)
        assert caught.value.field == "since"


def test_lengths() -> None:
    assert times.length("in", "1 day 12h") == timedelta(hours=36)
    for text in ("", "7", "2 months", "99999999999999 weeks", "-5m"):
        with pytest.raises(TaskValueError):
            times.length("in", text)


def test_a_user_without_a_name_is_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> str:
        raise KeyError("getpwuid(): uid not found: 10001")

    monkeypatch.setattr(getpass, "getuser", refuse)
    assert base.person() == ""
