"""The host's clocks, as they are, whatever this process does to its own."""

import importlib.util
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta, timezone
from time import CLOCK_MONOTONIC, clock_gettime, monotonic
from types import ModuleType

import freezegun
import pytest
import time_machine

from django_tasks.host import clocks

LONG_AGO = datetime(2001, 2, 3, 4, 5, 6, tzinfo=timezone.utc)
SOON = timedelta(seconds=20)
REAL = datetime

FREEZERS: dict[str, Callable[[datetime], AbstractContextManager[object]]] = {
    "freezegun": freezegun.freeze_time,
    "time-machine": lambda moment: time_machine.travel(moment, tick=False),
}


def fresh() -> ModuleType:
    """The module as it is when this very moment imports it first."""
    spec = importlib.util.find_spec("django_tasks.host.clocks")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("freezer", FREEZERS)
@pytest.mark.parametrize("imported", ["before", "while"])
def test_a_frozen_clock_is_not_the_hosts(freezer: str, imported: str) -> None:
    before, begin = datetime.now(timezone.utc), clocks.ticks()
    with FREEZERS[freezer](LONG_AGO):
        assert datetime.now(timezone.utc) == LONG_AGO
        module = clocks if imported == "before" else fresh()
        utc, ticks = module.utc_now(), module.ticks()
    assert type(utc) is REAL
    assert utc.tzinfo is timezone.utc
    # The coarse clock that is left under time-machine is some milliseconds behind.
    assert -timedelta(seconds=0.1) < utc - before < SOON
    assert 0 <= ticks - begin < SOON.total_seconds()


def test_the_time_of_day_is_as_fine_as_the_hosts() -> None:
    before = datetime.now(timezone.utc)
    utc = clocks.utc_now()
    assert before <= utc + timedelta(microseconds=1)
    assert utc <= datetime.now(timezone.utc) + timedelta(microseconds=1)


def test_a_platform_without_these_clocks_has_the_plain_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refusing(number: int) -> float:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr("time.clock_gettime", refusing)
    module = fresh()
    monkeypatch.setattr("time.clock_gettime", clock_gettime)
    ticks, utc = module.ticks(), module.utc_now()
    assert 0 <= monotonic() - ticks < SOON.total_seconds()
    assert timedelta() <= datetime.now(timezone.utc) - utc < SOON


def test_ticks_go_on_while_the_host_is_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leases in the database do: what was claimed before may be somebody else's by now."""
    boottime, suspended = 4711, 1000.0

    def after_a_sleep(number: int) -> float:
        if number == boottime:
            return clock_gettime(CLOCK_MONOTONIC) + suspended
        return clock_gettime(number)

    monkeypatch.setattr("time.CLOCK_BOOTTIME", boottime, raising=False)
    monkeypatch.setattr("time.clock_gettime", after_a_sleep)
    assert abs(fresh().ticks() - monotonic() - suspended) < SOON.total_seconds()
