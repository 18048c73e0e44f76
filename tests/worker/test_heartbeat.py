"""A heartbeat that fails is tried again soon, and said once it has cost the lease."""

from typing import Any

import pytest
from django.db import OperationalError

from django_tasks.store import workers
from django_tasks.worker import heartbeat as module
from django_tasks.worker.heartbeat import AFTER_DEFECT, RETRY_SHARE, Heartbeat, Report
from tests.worker.parts import Ticks, config, joined

pytestmark = pytest.mark.django_db

LEASE = 30.0
LATE = "No heartbeat of this worker on default was possible for its whole lease"


class Idle:
    """A poller that has nothing to do."""

    def report(self) -> Report:
        return Report("running", {})

    def seconds_in_cycle(self) -> float:
        return 0.0

    def relieve(self) -> int:
        raise AssertionError("it does not hang")


class Beating:
    """A heartbeat whose thread is the test's, and a database that the test breaks."""

    def __init__(self, world: Ticks, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        self.error: Exception | None = None
        self.membership = joined(world, lease=LEASE)
        self.heartbeat = Heartbeat(
            config(lease=LEASE), self.membership, Idle(), lambda: None, lambda line: line()
        )
        self.heartbeat.joined = True
        self._intact = workers.roll_call
        monkeypatch.setattr(workers, "roll_call", self._roll_call)
        for name in ("keep_connection", "drop_connection"):
            monkeypatch.setattr(module, name, lambda using: None)

    def _roll_call(self, **kwargs: Any) -> Any:
        if self.error:
            raise self.error
        return self._intact(**kwargs)

    def after(self, seconds: float) -> float:
        """One step so many seconds later; returns how long it wants to sleep."""
        self.world.ahead += seconds
        return self.heartbeat._guardedly(self.heartbeat.cycle)


@pytest.fixture
def beating(world: Ticks, monkeypatch: pytest.MonkeyPatch) -> Beating:
    return Beating(world, monkeypatch)


def test_it_is_tried_again_several_times_within_the_lease(beating: Beating) -> None:
    beating.error = OperationalError("gone away")
    assert 0 < beating.after(LEASE / 3) <= LEASE * RETRY_SHARE
    beating.error = None
    beating.after(LEASE / 3)
    assert beating.membership.is_valid()


def test_that_the_lease_is_over_is_said_once_and_again_after_the_next_one(
    beating: Beating, caplog: pytest.LogCaptureFixture
) -> None:
    for said in (1, 2):
        beating.error = OperationalError("gone away")
        beating.after(LEASE * 0.9)
        assert caplog.text.count(LATE) == said - 1
        for _ in range(3):
            beating.after(LEASE * 0.2)
            assert caplog.text.count(LATE) == said
        beating.error = None
        beating.after(LEASE / 3)
        assert beating.membership.is_valid()
    assert "(OperationalError: gone away)" in caplog.text


def test_a_defect_ends_no_heartbeats(beating: Beating, caplog: pytest.LogCaptureFixture) -> None:
    beating.error = ValueError("a defect")
    assert beating.after(LEASE / 3) == AFTER_DEFECT
    assert "A heartbeat on default failed; it is tried again" in caplog.text
    beating.error = None
    beating.after(AFTER_DEFECT)
    assert beating.membership.seconds_to_beat() > 0
