"""Workers that are stopped in order, and a worker that ends itself for the sake of one run."""

import signal
from time import monotonic

from tests.faults.history import ENDLESS
from tests.faults.processes import Worker
from tests.faults.scenarios import SERVERS, alive, scenario
from tests.faults.world import World
from tests.waiting import eventually

CODE = "punctual"
# Seconds: the deadline of a stop, runs that outlast it, and pauses that outlast the grace.
DEADLINE = 2.0
LONG = 4.5
PAUSE = 2.0
ALL = ("sqlite", *SERVERS)


@scenario(
    "orderly stops",
    sites=ALL,
    rounds=3,
    arguments=("--shutdown-timeout", f"{DEADLINE:g}"),
    # A worker whose log handler still naps three seconds after the deadline ends without a word.
    without=("slow-logs",),
    mixes=False,
)
def stop_in_order(world: World) -> None:
    """SIGTERM cuts off a run, the same one again and again, while pauses come and go."""
    victim = _victim(world)
    since = monotonic()
    victim.send(signal.SIGTERM)
    scope = world.random.choice([{"biz_code": CODE}, {"queue": CODE}])
    keys = [(CODE, f"paused-{world.faults}-{place}") for place in range(5)]
    world.steward.ask("pause_for", PAUSE, keys, scope)
    victim.wait(30)
    world.fault("SIGTERM", since, [victim.pid])
    world.start_worker(*victim.arguments)


def _victim(world: World) -> Worker:
    """The worker with a run that was cut off before; with a new one if there is none."""
    deadline = monotonic() + 2 * world.lease
    while world.faults and monotonic() < deadline:
        if holders := _holders(world, 1):
            return holders[0]
        world.pause(0.05)
    world.steward.ask("add", CODE, f"long-{world.faults}", LONG)
    return eventually(lambda: _holders(world, 0), "a long run goes on", log=world.log)[0]


def _holders(world: World, rescues: int) -> list[Worker]:
    """The workers with a long run that was rescued so often."""
    held = world.steward.ask("holders", CODE, "long-")
    pids = [pid for _, number, pid in held if number >= rescues]
    return [worker for worker in alive(world) if worker.pid in pids]


@scenario(ENDLESS, sites=ALL, processes=2, more="Endless", rounds=2, mixes=False)
def never_end(world: World) -> None:
    """Two runs never end, and nothing can interrupt them: by ``kill_after`` they cost a process."""
    since = monotonic()
    nums = [f"endless-{world.faults}-{place}" for place in "12"]
    for num in nums:
        world.steward.ask("add", "endless", num, 0.0)
    eventually(
        lambda: world.steward.ask("have_failed", "endless", nums),
        "the ends of both are written",
        log=world.log,
    )
    world.fault(ENDLESS, since)
    world.pause(world.lease / 3)
