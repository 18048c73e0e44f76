"""The rows of handlers that run on each host: their numbers and their queues. No Django.

A row a host, which only the workers of that host claim: it waits in a queue of its own, so the
statement that claims needs no word about hosts.
"""

from hashlib import sha256

from django_tasks.values.keys import QUEUE_LENGTH, SCHEDULE_NUM

_NUMBER = f"{SCHEDULE_NUM}:"
_QUEUE = "@host:"
_LONGEST = QUEUE_LENGTH - len(_QUEUE)
_DIGITS = 8


def number_of(host: str) -> str:
    """The number of a host's row: ``@schedule:web-1``."""
    return _NUMBER + _label(host)


def queue_of(host: str) -> str:
    """The queue of the rows of a host: ``@host:web-1``."""
    return _QUEUE + _label(host)


def is_of_a_host(queue: str) -> bool:
    """Tell if only the workers of one host serve this queue."""
    return queue.startswith(_QUEUE)


def number_in(queue: str) -> str:
    """The number of the rows that wait in a host's queue."""
    return _NUMBER + queue.removeprefix(_QUEUE)


def is_schedule_num(biz_num: str) -> bool:
    """Tell if a row with this number belongs to the schedule of its handler."""
    return biz_num == SCHEDULE_NUM or biz_num.startswith(_NUMBER)


def _label(host: str) -> str:
    """The name of a host, shortened to what a queue can hold; names that differ stay different."""
    if len(host) <= _LONGEST:
        return host
    digest = sha256(host.encode()).hexdigest()[:_DIGITS]
    return f"{host[: _LONGEST - _DIGITS - 1]}~{digest}"
