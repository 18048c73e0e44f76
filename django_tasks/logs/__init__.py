"""Every sentence that this package logs, and its level. Logger: ``django_tasks``.

One line a task stands at DEBUG (``starttask -v 2``): at tens of thousands of tasks a second it
would be the work itself. Of each code the first successes of a minute are INFO, so that a person
sees that it works; all others are counted, and the counts are INFO. Lines that somebody should
look at are WARNING and above.

Reasons in a line are masked. Tracebacks (``exc_info``) are not: they belong to the project's own
logging, which formats them, and to those whom it lets read them.

A file holds the sentences about one subject; ``lines`` is the way that they all take. Each has the
name of its event and its facts by name, for programs: docs/reference/log-events.rst lists them.
"""

from django_tasks import signals
from django_tasks.handlers import companions
from django_tasks.host import forks
from django_tasks.logs import runs, worker
from django_tasks.logs.clients import no_handler_here
from django_tasks.logs.database import (
    Reason,
    counts_not_written,
    database_back,
    database_down,
    ends_refused,
    lines_not_written,
    metrics_readable,
    metrics_unreadable,
    statement_rejected,
    unfit_database,
)
from django_tasks.logs.fields import TaskFilter
from django_tasks.logs.lines import logger, send_through
from django_tasks.logs.locks import lock_lost, lock_not_freed, lock_not_renewed
from django_tasks.logs.processes import (
    child_ended,
    fork_failed,
    health_file_not_written,
    introduced,
    metrics_failed,
    not_replaced,
    probes_answered,
    probes_ended,
    process_not_started,
    retiring,
    second_signal,
    strange_attribute,
    strange_queue,
    supervisor_died,
)
from django_tasks.logs.runs import (
    backoff_failed,
    batch_failed,
    batch_not_settled,
    commit_hook_failed,
    died_after_its_end,
    end_not_written,
    hook_failed,
    killing,
    loop_interrupted,
    not_isolated,
    not_settled,
    rescheduled,
    run_failed,
    still_running,
    succeeded,
    surroundings_changed,
    took_too_long,
    transaction_left,
)
from django_tasks.logs.schedules import (
    host_forgotten,
    missed,
    release_is_older,
    schedule_kept,
    schedule_not_here,
    schedule_over,
    schedule_replaced,
    schedules_not_kept,
    unknown_trigger,
)
from django_tasks.logs.sticky import became_active, no_longer_active, not_passive, terms_failed
from django_tasks.logs.threads import (
    claims_missing,
    companion_failed,
    heartbeat_failed,
    heartbeat_late,
    lane_failed,
    messages_dropped,
    poller_died,
    poller_failed,
    poller_hangs,
    receiver_failed,
    thread_died,
)
from django_tasks.logs.wakeup import hints_back, hints_lost, no_doorbell
from django_tasks.logs.worker import (
    abandoned,
    asked_to_rest,
    asked_to_stop,
    asked_to_work,
    not_forgiven,
    not_imported,
    not_rescued,
    nothing_is_killed,
    paused,
    receivers_unheard,
    resumed,
    search_failed,
    shares_one_thread,
    stopping,
    tally,
    total,
    unknown_code,
    worker_failed,
    worker_replaced,
)

__all__ = [
    "Reason",
    "TaskFilter",
    "abandoned",
    "asked_to_rest",
    "asked_to_stop",
    "asked_to_work",
    "backoff_failed",
    "batch_failed",
    "batch_not_settled",
    "became_active",
    "child_ended",
    "claims_missing",
    "commit_hook_failed",
    "companion_failed",
    "connect",
    "counts_not_written",
    "database_back",
    "database_down",
    "died_after_its_end",
    "end_not_written",
    "ends_refused",
    "health_file_not_written",
    "heartbeat_failed",
    "heartbeat_late",
    "hints_back",
    "hints_lost",
    "hook_failed",
    "host_forgotten",
    "introduced",
    "killing",
    "lane_failed",
    "lines_not_written",
    "lock_lost",
    "lock_not_freed",
    "lock_not_renewed",
    "logger",
    "loop_interrupted",
    "messages_dropped",
    "metrics_failed",
    "metrics_readable",
    "metrics_unreadable",
    "missed",
    "no_doorbell",
    "no_handler_here",
    "no_longer_active",
    "not_forgiven",
    "not_imported",
    "not_isolated",
    "not_passive",
    "not_replaced",
    "not_rescued",
    "not_settled",
    "nothing_is_killed",
    "paused",
    "poller_died",
    "poller_failed",
    "poller_hangs",
    "probes_answered",
    "probes_ended",
    "process_not_started",
    "receivers_unheard",
    "release_is_older",
    "rescheduled",
    "resumed",
    "retiring",
    "run_failed",
    "schedule_kept",
    "schedule_not_here",
    "schedule_over",
    "schedule_replaced",
    "schedules_not_kept",
    "search_failed",
    "second_signal",
    "send_through",
    "shares_one_thread",
    "statement_rejected",
    "still_running",
    "stopping",
    "strange_attribute",
    "strange_queue",
    "succeeded",
    "supervisor_died",
    "surroundings_changed",
    "tally",
    "terms_failed",
    "thread_died",
    "took_too_long",
    "total",
    "transaction_left",
    "unfit_database",
    "unknown_code",
    "unknown_trigger",
    "worker_failed",
    "worker_replaced",
]


def connect() -> None:
    """Listen to the package's own signals. Called once, at ready."""
    for signal, receiver in (*runs.RECEIVERS, *worker.RECEIVERS):
        signal.connect(receiver, dispatch_uid="django_tasks.logs")
    signals.on_failure(receiver_failed)
    forks.on_failure(fork_failed)
    companions.on_failure(companion_failed)
