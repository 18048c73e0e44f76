"""``manage.py runtask``: run one task here, in the foreground."""

import pdb
import threading
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import connections
from django.utils.translation import gettext

from django_tasks import api
from django_tasks.handlers import finders
from django_tasks.handlers.registry import sticky_codes
from django_tasks.management.base import TaskCommand, trouble
from django_tasks.management.rows import due_words
from django_tasks.models import Task
from django_tasks.reads.why import why
from django_tasks.reads.words import span
from django_tasks.sentences import sentence as _
from django_tasks.timezones import aware
from django_tasks.values.status import RunOutcome, Status
from django_tasks.worker.config import worker_config
from django_tasks.worker.foreground import CannotRun, Foreground, ForegroundRun

RUNNABLE = (Status.PENDING, Status.FAILED)
WELL = ("done", "rescheduled", "skipped")


class Command(TaskCommand):
    help = _(
        "Run one task here and now, also before its time or while it is paused "
        "with others. It is claimed as a worker claims it, so nobody else runs "
        "it, and its end counts. A FAILED one begins with all its attempts. Exit "
        "code 1 if it has not ended well."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        self.add_key(parser)
        add = parser.add_argument
        add(
            "--pdb",
            action="store_true",
            help=gettext(
                "look at what was raised with pdb, once the end is written; without timeouts"
            ),
        )

    def answer(self, options: dict[str, Any]) -> None:
        code, number = options["code"], options["number"]
        self._refuse_place()
        self._refuse_task(api.get_task(code, number, using=self.using), f"{code}/{number}")
        ran = self._run(code, number, is_timed=not options["pdb"])
        self._tell(code, number, ran)
        if options["pdb"] and ran.error is not None:
            pdb.post_mortem(ran.error.__traceback__)
        if ran.outcome not in WELL:
            raise trouble(gettext("It has not ended well."))

    def _run(self, code: str, number: str, *, is_timed: bool) -> ForegroundRun:
        config = worker_config(self.using, threads=1, codes=(code,))
        place = Foreground(config, is_timed=is_timed)
        try:
            with place.at_work():
                claimed = place.claim(code, number, failed=True)
                if claimed is None:
                    raise CannotRun(gettext("somebody else was quicker: it runs, or has changed"))
                return place.run(claimed)
        except CannotRun as error:
            raise trouble(
                gettext("%(code)s/%(number)s: %(error)s.")
                % {"code": code, "number": number, "error": error}
            ) from None

    def _refuse_place(self) -> None:
        if connections[self.using].in_atomic_block:
            raise CommandError(
                gettext("runtask cannot run inside a transaction: it has a heartbeat.")
            )
        if threading.current_thread() is not threading.main_thread():
            raise CommandError(gettext("runtask runs in the main thread only."))

    def _refuse_task(self, task: Task | None, key: str) -> None:
        problem = ""
        if task is None:
            problem = gettext("There is no such task.")
        elif task.status not in RUNNABLE:
            problem = why(task, using=self.using).sentence
        elif not finders.find(task.biz_code, using=self.using):
            problem = gettext("This project has no handler of its code.")
        elif task.biz_code in sticky_codes():
            problem = gettext("Its handler is sticky: it runs in its active worker alone.")
        if problem:
            raise trouble(gettext("%(key)s: %(problem)s") % {"key": key, "problem": problem})

    def _tell(self, code: str, number: str, ran: ForegroundRun) -> None:
        task = api.get_task(code, number, using=self.using)
        if self.is_json:
            self.say_json(
                {
                    "biz_code": code,
                    "biz_num": number,
                    "outcome": ran.outcome,
                    "seconds": round(ran.seconds, 6),
                    "error": None if ran.error is None else _raised(ran.error),
                    "status": None if task is None else Status(task.status).name.lower(),
                    "when": None if task is None else aware("when", task.when),
                }
            )
            return
        facts = {
            "key": f"{code}/{number}",
            "word": RunOutcome(ran.outcome).label,
            "span": span(ran.seconds),
        }
        self.say(gettext("%(key)s: %(word)s, after %(span)s.") % facts)
        if ran.error is not None:
            self.say(_raised(ran.error))
        if task is not None and task.status == Status.PENDING:
            text = gettext("It runs again at %(when)s (%(distance)s).")
            self.say(text % due_words(task, self.now))
        elif task is not None:
            self.say(why(task, using=self.using).sentence)


def _raised(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a stranger's exception
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
