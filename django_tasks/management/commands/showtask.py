"""``manage.py showtask``: the life of one task, and why it does not run now."""

from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandParser
from django.utils.translation import gettext, pgettext

from django_tasks import api
from django_tasks.management import output
from django_tasks.management.base import TaskCommand, trouble, usage
from django_tasks.management.rows import (
    due_words,
    local,
    run_as_json,
    task_as_json,
    utc,
    worker_names,
    worker_of,
)
from django_tasks.models import Task, TaskRun
from django_tasks.reads.why import why
from django_tasks.reads.words import class_name, listed, progress_text, span
from django_tasks.schedules.policies import clauses
from django_tasks.sentences import sentence as _
from django_tasks.values.status import Status

LONGEST_PAYLOAD = 4000
LONGEST_ERROR = 8000
MOST_RUNS = 10_000


class Command(TaskCommand):
    help = _("Show one task: why it does not run now, its row, its runs, its error, its payload.")

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        self.add_key(parser)
        add = parser.add_argument
        add(
            "--runs",
            type=int,
            default=10,
            metavar="N",
            help=gettext("show the last N (%(default)s)"),
        )
        add(
            "--full",
            action="store_true",
            help=gettext("show a long payload and a long error whole"),
        )

    def answer(self, options: dict[str, Any]) -> None:
        code, number = options["code"], options["number"]
        if not 0 <= options["runs"] <= MOST_RUNS:
            raise usage(
                gettext("--runs must be from 0 to %(most)s, not %(runs)s.")
                % {"most": f"{MOST_RUNS:,}", "runs": options["runs"]}
            )
        task = api.get_task(code, number, using=self.using)
        runs = api.get_runs(code, number, options["runs"], using=self.using)
        if task is None and not runs:
            raise trouble(
                gettext("There is no task %(code)s/%(number)s.") % {"code": code, "number": number}
            )
        if self.is_json:
            self.say_json(self._as_json(code, number, task, runs))
            return
        if task is None:
            self.say(gettext("%(key)s: it is gone; its runs:") % {"key": f"{code}/{number}"})
        else:
            self._tell(task, is_full=options["full"])
        self._tell_runs(runs)

    def _as_json(
        self, code: str, number: str, task: Task | None, runs: list[TaskRun]
    ) -> dict[str, Any]:
        said: dict[str, Any] = {"biz_code": code, "biz_num": number, "task": None, "why": None}
        if task is not None:
            said["task"] = task_as_json(task, worker_names(self.using)) | {
                "biz_ext": task.biz_ext,
                "options": task.options.given(),
                "progress": task.progress,
                "scheduled_time": utc(task.scheduled_time),
                "create_time": utc(task.create_time),
            }
            said["why"] = why(task, using=self.using)._asdict()
        return said | {"runs": [run_as_json(run) for run in runs]}

    def _tell(self, task: Task, *, is_full: bool) -> None:
        title = gettext("%(key)s: %(status)s") % {
            "key": task,
            "status": Status(task.status).label,
        }
        self.say(title, why(task, using=self.using, now=self.now).sentence, "")
        self.say(*output.facts(self._facts(task)))
        if task.last_error:
            self.say("", gettext("Error"))
            self.say(*output.block(_end_of(task.last_error, LONGEST_ERROR, is_full)))
        if task.biz_ext is not None:
            self.say("", gettext("Extension data"))
            self.say(*output.block(_part_of(output.as_json(task.biz_ext), is_full)))

    def _facts(self, task: Task) -> Iterator[tuple[str, Any]]:
        due = due_words(task, self.now)
        yield gettext("name"), task.name
        yield gettext("when"), gettext("%(time)s (%(distance)s)") % {**due, "time": due["when"]}
        yield gettext("schedule"), task.schedule
        yield gettext("scheduled time"), local(task.scheduled_time)
        yield gettext("queue"), task.queue
        yield gettext("priority"), task.priority
        yield gettext("options"), listed(clauses(task.options))
        yield gettext("worker"), worker_of(task, worker_names(self.using))
        yield gettext("claimed"), local(task.claim_time)
        yield gettext("progress"), progress_text(task.progress)
        yield gettext("ended runs"), task.runs
        yield gettext("last run"), local(task.last_run)
        yield gettext("failed attempts"), task.attempts
        yield gettext("rescues"), task.rescues or None
        yield gettext("added"), local(task.create_time)
        yield gettext("changed"), local(task.update_time)

    def _tell_runs(self, runs: list[TaskRun]) -> None:
        if not runs:
            return
        self.say("", gettext("Runs that the history keeps, the last one first"))
        heads = [
            gettext("started"),
            gettext("outcome"),
            gettext("attempt"),
            pgettext("run", "late"),
            gettext("took"),
            gettext("worker"),
            gettext("error"),
            gettext("missed"),
        ]
        self.say_table(
            heads,
            [
                [
                    local(run.started),
                    run.get_outcome_display(),
                    run.attempt,
                    span(max(0.0, run.lateness)),
                    span(run.duration),
                    run.worker,
                    class_name(run.exception),
                    run.missed,
                ]
                for run in runs
            ],
        )


def _end_of(error: str, most: int, is_full: bool) -> str:
    if is_full or len(error) <= most:
        return error
    return "…" + error[-most:]


def _part_of(payload: str, is_full: bool) -> str:
    if is_full or len(payload) <= LONGEST_PAYLOAD:
        return payload
    rest = gettext("(%(count)s characters; --full shows all of them)")
    return f"{payload[:LONGEST_PAYLOAD]}…\n{rest % {'count': f'{len(payload):,}'}}"
