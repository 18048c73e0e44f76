"""The rows of handlers that run on each host, as time goes by: which hosts are still there.

A host's workers touch its rows. Nobody plans anything here: a row that a client has cancelled stays
away until a worker starts.
"""

from collections.abc import Collection
from datetime import datetime, timedelta

from django.db.models import Q

from django_tasks import logs, signals
from django_tasks.handlers.registry import get_task_handlers, terms_for
from django_tasks.models import Task
from django_tasks.store import control, lanes, search
from django_tasks.store.control import CancelResult
from django_tasks.values.hosts import is_of_a_host, number_of
from django_tasks.worker.config import WorkerConfig

# How often a host's rows are touched. After this time without a touch, the host has gone.
TOUCH_EVERY = timedelta(minutes=10)
HOST_IS_GONE = timedelta(days=1)


def are_wanted() -> bool:
    """Tell if there are handlers that run on each host."""
    return any(terms_for(code).each_host for code in get_task_handlers())


def attend(now: datetime, config: WorkerConfig) -> None:
    """Touch the rows of this host, and remove those of hosts that have gone. Errors pass.

    Not at the start: after a long maintenance all hosts start, and none has touched its rows.
    """
    touched = [code for code in get_task_handlers() if _runs_here(code, config)]
    if touched:
        # The count decides nothing: a row that has gone stays away, and one that is owned is fresh.
        here = Q(biz_code__in=touched, biz_num=number_of(config.host))
        control.in_order(here, control.alter, {}, now, using=config.using)
    _forget_others(now - HOST_IS_GONE, config)


def _runs_here(biz_code: str, config: WorkerConfig) -> bool:
    terms = terms_for(biz_code)
    return terms.each_host and config.serves(terms.queue, biz_code)


def _forget_others(before: datetime, config: WorkerConfig) -> None:
    """Remove the rows of hosts whose workers have not touched them since ``before``.

    Race: such a host comes back. It touches its row just before, or makes it again.
    """
    using, own = config.using, number_of(config.host)
    for key in search.of_other_hosts(_codes_on_hosts(using), own, before, using=using):
        if control.discard(search.key(*key), before, using=using):
            logs.host_forgotten(*key, using)
            code, number = key
            result = CancelResult.CANCELLED
            facts = {"biz_code": code, "biz_num": number, "using": using, "result": result}
            signals.tell(signals.task_cancelled, Task, **facts)


def _codes_on_hosts(using: str) -> Collection[str]:
    """The codes, known here, that run on each host or have done so before."""
    found = {lane.biz_code for lane in lanes.look(using=using).lanes if is_of_a_host(lane.queue)}
    return [code for code in get_task_handlers() if code in found or terms_for(code).each_host]
