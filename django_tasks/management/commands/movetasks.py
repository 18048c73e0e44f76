"""``manage.py movetasks``: move all tasks that match filters to another time."""

from collections.abc import Generator
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandParser
from django.utils.translation import gettext, ngettext_lazy

from django_tasks.client.changes import Piece, Step
from django_tasks.management.bulk import BulkCommand
from django_tasks.management.times import TIMES, future, length
from django_tasks.reads.filters import TaskFilter
from django_tasks.reads.many import shift, steps
from django_tasks.sentences import sentence as _


class Command(BulkCommand):
    help = _(
        "Move all tasks that match: to one time, or each by a length of time. "
        "FAILED ones wait again, running ones run again then. In batches, as "
        "canceltasks."
    )
    step = Step.MOVE
    would = ngettext_lazy(
        "%(count)s task would be moved (%(words)s).",
        "%(count)s tasks would be moved (%(words)s).",
        "number",
    )
    done = ngettext_lazy(
        "%(count)s task was moved (%(words)s).", "%(count)s tasks were moved (%(words)s).", "number"
    )
    asks = _("Move them?")

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        goal = parser.add_mutually_exclusive_group(required=True)
        goal.add_argument(
            "--to",
            metavar="TIME",
            help=gettext("to this time: %(times)s from now") % {"times": TIMES},
        )
        goal.add_argument(
            "--by", metavar="TIME", help=gettext("each by so much: 30m, 1d; earlier: -30m")
        )

    def answer(self, options: dict[str, Any]) -> None:
        # Before anything is counted or asked: a time that cannot be read.
        if options["to"] is not None:
            options["to"] = future("--to", options["to"], self.now)
        else:
            options["by"] = _signed(options["by"])
        super().answer(options)

    def batches(self, part: TaskFilter, options: dict[str, Any]) -> Generator[Piece, None, None]:
        if options["to"] is not None:
            return steps(part, self.step, to=options["to"], using=self.using)
        return shift(part, options["by"], using=self.using)


def _signed(text: str) -> timedelta:
    if text.startswith("-"):
        return -length("--by", text[1:])
    return length("--by", text.removeprefix("+"))
