"""The product with one guard removed, or with a defect of former days: what must be found.

The first ones are those of the fault suite. The others were found in the product once, by a review
or by reading; they are planted again as they were in effect.
"""

from collections.abc import Callable
from typing import Any

from django_tasks.store import gates, rescue, workers
from django_tasks.store.dialects import dialect_of, flatten
from django_tasks.store.statuses import OWNED_SQL
from django_tasks.worker import heartbeat, rescuer, worker
from django_tasks.worker.claiming import Claiming
from django_tasks.worker.heartbeat import Heartbeat
from django_tasks.worker.poller import Poller
from tests.explore.threads import Local, sleep
from tests.faults import broken

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
        )
    },
}


def plant(name: str) -> None:
    """Plant one in this process."""
    PLANTED[name]()
