"""Many lanes: a queue for each customer, most of them with one task for another day.

The functions are commands of the steward. Tasks for another day are in no journal: one that ran all
the same would be unfounded.
"""

from datetime import datetime, timedelta, timezone
from random import Random
from threading import Event
from time import monotonic

from tests.faults.client import a_client

CODE = "plain"
# Of the numbers of tasks for another day, in lanes that stay.
WAITING = "later-"
PRIORITIES = 2
# Lanes that one call adds to.
AT_ONCE = 500
VISITORS_AT_ONCE = 25

_never = Event()


def add_lanes(count: int) -> int:
    """Add a task for another day to each of so many queues."""
    from django_tasks import api

    day = datetime.now(timezone.utc) + timedelta(days=1)
    tasks = [
        api.Task(
            biz_code=CODE,
            biz_num=f"{WAITING}{number}",
            when=day + timedelta(seconds=number),
            queue=_customer(number),
            priority=number % PRIORITIES,
            biz_ext={"nonce": "of another day", "hop": 0},
        )
        for number in range(count)
    ]
    for first in range(0, count, AT_ONCE):
        api.add_tasks(tasks[first : first + AT_ONCE])
    return len(tasks)


def visit_lanes(seed: int, count: int, lanes: int, seconds: float) -> int:
    """Add tasks that are due soon, spread over some seconds.

    Half of them to lanes that hold one for another day, half to lanes that are empty before and
    afterwards.
    """
    random, since = Random(seed), monotonic()
    for first in range(0, count, VISITORS_AT_ONCE):
        numbers = range(first, min(first + VISITORS_AT_ONCE, count))
        keys = [(CODE, f"visitor-{seed}-{number}") for number in numbers]
        queues = [
            _customer(random.randrange(lanes)) if number % 2 else f"visitor-{number}"
            for number in numbers
        ]
        a_client().add_to_queues(keys, queues)
        ahead = seconds * (first + len(numbers)) / count - (monotonic() - since)
        _never.wait(max(0.0, ahead))
    return count


def cancel_lanes() -> int:
    """Cancel all tasks for another day."""
    from django_tasks import api

    return api.delete_tasks(CODE, WAITING, match="prefix")


def _customer(number: int) -> str:
    return f"customer-{number}"
