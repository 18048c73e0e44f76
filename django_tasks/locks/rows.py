"""Named locks: take, renew, free. A row for each name, which is never deleted.

Each write is one UPDATE that repeats what it relies on and whose row count is the answer, so that
nobody need believe what was read a moment ago. Who holds a lock, and until when, is judged by the
database's clock alone; it is read *before* the statement that uses it, so a lock is never taken
too early, and no lease ends later than its holder believes.

Races:

* Two takers see the lock free. The term that both have read stands in the guard: the first UPDATE
  moves it, the second one matches nothing.
* A taker sees the lease passed, and the holder's renewal arrives just then: the guard asks again.
* A holder that was stopped for longer than its lease wakes up. Its renewal, and its freeing, match
  nothing once somebody else has taken the lock: the term and the holder are others.
* A renewal arrives late, after the next one (it hung in the network, or waited for the row): it
  never sets ``until`` back. After the lock was freed it matches nothing.
* The answer to a take is lost. The lock is held by a token that nobody knows or renews, and is
  free again after one lease.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import BigIntegerField, F, Q, QuerySet, Value
from django.db.models.functions import Greatest

from django_tasks.host.clocks import EPOCH
from django_tasks.models import Lock
from django_tasks.store.clock import read_clock
from django_tasks.store.dialects import dialect_of
from django_tasks.store.timeouts import bounded_transaction
from django_tasks.store.transactions import retried

NOBODY = ""
MICROSECOND = timedelta(microseconds=1)
# What others wait for is longer than what the holder believes in, by what two clocks that are
# slewed (0.05 % each, at most) can gain on each other.
SLEWING = 1.001


class Hold(NamedTuple):
    """A lock that was taken: the guard of whatever its holder writes to it afterwards."""

    name: str
    term: int
    holder: str


class LockState(NamedTuple):
    """A lock as it was at one moment.

    ``holder`` is "host:pid:token", empty if nobody has it. It has the lock ``since`` a time, and
    its lease ends at ``until`` unless it is renewed: aware UTC, None if nobody has it.
    ``attributes`` are those that were saved last.
    """

    name: str
    term: int
    holder: str
    since: datetime | None
    until: datetime | None
    attributes: Any

    @property
    def is_held(self) -> bool:
        return bool(self.holder)


def state(name: str, *, using: str) -> LockState | None:
    """The lock of a name by the database's clock; None if nobody has ever taken it."""
    found = _rows(using).filter(name=name).values_list(*_STATE, "attributes").first()
    if found is None:
        return None
    return _state(found[:-1], found[-1], now_in_microseconds(using=using))


def states(names: Collection[str], *, using: str) -> list[LockState]:
    """The locks of these names that somebody has ever taken, without their attributes: a project's
    decoder may take as long as it likes.
    """
    found = list(_rows(using).filter(name__in=names).values_list(*_STATE))
    now = now_in_microseconds(using=using) if found else 0
    return [_state(row, None, now) for row in found]


_STATE = ("name", "term", "holder", "since", "until")


def _state(row: tuple[Any, ...], attributes: Any, now: int) -> LockState:
    name, term, holder, since, until = row
    if holder == NOBODY or until < now:
        return LockState(name, term, NOBODY, None, None, attributes)
    times = EPOCH + since * MICROSECOND, EPOCH + until * MICROSECOND
    return LockState(name, term, holder, *times, attributes)


@retried
def take(name: str, holder: str, lease: float, *, using: str) -> Hold | None:
    """Take the lock for ``lease`` seconds; None while somebody holds it.

    ``holder`` must be another one for each call. Nothing is written to a lock that is held: those
    who wait for it only read.
    """
    found = _rows(using).filter(name=name).values_list("term", "holder", "until").first()
    if found is None:
        # Nothing is done if somebody else has just done it. No model is made: the worker's thread
        # that comes here runs no receiver of a project's.
        found = 0, NOBODY, 0
        dialect_of(using).insert_absent(
            "{lock} (name, term, holder, since, until)", [name, *found[:2], 0, 0]
        )
    term, held_by, until = found
    now = now_in_microseconds(using=using)
    if held_by != NOBODY and until >= now:
        return None
    free = Q(holder=NOBODY) | Q(until__lt=now)
    taken = _rows(using).filter(free, name=name, term=term)
    if not taken.update(term=F("term") + 1, holder=holder, since=now, until=_after(lease, now)):
        return None
    return Hold(name, term + 1, holder)


def renew(hold: Hold, lease: float, *, using: str) -> bool:
    """Hold the lock for ``lease`` seconds from now; False if it has been lost.

    Also when the lease has passed already, as long as nobody else has taken the lock. Waits for a
    sixth of the lease at most, then the database's error passes: it is not repeated here, because
    the caller knows how much of the lease is left. Call outside of transactions.
    """
    with bounded_transaction(using, lease / 6):
        until = Value(_after(lease, now_in_microseconds(using=using)), BigIntegerField())
        return _held(hold, using).update(until=Greatest("until", until)) == 1


def attributes_of(hold: Hold, *, using: str) -> Any:
    """The attributes of a lock that was taken: its last holder may have saved until that moment."""
    return _held(hold, using).values_list("attributes", flat=True).first()


@retried
def save(hold: Hold, attributes: Any, *, using: str) -> bool:
    """Write the attributes of a lock; False if it has been lost."""
    return _held(hold, using).update(attributes=attributes) == 1


@retried
def free(hold: Hold, *, using: str) -> bool:
    """Let the lock go; False if it had been lost, to somebody else or by being freed before."""
    return _held(hold, using).update(holder=NOBODY, since=0, until=0) == 1


def now_in_microseconds(*, using: str) -> int:
    """The database's clock as ``until`` has it."""
    return (read_clock(using=using).utc - EPOCH) // MICROSECOND


def _after(lease: float, now: int) -> int:
    return now + int(lease * SLEWING * 1_000_000)


def _held(hold: Hold, using: str) -> QuerySet[Lock]:
    return _rows(using).filter(name=hold.name, term=hold.term, holder=hold.holder)


def _rows(using: str) -> QuerySet[Lock]:
    return Lock._base_manager.using(using)
