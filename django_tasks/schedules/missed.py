"""Times that should have run in the meantime."""

from datetime import datetime, timedelta

from django_tasks.schedules.arguments import utc
from django_tasks.schedules.base import Schedule
from django_tasks.values.amounts import whole_number
from django_tasks.values.options import MOST_MISSED

# Seeing a few times more fires than wanted costs less than another attempt to see fewer.
SLACK = 4


def missed(schedule: Schedule, first: datetime, now: datetime, most: int) -> list[datetime]:
    """The last ``most`` fires t with first < t <= now, aware UTC, oldest first.

    ``first`` is the last intended time: intervals without a start count from there. It takes time
    for ``most`` fires, however many there were: this looks further and further back from ``now``
    until it sees enough, and less far again if those are too many.
    """
    first, now = utc("first", first), utc("now", now)
    if not whole_number("most", most, 0, MOST_MISSED) or first >= now:
        return []

    def fires_since(moment: datetime) -> list[datetime]:
        return _fires(schedule, first, moment, now, SLACK * most + 1)

    reach = timedelta(seconds=1)
    since, nearer = _back(now, reach, first), now
    while len(found := fires_since(since)) < most and since > first:
        reach *= 2
        since, nearer = _back(now, reach, first), since
    while len(found) > SLACK * most:
        middle = since + (nearer - since) / 2
        fewer = fires_since(middle)
        if len(fewer) < most:
            nearer = middle
        else:
            since, found = middle, fewer
    return found[-most:]


def _back(now: datetime, reach: timedelta, first: datetime) -> datetime:
    return first if now - first <= reach else now - reach


def _fires(
    schedule: Schedule, first: datetime, since: datetime, now: datetime, limit: int
) -> list[datetime]:
    found: list[datetime] = []
    while len(found) < limit:
        fire = schedule.next_after(first, since)
        if fire is None or fire > now:
            break
        found.append(fire)
        since = fire
    return found
