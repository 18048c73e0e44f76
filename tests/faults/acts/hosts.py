"""Faults of a worker's host: its clock, its disk."""

from contextlib import suppress
from pathlib import Path
from time import monotonic

from tests.faults.scenarios import SERVERS, scenario
from tests.faults.world import World


@scenario("clock wrong, jumping", sites=SERVERS, false_clocks=0.5)
def wrong_clock(world: World) -> None:
    """The clock of every second worker is an hour wrong from the start, and then it jumps."""
    since = monotonic()
    world.set_false_clocks(world.random.choice(["+1h", "-1h", "+0", "-3d", "+20"]))
    world.between(0.5, 1.5)
    world.fault("clock", since)


@scenario("disk full", sites=("sqlite",))
def disk_full(world: World) -> None:
    """The file system of the database fills up, and has room again."""
    ballast = Path(world.url.removeprefix("sqlite:///")).parent / "ballast"
    since = monotonic()
    _fill(ballast)
    world.between(0.3, 1.5)
    ballast.unlink()
    world.fault("disk full", since, away=True)


def _fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
    with ballast.open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 12))
