"""What other code can listen to. Every receiver gets ``using``, the database alias.

A receiver that raises is logged by Django (logger ``django.dispatch``) and harms nothing.
``task`` is the stored ``Task`` where a caller changed it, and the ``RunningTask`` that the handler
got where a worker ran it; both have the same field names.

=================  =============  =======================================================
signal             sender         further arguments
=================  =============  =======================================================
task_added         ``Task``       ``task``; sent at the add, inside its transaction
task_cancelled     ``Task``       ``biz_code``, ``biz_num``, ``result``
tasks_cancelled    ``Task``       ``biz_code``, ``biz_num``, ``match``, ``count``: given to, and by,
                                  ``delete_tasks``
task_changed       ``Task``       ``biz_code``, ``biz_num``, ``change``: "rescheduled", "due now",
                                  "paused", "resumed", "requeued"
tasks_paused       ``Pause``      ``biz_code``, ``queue``; an empty one means any
tasks_resumed      ``Pause``      ``biz_code``, ``queue``
task_started       handler class  ``task``
task_succeeded     handler class  ``task``, ``seconds``: the handler is done, its row goes
task_rescheduled   handler class  ``task``, ``seconds``, ``when``: the next time, aware UTC
task_retried       handler class  ``task``, ``seconds``, ``when``, ``exception``
task_failed        handler class  ``task``, ``seconds``, ``exception``: the last attempt failed;
                   or None        from a rescuer: ``exception`` None, ``error`` says why
task_missed        handler class  ``task``, ``lateness`` in seconds, ``action``: "coalesce" (it runs
                                  for the last of several missed times), "overrun" (times passed
                                  while it ran or was tried again), "catch_up" (more passed than
                                  its ``catch_up``), "run", "skip", "fail"
task_stuck         handler class  ``task``, ``seconds``: it has been running for, more than its
                                  timeout; sent once, from a thread of its own
task_lost          ``None``       ``task``: the end of a run was refused, its row had gone on
task_rescued       ``None``       ``worker_id`` (of the dead), ``count``
worker_started     ``None``       ``worker_id``, ``name``
worker_stopped     ``None``       ``worker_id``, ``name``
=================  =============  =======================================================

The signals of a run are sent from the thread that ran it, when the handler has ended and before
its end is written; a run whose end is then refused sends ``task_lost`` as well. An ``atomic`` run
sends its signals after its transaction was committed.
"""

import logging
from typing import Any

from django.dispatch import Signal

task_added = Signal()
task_cancelled = Signal()
tasks_cancelled = Signal()
task_changed = Signal()
tasks_paused = Signal()
tasks_resumed = Signal()
task_started = Signal()
task_succeeded = Signal()
task_rescheduled = Signal()
task_retried = Signal()
task_failed = Signal()
task_missed = Signal()
task_stuck = Signal()
task_lost = Signal()
task_rescued = Signal()
worker_started = Signal()
worker_stopped = Signal()


def tell(signal: Signal, sender: Any, **facts: Any) -> None:
    """Send a signal; whatever a receiver raises ends here, even SystemExit."""
    try:
        signal.send_robust(sender, **facts)
    except BaseException:
        logging.getLogger("django_tasks").exception("A receiver of a signal failed")
