"""The parts of a play, put together by hand: nothing of the product is needed for them."""

from collections.abc import Callable

import pytest

from tests.simulated_cluster import stage
from tests.simulated_cluster.choices import Choices
from tests.simulated_cluster.hosts import Host
from tests.simulated_cluster.scheduler import Actor, Scheduler


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> Scheduler:
    """A scheduler whose actors take as long as they say, and whose errors reach the test."""

    def fail(actor: Actor, error: Exception) -> None:
        raise error

    made = Scheduler(fail)
    monkeypatch.setattr(stage, "scheduler", made, raising=False)
    monkeypatch.setattr(stage, "choices", Choices(seed=1, limit=0), raising=False)
    return made


Play = Callable[..., None]


@pytest.fixture
def play(scheduler: Scheduler) -> Play:
    """Play functions, each as an actor of one host, until they have ended."""

    def play(*functions: Callable[[], None], host: Host | None = None) -> None:
        host = host or Host(1, "host")
        for number, function in enumerate(functions):
            scheduler.spawn(str(number), host, function)
        scheduler.run(until=1000.0, most=10_000)

    return play
