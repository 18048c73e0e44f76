"""Add tasks by key: one statement inserts the new ones and moves those that exist.

Races: two clients add one key (the unique key lets one insert, the other's statement becomes an
update); a client adds while the row is claimed, run, finished or rescued (version + 1, so that
the owner's finish no longer matches and what was added is not lost).
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from django.db import IntegrityError

from django_tasks import payloads
from django_tasks.models import Task
from django_tasks.store.dialects import Dialect, dialect_of, placeholders
from django_tasks.store.transactions import answered_transaction, write_transaction
from django_tasks.timezones import for_django
from django_tasks.values import payload_text
from django_tasks.values.conflicts import OnConflict
from django_tasks.values.options import options_of_text
from django_tasks.values.status import OWNED_SQL, Status


class NewTask(NamedTuple):
    """A task as an add stores it.

    ``when`` is aware UTC, ``biz_ext`` and ``options`` are JSON texts or None. ``scheduled_time`` is
    that of a task with a schedule whose ``when`` somebody has chosen; None: its schedule has.
    """

    biz_code: str
    biz_num: str
    when: datetime
    biz_ext: str | None
    queue: str
    priority: int
    schedule: str | None
    name: str = ""
    options: str | None = None
    scheduled_time: datetime | None = None


_COLUMNS = (
    "biz_code, biz_num, {when}, biz_ext, queue, priority, schedule, create_time, update_time,"
    " name, options, scheduled_time, status, version, attempts, rescues, last_error, runs"
)
_ALL_FIELDS = [field.attname for field in Task._meta.concrete_fields]
_TIMES = (
    *("when", "create_time", "update_time", "claim_time"),
    *("scheduled_time", "latest_time", "last_run"),
)
_ALL_COLUMNS = ", ".join("{when}" if name == "when" else name for name in _ALL_FIELDS)
# What the statement decides, where it moves whatever it finds; the rest is known beforehand. (Of
# ``biz_ext`` jsonb makes another text: its keys have another order there.)
_DECIDED = (
    *("id", "version", "status", "attempts", "rescues", "last_error", "exception", "claimed_by"),
    "biz_ext",
    *("runs", "progress"),
)
_DECIDED_COLUMNS = ", ".join(_DECIDED)
# PostgreSQL's types of what is given for each row, and what is the same for all.
_TYPES = (
    "text",
    "text",
    "timestamptz",
    "jsonb",
    "text",
    "smallint",
    "text",
    "timestamptz",
    "timestamptz",
)
# Most tasks have none of them, and each parameter of a row costs time.
_RARE_TYPES = ("text", "text", "timestamptz")
_NOTHING_RARE = ", '', NULL, NULL"
_CONSTANTS = ", 0, 0, 0, '', 0"


def upsert_one(
    task: NewTask, on_conflict: OnConflict, now: datetime, *, using: str, paused: bool = False
) -> tuple[Task, bool]:
    """Store one task; returns its row and whether it was inserted or moved.

    With ``paused`` it is paused by the same statement. Without, one that is paused stays so.

    The row is read by the statement that wrote it, or under its lock: a worker may have run the
    task and deleted the row by the time a second look arrives.
    """
    dialect = dialect_of(using)
    if dialect.returns_inserts and on_conflict is OnConflict.REPLACE:
        with answered_transaction(using):
            decided = _returning_decided(dialect)
            (row,) = _upsert(dialect, [task], on_conflict, now, paused, decided)
        return _moved(dialect, task, now, row), True
    with write_transaction(using):
        moved = bool(upsert([task], on_conflict, now, using=using, paused=paused))
        template = f"SELECT {_ALL_COLUMNS} FROM {{task}} WHERE biz_code = %s AND biz_num = %s"
        (row,) = dialect.fetch(template + dialect.lock, task[:2])
        return _stored(dialect, row), moved


def upsert(
    tasks: Sequence[NewTask],
    on_conflict: OnConflict,
    now: datetime,
    *,
    using: str,
    paused: bool = False,
) -> set[tuple[str, str]]:
    """Store a batch of tasks with distinct keys; returns the keys that were inserted or moved.

    Keys are sorted, so that two batches never wait for each other crosswise. A caller that
    refuses, or reads on, by the answer must run this in a transaction.
    """
    dialect = dialect_of(using)
    ordered = sorted(tasks, key=lambda task: task[:2])
    if not dialect.returns_only_moved and on_conflict is not OnConflict.REPLACE:
        with write_transaction(using):
            return _look_then_write(dialect, ordered, on_conflict, now, paused)
    if on_conflict is OnConflict.REPLACE:
        _upsert(dialect, ordered, on_conflict, now, paused)
        return {task[:2] for task in ordered}
    rows = _upsert(dialect, ordered, on_conflict, now, paused, " RETURNING biz_code, biz_num")
    return {(row[0], row[1]) for row in rows}


def _upsert(
    dialect: Dialect,
    tasks: Sequence[NewTask],
    on_conflict: OnConflict,
    now: datetime,
    paused: bool,
    returning: str = "",
) -> list[tuple[Any, ...]]:
    insert, params = _inserting(dialect, tasks, now, paused)
    conflict = _conflict_clause(dialect.returns_only_moved, on_conflict, paused)
    template = insert + conflict + returning
    if returning:
        return dialect.fetch(template, params)
    dialect.execute(template, params)
    return []


def _inserting(
    dialect: Dialect, tasks: Sequence[NewTask], now: datetime, paused: bool
) -> tuple[str, Sequence[Any]]:
    moment = dialect.to_column(now)
    due, rare = dialect.to_due, any(map(_is_rare, tasks))
    rows = [
        (*task[:2], due(task.when), *task[3:7], moment, moment)
        + (_rare(dialect, task) if rare else ())
        for task in tasks
    ]
    types = _TYPES + _RARE_TYPES if rare else _TYPES
    source, params = dialect.source(types, rows, _constants(rare, paused))
    return f"INSERT INTO {{task}} ({_COLUMNS}) {source}", params


def _is_rare(task: NewTask) -> bool:
    return bool(task.name or task.options or task.scheduled_time)


def _rare(dialect: Dialect, task: NewTask) -> tuple[Any, ...]:
    *texts, chosen = task[7:]
    return *texts, chosen and dialect.to_column(chosen)


@cache
def _constants(rare: bool, paused: bool) -> str:
    status = Status.PAUSED if paused else Status.PENDING
    return f"{'' if rare else _NOTHING_RARE}, {status:d}{_CONSTANTS}"


@cache
def _conflict_clause(only_moved: bool, on_conflict: OnConflict, paused: bool) -> str:
    if not only_moved:
        # MySQL and MariaDB: assignments run from left to right and see what came before them.
        sets = _assignments("", lambda column: f"VALUES({column})", paused)
        return f" ON DUPLICATE KEY UPDATE {sets}"
    sets = _assignments("{task}.", lambda column: f"excluded.{column}", paused)
    wanted = _wanted(on_conflict, "{task}.", "excluded.{when}")
    return f" ON CONFLICT (biz_code, biz_num) DO UPDATE SET {sets} WHERE {wanted}"


def _look_then_write(
    dialect: Dialect,
    tasks: Sequence[NewTask],
    on_conflict: OnConflict,
    now: datetime,
    paused: bool,
) -> set[tuple[str, str]]:
    """MySQL, MariaDB, when not everything is to be replaced. Runs inside a transaction.

    Their row count of an upsert cannot tell a new row from one left alone. So the rows that exist
    are locked and looked at first; those that are to move are upserted, the others inserted. Race:
    a key that was absent is inserted by somebody else meanwhile; then our INSERT fails, and we
    look again.
    """
    using = dialect.connection.alias
    there: dict[tuple[str, str], tuple[int, datetime]] | None = None
    while True:
        before, there = there, _locked_rows(dialect, tasks)
        wanted = [task for task in tasks if _moves(task, there.get(task[:2]), on_conflict)]
        new = [task for task in wanted if task[:2] not in there]
        try:
            with write_transaction(using):
                if new:
                    dialect.execute(*_inserting(dialect, new, now, paused))
        except IntegrityError:
            if before is not None and before.keys() == there.keys():
                raise  # it was not about a key
            continue
        if moved := [task for task in wanted if task[:2] in there]:
            _upsert(dialect, moved, OnConflict.REPLACE, now, paused)
        return {task[:2] for task in wanted}


def _locked_rows(
    dialect: Dialect, tasks: Sequence[NewTask]
) -> dict[tuple[str, str], tuple[int, datetime]]:
    """Status and time of the rows that exist, locked; found by the unique key, a code at a time."""
    numbers: dict[str, list[str]] = defaultdict(list)
    for task in tasks:
        numbers[task.biz_code].append(task.biz_num)
    codes = " OR ".join(
        f"(biz_code = %s AND biz_num IN ({placeholders(len(each))}))" for each in numbers.values()
    )
    template = (
        f"SELECT biz_code, biz_num, status, {{when}} FROM {{task}} WHERE {codes}"
        f" ORDER BY biz_code, biz_num{dialect.lock}"
    )
    params = [value for code, each in numbers.items() for value in (code, *each)]
    return {
        (code, number): (status, dialect.from_column(when))
        for code, number, status, when in dialect.fetch(template, params)
    }


def _moves(task: NewTask, there: tuple[int, datetime] | None, on_conflict: OnConflict) -> bool:
    if there is None or there[0] == Status.CANCELLING:
        return True
    return on_conflict is OnConflict.EARLIEST and task.when < there[1]


def _assignments(old: str, new: Callable[[str], str], paused: bool) -> str:
    """The changes of an add in a row that exists.

    ``status`` comes last: MySQL evaluates from left to right, and the counters ask for the old
    one. They stay while the row is owned, where they belong to the run under way.
    """
    owned = f"{old}status IN {OWNED_SQL}"
    return (
        f"attempts = CASE WHEN {owned} THEN {old}attempts ELSE 0 END,"
        f" rescues = CASE WHEN {owned} THEN {old}rescues ELSE 0 END,"
        f" last_error = CASE WHEN {owned} THEN {old}last_error ELSE '' END,"
        f" exception = CASE WHEN {owned} THEN {old}exception ELSE '' END,"
        f" progress = CASE WHEN {owned} THEN {old}progress END,"
        f" biz_ext = {new('biz_ext')}, queue = {new('queue')}, priority = {new('priority')},"
        f" schedule = {new('schedule')}, name = {new('name')}, options = {new('options')},"
        f" scheduled_time = {new('scheduled_time')}, latest_time = NULL,"
        f" update_time = {new('update_time')},"
        f" version = {old}version + 1, {{when}} = {new('{when}')},"
        f" status = {_status_after(old, paused)}"
    )


def _status_after(old: str, paused: bool) -> str:
    if paused:
        return (
            f"CASE WHEN {old}status IN {OWNED_SQL} THEN {Status.PAUSING:d}"
            f" ELSE {Status.PAUSED:d} END"
        )
    return (
        f"CASE {old}status WHEN {Status.FAILED:d} THEN {Status.PENDING:d}"
        f" WHEN {Status.CANCELLING:d} THEN {Status.RUNNING:d} ELSE {old}status END"
    )


def _wanted(on_conflict: OnConflict, old: str, new_when: str) -> str:
    cancelling = f"{old}status = {Status.CANCELLING:d}"
    if on_conflict is OnConflict.REPLACE:
        return "1 = 1"
    if on_conflict is OnConflict.EARLIEST:
        return f"{cancelling} OR {new_when} < {old}{{when}}"
    return cancelling


def _returning_decided(dialect: Dialect) -> str:
    return (
        f" RETURNING {_DECIDED_COLUMNS},"
        f" {dialect.readable('create_time')}, {dialect.readable('claim_time')},"
        f" {dialect.readable('last_run')}"
    )


def _moved(dialect: Dialect, task: NewTask, now: datetime, decided: tuple[Any, ...]) -> Task:
    """The row after an add that took effect, from what was given and what the statement decided.

    To read all of it back took 6 of 157 µs longer on SQLite.
    """
    *facts, created, claimed, last_run = decided
    chosen = task.scheduled_time
    values = {
        **task._asdict(),
        **dict(zip(_DECIDED, facts, strict=True)),
        "when": for_django(dialect.storable(task.when)),
        "create_time": for_django(dialect.from_column(created)),
        "update_time": for_django(now),
        "claim_time": claimed and for_django(dialect.from_column(claimed)),
        "last_run": last_run and for_django(dialect.from_column(last_run)),
        "scheduled_time": chosen and for_django(dialect.storable(chosen)),
        "latest_time": None,
    }
    return _as_task(dialect, values)


def _stored(dialect: Dialect, row: tuple[Any, ...]) -> Task:
    values = dict(zip(_ALL_FIELDS, row, strict=True))
    for name in _TIMES:
        if values[name] is not None:
            values[name] = for_django(dialect.from_column(values[name]))
    return _as_task(dialect, values)


def _as_task(dialect: Dialect, values: dict[str, Any]) -> Task:
    values["biz_ext"] = payloads.decoded(values["biz_ext"])
    values["options"] = options_of_text(values["options"])
    values["progress"] = payload_text.load(values["progress"])
    ordered = [values[name] for name in _ALL_FIELDS]
    return Task.from_db(dialect.connection.alias, _ALL_FIELDS, ordered)
