"""``manage.py prunetasks``: delete old lines of the history, and tasks that failed long ago."""

from datetime import datetime
from typing import Any

from django.core.management.base import CommandParser
from django.utils.translation import gettext, ngettext

from django_tasks.management.base import TaskCommand, trouble, usage
from django_tasks.management.times import length
from django_tasks.models import Task, TaskRun
from django_tasks.reads.plain import amount
from django_tasks.reads.words import Amount, counted_rows, stamp
from django_tasks.sentences import sentence as _
from django_tasks.store import failed, runs
from django_tasks.timezones import aware, for_django
from django_tasks.values.status import Status

MOST_COUNTED = 100_000
# Old lines that stand among young ones are found by chance: so often it may find none.
PATIENCE = 3


class Command(TaskCommand):
    help = _(
        "Delete lines of the history that are older than --history, and tasks "
        "that FAILED longer ago than --failed; recurring ones stay. Workers do "
        "the same by themselves: see the settings HISTORY_AGE and FAILED_AGE."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        add = parser.add_argument
        add("--history", metavar="AGE", help=gettext("delete runs that ended longer ago: 30d, 12h"))
        add("--failed", metavar="AGE", help=gettext("delete tasks that FAILED longer ago: 90d"))
        add(
            "--dry-run",
            action="store_true",
            help=gettext("count what would be deleted; delete nothing"),
        )
        self.add_progress(parser)

    def answer(self, options: dict[str, Any]) -> None:
        if options["history"] is None and options["failed"] is None:
            raise usage(gettext("Say what is to be deleted: --history AGE, --failed AGE, or both."))
        before = {
            name: self._before(name, options[name])
            for name in ("history", "failed")
            if options[name] is not None
        }
        if options["dry_run"]:
            found = {name: self._count(name, moment) for name, moment in before.items()}
        else:
            found = {name: self._delete(name, before[name], options) for name in before}
        if self.is_json:
            said = {name: {"before": before[name], **amount(found[name])} for name in found}
            self.say_json({"dry_run": options["dry_run"], **said})
            return
        for name, count in found.items():
            sentence = (_WOULD if options["dry_run"] else _DONE)[name](count.number)
            self.say(sentence % {"count": count, "before": stamp(before[name])})

    def _before(self, name: str, text: str) -> datetime:
        try:
            return aware(f"--{name}", self.now - length(f"--{name}", text))
        except OverflowError:
            raise usage(
                gettext("--%(name)s %(text)s: that is before all times.")
                % {"name": name, "text": text}
            ) from None

    def _count(self, name: str, before: datetime) -> Amount:
        moment = for_django(before)
        if name == "history":
            lines = TaskRun._base_manager.using(self.using).filter(ended__lt=moment)
            return counted_rows(lines, MOST_COUNTED)
        rows = Task._base_manager.using(self.using).filter(
            status=Status.FAILED, when__lt=moment, update_time__lt=moment, schedule=None
        )
        return counted_rows(rows, MOST_COUNTED)

    def _delete(self, name: str, before: datetime, options: dict[str, Any]) -> Amount:
        delete = runs.delete_old if name == "history" else failed.delete_old_failed
        total, misses = 0, 0
        try:
            with self.progress(None, options) as shown:
                while misses < PATIENCE:
                    count = delete(before, using=self.using)
                    misses = 0 if count else misses + 1
                    total += count
                    shown.advance(count)
        except KeyboardInterrupt:
            sentence = gettext("Stopped before the end. %(count)s are deleted.")
            facts = {"count": f"{total:,}"}
            raise trouble(sentence % facts) from None
        return Amount(total)


_WOULD = {
    "history": lambda number: ngettext(
        "%(count)s run that ended before %(before)s would be deleted.",
        "%(count)s runs that ended before %(before)s would be deleted.",
        number,
    ),
    "failed": lambda number: ngettext(
        "%(count)s task that failed before %(before)s would be deleted.",
        "%(count)s tasks that failed before %(before)s would be deleted.",
        number,
    ),
}
_DONE = {
    "history": lambda number: ngettext(
        "%(count)s run that ended before %(before)s was deleted.",
        "%(count)s runs that ended before %(before)s were deleted.",
        number,
    ),
    "failed": lambda number: ngettext(
        "%(count)s task that failed before %(before)s was deleted.",
        "%(count)s tasks that failed before %(before)s were deleted.",
        number,
    ),
}
