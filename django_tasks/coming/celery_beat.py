"""The periodic tasks of django-celery-beat."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django_tasks.coming.crontabs import crontab, written
from django_tasks.coming.found import CannotCome, Found, Left, payload, plan, refuse_paused
from django_tasks.coming.models import rows_of
from django_tasks.exceptions import TaskException
from django_tasks.schedules import At, Every, Schedule
from django_tasks.timezones import aware

KINDS = ("interval", "crontab", "clocked", "solar")


def jobs(using: str | None, now: datetime) -> Iterator[Found | Left]:
    """The periodic tasks as they stand ``now``."""
    rows = rows_of("django_celery_beat", "PeriodicTask", using).select_related(*KINDS)
    for row in rows.order_by("name"):
        try:
            yield _found(row, now)
        except (CannotCome, TaskException) as error:
            yield Left(row.name, str(error))


def _found(row: Any, now: datetime) -> Found:
    if row.task.startswith("celery."):
        raise CannotCome("it is a task of Celery itself")
    if not row.enabled:
        refuse_paused()
    schedule = _schedule(row)
    when = _when(row, schedule, now)
    if when is None or (row.expires and when > aware("expires", row.expires)):
        raise CannotCome("it has expired")
    return Found(
        name=row.name,
        function=row.task,
        when=when,
        schedule=plan(At(when) if row.one_off else schedule, _differs(row)),
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
    raise CannotCome("it follows the sun" if row.solar else "it has no schedule")


def _crontab(entry: Any, **options: Any) -> Schedule:
    """Celery has read the texts: its sets of numbers are what they mean."""
    read = entry.schedule
    return crontab(
        f"{written(entry.minute, read.minute)} {written(entry.hour, read.hour)}",
        written(entry.day_of_month, read.day_of_month),
        written(entry.month_of_year, read.month_of_year),
        written(entry.day_of_week, read.day_of_week),
        str(entry.timezone),
        **options,
    )


def _when(row: Any, schedule: Schedule, now: datetime) -> datetime | None:
    """The next time; one that passed while beat was stopped counts, as it does there."""
    if isinstance(schedule, At):
        return schedule.when
    return schedule.next_after(None, _aware(row.last_run_at) or now)


def _differs(row: Any) -> dict[str, Any]:
    return {} if row.expire_seconds is None else {"grace": float(row.expire_seconds)}


def _notes(row: Any) -> Iterator[str]:
    named = [name for name in ("exchange", "routing_key") if getattr(row, name)]
    if row.headers and row.headers != "{}":
        named.append("headers")
    if named:
        yield f"has no {', '.join(named).replace('_', ' ')} here"


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise CannotCome(f"its arguments are not JSON ({error})") from None


def _aware(moment: datetime | None) -> datetime | None:
    return None if moment is None else aware("time", moment)
