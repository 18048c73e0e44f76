"""The product with one guard removed, for the tests of the proof itself.

Loaded into a worker or a client by ``FAULTS_BROKEN``; the product has no hook for it.
"""

import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from threading import Event
from time import monotonic
from typing import Any

from django_tasks.store import finish, upsert
from django_tasks.store.dialects import flatten, placeholders
from django_tasks.worker.finisher import Finisher
from django_tasks.worker.membership import Membership

_LEASE = float(os.environ.get("FAULTS_LEASE", "3"))

_never = Event()


def break_guard(name: str) -> None:
    """Remove one guard in this process."""
    GUARDS[name]()


def _replace(owner: Any, name: str, broken: Callable[..., Any]) -> None:
    setattr(owner, name, broken)


def add_without_version() -> None:
    """An add to a running task leaves its version, so that the old run's end still matches."""
    intact = upsert._assignments

    def broken(old: str, new: Callable[[str], str], paused: bool) -> str:
        bumped = f" version = {old}version + 1,"
        text = intact(old, new, paused)
        assert bumped in text
        return text.replace(bumped, "")

    _replace(upsert, "_assignments", broken)


def finish_by_id() -> None:
    """An end is written by any worker, owner or not, and for any version."""

    def remove(dialect: Any, keys: Sequence[Any], statuses: str = "") -> set[int]:
        ids = [key[0] for key in keys]
        if not ids:
            return set()
        where = f"FROM {{task}} WHERE id IN ({placeholders(len(ids))})"
        there = set(flatten(dialect.fetch("SELECT id " + where, ids)))
        dialect.execute("DELETE " + where, ids)
        return there

    _replace(finish, "remove", remove)


def no_hand_over() -> None:
    """A row that moved while it ran is not given up by its owner."""

    def hand_over_moved(dialect: Any, keys: Iterable[Any], now: Any) -> set[int]:
        return set()

    _replace(finish, "hand_over_moved", hand_over_moved)


def rescue_at_once() -> None:
    """A worker judges others although it has been silent itself."""
    intact = Membership._watched

    def watched(member: Membership, peers: Any, look: Any, may_judge: bool) -> Any:
        return intact(member, peers, look, True)

    _replace(Membership, "_watched", watched)


def forgotten_ends() -> None:
    """A worker keeps ends to itself for so long that nobody would believe it still had them."""
    intact = Finisher.add
    kept: list[tuple[float, Any]] = []

    def add(finisher: Finisher, ends: Iterable[Any]) -> None:
        now = monotonic()
        kept.extend((now + 4 * _LEASE, end) for end in ends)
        intact(finisher, [end for due, end in kept if due <= now])
        kept[:] = [each for each in kept if each[0] > now]

    _replace(Finisher, "add", add)


def waits_with_the_heartbeat() -> None:
    """Now and then a heartbeat waits for something else, for longer than the lease."""
    intact = Membership.beat
    numbers = itertools.count(1)

    def beat(member: Membership, *args: Any) -> bool:
        if next(numbers) % 8 == 0:
            _never.wait(1.3 * _LEASE)
        return intact(member, *args)

    _replace(Membership, "beat", beat)


GUARDS: dict[str, Callable[[], None]] = {
    function.__name__: function
    for function in (
        add_without_version,
        finish_by_id,
        no_hand_over,
        rescue_at_once,
        forgotten_ends,
        waits_with_the_heartbeat,
    )
}
