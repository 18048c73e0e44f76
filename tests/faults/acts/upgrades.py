"""A rolling upgrade: two releases of the package at work on one database, and the way back."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

from django_tasks import __version__
from tests.faults.processes import Steward
from tests.faults.release import MIGRATION, VERSION, Release
from tests.faults.scenarios import SERVERS, alive, scenario
from tests.faults.world import World
from tests.waiting import eventually

# With fewer calls of the other release nothing has been tried.
CALLS = 20
INITIAL = "0001_initial"


@scenario("rolling upgrade", sites=("sqlite", *SERVERS, "galera"), mixes=False)
def upgrade(world: World) -> None:
    """The next release has one more migration, with a nullable column.

    Up: it is migrated while all processes are of this release; then workers of the next one join,
    and the others end one by one. Down: the same the other way round; then the migration is taken
    back while all processes are of this release. Meanwhile processes of both releases call the API.
    """
    following = Release(world.directory / "next")
    migrator = world.new_steward(**following.environment)
    _migrate(world, migrator, MIGRATION)
    with _web_process(world, following.environment):
        _replace_all(world, following.environment, VERSION)
        _replace_all(world, {}, __version__)
    _migrate(world, migrator, INITIAL)
    migrator.close()


def _migrate(world: World, steward: Steward, target: str) -> None:
    since = monotonic()
    steward.ask("migrate_to", target)
    world.fault(f"migrate to {target}", since, away=world.vendor == "sqlite")
    world.pause(world.lease / 2)


@contextmanager
def _web_process(world: World, environment: dict[str, Any]) -> Iterator[None]:
    """A process of the other release that calls the API, beside the clients of this one."""
    steward = world.new_steward(**environment)
    marker = f"upgraded-{world.faults}"
    steward.tell("call_until", 100 + world.faults, CALLS, marker)
    try:
        yield
    finally:
        (world.directory / marker).touch()
        steward.answer()
        steward.close()


def _replace_all(world: World, environment: dict[str, Any], version: str) -> None:
    """Have workers of a release join, and end the others one after the other."""
    olds = alive(world)
    for old in olds:
        world.start_worker(*old.arguments, **environment)
    # As a deployment does: one that is ended before it has begun was never there.
    world.wait_for_workers(2 * len(olds))
    for old in olds:
        since = monotonic()
        old.send(signal.SIGTERM)
        old.wait(30)
        world.fault("SIGTERM", since, [old.pid])
    # Else the same release would have run all the time, and nothing had been tried.
    expected = [version] * len(olds)
    eventually(
        lambda: world.steward.ask("versions") == expected,
        f"all workers are of {version}",
        log=world.log,
    )
