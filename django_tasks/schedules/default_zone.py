"""The zone of schedules that name none: the project's. Nothing else here knows Django."""

from datetime import tzinfo

from django_tasks.exceptions import TaskTypeError
from django_tasks.schedules.arguments import zone_name
from django_tasks.sentences import sentence as _


def project_zone() -> str | None:
    """The name in ``settings.TIME_ZONE``, as it is now; None where no settings are configured."""
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured

    try:
        name: str = settings.TIME_ZONE
    except ImproperlyConfigured:
        return None
    return name


def zone_or_default(tz: str | tzinfo | None) -> str:
    """The IANA name of ``tz``, or for None that of the project's zone.

    Raises TaskTypeError for what names no zone, and where there are no settings to name one;
    TaskValueError for a zone that is not known.
    """
    named = project_zone() if tz is None else tz
    if named is None:
        raise TaskTypeError(
            "tz", tz, _("is missing, and there is no settings.TIME_ZONE to stand in")
        )
    return zone_name(named)
