"""The number of processes that ``starttask`` starts when nobody says."""

import os
from typing import Any

import pytest

from django_tasks.management.commands import starttask
from django_tasks.supervisor import processes
from tests.vendor import ON_SQLITE
from tests.worker.parts import USING

pytestmark = pytest.mark.each_database

BEST = 1 if ON_SQLITE else 2


@pytest.mark.parametrize(("cores", "count"), [(None, 1), (1, 1), (2, BEST), (64, BEST)], ids=str)
def test_two_fit_a_server_and_one_fits_sqlite_or_a_single_core(
    cores: int | None, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert processes.fitting_processes([USING]) == count


@pytest.mark.parametrize(
    ("flags", "setting", "count"),
    [
        ({}, {}, BEST),
        ({}, {"PROCESSES": 3}, 3),
        ({"processes": 4}, {"PROCESSES": 3}, 4),
        ({"reload": True}, {}, 1),
        ({"max_tasks": 10}, {}, 1),
        ({"max_tasks": 10}, {"PROCESSES": 3}, 3),
    ],
    ids=str,
)
def test_who_says_it_decides(
    flags: dict[str, Any], setting: dict[str, int], count: int, settings: Any, monkeypatch: Any
) -> None:
    settings.DJANGO_TASKS = setting
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    parser = starttask.Command().create_parser("manage.py", "starttask")
    options = vars(parser.parse_args([])) | flags
    assert starttask._configs(options)[1] == count
