"""Job stores of APScheduler 3: its table in any database, and that of django-apscheduler.

A job stands there as a pickle of its state, a dict.
"""

import pickle  # noqa: TID251 - what APScheduler writes is nothing else; read only if it is trusted
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from django_tasks.exceptions import TaskException
from django_tasks.importers.found import (
    CannotCome,
    Found,
    Left,
    StoreError,
    next_time,
    payload,
    rows_of,
)
from django_tasks.redaction import BAD_URL, masked
from django_tasks.schedules import Schedule, from_apscheduler
from django_tasks.sentences import said
from django_tasks.sentences import sentence as _
from django_tasks.values.options import TaskOptions


def schedule_of(trigger: object) -> Schedule:
    """The schedule that fires as ``trigger`` does; CannotCome if there is none."""
    try:
        return from_apscheduler(trigger)
    except TaskException as error:
        raise CannotCome(
            _("its trigger %(trigger)s: %(error)s", trigger=trigger, error=error)
        ) from None


# A job's id and its pickled state, which the driver may wrap.
Pickled = tuple[str, Any]

NOT_TRUSTED = _(
    "APScheduler keeps its jobs as pickles, and reading a pickle runs the "
    "code that its writer has put into it: if nobody else could write to "
    "that store, say --trust-pickles"
)


def jobs(pickled: Iterator[Pickled], now: datetime) -> Iterator[Found | Left]:
    """The jobs of a store that is trusted, as they stand ``now``."""
    for name, data in pickled:
        try:
            yield _found(name, _state(data), now)
        except (CannotCome, TaskException) as error:
            yield Left(name, said(error))
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            yield Left(name, _("it cannot be read (%(error)r)", error=error))


def in_django(using: str | None) -> Iterator[Pickled]:
    """The jobs in the tables of django-apscheduler."""
    for row in rows_of("django_apscheduler", "DjangoJob", using).order_by("id"):
        yield row.id, row.job_state


def in_sqlalchemy(url: str, table: str) -> Iterator[Pickled]:
    """The jobs in a table of SQLAlchemyJobStore."""
    try:
        sqlalchemy: Any = import_module("sqlalchemy")
    except ImportError:
        raise StoreError(_("Its store is read with SQLAlchemy: pip install sqlalchemy")) from None
    columns = sqlalchemy.column("id"), sqlalchemy.column("job_state")
    query = sqlalchemy.select(*columns).select_from(sqlalchemy.table(table)).order_by(columns[0])
    with _connection(sqlalchemy, url) as connection:
        for row in connection.execute(query):
            yield row.id, row.job_state


@contextmanager
def _connection(sqlalchemy: Any, url: str) -> Iterator[Any]:
    """A connection to a database that exists: SQLite would make an empty one."""
    engine = None
    try:
        address = sqlalchemy.make_url(url)
        if "@" in (address.host or ""):  # of a password; the driver would name this host
            raise ValueError
        engine = sqlalchemy.create_engine(address)
        if engine.dialect.name == "sqlite" and not Path(address.database or "").is_file():
            raise StoreError(_("--url: there is no file %(database)s", database=address.database))
        with engine.connect() as connection:
            yield connection
    except (sqlalchemy.exc.SQLAlchemyError, ImportError) as error:
        line = masked(str(error).partition("\n")[0])
        raise StoreError(_("--url: %(error)s", error=line)) from None
    except ValueError:
        raise StoreError(_("--url: %(error)s", error=BAD_URL)) from None
    finally:
        if engine is not None:
            engine.dispose()


def _state(data: Any) -> dict[str, Any]:
    try:
        state = pickle.loads(bytes(data))  # noqa: S301 - the user trusts them, and has said so
    except Exception as error:  # noqa: BLE001 - a pickle may raise anything
        reason = _("%(name)s: %(error)s", name=type(error).__name__, error=error)
        raise CannotCome(_("its pickle cannot be read (%(reason)s)", reason=reason)) from None
    if not isinstance(state, dict) or not isinstance(state.get("func"), str):
        raise CannotCome(_("its pickle is not the state of a job"))
    return state


def _found(name: str, state: dict[str, Any], now: datetime) -> Found:
    schedule, when = schedule_of(state["trigger"]), state.get("next_run_time")
    return Found(
        name=name,
        function=state["func"],
        when=next_time(schedule, now) if when is None else when,
        schedule=schedule,
        payload=payload(state["args"], state["kwargs"]),
        # What is as usual here is not said.
        options=TaskOptions(
            misfire_grace_time=state.get("misfire_grace_time"),
            coalesce=None if state.get("coalesce", True) else False,
        ),
        is_paused=when is None,
        notes=tuple(_notes(state)),
    )


def _notes(state: dict[str, Any]) -> Iterator[str]:
    if (most := state.get("max_instances", 1)) > 1:
        yield _("runs once at a time, not %(most)s times", most=most)
    if (executor := state.get("executor", "default")) != "default":
        yield _("has no executor %(executor)r: give its handler a queue", executor=executor)
