"""Parts of these tests: a broker in memory, what arrives there, and runs of a handler."""

from typing import Any

from celery import Celery

from django_tasks.clock import Tick
from django_tasks.handlers.running_task import RunningTask
from django_tasks.store import claimed_rows
from tests.factories import NOW, a_claim_of

# Found by its dotted path.
app = Celery("tests", broker="memory://", set_as_current=False)
NOT_STARTED: Any = None


def a_run(using: str = "default", **facts: Any) -> RunningTask:
    """A run of a claim with these facts; ``biz_ext`` is JSON text."""
    claimed = a_claim_of(7, NOW)._replace(biz_code="cancel", biz_num="42")._replace(**facts)
    return RunningTask(claimed, using, Tick(NOT_STARTED, 0.0), claimed_rows)


def received(queue: str = "celery", *, of: Celery = app) -> list[Any]:
    """The messages that wait at a broker, taken from it."""
    found = []
    with of.connection_for_read() as connection, connection.SimpleQueue(queue) as waiting:
        while len(waiting):
            message = waiting.get(block=False)
            message.ack()
            found.append(message)
    return found
