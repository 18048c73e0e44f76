"""The common part of pausing and resuming: of a whole, or task by task."""

from typing import Any, ClassVar

from django.core.management.base import CommandParser
from django.utils.translation import gettext

from django_tasks.client.arguments import check_code, check_queue
from django_tasks.management.base import usage
from django_tasks.management.bulk import BulkCommand, refuse_everything
from django_tasks.management.choosing import filter_of
from django_tasks.models import Pause
from django_tasks.monitoring.filters import TaskFilter
from django_tasks.monitoring.words import scope_words


class PauseCommand(BulkCommand):
    # Sentences of "%(scope)s".
    would_whole: ClassVar[str]
    done_whole: ClassVar[str]
    nothing_whole: ClassVar[str]

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        text = gettext("each task by itself, also of a whole code or queue")
        parser.add_argument("--each", action="store_true", help=text)

    def answer(self, options: dict[str, Any]) -> None:
        which = filter_of(options, self.using)
        refuse_everything(which, options)
        if options["each"] or which.params().keys() - {"code", "queue"}:
            self.take(which, options)
            return
        if options["progress"]:
            raise usage(gettext("--progress goes with tasks one by one: a whole is one step."))
        self._take_whole(which, is_dry=options["dry_run"])

    def whole(self, code: str, queue: str) -> bool:
        """Take the step with a whole; tell if that has changed something."""
        raise NotImplementedError

    def _take_whole(self, which: TaskFilter, *, is_dry: bool) -> None:
        code = which.code and check_code(which.code)
        queue = which.queue and check_queue(which.queue)
        changed = False if is_dry else self.whole(code or "", queue or "")
        if self.is_json:
            said: dict[str, Any] = {"biz_code": code or "", "queue": queue or ""}
            self.say_json(said | ({"dry_run": True} if is_dry else {"changed": changed}))
            return
        sentence = self.done_whole if changed else self.nothing_whole
        scope = scope_words(Pause(biz_code=code or "", queue=queue or ""))
        self.say(str(self.would_whole if is_dry else sentence) % {"scope": scope})
