"""Signals that other code can listen to. Every receiver gets ``using``, the database alias.

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
                                  "paused", "resumed", "requeued", "updated"
tasks_changed      ``Task``       ``change``: as above or "cancelled"; ``which``: what was named,
                                  ``count``: given to, and by, ``cancel_tasks`` and the like
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
                                  its ``catch_up``), "run", "skip", "fail", "replaced" (``task``
                                  is a row: its handler has got another schedule)
task_stuck         handler class  ``task``, ``seconds``: it has been running for, more than its
                                  timeout; sent once, from a thread of its own
task_lost          ``None``       ``task``: the end of a run was refused, its row had gone on
task_rescued       ``None``       ``worker_id`` (of the dead), ``count``, ``tasks``: their keys
worker_started     ``None``       ``worker_id``, ``name``
worker_stopped     ``None``       ``worker_id``, ``name``
=================  =============  =======================================================

The signals of a run are sent from the thread that ran it, when the handler has ended and before
its end is written; a run whose end is then refused sends ``task_lost`` as well. An ``atomic`` run
sends its signals after its transaction was committed.
"""

from collections.abc import Callable
from threading import Lock
from typing import Any

from django.dispatch import Signal

from django_tasks.host import forks

task_added = Signal()
task_cancelled = Signal()
tasks_cancelled = Signal()
task_changed = Signal()
tasks_changed = Signal()
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


# Says that a receiver failed. ``logs``, which stands above this module, puts its function in.
_report: list[Callable[[], None]] = []


_ALL = (
    *(task_added, task_cancelled, tasks_cancelled, task_changed, tasks_changed),
    *(tasks_paused, tasks_resumed),
    *(task_started, task_succeeded, task_rescheduled, task_retried, task_failed, task_missed),
    *(task_stuck, task_lost, task_rescued, worker_started, worker_stopped),
)


@forks.in_child
def _renew_locks() -> None:
    """Give each signal a lock that no thread of the parent holds: Django takes it to send one."""
    for signal in _ALL:
        signal.lock = Lock()


def tell(signal: Signal, sender: Any, **facts: Any) -> None:
    """Send a signal; whatever a receiver raises ends here, even SystemExit."""
    try:
        signal.send_robust(sender, **facts)
    except BaseException:  # noqa: BLE001 - Django catches Exception, receivers raise others too
        for report in _report:
            report()


def on_failure(report: Callable[[], None]) -> None:
    """Have ``report`` called, with the exception at hand, when a receiver fails in ``tell``."""
    _report[:] = [report]
