"""The periodic tasks of django-celery-beat."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django_tasks.exceptions import TaskException
from django_tasks.importers.dialects import from_crontab
from django_tasks.importers.found import CannotCome, Found, Left, next_time, payload, rows_of
from django_tasks.schedules import At, Every, Schedule
from django_tasks.sentences import said
from django_tasks.sentences import sentence as _
from django_tasks.timezones import aware
from django_tasks.values.options import TaskOptions

KINDS = ("interval", "crontab", "clocked", "solar")


def jobs(using: str | None, now: datetime) -> Iterator[Found | Left]:
    """The periodic tasks as they stand ``now``."""
    rows = rows_of("django_celery_beat", "PeriodicTask", using).select_related(*KINDS)
    for row in rows.order_by("name"):
        try:
            yield _found(row, now)
        except (CannotCome, TaskException) as error:
            yield Left(row.name, said(error))
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            yield Left(row.name, _("it cannot be read (%(error)r)", error=error))


def _found(row: Any, now: datetime) -> Found:
    if row.task.startswith("celery."):
        raise CannotCome(_("it is a task of Celery itself"))
    schedule = _schedule(row)
    # One that passed while beat was stopped counts, as it does there.
    when = next_time(schedule, _aware(row.last_run_at) or now)
    if row.expires and when > aware("expires", row.expires):
        raise CannotCome(_("it has expired"))
    return Found(
        name=row.name,
        function=row.task,
        when=when,
        schedule=At(when) if row.one_off else schedule,
        options=TaskOptions(misfire_grace_time=row.expire_seconds),
        is_paused=not row.enabled,
        payload=payload(_json(row.args or "[]"), _json(row.kwargs or "{}")),
        queue=row.queue or "",
        priority=row.priority,
        notes=tuple(_notes(row)),
    )


def _schedule(row: Any) -> Schedule:
    window = {"start": _aware(row.start_time), "end": _aware(row.expires)}
    if row.clocked:
        return At(aware("clocked_time", row.clocked.clocked_time))
    if row.interval:
        beats = [moment for moment in (_aware(row.last_run_at), window["start"]) if moment]
        step = timedelta(**{row.interval.period: row.interval.every})
        return Every(step, start=max(beats, default=None), end=window["end"])
    if row.crontab:
        return _crontab(row.crontab, **window)
    raise CannotCome(_("it follows the sun") if row.solar else _("it has no schedule"))


def _crontab(entry: Any, **options: Any) -> Schedule:
    fields = (entry.minute, entry.hour, entry.day_of_month, entry.month_of_year, entry.day_of_week)
    text = " ".join("".join(field.split()) for field in fields)
    return from_crontab(text, "celery", str(entry.timezone), **options)


def _notes(row: Any) -> Iterator[str]:
    named = [name for name in ("exchange", "routing_key") if getattr(row, name)]
    if row.headers and row.headers != "{}":
        named.append("headers")
    if named:
        yield _("has no %(names)s here", names=", ".join(named).replace("_", " "))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CannotCome(_("its arguments are not JSON (%(error)s)", error=error)) from None


def _aware(moment: datetime | None) -> datetime | None:
    return None if moment is None else aware("time", moment)
