"""A process knows when it has done enough."""

import resource
from pathlib import Path

import pytest

from django_tasks.host.memory import resident_memory
from django_tasks.supervisor.recycling import MEGABYTE, Recycling


def test_without_limits_nothing_is_enough():
    assert not Recycling()
    assert Recycling().reached(10**9) == ""


@pytest.mark.parametrize(("tasks", "expected"), [(4, ""), (5, "5 tasks"), (6, "6 tasks")])
def test_so_many_tasks_are_enough(tasks, expected):
    assert Recycling(tasks=5).reached(tasks) == expected


def test_so_much_memory_is_enough():
    held = resident_memory() // MEGABYTE
    assert Recycling(memory=1).reached(0).endswith(" MB")
    assert Recycling(memory=held + 1000).reached(0) == ""


def test_memory_is_measured_in_bytes():
    assert 10 * MEGABYTE < resident_memory() < 10_000 * MEGABYTE


def test_where_there_is_no_proc_the_most_ever_held_counts(monkeypatch):
    def gone(*_, **__):
        raise FileNotFoundError

    now = resident_memory()
    monkeypatch.setattr(Path, "read_text", gone)
    assert resident_memory() >= now * 0.9
    monkeypatch.setattr(resource, "getrusage", gone)
    assert resident_memory() == 0
