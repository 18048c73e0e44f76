"""The product with one guard removed, for the tests of the proof itself.

Loaded into a worker or a client by ``FAULTS_BROKEN``; the product has no hook for it.
"""

import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from threading import Event
from time import monotonic
from typing import Any

from django_tasks.store import connection, finish, upsert
from django_tasks.store.dialects import flatten, placeholders
from django_tasks.worker import batches, execution, executor, fresh_context, misfires, worker
from django_tasks.worker.batches import Batches, Called
from django_tasks.worker.finisher import Finisher
from django_tasks.worker.membership import Membership
from django_tasks.worker.poller import Poller
from django_tasks.worker.run import Run

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


def stops_count_as_deaths() -> None:
    """A worker that stops in order does not say so in the rows of what still runs."""
    _replace(worker, "forgive", lambda *args, **kwargs: 0)


def rescued_is_late() -> None:
    """A run that was cut off is called late when it runs again, although it had begun in time."""
    intact = misfires.in_time

    def in_time(run: Run, clock: Any) -> Any:
        end = intact(run._replace(claimed=run.claimed._replace(rescues=0)), clock)
        return run if isinstance(end, Run) else end

    _replace(execution, "in_time", in_time)


def pauses_forgotten() -> None:
    """Lateness counts from the task's time, whatever has held it."""
    _replace(misfires, "spans", lambda *args, **kwargs: [])


def halves_unseen() -> None:
    """A batch is called again in halves without a look at what clients have changed meanwhile."""
    _replace(batches, "unmoved", lambda claims, using: {claim.id for claim in claims})


def charged_together() -> None:
    """Of a batch that fails, each task has failed."""
    intact = Batches._tried_together

    def called_together(self: Batches, runs: Sequence[Run]) -> Called:
        called = intact(self, runs)
        if called.ends or not called.parts:
            return called
        error = RuntimeError("one of them has failed")
        return Called([self._endings.failed(run, error, 0.0) for run in runs])

    _replace(Batches, "_tried_together", called_together)


def freed_before_its_run_ends() -> None:
    """The end of a run without end is written at once, while it goes on."""

    def give_up(poller: Poller, ends: Sequence[Any]) -> None:
        poller._finisher.add(ends)

    _replace(Poller, "give_up", give_up)


def connections_kept() -> None:
    """The connection that a run leaves without autocommit is the next one's."""
    _replace(connection, "is_open", lambda own: own.in_atomic_block)
    _replace(executor, "tidy", lambda connections, is_busy: None)


def one_context_for_all() -> None:
    """Runs share a context, with what each has set in it."""

    class Shared:
        def copy(self) -> "Shared":
            return self

        def __contains__(self, variable: object) -> bool:
            return False

        def run(self, function: Callable[..., Any], *args: Any) -> Any:
            return function(*args)

    _replace(fresh_context, "copy_context", Shared)


GUARDS: dict[str, Callable[[], None]] = {
    function.__name__: function
    for function in (
        add_without_version,
        finish_by_id,
        no_hand_over,
        rescue_at_once,
        forgotten_ends,
        waits_with_the_heartbeat,
        stops_count_as_deaths,
        rescued_is_late,
        pauses_forgotten,
        halves_unseen,
        charged_together,
        freed_before_its_run_ends,
        connections_kept,
        one_context_for_all,
    )
}
