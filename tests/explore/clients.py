"""Clients: those of the fault suite, with payloads that say how long a run takes."""

from datetime import datetime, timedelta
from typing import Any

from tests.explore import stage
from tests.explore.hosts import utc_now
from tests.explore.threads import sleep
from tests.faults import client
from tests.faults.checker import ATOMIC
from tests.faults.client import Client, Key, Options

CODES = (*client.CODES, "limited", "rated", "timely", "deadly")
HOT_KEYS = 12
# The shares of tasks of the code "deadly" that kill no worker, and two.
DEADLY = (80, 20)
# The shortest pause of a client between two calls, and the longest ones of hasty and slow clients.
SHORTEST_PAUSE = 0.01
LONGEST_PAUSES = (20.0, 4.0)


class SimulatedClient(Client):
    """One client. It goes on while the decisions of the seed last."""

    def __init__(self, number: int, seed: int, lease: float) -> None:
        super().__init__(Options(client=number, seed=seed, adds=0, seconds=0, batch=4))
        self._lease = lease
        self._longest = stage.choices.pick(LONGEST_PAUSES)

    def work(self, until: float) -> None:
        while stage.scheduler.now < until and not stage.choices.are_over:
            self.step()
            sleep(stage.choices.scale(SHORTEST_PAUSE, self._longest))

    def _hot(self) -> Key:
        number = self._random.randrange(HOT_KEYS)
        return CODES[number % len(CODES)], f"hot-{number}"

    def _cold(self) -> Key:
        self._added += 1
        return self._random.choice(CODES), f"cold-{self._name}-{self._added}"

    def _when(self) -> datetime:
        """A time soon, by the database's clock."""
        seconds = stage.database.offset + self._random.choice((-0.1, 0.0, 0.5, 5.0, 20.0))
        return utc_now() + timedelta(seconds=seconds)

    def _task(self, key: Key, **payload: Any) -> Any:
        longest = self._random.choices((0.5, 10.0, 2.5 * self._lease), (70, 20, 10))[0]
        if key[0] in ATOMIC:
            longest = 0.1  # nobody else can write while its transaction is open
        if key[0] == "limited":
            longest = min(longest, 10.0)  # the others of them wait
        if key[0] == "timely":
            longest = min(longest, 2.0)  # all of them begin in time, once nothing else is left
        if key[0] == "deadly":
            payload["kills"] = self._random.choices((0, 2), DEADLY)[0]
        return super()._task(key, **{"seconds": self._random.uniform(0.0, longest), **payload})
