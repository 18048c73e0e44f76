"""Triggers of APScheduler 3 as schedules. Nothing of APScheduler is imported here."""

from django_tasks.exceptions import TaskException
from django_tasks.importers.found import CannotCome
from django_tasks.schedules import Schedule, from_apscheduler
from django_tasks.sentences import sentence as _


def schedule_of(trigger: object) -> Schedule:
    """The schedule that fires as ``trigger`` does; CannotCome if there is none."""
    try:
        return from_apscheduler(trigger)
    except TaskException as error:
        raise CannotCome(
            _("its trigger %(trigger)s: %(error)s", trigger=trigger, error=error)
        ) from None
