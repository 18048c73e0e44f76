"""The faults between us and the broker, in the order of the table."""

import signal
from collections.abc import Callable
from dataclasses import dataclass

from tests.faults.handing.stage import Stage
from tests.faults.scenarios import alive


@dataclass(frozen=True)
class Fault:
    """A fault; at least ``rounds`` of it are done."""

    name: str
    act: Callable[[Stage], None]
    rounds: int = 3


FAULTS: dict[str, Fault] = {}


def fault(name: str, rounds: int = 3) -> Callable[[Callable[[Stage], None]], Callable[..., None]]:
    """Register the function, which does its worst once, as a fault."""

    def register(act: Callable[[Stage], None]) -> Callable[[Stage], None]:
        FAULTS[name] = Fault(name, act, rounds)
        return act

    return register


@fault("nothing", rounds=0)
def nothing(stage: Stage) -> None:
    """No fault at all: the measure for the others."""
    stage.world.pause(0.1)


@fault("broker killed")
def kill_broker(stage: Stage) -> None:
    """SIGKILL for the broker, which is started again at once, on the data that it had."""
    stage.restart_broker()


@fault("broker away")
def broker_away(stage: Stage) -> None:
    """The broker is killed, and comes back after three seconds."""
    stage.restart_broker(down=3.0)


@fault("broker silent")
def broker_silent(stage: Stage) -> None:
    """Connections stay open for four seconds, and nothing passes, as with a broker's alarm."""
    stage.stall_connections(4.0)


@fault("connections cut", rounds=10)
def cut(stage: Stage) -> None:
    """All connections between our workers and the broker are cut, ten times."""
    stage.cut_connections()


@fault("SIGKILL worker")
def kill_worker(stage: Stage) -> None:
    """A worker of ours dies at once, with all that it has in hand; a new one starts."""
    victim = stage.random.choice(alive(stage.world))
    victim.send(signal.SIGKILL)
    victim.wait(10)
    stage.start_worker()
    stage.world.pause(stage.world.lease)


@fault("SIGKILL Celery worker")
def kill_celery(stage: Stage) -> None:
    """A worker of Celery dies with its processes and what they have not acknowledged; a new one
    starts."""
    stage.kill_celery()
    stage.world.pause(1.0)


@fault("mixed", rounds=6)
def mixed(stage: Stage) -> None:
    """All of them by turns, from the seed."""
    chosen = stage.random.choice([each for name, each in FAULTS.items() if name != "mixed"])
    chosen.act(stage)
