"""The product with one guard removed, or with a defect of former days: what must be found.

The first ones are those of the fault suite. Most others were found in the product once, by a
review or by reading, and are planted again as they were in effect. The last ones are cures taken
out: of orderly stops, of batches, and of runs that do not end.
"""

from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Any

from django_tasks.store import finish, gates, rescue, workers
from django_tasks.store.dialects import dialect_of, flatten, placeholders
from django_tasks.values.status import OWNED_SQL
from django_tasks.worker import heartbeat, rescuer, worker
from django_tasks.worker.batches import Batches
from django_tasks.worker.claiming import Claiming
from django_tasks.worker.heartbeat import Heartbeat
from django_tasks.worker.poller import Poller
from tests.faults import broken, watching
from tests.simulated_cluster.threads import Local, sleep

GUARDS = ("add_without_version", "finish_by_id", "no_hand_over", "rescue_at_once")
HABITS = ("forgotten_ends", "waits_with_the_heartbeat")


def never_reconnects() -> None:
    """After an error a connection is kept if it answers. The former primary of a switchover, which
    is up and read-only, answers for ever.
    """
    _replace(worker, "drop_connection", lambda using: None)
    _replace(heartbeat, "drop_connection", lambda using: None)
    _replace(rescuer, "drop_connection", lambda using: None)


def heartbeat_waits_for_the_poller() -> None:
    """Heartbeats and everything else are sent in turns: a statement that hangs, a lock that is
    waited for or a slow receiver holds them up.
    """
    intact = Heartbeat._beat

    def beat(self: Heartbeat) -> None:
        while self._guarded.seconds_in_cycle() > 0:
            sleep(0.05)
        intact(self)

    _replace(Heartbeat, "_beat", beat)


def living_before_owners() -> None:
    """Two looks find rows without a worker, and the table of workers is read first, as behind a
    proxy that sends reads to replicas. A worker that joins in between and claims looks dead.
    """

    def orphaning_owners(*, using: str) -> list[int]:
        dialect = dialect_of(using)
        living = set(flatten(dialect.fetch("SELECT id FROM {worker}")))
        owners = f"SELECT DISTINCT claimed_by FROM {{task}} WHERE status IN {OWNED_SQL}"  # noqa: S608
        return sorted(set(flatten(dialect.fetch(owners))) - living)

    _replace(workers, "orphaning_owners", orphaning_owners)
    _replace(rescue, "_ORPHANED", "")


def no_strays() -> None:
    """A worker does not look for rows that it owns without knowing: an answer was lost."""
    _replace(Poller, "_give_back_strays", lambda self: None)


def suspects_stop_the_cluster() -> None:
    """A worker that sees a row which was rescued twice claims nothing until it is idle."""
    intact = Claiming._claim_due

    def claim_due(self: Claiming, due: Any, now: Any, room: int, careful: bool) -> int:
        if self._suspects._lane is not None and not self._executor.is_idle():
            return 0
        return intact(self, due, now, room, careful)

    _replace(Claiming, "_claim_due", claim_due)


def gate_counts_too_early() -> None:
    """The rows of a limited code are counted before the gate's row is had, and not again: others
    have passed meanwhile.
    """
    intact, counted = gates._running, Local()

    def running(dialect: Any, biz_code: str, limit: Any) -> int:
        if not dialect.connection.in_atomic_block:
            counted.rows = intact(dialect, biz_code, limit)
        return int(counted.rows)

    _replace(gates, "_running", running)


def stops_are_deaths() -> None:
    """A worker that stops at its deadline says nothing in the rows of its runs. A task that takes
    longer than stops leave it is a suspect after two of them.
    """
    _replace_forgive(lambda worker_id, guilty, *, using: 0)


def stops_are_misfires() -> None:
    """A worker that stops at its deadline takes a rescue off each row, also off those that have
    none. Then nothing tells that the task has begun in time.
    """

    def forget(worker_id: int, guilty: Collection[int], *, using: str) -> int:
        template = (
            "UPDATE {task} SET rescues = rescues - 1"  # noqa: S608
            f" WHERE claimed_by = %s AND status IN {OWNED_SQL}"
            f" AND id NOT IN ({placeholders(len(guilty))})"
        )
        return dialect_of(using).execute(template, [worker_id, *guilty])

    _replace_forgive(forget)


def _replace_forgive(forgive: Callable[..., int]) -> None:
    _replace(worker, "forgive", watching.watched_forgive(forgive))


def halves_without_a_look() -> None:
    """A batch that has failed is called again in halves, whatever clients have done meanwhile."""
    _replace(Batches, "_tried_again", Batches._tried)


def halves_keep_their_ends() -> None:
    """The ends of a call wait for those of the last one of its item."""
    intact = Batches.run

    def run(self: Batches, runs: Any, take: Any) -> Any:
        kept: list[Any] = []
        last = intact(self, runs, kept.extend)
        return [*kept, *last]

    _replace(Batches, "run", run)


def given_up_is_free_at_once() -> None:
    """The end of a run past its ``kill_after`` is written at once. Its process goes on until its
    other runs have ended, and meanwhile the next try may begin.
    """
    intact = Poller.give_up

    def give_up(self: Poller, ends: Any) -> None:
        intact(self, ends)
        self._finisher.add(self.last_ends(self._membership.clock.now(), timedelta()))

    _replace(Poller, "give_up", give_up)


def killed_is_tried_at_once() -> None:
    """The next try of a run past its ``kill_after`` does not wait until its process has ended."""
    _replace(finish, "_put_off", lambda row, *facts: row)


def _replace(owner: Any, name: str, planted: Any) -> None:
    assert hasattr(owner, name), name
    setattr(owner, name, planted)


PLANTED: dict[str, Callable[[], None]] = {
    **{name: broken.GUARDS[name] for name in (*GUARDS, *HABITS)},
    **{
        function.__name__: function
        for function in (
            never_reconnects,
            heartbeat_waits_for_the_poller,
            living_before_owners,
            no_strays,
            gate_counts_too_early,
            broken.rescued_is_late,
            suspects_stop_the_cluster,
            stops_are_deaths,
            stops_are_misfires,
            halves_without_a_look,
            halves_keep_their_ends,
            given_up_is_free_at_once,
            killed_is_tried_at_once,
        )
    },
}


def plant(name: str) -> None:
    """Plant one in this process."""
    PLANTED[name]()
