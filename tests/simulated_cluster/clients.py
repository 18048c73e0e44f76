"""Clients: those of the fault suite, with payloads that say what a run is like."""

from datetime import datetime, timedelta
from typing import Any

from tests.faults import client
from tests.faults.checker import ATOMIC
from tests.faults.client import Client, Key, Options
from tests.simulated_cluster import stage
from tests.simulated_cluster.handlers import BATCH_KILL_AFTER, KILL_AFTER
from tests.simulated_cluster.hosts import utc_now
from tests.simulated_cluster.threads import sleep

# The hot keys are of the first ones.
CODES = (
    *(*client.CODES, "halved", "crowd", "limited", "hanging"),
    *("timed", "rated", "timely", "deadly"),
)
HOT_KEYS = 15
BATCHES = ("batched", "atomic_batch", "halved", "crowd")
# The shares of tasks of the code "deadly" that kill no worker, and two.
DEADLY = (80, 20)
# The longest runs, in leases, of tasks that must begin in time, and their shares. A short one lets
# the others begin in time; a long one is cut off by stops.
TIMELY = (0.07, 1.5), (80, 20)
# The longest runs of codes that have a timeout, or come in batches, in seconds.
LONGEST = {"halved": 15.0, "crowd": 5.0, "timed": 3.0, "hanging": 3.0}
# The share of tasks that do at their first attempt what their code is there for.
REFUSING, OVERSTAYING, HANGING = 0.25, 0.25, 0.2
# The share of calls that change the payload of a task, and of adds that are one batch.
UPDATES, TOGETHER = 0.06, 0.6
# The shortest pause of a client between two calls, and the longest ones of hasty and slow clients.
SHORTEST_PAUSE = 0.01
LONGEST_PAUSES = (20.0, 4.0)


class SimulatedClient(Client):
    """One client. It goes on while the decisions of the seed last."""

    def __init__(self, number: int, seed: int, lease: float) -> None:
        super().__init__(Options(client=number, seed=seed, adds=0, seconds=0, batch=4))
        self._lease = lease
        self._longest = stage.choices.pick(LONGEST_PAUSES)
        # The payloads of the keys that nobody else adds, and when the tasks of one batch are due.
        self._own: dict[Key, dict[str, Any]] = {}
        self._together: datetime | None = None

    def work(self, until: float) -> None:
        while stage.scheduler.now < until and not stage.choices.are_over:
            self.step()
            sleep(stage.choices.scale(SHORTEST_PAUSE, self._longest))

    def step(self) -> bool:
        if self._own and self._random.random() < UPDATES:
            return self.update()
        return super().step()

    def update(self) -> bool:
        """Give one of the last tasks another payload: of the same add, with other times."""
        if not self._own:
            return True
        key = self._random.choice(list(self._own)[-20:])
        payload = {**self._own[key], "seconds": self._random.uniform(0.0, 0.1)}

        def update(code: str, num: str) -> bool:
            found: bool = self._api.update_task(code, num, biz_ext=payload)
            return found

        return self._steer("update", key, update)

    def add_batch(self) -> bool:
        """Add several tasks, mostly of one code that has batches, and due at once."""
        if self._random.random() >= TOGETHER:
            return super().add_batch()
        code = self._random.choice(BATCHES)
        keys = [(code, self._cold()[1]) for _ in range(self._batch)]
        self._recent = [*self._recent[-20:], *keys]
        self._together = self._when()
        try:
            return self._add_all(keys)
        finally:
            self._together = None

    def pause(self) -> bool:
        return self._steer("pause", self._any(), self._api.pause_task)

    def resume(self) -> bool:
        return self._steer("resume", self._any(), self._api.resume_task)

    def _hot(self) -> Key:
        number = self._random.randrange(HOT_KEYS)
        return CODES[number % len(CODES)], f"hot-{number}"

    def _cold(self) -> Key:
        self._added += 1
        return self._random.choice(CODES), f"cold-{self._name}-{self._added}"

    def _when(self) -> datetime:
        """A time soon, by the database's clock."""
        if self._together is not None:
            return self._together
        seconds = stage.database.offset + self._random.choice((-0.1, 0.0, 0.5, 5.0, 20.0))
        return utc_now() + timedelta(seconds=seconds)

    def _task(self, key: Key, **payload: Any) -> Any:
        task = super()._task(key, **{**self._burden(key[0]), **payload})
        if key[1].startswith("cold") and key[0] in BATCHES:
            self._own[key] = task.biz_ext
        return task

    def _burden(self, code: str) -> dict[str, Any]:
        """The part of a payload that says what its runs are like."""
        if code == "slow":
            return {}  # each attempt takes another time, or none would be within its timeout
        burden: dict[str, Any] = {"seconds": self._random.uniform(0.0, self._longest_run(code))}
        if code == "deadly":
            burden["kills"] = self._random.choices((0, 2), DEADLY)[0]
        if code in ("halved", "crowd"):
            burden["refuses"] = self._share(REFUSING)
        if code in ("timed", "hanging", "crowd"):
            burden["overstays"] = self._share(OVERSTAYING)
        if code in ("hanging", "crowd"):
            burden["hangs"] = self._share(HANGING if code == "hanging" else HANGING / 2)
            burden["hang"] = self._hang(KILL_AFTER if code == "hanging" else BATCH_KILL_AFTER)
        return burden

    def _hang(self, limit: float) -> float | None:
        """For ever, for almost as long as it may, or until the moment in which it is given up."""
        ends = (None, 0.8 * limit, limit, limit + 0.001)
        return self._random.choices(ends, (70, 10, 10, 10))[0]

    def _share(self, share: float) -> int:
        return int(self._random.random() < share)

    def _longest_run(self, code: str) -> float:
        if code in ATOMIC:
            return 0.1  # nobody else can write while its transaction is open
        if code == "timely":
            return self._lease * self._random.choices(*TIMELY)[0]
        usual: float = self._random.choices((0.5, 10.0, 2.5 * self._lease), (70, 20, 10))[0]
        if code == "limited":
            return min(usual, 10.0)  # the others of them wait
        return LONGEST.get(code, usual)
