"""The Celery application of both sides, with what `the page <handing-over.rst>`_ asks for.

``HANDED_BROKER`` is its broker's URL, ``HANDED_QUEUE`` the queue of one play.
"""

import os
from typing import Any

from celery import Celery

from tests.faults import journal

app = Celery("handed", broker=os.environ["HANDED_BROKER"], set_as_current=False)
app.conf.update(
    task_default_queue=os.environ["HANDED_QUEUE"],
    broker_transport_options={"confirm_publish": True},
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=4,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
)


@app.task(name="handed", bind=True)
def handed(self: Any, nonce: str) -> None:
    """The effect: a line in the journal, before the message is acknowledged."""
    journal.write("arrived", id=self.request.id, nonce=nonce)
