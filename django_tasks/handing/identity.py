"""The name of one call: the same for all tries of one run, and for no other run."""

from datetime import datetime, timezone
from hashlib import sha256
from typing import NamedTuple

from django.db import connections

from django_tasks import payloads
from django_tasks.handlers.running_task import RunningTask
from django_tasks.timezones import aware

# Receivers store names of 191 characters and more; a message of AMQP has 255 bytes for one.
KEY_BYTES = 100
DIGEST_LENGTH = 16


class Call(NamedTuple):
    """The facts by which a run is known: what a retry and a rescue leave as it was, and an add, a
    move or the next run changes.

    ``place`` tells databases apart, of which each numbers its rows from 1.
    """

    place: str
    key: str
    row_id: int
    due: datetime
    payload: str | None

    def __str__(self) -> str:
        begin = self.key.encode(errors="replace")[:KEY_BYTES].decode(errors="ignore")
        due = self.due.astimezone(timezone.utc)
        facts = "\0".join([self.place, self.key, self.payload or ""])
        digest = sha256(facts.encode(errors="replace")).hexdigest()[:DIGEST_LENGTH]
        return f"{begin}:{self.row_id}:{due:%Y%m%dT%H%M%S.%f}Z:{digest}"


def call_of(task: RunningTask) -> Call:
    """The call that a run hands over.

    Race: the task is added again while this run goes on, or after its worker has died. Then its
    time or its payload is another, and so is the call; with both the same, it is the same call.
    """
    return Call(
        place=f"{task.using} {connections[task.using].settings_dict['NAME']}",
        key=f"{task.biz_code}:{task.biz_num}",
        row_id=task.id,
        due=aware("scheduled_time", task.scheduled_time),
        payload=payloads.encoded(task.biz_ext),
    )
