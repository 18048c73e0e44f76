"""The forerunner's rows, judged by our rules; then its table set aside, ours made, rows copied.

Every step looks at what is there and goes on from it, so that one that was interrupted is simply
begun again.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any

from django.core.management import call_command
from django.db import connections
from django.utils.dateparse import parse_datetime

from django_tasks.client.arguments import checked_task
from django_tasks.exceptions import TaskException, TaskValueError
from django_tasks.models import Task
from django_tasks.sentences import counted as ngettext_lazy
from django_tasks.sentences import sentence as _
from django_tasks.store import clock, forerunner
from django_tasks.store.batches import batches
from django_tasks.store.forerunner import Adopted, OldRow, OldTable
from django_tasks.timezones import aware

WAITS, TAKEN = 0, 1
PROGRESS = 10_000

Say = Callable[[str], None]


class CannotAdopt(TaskException):
    """The reason why there is no table to adopt, or not yet."""


@dataclass
class Survey:
    """The rows that are still to be copied, as our rules see them."""

    total: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    keys: set[tuple[str, str]] = field(default_factory=set)
    taken: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    # The first of them to run: the old time as it stands there, and as it is understood.
    first: tuple[str, Any, datetime] | None = None


def find(using: str) -> OldTable:
    """The forerunner's table, under our name or set aside; raise CannotAdopt without one."""
    here, aside = forerunner.under_our_name(using=using), forerunner.set_aside(using=using)
    if here and aside:
        raise CannotAdopt(
            _(
                "Database %(using)s has two tables of the forerunner's, %(name)s and "
                "%(aside)s: rename %(aside)s, which an earlier run has copied or "
                "somebody has made",
                using=using,
                name=here.name,
                aside=aside.name,
            )
        )
    old = here or aside
    if old is None:
        raise CannotAdopt(
            _(
                "Database %(using)s has no table of the forerunner's: neither %(table)s "
                "nor %(aside)s has its columns",
                using=using,
                table=forerunner.TABLE,
                aside=forerunner.ASIDE,
            )
        )
    if not forerunner.rolls_back(old, using=using):
        raise CannotAdopt(
            _(
                "The table %(name)s in database %(using)s knows no transactions, without "
                "which an interrupted run would lose rows: ALTER TABLE %(name)s "
                "ENGINE=InnoDB first",
                name=old.name,
                using=using,
            )
        )
    return old


def survey(old: OldTable, zone: tzinfo, *, using: str) -> Survey:
    """Look at each row that is left. Changes nothing."""
    seen = Survey()
    for row in _rows(old, using):
        seen.total += 1
        try:
            adopted = as_ours(row, zone, using=using)
        except TaskException as error:
            seen.refused.append(
                _("%(row)s (id %(id)s): %(error)s", row=_name(row), id=row.id, error=error)
            )
            continue
        if adopted.task[:2] in seen.keys:
            seen.refused.append(
                _("%(row)s (id %(id)s): its key is there twice", row=_name(row), id=row.id)
            )
            continue
        seen.keys.add(adopted.task[:2])
        seen.codes[adopted.task.biz_code] += 1
        if row.status == TAKEN:
            seen.taken.append(_name(row))
        if seen.first is None or adopted.task.when < seen.first[2]:
            seen.first = _name(row), row.when, adopted.task.when
    return seen


def as_ours(row: OldRow, zone: tzinfo, *, using: str) -> Adopted:
    """A row as it will stand in our table. Raises TaskValueError for what our rules refuse."""
    if row.status not in (WAITS, TAKEN):
        raise TaskValueError("status", row.status, _("is neither 0 (waits) nor 1 (taken)"))
    when = _moment("when", row.when, zone)
    task = Task(biz_code=row.biz_code, biz_num=row.biz_num, when=when, biz_ext=row.biz_ext)
    new = checked_task(task, using, is_old=True)
    now = clock.now(using)
    created = now if row.create_time is None else _moment("create_time", row.create_time, zone)
    updated = now if row.update_time is None else _moment("update_time", row.update_time, zone)
    return Adopted(row.id, new, created, updated, row.version or 0)


def adopt(old: OldTable, zone: tzinfo, say: Say, *, using: str) -> None:
    """Set the table aside, make ours, copy all rows that are left; ``say`` tells each step."""
    if not old.is_aside:
        old = forerunner.rename(old, using=using)
        say(
            _(
                "%(table)s is %(name)s now; it is never changed but for its marks.",
                table=forerunner.TABLE,
                name=old.name,
            )
        )
    _make_tables(using)
    say(_("The tables of django_tasks are there."))
    _copy_all(old, zone, say, using)


def _make_tables(using: str) -> None:
    # A run may have ended between the making of the tables and the note that says so. Then they are
    # whole, but where each statement commits by itself.
    is_whole = connections[using].features.can_rollback_ddl
    options = {"database": using, "fake_initial": is_whole, "interactive": False, "verbosity": 0}
    call_command("migrate", Task._meta.app_label, **options)


def _copy_all(old: OldTable, zone: tzinfo, say: Say, using: str) -> None:
    total, done, came, behind = forerunner.count_left(old, using=using), 0, 0, 0
    adopted = (as_ours(row, zone, using=using) for row in _rows(old, using))
    for batch in batches(adopted, forerunner.BATCH, lambda each: (each.task.biz_ext,)):
        copied = forerunner.copy(batch, clock.now(using), using=using)
        came, behind = came + copied.came, behind + copied.behind
        if (done + len(batch)) // PROGRESS > done // PROGRESS:
            say(_("%(done)s of %(total)s rows", done=f"{done + len(batch):,}", total=f"{total:,}"))
        done += len(batch)
    say(
        ngettext_lazy(
            "%(count)s task came over from %(name)s, which stays.",
            "%(count)s tasks came over from %(name)s, which stays.",
            came,
            count=f"{came:,}",
            name=old.name,
        )
    )
    if behind:
        say(
            ngettext_lazy(
                "%(count)s were left there: a newer task of their key has been added meanwhile.",
                "%(count)s were left there: a newer task of their key has been added meanwhile.",
                behind,
                count=f"{behind:,}",
            )
        )


def _rows(old: OldTable, using: str) -> Iterator[OldRow]:
    for batch in forerunner.rows_left(old, using=using):
        yield from batch


def _moment(field: str, value: Any, zone: tzinfo) -> datetime:
    """A time as a driver gives it; a text on SQLite, where the column is not a datetime."""
    if isinstance(value, str):
        try:
            value = parse_datetime(value)
        except ValueError:
            value = None
    if isinstance(value, datetime) and value.tzinfo is None:
        value = value.replace(tzinfo=zone)
    return aware(field, value)


def _name(row: OldRow) -> str:
    return f"{row.biz_code}/{row.biz_num}"
