"""``manage.py importtasks``: jobs of APScheduler and of Celery beat become tasks."""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext

from django_tasks.exceptions import TaskException
from django_tasks.importers import apscheduler, celery_beat
from django_tasks.importers.found import Found, Left, StoreError, database, without_handler
from django_tasks.importers.importing import Arrival, CodeNames, add, tasks_for
from django_tasks.management.base import TranslatedCommand, told_of_errors
from django_tasks.reads.words import listed
from django_tasks.schedules.policies import clauses
from django_tasks.sentences import sentence as _
from django_tasks.store import clock
from django_tasks.values.payload_text import dump

PROGRESS = 5000
STORES = ("apscheduler", "django-apscheduler", "celery-beat")
LONGEST_PAYLOAD = 1000


class Command(TranslatedCommand):
    help = _(
        "Read the jobs of another scheduler and add a task for each: its code is "
        "the function's name, its number the job's id or name. What is there "
        "already stays as it is, so a second run changes nothing. The store "
        "itself is never changed. Stop the other scheduler before a worker "
        "starts, or both will run them."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("store", choices=STORES, help=gettext("where the jobs are"))
        add("--url", help=gettext("apscheduler: the database, as SQLAlchemyJobStore takes it"))
        add(
            "--table",
            default="apscheduler_jobs",
            help=gettext("apscheduler: its table (%(default)s)"),
        )
        add(
            "--from-database",
            metavar="ALIAS",
            help=gettext("the other two: where their tables are"),
        )
        add(
            "--database",
            metavar="ALIAS",
            help=gettext("where the tasks go; default: as the router says"),
        )
        add(
            "--code",
            action="append",
            default=[],
            metavar="FUNCTION=CODE",
            help=gettext(
                "the biz_code of a function (module:function, or a task of Celery); repeatable"
            ),
        )
        add("--trust-pickles", action="store_true", help=gettext("read APScheduler's pickles"))
        add("--dry-run", action="store_true", help=gettext("show what would be added; add nothing"))

    def handle(self, *args: Any, **options: Any) -> None:
        using = database(options["database"])
        said = dict(map(_pair, options["code"]))
        try:
            jobs = list(_jobs(options, using))
        except StoreError as error:
            raise CommandError(gettext("%(error)s.") % {"error": error}) from None
        functions = {job.function for job in jobs if isinstance(job, Found)}
        for name in sorted(said.keys() - functions):
            self.say(
                gettext("--code %(name)s: no job that can come over calls it.") % {"name": name}
            )
        try:
            with told_of_errors(using):
                found = list(tasks_for(jobs, CodeNames(said, functions), using=using))
                self._bring(found, options, using)
        except TaskException as error:  # a code that STRICT_CODES refuses
            raise CommandError(gettext("%(error)s.") % {"error": error}) from None

    def _bring(self, found: Sequence[Arrival | Left], options: dict[str, Any], using: str) -> None:
        for each in found:
            self._tell(each)
        new = [each for each in found if isinstance(each, Arrival) and not each.is_there]
        added = 0 if options["dry_run"] else self._add(new, using)
        self._sum_up(found, len(new) if options["dry_run"] else added, is_dry=options["dry_run"])

    def _tell(self, each: Arrival | Left) -> None:
        if isinstance(each, Left):
            self.say(
                gettext("Cannot come over: %(name)s: %(reason)s.")
                % {"name": each.name, "reason": each.reason}
            )
            return
        key = f"{each.task.biz_code}/{each.task.biz_num}"
        if each.is_there:
            self.say(gettext("Is there already: %(key)s.") % {"key": key})
            return
        job = each.job
        plan = " | ".join([job.text or gettext("once"), *clauses(job.options)])
        text = gettext("first at %(when)s") if job.text else gettext("at %(when)s")
        first = text % {"when": job.when}
        notes = (gettext("paused"),) * job.is_paused + job.notes
        payload = dump(job.payload, len(repr(job.payload)) * 4)
        line = gettext("%(job)s (%(function)s) → %(key)s: %(plan)s, %(first)s, %(payload)s") % {
            "job": job.name,
            "function": job.function,
            "key": key,
            "plan": plan,
            "first": first,
            "payload": str(payload)[:LONGEST_PAYLOAD],
        }
        self.say(gettext("; ").join([line, *map(str, notes)]))

    def _add(self, new: Sequence[Arrival], using: str) -> int:
        done = 0
        for total in accumulate(add(new, using=using)):
            if total // PROGRESS > done // PROGRESS:
                self.say(
                    gettext("%(done)s of %(total)s added")
                    % {"done": f"{total:,}", "total": f"{len(new):,}"}
                )
            done = total
        return done

    def _sum_up(self, found: Iterable[Arrival | Left], count: int, *, is_dry: bool) -> None:
        coming = [each for each in found if isinstance(each, Arrival)]
        left = sum(isinstance(each, Left) for each in found)
        there = sum(each.is_there for each in coming)
        text = (
            gettext(
                "%(count)s would be added, %(there)s were there already, %(left)s cannot come over."
            )
            if is_dry
            else gettext(
                "%(count)s added, %(there)s were there already, %(left)s cannot come over."
            )
        )
        self.say(text % {"count": f"{count:,}", "there": f"{there:,}", "left": f"{left:,}"})
        if missing := without_handler(each.task.biz_code for each in coming):
            self.say(
                gettext("No handler of this project takes %(codes)s yet.")
                % {"codes": listed(missing)}
            )


def _jobs(options: dict[str, Any], using: str) -> Iterable[Found | Left]:
    store, source = options["store"], options["from_database"]
    if (store == "apscheduler") != bool(options["url"]):
        raise StoreError(gettext("--url goes with the store apscheduler, which needs it"))
    if store == "celery-beat":
        return celery_beat.jobs(source, clock.now(using))
    if not options["trust_pickles"]:
        raise StoreError(apscheduler.NOT_TRUSTED)
    if store == "django-apscheduler":
        return apscheduler.jobs(apscheduler.in_django(source), clock.now(using))
    pickled = apscheduler.in_sqlalchemy(options["url"], options["table"])
    return apscheduler.jobs(pickled, clock.now(using))


def _pair(text: str) -> tuple[str, str]:
    function, _, code = text.rpartition("=")
    if not function or not code:
        raise CommandError(gettext("--code must be FUNCTION=CODE, not %(text)r.") % {"text": text})
    return function, code
