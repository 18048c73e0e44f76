"""``manage.py listtasks``: the tasks that match filters."""

from typing import Any

from django.core.management.base import CommandParser
from django.db.models import QuerySet
from django.utils.translation import gettext, ngettext

from django_tasks.management.base import TaskCommand, usage
from django_tasks.management.choosing import add_filters, filter_of
from django_tasks.management.rows import (
    COLUMNS,
    HEADS,
    SPARE,
    row_of,
    task_as_json,
    worker_names,
)
from django_tasks.models import Task
from django_tasks.reads.plain import amount
from django_tasks.reads.words import Amount, counted_rows, in_a_row
from django_tasks.sentences import sentence as _

# As many are put in order of time; of more some are shown as the index has them.
MOST_SORTED = 10_000
MOST_SHOWN = 10_000


class Command(TaskCommand):
    help = _("List tasks, the earliest first. All filters that are given must match.")

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        add_filters(parser)
        parser.add_argument(
            "--limit",
            type=int,
            default=50,
            metavar="N",
            help=gettext("show at most N (%(default)s)"),
        )

    def answer(self, options: dict[str, Any]) -> None:
        limit = options["limit"]
        if not 1 <= limit <= MOST_SHOWN:
            raise usage(
                gettext("--limit must be from 1 to %(most)s, not %(limit)s.")
                % {"most": f"{MOST_SHOWN:,}", "limit": limit}
            )
        which = filter_of(options, self.using).settled(self.using)
        rows = which.rows(using=self.using, now=self.now)
        count = counted_rows(rows, MOST_SORTED)
        if not count.number:
            self.warn_of_names(which.code, which.queue)
        found = _first(rows, limit, is_sorted=not count.is_more)
        workers = worker_names(self.using)
        if self.is_json:
            self.say_json(
                {
                    "filter": which.params(),
                    **amount(count),
                    "tasks": [task_as_json(task, workers) for task in found],
                }
            )
            return
        if found:
            now, varied = self.now, which.one_status is None
            lines = [row_of(task, now, workers, has_status=varied) for task in found]
            self.say_table(HEADS, lines, SPARE)
        said = _sum(which.words(), count, len(found))
        self.say(in_a_row(filter(None, (said, which.hint()))))


def _first(rows: QuerySet[Task], limit: int, *, is_sorted: bool) -> list[Task]:
    few = rows.only(*COLUMNS)
    if is_sorted:
        return list(few.order_by("when", "id")[:limit])
    return sorted(few[:limit], key=lambda task: (task.when, task.pk))


def _sum(words: str, found: Amount, shown: int) -> str:
    count = found.number
    facts = {"words": words, "count": f"{count:,}", "shown": f"{shown:,}"}
    if found.is_more:
        return (
            gettext("More than %(count)s tasks (%(words)s); %(shown)s of them are shown.") % facts
        )
    if not count:
        return gettext("No tasks (%(words)s).") % facts
    if shown < count:
        return gettext("%(count)s tasks (%(words)s); the %(shown)s earliest are shown.") % facts
    return ngettext("%(count)s task (%(words)s).", "%(count)s tasks (%(words)s).", count) % facts
