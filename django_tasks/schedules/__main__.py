"""Times of a schedule: ``python -m django_tasks.schedules "cron 0 9 * * 1-5 Europe/Berlin"``."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from itertools import islice

from django_tasks.exceptions import TaskException
from django_tasks.schedules import Schedule
from django_tasks.schedules.arguments import utc, zone
from django_tasks.schedules.policies import as_plan
from django_tasks.values.amounts import whole_number

MOST = 1000


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the text as a row keeps it and its next times; 2 for one that cannot be."""
    options = _options(arguments)
    try:
        plan = as_plan(options.schedule)
        after = utc("after", options.after or datetime.now(timezone.utc))
        shown = zone(options.tz) if options.tz else plan.schedule._zone() or timezone.utc
        count = whole_number("count", options.count, 1, MOST)
    except TaskException as error:
        sys.stderr.write(f"{error}\n")
        return 2
    times = [fire.astimezone(shown) for fire in islice(_fires(plan.schedule, after), count)]
    sys.stdout.write("".join(f"{line}\n" for line in (plan, *times)))
    return 0


def _fires(schedule: Schedule, after: datetime) -> Iterator[datetime]:
    fire = schedule.next_after(None, after)
    while fire is not None:
        yield fire
        fire = schedule.next_after(fire, fire)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m django_tasks.schedules", description=__doc__)
    add = parser.add_argument
    add("schedule", help="as in a task's schedule column, policies too")
    add("--count", type=int, default=5, help=f"the number of its next times to print, 1 to {MOST}")
    add("--after", type=datetime.fromisoformat, help="a time with its offset; by default now")
    add("--tz", help="the zone to show them in; by default that of the schedule, or else UTC")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
