"""Add a task that waits until nobody has added it for a while.

Races: two clients add one key (the unique key lets one insert; the other then locks the row and
moves it), and a worker claims, runs or finishes the row meanwhile (it is locked from the look to
the write; if it has gone between the insert and the lock, the next insert succeeds).
"""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from django_tasks.models import Task
from django_tasks.store import search
from django_tasks.store.dialects import Dialect, dialect_of
from django_tasks.store.ownership import expect_count
from django_tasks.store.transactions import write_transaction
from django_tasks.store.upsert import NewTask, upsert
from django_tasks.values.conflicts import DebounceTerms, OnConflict
from django_tasks.values.status import OWNED, Status


class There(NamedTuple):
    """The row that an add meets; times are aware UTC."""

    status: int
    when: datetime
    biz_ext: str | None
    latest: datetime | None
    claim_time: datetime | None

    @property
    def begins_again(self) -> bool:
        """Tell if a worker has it and nobody has added to it since: what runs now is not to be
        merged with."""
        return self.status in OWNED and self.claim_time is not None and self.when <= self.claim_time


def debounce(
    new: NewTask,
    terms: DebounceTerms,
    merged: Callable[[str | None], str | None],
    now: datetime,
    *,
    using: str,
) -> Task:
    """Store a task and return its row; its ``when`` is ours to say.

    ``merged`` makes the new payload (JSON text) of the one that waits.
    """
    dialect = dialect_of(using)
    new = new._replace(when=now + terms.wait)
    latest = None if terms.at_most is None else now + terms.at_most
    with write_transaction(using):
        while not upsert([new], OnConflict.KEEP, now, using=using):
            if there := _locked(dialect, new):
                new, latest = _joined(there, new, latest, merged, now)
                upsert([new], OnConflict.REPLACE, now, using=using)
                break
        return _stored(dialect, new, latest)


def _joined(
    there: There,
    new: NewTask,
    latest: datetime | None,
    merged: Callable[[str | None], str | None],
    now: datetime,
) -> tuple[NewTask, datetime | None]:
    if there.begins_again:
        return new, latest
    if there.status != Status.FAILED:
        latest = there.latest or latest
    when = new.when if latest is None else max(now, min(new.when, latest))
    return new._replace(when=when, biz_ext=merged(there.biz_ext)), latest


def _locked(dialect: Dialect, new: NewTask) -> There | None:
    template = (
        "SELECT status, {when}, biz_ext, latest_time, claim_time FROM {task}"
        f" WHERE biz_code = %s AND biz_num = %s{dialect.lock}"
    )
    for status, when, biz_ext, latest, claimed in dialect.fetch(template, new[:2]):
        utc = dialect.from_column
        return There(status, utc(when), biz_ext, latest and utc(latest), claimed and utc(claimed))
    return None


def _stored(dialect: Dialect, new: NewTask, latest: datetime | None) -> Task:
    key = new[:2]
    if latest is not None:
        template = "UPDATE {task} SET latest_time = %s WHERE biz_code = %s AND biz_num = %s"
        expect_count(dialect.execute(template, [dialect.to_due(latest), *key]), 1)
    (row,) = search.with_keys([key], using=dialect.connection.alias)
    return row
