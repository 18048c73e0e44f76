"""``manage.py addtask``: add one task."""

import json
from typing import Any

from django.core.management.base import CommandParser
from django.utils.translation import gettext

from django_tasks import api
from django_tasks.client.arguments import checked_moment
from django_tasks.exceptions import TaskExists
from django_tasks.management.base import TaskCommand, trouble, usage
from django_tasks.management.rows import due_words, task_as_json, worker_names
from django_tasks.management.times import TIMES, future, length
from django_tasks.models import Task
from django_tasks.sentences import sentence as _
from django_tasks.values.status import Status


class Command(TaskCommand):
    help = _("Add one task, due now unless --when, --in or --schedule says otherwise.")

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        self.add_key(parser)
        add = parser.add_argument
        due = parser.add_mutually_exclusive_group()
        due.add_argument(
            "--when",
            metavar="TIME",
            help=gettext("due then: %(times)s from now") % {"times": TIMES},
        )
        due.add_argument(
            "--in", dest="wait", metavar="TIME", help=gettext("due after so long: 30m, 1d")
        )
        add("--schedule", metavar="TEXT", help=gettext('such as "every 30m" or "mon-fri at 9:00"'))
        add("--data", metavar="JSON", help=gettext("its biz_ext"))
        add("--queue", help=gettext("default: that of its handler"))
        add("--priority", type=int, metavar="N", help=gettext("default: that of its handler"))
        add("--name", default="", help=gettext("for people"))
        add("--paused", action="store_true", help=gettext("it does not start until it is resumed"))
        add(
            "--on-conflict",
            choices=[each.value for each in api.OnConflict],
            default=api.OnConflict.RAISE.value,
            help=gettext("if there is a task with this key (%(default)s)"),
        )

    def answer(self, options: dict[str, Any]) -> None:
        code, number = options["code"], options["number"]
        conflict = api.OnConflict(options["on_conflict"])
        try:
            task = api.add_task(
                self._task(code, number, options),
                on_conflict=conflict,
                paused=options["paused"],
                using=self.using,
            )
        except TaskExists as error:
            raise trouble(
                gettext("%(error)s; --on-conflict replace, keep or earliest says what to do then.")
                % {"error": error}
            ) from None
        if self.is_json:
            self.say_json(task_as_json(task, worker_names(self.using)))
        else:
            self._tell(task)

    def _task(self, code: str, number: str, options: dict[str, Any]) -> Task:
        when, now = None, self.now
        if options["when"] is not None:
            when = future("--when", options["when"], now)
        elif options["wait"] is not None:
            when = checked_moment("--in", length("--in", options["wait"]), self.using)
        elif options["schedule"] is None:
            when = now
        task = Task(biz_code=code, biz_num=number, name=options["name"])
        task.when = when  # type: ignore[assignment]  # a schedule has its own first time
        task.biz_ext = _payload(options["data"])
        task.schedule = options["schedule"]
        task.queue = options["queue"] or ""
        task.priority = options["priority"]
        return task

    def _tell(self, task: Task) -> None:
        facts = {"key": task, "status": Status(task.status).label, **due_words(task, self.now)}
        self.say(gettext("%(key)s: %(status)s, due at %(when)s (%(distance)s).") % facts)


def _payload(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise usage(
            gettext("--data is no JSON (%(error)s): %(text)s") % {"error": error, "text": text[:80]}
        ) from None
