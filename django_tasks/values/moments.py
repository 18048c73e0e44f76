"""The range of times that every supported database can store."""

from datetime import datetime, timedelta, timezone

from django_tasks.sentences import sentence as _

# MySQL's DATETIME begins here; every other supported database goes further back.
EARLIEST = datetime(1000, 1, 2, tzinfo=timezone.utc)
# A day less than the last, so that no time zone can carry it out of the range.
LATEST = datetime.max.replace(tzinfo=timezone.utc) - timedelta(days=1)
OUT_OF_RANGE = _("is out of the databases' range, years 1000 to 9999")
