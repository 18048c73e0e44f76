"""Doubts about a code or a queue that somebody names: it may be misspelt."""

from collections.abc import Collection

from django_tasks.handlers.finders import has_handler, known_handlers
from django_tasks.handlers.registry import terms_for
from django_tasks.models import WorkerRow
from django_tasks.near_names import closest, did_you_mean
from django_tasks.sentences import Sentence
from django_tasks.sentences import sentence as _
from django_tasks.store.lanes import every_lane
from django_tasks.values.status import Status


def doubts(code: str | None, queue: str | None, *, using: str) -> list[Sentence]:
    """A sentence about each name that no handler and no task has, with the one that is near.

    The handlers are those of this project and of the workers. The database is asked where this
    project has none of the name. Its errors pass.
    """
    codes, said = set(known_handlers()), []
    queues = {terms_for(each).queue for each in codes}
    is_unknown = code and not has_handler(code)
    if is_unknown or (queue and queue not in queues):
        lanes = {lane for status in Status for lane in every_lane(status, using=using)}
        if code and is_unknown:
            rows = WorkerRow._base_manager.using(using).values_list("codes", flat=True)
            codes |= {lane.biz_code for lane in lanes}
            codes |= {str(each) for row in rows if isinstance(row, list) for each in row}
            said += _about(
                code, codes, _("No handler and no task has the code %(name)r", name=code)
            )
        if queue:
            text = _("No handler and no task is in the queue %(name)r", name=queue)
            said += _about(queue, {*queues, *(lane.queue for lane in lanes)}, text)
    return said


def _about(name: str, names: Collection[str], text: Sentence) -> list[Sentence]:
    near = closest(name, names)
    said = did_you_mean(text, near) if near else _("%(error)s.", error=text)
    return [] if name in names else [said]
