"""Prepares this process once, and plays each seed in a fork of it: all of them start alike.

Whatever a play leaves behind in modules, ends with its process. So does every greenlet of a worker
that was killed.
"""

import gc
import json
import logging
import os
import select
import signal
import sqlite3
import sys
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from importlib import import_module
from math import inf
from time import monotonic
from typing import Any, NamedTuple

import django

from tests.simulated_cluster import replaced, stage
from tests.simulated_cluster.scheduler import Scheduler

SETTINGS = "tests.simulated_cluster.settings"
LEASE = 30.0


class Part(NamedTuple):
    """A seed to play, perhaps without a guard, perhaps not to its end."""

    seed: int
    planted: str = ""
    limit: float = inf
    traced: bool = False


class Troupe:
    """Plays parts, each in a process of its own, some at once."""

    def __init__(self) -> None:
        self._raw = _prepared()

    def play(self, parts: Iterable[Part], processes: int = 1) -> Iterator[tuple[Part, Any]]:
        """Play ``parts``; what came of each, as it comes."""
        under_way: dict[int, tuple[Part, int, bytearray]] = {}
        left = iter(parts)
        try:
            while True:
                while len(under_way) < processes and (part := next(left, None)) is not None:
                    pid, pipe = self._started(part)
                    under_way[pipe] = part, pid, bytearray()
                if not under_way:
                    return
                for pipe in select.select(list(under_way), [], [])[0]:
                    part, pid, text = under_way[pipe]
                    if chunk := os.read(pipe, 1 << 20):
                        text += chunk
                        continue
                    del under_way[pipe]
                    os.close(pipe)
                    os.waitpid(pid, 0)
                    yield part, _result(part, bytes(text))
        finally:
            for pipe, (_, pid, _) in under_way.items():
                os.kill(pid, 9)
                os.waitpid(pid, 0)
                os.close(pipe)

    def _started(self, part: Part) -> tuple[int, int]:
        reading, writing = os.pipe()
        sys.stdout.flush()
        if pid := os.fork():
            os.close(writing)
            return pid, reading
        # Ctrl-C reaches the whole group. It is no fault of a play, and would look like one.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            text = json.dumps(_played(self._raw, part), default=str)
        except BaseException:
            text = json.dumps({"error": traceback.format_exc()})
        with os.fdopen(writing, "w") as pipe:
            pipe.write(text)
        os._exit(0)

    def one(self, part: Part) -> Any:
        """Play a single part."""
        ((_, result),) = self.play([part])
        return result


def _played(raw: sqlite3.Connection, part: Part) -> dict[str, Any]:
    from tests.simulated_cluster.planted import plant
    from tests.simulated_cluster.play import play

    gc.disable()  # when it comes, and what it finds, is no part of a schedule
    began = monotonic()
    if part.planted:
        plant(part.planted)
    result = play(raw, part.seed, part.limit, part.traced)
    return {**asdict(result), "seconds": monotonic() - began}


def _result(part: Part, text: bytes) -> Any:
    result = json.loads(text) if text else {"error": "its process died"}
    if "error" in result:
        raise RuntimeError(f"Seed {part.seed} could not be played: {result['error']}")
    return result


def _prepared() -> sqlite3.Connection:
    """Set up Django with simulated surroundings; return a database with empty tables."""
    os.environ |= {"DJANGO_SETTINGS_MODULE": SETTINGS, "FAULTS_LEASE": str(LEASE)}
    stage.scheduler = Scheduler(lambda actor, error: None)  # time stands still until a play begins
    replaced.before_setup()
    django.setup()
    raw = _tables()
    replaced.after_setup()
    for name in ("tests.simulated_cluster.planted", "tests.simulated_cluster.play"):
        import_module(name)  # once, and not in each fork
    logger = logging.getLogger("django_tasks")
    logger.setLevel(logging.WARNING)
    logger.addHandler(_Log())
    logger.propagate = False
    gc.collect()
    gc.freeze()
    return raw


def _tables() -> sqlite3.Connection:
    """A database in memory, made by Django's own backend."""
    from django.core.management import call_command
    from django.db import connections

    own = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:", "OPTIONS": {}}
    connections.settings["template"] = {**connections.settings["default"], **own}
    call_command("migrate", database="template", run_syncdb=True, verbosity=0, skip_checks=True)
    wrapper: Any = connections["template"]
    raw: sqlite3.Connection = wrapper.connection
    del connections.settings["template"]
    return raw


class _Log(logging.Handler):
    """Keeps what the workers say."""

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        stage.journal.log.append(text)
        stage.journal.tell(f"LOG {text}")
