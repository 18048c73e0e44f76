"""Times at which a task runs again, as values and as text.

No Django, but for the zone of those that name none: ``settings.TIME_ZONE``. Each answers
``next_after(previous, now)``, the first fire strictly later than ``now``, and is the same value
again after ``parse(str(schedule))``.
"""

from django_tasks.schedules.accept import as_schedule
from django_tasks.schedules.at import At
from django_tasks.schedules.base import Schedule
from django_tasks.schedules.combined import AllOf, AnyOf
from django_tasks.schedules.cron import Cron
from django_tasks.schedules.every import Every
from django_tasks.schedules.foreign import Foreign
from django_tasks.schedules.missed import missed
from django_tasks.schedules.text import parse
from django_tasks.schedules.triggers import from_apscheduler
from django_tasks.schedules.wall_clock import Fold, Gap

__all__ = [
    "AllOf",
    "AnyOf",
    "At",
    "Cron",
    "Every",
    "Fold",
    "Foreign",
    "Gap",
    "Schedule",
    "as_schedule",
    "from_apscheduler",
    "missed",
    "parse",
]
