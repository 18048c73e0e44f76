"""One client process: adds, moves, cancels, pauses, resumes at random, and journals every answer.

    python -m tests.faults.client --client 1 --seed 7 --adds 1000 --seconds 10 --batch 20

Each call is journalled before it is made (``sent``) and after (``answer``):

acknowledged  the call returned; what it returned is in the record
refused       the call raised an error of ours, or its transaction was rolled back by the caller
unknown       any database error: perhaps it was done, perhaps not

Of an unknown call the client thinks nothing; it reconnects and goes on.
"""

import argparse
import os
import random
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, timezone
from functools import cache
from threading import Event
from time import monotonic
from typing import Any, NamedTuple

import django

from tests.faults import journal

HOT_KEYS = 100
CODES = (
    "plain",
    "atomic",
    "effectful",
    "again",
    "atomic_again",
    "flaky",
    "brittle",
    "slow",
    "beat",
    "batched",
    "atomic_batch",
)
# Of the new keys; the hot ones are of all codes alike. Business rows, tracebacks and waiting cost
# far more than what is under test.
WEIGHTS = (70, 4, 4, 4, 3, 2, 2, 1, 3, 3, 4)
BEAT = "every 0.1s"
# Codes whose payloads are changed in place: those of batches, whose calls may be made again.
UPDATED = ("batched", "atomic_batch")
LATEST = 1.0  # seconds ahead that a task is due, as the longest

Key = tuple[str, str]

_never = Event()


class Options(NamedTuple):
    """``adds`` are spread over ``seconds``; ``batch`` new keys are added in one call."""

    client: int
    seed: int
    adds: int
    seconds: float
    batch: int


class RolledBack(Exception):
    """Raised by the client itself, inside its transaction."""


class Client:
    """Calls the public functions, and keeps the journal."""

    def __init__(self, options: Options) -> None:
        from django_tasks import api

        self._api = api
        self._name = options.client
        self._random = random.Random(f"{options.seed}/{options.client}")
        self._batch = options.batch
        self._added = 0
        self._recent: list[Key] = []

    @property
    def added(self) -> int:
        return self._added

    def step(self) -> bool:
        """One random call; whether the database answered."""
        actions = {
            self.add_cold: 50,
            self.add_hot: 20,
            self.add_unless_there: 5,
            self.add_many: 2,
            self.add_batch: 8 if self._batch else 0,
            self.add_and_roll_back: 2,
            self.cancel: 6,
            self.delete: 1,
            self.pause: 4,
            self.resume: 4,
            self.reschedule: 4,
            self.update: 2,
            self.run_now: 2,
            self.requeue: 2,
        }
        (action,) = self._random.choices(list(actions), list(actions.values()))
        return action()

    # Calls

    def add(self, code: str, num: str, seconds: float) -> bool:
        """Add a task that is due at once and runs for so long."""
        task = self._task((code, num), seconds=seconds)
        task.when = datetime.now(timezone.utc)
        return self._store(task)

    def add_to_queues(self, keys: Iterable[Key], queues: Iterable[str]) -> bool:
        """Add tasks in one call, each to a queue of its own."""
        tasks = [self._task(key) for key in keys]
        for task, queue in zip(tasks, queues, strict=True):
            task.queue = queue
        return self._store_all(tasks)

    def resume_one(self, code: str, num: str) -> bool:
        """Resume a task."""
        return self._steer("resume", (code, num), self._api.resume_task)

    def change_one(self, key: Key, when: datetime) -> bool:
        """Change one task in one way or the other; ``when`` is its next time if it gets one."""
        ways: dict[str, Callable[..., Any]] = {
            "cancel": self._api.cancel_task,
            "pause": self._api.pause_task,
            "run_now": self._api.run_task_now,
            "reschedule": lambda code, num: self._api.reschedule_task(code, num, when),
        }
        name = random.choice(["add", "update", *ways])
        if name == "update":
            return self._update(key)
        if name != "add":
            return self._steer(name, key, ways[name])
        task = self._task(key)
        task.when = when
        return self._store(task)

    def add_cold(self) -> bool:
        return self._add(self._cold())

    def add_hot(self) -> bool:
        return self._add(self._hot())

    def add_unless_there(self) -> bool:
        return self._add(self._hot(), self._random.choice(["keep", "earliest", "raise"]))

    def add_many(self) -> bool:
        keys = {self._hot() for _ in range(5)}
        self._added += len(keys)
        return self._add_all(keys)

    def add_batch(self) -> bool:
        return self._add_all(self._cold() for _ in range(self._batch))

    def add_and_roll_back(self) -> bool:
        from django.db import transaction

        task = self._task(self._hot())

        def call() -> dict[str, Any]:
            with transaction.atomic():
                self._api.add_task(task)
                raise RolledBack

        return self._answered([self._journal_add(task, "replace")], call)

    def cancel(self) -> bool:
        return self._steer("cancel", self._any(), self._api.cancel_task)

    def delete(self) -> bool:
        def delete(code: str, num: str) -> int:
            count: int = self._api.delete_tasks(code, num, match="exact")
            return count

        return self._steer("delete", self._any(), delete)

    def pause(self) -> bool:
        return self._steer("pause", self._hot(), self._api.pause_task)

    def resume(self) -> bool:
        return self.resume_one(*self._hot())

    def run_now(self) -> bool:
        return self._steer("run_now", self._any(), self._api.run_task_now)

    def requeue(self) -> bool:
        return self._steer("requeue", self._any(), self._api.requeue_task)

    def reschedule(self) -> bool:
        when = self._when()

        def reschedule(code: str, num: str) -> bool:
            found: bool = self._api.reschedule_task(code, num, when)
            return found

        return self._steer("reschedule", self._any(), reschedule, when=when.timestamp())

    def update(self) -> bool:
        key = self._hot()
        while key[0] not in UPDATED:
            key = self._hot()
        return self._update(key)

    def _update(self, key: Key) -> bool:
        payload = self._task(key).biz_ext

        def update(code: str, num: str) -> bool:
            found: bool = self._api.update_task(code, num, biz_ext=payload)
            return found

        return self._steer("update", key, update, nonce=payload["nonce"])

    # Their parts

    def _hot(self) -> Key:
        number = self._random.randrange(HOT_KEYS)
        return CODES[number % len(CODES)], f"hot-{number}"

    def _cold(self) -> Key:
        self._added += 1
        (code,) = self._random.choices(CODES, WEIGHTS)
        return code, f"cold-{self._name}-{self._added}"

    def _any(self) -> Key:
        if self._recent and self._random.random() < 0.5:
            return self._random.choice(self._recent)
        return self._hot()

    def _when(self) -> datetime:
        # By the host's clock: asking the database's would be one more call that can fail.
        return datetime.now(timezone.utc) + timedelta(seconds=self._random.uniform(-0.1, LATEST))

    def _task(self, key: Key, **payload: Any) -> Any:
        payload = {"nonce": journal.unique(), "hop": 0, **payload}
        when = self._when()
        schedule = BEAT if key[0] == "beat" else None
        return self._api.Task(
            biz_code=key[0], biz_num=key[1], when=when, biz_ext=payload, schedule=schedule
        )

    def _add(self, key: Key, on_conflict: str = "replace") -> bool:
        self._recent = [*self._recent[-20:], key]
        return self._store(self._task(key), on_conflict)

    def _store(self, task: Any, on_conflict: str = "replace") -> bool:
        def call() -> dict[str, Any]:
            row = self._api.add_task(task, on_conflict=on_conflict)
            stored = row.biz_ext["nonce"] == task.biz_ext["nonce"]
            return {"stored": stored, "id": row.pk, "version": row.version}

        return self._answered([self._journal_add(task, on_conflict)], call)

    def _add_all(self, keys: Iterable[Key]) -> bool:
        return self._store_all([self._task(key) for key in keys])

    def _store_all(self, tasks: list[Any]) -> bool:
        def call() -> dict[str, Any]:
            self._api.add_tasks(tasks)
            return {"stored": True}

        return self._answered([self._journal_add(task, "replace") for task in tasks], call)

    def _journal_add(self, task: Any, on_conflict: str) -> str:
        return self._sent(
            "add",
            (task.biz_code, task.biz_num),
            nonce=task.biz_ext["nonce"],
            when=task.when.timestamp(),
            on_conflict=on_conflict,
        )

    def _steer(self, call: str, key: Key, function: Callable[..., Any], **facts: Any) -> bool:
        name = self._sent(call, key, **facts)
        return self._answered([name], lambda: {"result": _plain(function(*key))})

    def _sent(self, call: str, key: Key, **facts: Any) -> str:
        name = journal.unique()
        journal.write("sent", name=name, call=call, code=key[0], num=key[1], **facts)
        return name

    def _answered(self, names: list[str], call: Callable[[], dict[str, Any]]) -> bool:
        from django.db import Error, connection

        facts: dict[str, Any] = {}
        try:
            facts = call()
            answer = "acknowledged"
        except (RolledBack, self._api.TaskException):
            answer = "refused"
        except Error as error:
            answer, facts = "unknown", {"error": f"{type(error).__name__}: {error}"[:200]}
            connection.close()
        for name in names:
            journal.write("answer", name=name, answer=answer, **facts)
        return answer != "unknown"


@cache
def a_client() -> Client:
    """The client of a process that is something else: it makes the calls that it is asked for."""
    return Client(Options(client=0, seed=0, adds=0, seconds=0, batch=0))


def _plain(result: Any) -> Any:
    return result if isinstance(result, (bool, int)) else str(result)


def run(options: Options) -> None:
    """Spread the adds evenly over the time; go on at that pace until there has been enough."""
    client = Client(options)
    started = monotonic()
    enough = journal.marker("enough")
    reached = journal.marker(f"client-{options.client}")
    journal.marker(f"client-{options.client}-begins").touch()
    while client.added < options.adds or not enough.exists():
        if not client.step():
            _never.wait(0.05)
        if client.added >= options.adds:
            reached.touch()
        ahead = options.seconds * client.added / options.adds - (monotonic() - started)
        _never.wait(max(0.0, ahead))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--adds", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--batch", type=int, default=0)
    options = Options(**vars(parser.parse_args()))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.faults.settings")
    django.setup()
    run(options)


if __name__ == "__main__":
    main()
