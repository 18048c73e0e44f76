"""``python -m django_tasks.schedules``: when a text fires."""

import pytest

from django_tasks.schedules import parse
from django_tasks.schedules.__main__ import main

AFTER = ("--after", "2026-10-23T12:00:00+00:00")


def test_it_prints_the_schedule_as_it_is_kept_and_its_next_times(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = "cron   30 2 * * * Europe/Berlin"
    assert main([text, *AFTER, "--tz", "Europe/Berlin", "--count", "3"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        str(parse(text)),
        "2026-10-24 02:30:00+02:00",
        "2026-10-25 02:30:00+02:00",
        "2026-10-26 02:30:00+01:00",
    ]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("cron hour=9 Europe/Berlin", "2026-10-24 09:00:00+02:00"),
        ("every 1 day at 09:00 Asia/Shanghai", "2026-10-24 09:00:00+08:00"),
        ("at 2026-12-24T18:00:00+08:00", "2026-12-24 18:00:00+08:00"),
        ("any of (every 1d; cron hour=9 Europe/Berlin)", "2026-10-24 09:00:00+02:00"),
        ("every 1h", "2026-10-23 13:00:00+00:00"),
    ],
)
def test_times_are_those_of_the_schedules_own_zone(
    capsys: pytest.CaptureFixture[str], text: str, first: str
) -> None:
    assert main([text, *AFTER, "--count", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == first


def test_it_reads_the_whole_text_of_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["Every 30 minutes|grace 10m | each", *AFTER, "--count", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "every 30m | grace 10m | each",
        "2026-10-23 12:30:00+00:00",
        "2026-10-23 13:00:00+00:00",
    ]


def test_a_schedule_that_is_over_prints_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["every 1h until 2026-10-23T14:30:00+00:00", *AFTER]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + 2


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["cron 0 25 * * *"], "Bad hour"),
        (["every 0s"], "schedule"),
        (["every 1h | grace"], "none of 'grace 10m'"),
        (["every 1h | each | coalesce"], "both 'each' and 'coalesce'"),
        (["every 1h", "--tz", "Nowhere"], "Nowhere"),
        (["every 1h", "--count", "-1"], "count"),
        (["every 1h", "--count", "1001"], "count"),
        (["every 1h", "--after", "2026-10-23T12:00:00"], "aware"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert reason in said.err
    assert len(said.err.splitlines()) == 1
    assert not said.out
