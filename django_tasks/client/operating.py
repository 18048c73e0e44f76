"""Wishes of those who operate the workers: to one worker, and limits of a code.

See ``django_tasks.api``.
"""

from asgiref.sync import sync_to_async

from django_tasks import logs
from django_tasks.client.arguments import check_code
from django_tasks.client.doubts import doubts
from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.sentences import sentence as _
from django_tasks.store import gates, workers
from django_tasks.store.aliases import read_alias, write_alias
from django_tasks.store.gates import Limits
from django_tasks.values.amounts import whole_number
from django_tasks.values.limits import as_limit
from django_tasks.values.status import WorkerWish
from django_tasks.wakeup.doorbell import MOST_WOKEN
from django_tasks.wakeup.wake import LONG_AGO, wake_workers

MOST_ID = 2**63 - 1


def ask_worker(worker_id: int, wish: WorkerWish | str, *, using: str | None = None) -> bool:
    """Ask a worker for something; False if it is gone.

    "quiet": it claims nothing more, gives back what has not started, lets what runs end, and lives
    on; "": it works again; "stop": it ends when nothing runs in it any more, and is not replaced.
    ``worker_id`` is the ``id`` of its row. It hears of it with its next heartbeat, a third of its
    lease from now at most; a stop that it has heard of cannot be taken back. A worker that is taken
    for dead meanwhile joins again under another id. Atomic, and part of the caller's transaction,
    which must not last: the worker's next heartbeat waits for it, and its lease does not. Raises
    TaskTypeError or TaskValueError for a bad value, UnknownDatabase for a bad alias.
    """
    alias = write_alias(using)
    number = whole_number("worker_id", worker_id, 1, MOST_ID)
    return workers.set_wish(number, _checked_wish(wish), using=alias)


def set_limits(
    biz_code: str,
    *,
    max_running: int | None = None,
    rate_limit: str | None = None,
    using: str | None = None,
) -> bool:
    """Set limits of a code for all workers, in place of those of its handler; True if some changed.

    Both are set at once: None for one of them stands for the handler's own, and None for both
    removes what was set. The values are those of a handler's ``max_running`` and ``rate_limit``.
    They hold until they are set again, whatever starts and ends, from the commit on: for a code
    that had no limit before, when each worker has sent its next heartbeat. What was claimed before
    goes on. Atomic, and part of the caller's transaction. Raises TaskTypeError or TaskValueError
    for a bad value, UnknownDatabase for a bad alias.
    """
    alias, code = write_alias(using), check_code(biz_code)
    changed = gates.set_limits(code, _checked_limits(max_running, rate_limit), using=alias)
    if changed:
        logs.names_doubted(doubts(code, None, using=alias), code)
        # Many may be due that a limit has kept waiting, and nobody has counted them. What is
        # narrower now is heard of sooner, too.
        wake_workers(LONG_AGO, alias, MOST_WOKEN)
    return changed


def limits(*, using: str | None = None) -> dict[str, Limits]:
    """The limits that were set by ``set_limits``: code → (``max_running``, ``rate_limit``).

    None: its handler's own holds.
    """
    return gates.limits(using=read_alias(using))


aask_worker = sync_to_async(ask_worker)
aset_limits = sync_to_async(set_limits)
alimits = sync_to_async(limits)


def _checked_wish(wish: WorkerWish | str) -> str:
    if not isinstance(wish, str):
        raise TaskTypeError(
            "wish", wish, _("must be a string, not %(name)s", name=type(wish).__name__)
        )
    if wish not in WorkerWish.values:
        raise TaskValueError("wish", wish, _("must be 'quiet', 'stop' or '' (work)"))
    return str(WorkerWish(wish).value)


def _checked_limits(max_running: int | None, rate_limit: str | None) -> Limits:
    limit = as_limit(max_running, rate_limit)
    text = None if rate_limit is None else str.__str__(rate_limit)
    return None if limit is None else limit.max_running, text
