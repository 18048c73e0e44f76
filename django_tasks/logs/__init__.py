"""Every sentence that this package logs, and its level. Logger: ``django_tasks``.

One line a task stands at DEBUG (``starttask -v 2``): at tens of thousands of tasks a second it
would be the work itself. Of each code the first successes of a minute are INFO, so that a person
sees that it works; all others are counted, and the counts are INFO. Lines that somebody should
look at are WARNING and above.

Reasons in a line are masked. Tracebacks (``exc_info``) are not: they belong to the project's own
logging, which formats them, and to those whom it lets read them.

A file holds the sentences about one subject; ``lines`` is the way that they all take. Each has the
name of its event and its facts by name, for programs: docs/reference/log-events.rst lists them.
What is imported here under its own name is what the rest of the package calls.
"""

from django_tasks import signals
from django_tasks.handlers import companions
from django_tasks.host import forks
from django_tasks.logs import runs, worker
from django_tasks.logs.database import Reason as Reason
from django_tasks.logs.database import counts_not_written as counts_not_written
from django_tasks.logs.database import database_back as database_back
from django_tasks.logs.database import database_down as database_down
from django_tasks.logs.database import ends_refused as ends_refused
from django_tasks.logs.database import lines_not_written as lines_not_written
from django_tasks.logs.database import metrics_readable as metrics_readable
from django_tasks.logs.database import metrics_unreadable as metrics_unreadable
from django_tasks.logs.database import statement_rejected as statement_rejected
from django_tasks.logs.database import unfit_database as unfit_database
from django_tasks.logs.fields import TaskFilter as TaskFilter
from django_tasks.logs.lines import logger as logger
from django_tasks.logs.lines import send_through as send_through
from django_tasks.logs.processes import child_ended as child_ended
from django_tasks.logs.processes import fork_failed as fork_failed
from django_tasks.logs.processes import health_file_not_written as health_file_not_written
from django_tasks.logs.processes import introduced as introduced
from django_tasks.logs.processes import metrics_failed as metrics_failed
from django_tasks.logs.processes import not_replaced as not_replaced
from django_tasks.logs.processes import probes_answered as probes_answered
from django_tasks.logs.processes import probes_ended as probes_ended
from django_tasks.logs.processes import process_not_started as process_not_started
from django_tasks.logs.processes import retiring as retiring
from django_tasks.logs.processes import second_signal as second_signal
from django_tasks.logs.processes import strange_attribute as strange_attribute
from django_tasks.logs.processes import strange_queue as strange_queue
from django_tasks.logs.processes import supervisor_died as supervisor_died
from django_tasks.logs.runs import backoff_failed as backoff_failed
from django_tasks.logs.runs import batch_failed as batch_failed
from django_tasks.logs.runs import batch_not_settled as batch_not_settled
from django_tasks.logs.runs import commit_hook_failed as commit_hook_failed
from django_tasks.logs.runs import died_after_its_end as died_after_its_end
from django_tasks.logs.runs import end_not_written as end_not_written
from django_tasks.logs.runs import hook_failed as hook_failed
from django_tasks.logs.runs import killing as killing
from django_tasks.logs.runs import loop_interrupted as loop_interrupted
from django_tasks.logs.runs import not_isolated as not_isolated
from django_tasks.logs.runs import not_settled as not_settled
from django_tasks.logs.runs import rescheduled as rescheduled
from django_tasks.logs.runs import run_failed as run_failed
from django_tasks.logs.runs import still_running as still_running
from django_tasks.logs.runs import succeeded as succeeded
from django_tasks.logs.runs import surroundings_changed as surroundings_changed
from django_tasks.logs.runs import took_too_long as took_too_long
from django_tasks.logs.runs import transaction_left as transaction_left
from django_tasks.logs.schedules import host_forgotten as host_forgotten
from django_tasks.logs.schedules import missed as missed
from django_tasks.logs.schedules import release_is_older as release_is_older
from django_tasks.logs.schedules import schedule_kept as schedule_kept
from django_tasks.logs.schedules import schedule_not_here as schedule_not_here
from django_tasks.logs.schedules import schedule_over as schedule_over
from django_tasks.logs.schedules import schedule_replaced as schedule_replaced
from django_tasks.logs.schedules import schedules_not_kept as schedules_not_kept
from django_tasks.logs.schedules import unknown_trigger as unknown_trigger
from django_tasks.logs.schedules import zone_changed as zone_changed
from django_tasks.logs.threads import claims_missing as claims_missing
from django_tasks.logs.threads import companion_failed as companion_failed
from django_tasks.logs.threads import heartbeat_failed as heartbeat_failed
from django_tasks.logs.threads import heartbeat_late as heartbeat_late
from django_tasks.logs.threads import hints_back as hints_back
from django_tasks.logs.threads import hints_lost as hints_lost
from django_tasks.logs.threads import lane_failed as lane_failed
from django_tasks.logs.threads import messages_dropped as messages_dropped
from django_tasks.logs.threads import no_doorbell as no_doorbell
from django_tasks.logs.threads import poller_died as poller_died
from django_tasks.logs.threads import poller_failed as poller_failed
from django_tasks.logs.threads import poller_hangs as poller_hangs
from django_tasks.logs.threads import receiver_failed as receiver_failed
from django_tasks.logs.threads import thread_died as thread_died
from django_tasks.logs.worker import abandoned as abandoned
from django_tasks.logs.worker import asked_to_rest as asked_to_rest
from django_tasks.logs.worker import asked_to_stop as asked_to_stop
from django_tasks.logs.worker import asked_to_work as asked_to_work
from django_tasks.logs.worker import became_active as became_active
from django_tasks.logs.worker import lock_lost as lock_lost
from django_tasks.logs.worker import lock_not_freed as lock_not_freed
from django_tasks.logs.worker import lock_not_renewed as lock_not_renewed
from django_tasks.logs.worker import names_doubted as names_doubted
from django_tasks.logs.worker import no_handler_here as no_handler_here
from django_tasks.logs.worker import no_longer_active as no_longer_active
from django_tasks.logs.worker import not_forgiven as not_forgiven
from django_tasks.logs.worker import not_imported as not_imported
from django_tasks.logs.worker import not_passive as not_passive
from django_tasks.logs.worker import not_rescued as not_rescued
from django_tasks.logs.worker import nothing_is_killed as nothing_is_killed
from django_tasks.logs.worker import paused as paused
from django_tasks.logs.worker import receivers_unheard as receivers_unheard
from django_tasks.logs.worker import resumed as resumed
from django_tasks.logs.worker import search_failed as search_failed
from django_tasks.logs.worker import shares_one_thread as shares_one_thread
from django_tasks.logs.worker import stopping as stopping
from django_tasks.logs.worker import tally as tally
from django_tasks.logs.worker import terms_failed as terms_failed
from django_tasks.logs.worker import total as total
from django_tasks.logs.worker import unknown_code as unknown_code
from django_tasks.logs.worker import worker_failed as worker_failed
from django_tasks.logs.worker import worker_replaced as worker_replaced


def connect() -> None:
    """Listen to the package's own signals. Called once, at ready."""
    for signal, receiver in (*runs.RECEIVERS, *worker.RECEIVERS):
        signal.connect(receiver, dispatch_uid="django_tasks.logs")
    signals.on_failure(receiver_failed)
    forks.on_failure(fork_failed)
    companions.on_failure(companion_failed)
