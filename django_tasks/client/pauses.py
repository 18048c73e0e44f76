"""Pausing a whole code, a queue, or everything. See ``django_tasks.api``."""

from asgiref.sync import sync_to_async

from django_tasks import logs, signals
from django_tasks.client.arguments import check_code, check_queue
from django_tasks.client.doubts import doubts
from django_tasks.models import Pause
from django_tasks.store import clock, pauses
from django_tasks.store.aliases import read_alias, write_alias
from django_tasks.store.pauses import Scope
from django_tasks.values.keys import check_name
from django_tasks.wakeup.doorbell import MOST_WOKEN
from django_tasks.wakeup.wake import LONG_AGO, wake_workers


def pause_tasks(
    *, biz_code: str = "", queue: str = "", by: str = "", using: str | None = None
) -> bool:
    """Start no task of ``biz_code``, of ``queue``, of that code in that queue, or (both empty) any.

    ``by`` says who or what has paused it, in up to 200 characters, for those who read ``paused``.

    True if it changed something, False if exactly this was paused already. It holds until
    ``resume_tasks`` for every worker of the database, whenever it starts. Tasks that a worker has
    claimed go on, as do adds and cancels; the rows stay PENDING. Atomic, and part of the caller's
    transaction on ``using`` (default: what the router says for writes): it takes effect with the
    commit. A name that no handler and no task has is told in the log. Raises TaskValueError or
    TaskTypeError for a bad name, UnknownDatabase for a bad alias.
    """
    alias = write_alias(using)
    scope, author = _scope(queue, biz_code), check_name(by, "by")
    changed = pauses.set_pause(scope, clock.now(alias), author, using=alias)
    if changed:
        logs.names_doubted(doubts(biz_code, queue, using=alias), biz_code, queue)
        signals.tasks_paused.send_robust(Pause, biz_code=biz_code, queue=queue, using=alias)
    return changed


def resume_tasks(*, biz_code: str = "", queue: str = "", using: str | None = None) -> bool:
    """Undo the ``pause_tasks`` of the same arguments; False if that changed nothing.

    A task that another pause covers as well goes on waiting. What has become due meanwhile is late
    from now on: see ``misfire_grace_time``. Atomic, part of the caller's transaction, and the
    errors are those of ``pause_tasks``. Workers hear of it and look.
    """
    alias = write_alias(using)
    scope = _scope(queue, biz_code)
    changed = pauses.unset_pause(scope, clock.now(alias), using=alias)
    if changed:
        signals.tasks_resumed.send_robust(Pause, biz_code=biz_code, queue=queue, using=alias)
        # Many may be due, and nobody has counted them.
        wake_workers(LONG_AGO, alias, MOST_WOKEN)
    return changed


def paused(*, using: str | None = None) -> list[Pause]:
    """The pauses now, the widest first; empty if nothing is paused."""
    return pauses.pauses(using=read_alias(using))


apause_tasks = sync_to_async(pause_tasks)
aresume_tasks = sync_to_async(resume_tasks)
apaused = sync_to_async(paused)


def _scope(queue: str, biz_code: str) -> Scope:
    return Scope(
        queue if queue == "" else check_queue(queue),
        biz_code if biz_code == "" else check_code(biz_code),
    )
