"""``manage.py checktasks``: can this release run what waits? A gate before a deployment."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from django.core.management.base import CommandParser
from django.utils.translation import gettext, ngettext

from django_tasks.exceptions import TaskException
from django_tasks.handlers import finders
from django_tasks.handlers.recurrence import TRIGGER
from django_tasks.handlers.registry import handler_for
from django_tasks.management.base import TaskCommand, trouble
from django_tasks.models import Task
from django_tasks.reads.plain import amount
from django_tasks.reads.words import Amount, counted_rows
from django_tasks.schedules.accept import stored
from django_tasks.sentences import said
from django_tasks.sentences import sentence as _
from django_tasks.store.lanes import every_lane
from django_tasks.values.hosts import is_schedule_num
from django_tasks.values.status import Status

WAITING = (Status.PENDING, Status.PAUSED, Status.RUNNING, Status.PAUSING)
MOST_COUNTED = 1000
MOST_SCHEDULES = 100


class Missing(NamedTuple):
    """A code that no handler of this release has, and its rows."""

    code: str
    rows: Amount


class Unreadable(NamedTuple):
    """A schedule that this release cannot read, and a task that has it."""

    key: str
    schedule: str
    problem: str


class Command(TaskCommand):
    help = _(
        "Look if this release has a handler for the code of each waiting task, "
        "and can read each schedule. Exit code 1 if not: run it with the new "
        "release before it takes over."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        add = parser.add_argument
        add(
            "--codes-only",
            action="store_true",
            help=gettext("leave out the schedules: those are found by a walk over all tasks"),
        )
        add(
            "--ignore",
            action="append",
            default=[],
            metavar="CODE",
            help=gettext("a code that may wait for another program; repeatable"),
        )

    def answer(self, options: dict[str, Any]) -> None:
        problems = finders.problems()
        codes = sorted(_codes(self.using) - set(options["ignore"]))
        missing = [
            Missing(code, _rows(code, self.using))
            for code in codes
            if not finders.is_found(code, using=self.using)
        ]
        found = [] if options["codes_only"] else list(_unreadable(self.using))
        if self.is_json:
            self.say_json(
                {
                    "codes": codes,
                    "missing": [{"code": each.code, **amount(each.rows)} for each in missing],
                    "unreadable": [each._asdict() for each in found],
                    "problems": problems,
                }
            )
        else:
            self._tell(codes, missing, found, problems)
        if missing or found or problems:
            sentence = gettext("This release cannot run everything that waits.")
            raise trouble(sentence)

    def _tell(
        self,
        codes: list[str],
        missing: list[Missing],
        found: list[Unreadable],
        problems: list[str],
    ) -> None:
        for each in missing:
            text = ngettext(
                "No handler of %(code)s: %(count)s task waits.",
                "No handler of %(code)s: %(count)s tasks wait.",
                each.rows.number,
            )
            self.say(text % {"code": each.code, "count": each.rows})
        for one in found:
            facts = {"key": one.key, "schedule": one.schedule, "problem": one.problem}
            self.say(gettext("The schedule of %(key)s cannot be read: %(problem)s.") % facts)
        for problem in problems:
            self.say(gettext("A handler cannot be registered: %(problem)s") % {"problem": problem})
        if not (missing or found or problems):
            text = ngettext(
                "All is well: this release has a handler for the %(count)d code that waits.",
                "All is well: this release has a handler for each of %(count)d codes that wait.",
                len(codes),
            )
            self.say(text % {"count": len(codes)})


def _codes(using: str) -> set[str]:
    return {lane.biz_code for status in WAITING for lane in every_lane(status, using=using)}


def _rows(code: str, using: str) -> Amount:
    rows = Task._base_manager.using(using).filter(biz_code=code, status__in=WAITING)
    return counted_rows(rows, MOST_COUNTED)


def _unreadable(using: str) -> Iterator[Unreadable]:
    rows = Task._base_manager.using(using).filter(status__in=WAITING, schedule__isnull=False)
    read: dict[str, str] = {}
    count = 0
    for code, number, schedule in rows.values_list("biz_code", "biz_num", "schedule").iterator():
        text = schedule or ""
        if _is_own_trigger(code, number, text):
            continue
        if text not in read:
            read[text] = _problem(text)
        if read[text]:
            yield Unreadable(f"{code}/{number}", text, read[text])
            count += 1
            if count == MOST_SCHEDULES:
                return


def _is_own_trigger(code: str, number: str, text: str) -> bool:
    """Tell if only the code knows the schedule: a trigger that its handler still has."""
    handler = handler_for(code)
    is_trigger = text.startswith(TRIGGER) and is_schedule_num(number)
    return is_trigger and (handler is None or handler.schedule is not None)


def _problem(text: str) -> str:
    try:
        stored(text)
    except TaskException as error:
        return said(error)
    return ""
