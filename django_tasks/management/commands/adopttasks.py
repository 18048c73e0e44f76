"""``manage.py adopttasks``: the tasks of the forerunner come over."""

from collections.abc import Sequence
from datetime import timezone, tzinfo
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError, connections
from django.utils.translation import gettext, ngettext

from django_tasks.exceptions import TaskException
from django_tasks.importers.adoption import CannotAdopt, Survey, adopt, find, survey
from django_tasks.importers.found import database, without_handler
from django_tasks.management.base import OfLines, TranslatedCommand
from django_tasks.reads.words import listed
from django_tasks.schedules.arguments import zone as zone_of
from django_tasks.sentences import sentence as _
from django_tasks.store import forerunner

# How many keys one line names, and how many rows that cannot come over are listed.
MOST_NAMES, MOST_REFUSED = 20, 1000


class Command(TranslatedCommand):
    help = _(
        "Bring the tasks of the forerunner's table t_task over: rename that "
        "table, make the tables of django_tasks, copy the rows. Stop everything "
        "that uses the table before. A run that was interrupted is started again "
        "in the same way."
    )
    # Its checks look at the tables that this command makes.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add(
            "--dry-run", action="store_true", help=gettext("say what would be done; change nothing")
        )
        add("--apply", action="store_true", help=gettext("do it"))
        add(
            "--database",
            metavar="ALIAS",
            help=gettext("where the table is; default: as the router says"),
        )
        add(
            "--timezone",
            metavar="ZONE",
            help=gettext("of the times in the table (default: settings.TIME_ZONE)"),
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["dry_run"] == options["apply"]:
            raise CommandError(
                gettext(
                    "Say --dry-run to see what would be done, or --apply to do it. Before "
                    "--apply stop all processes of the old component and of the site: nobody "
                    "can see from here if one still runs, and an old worker would take tasks "
                    "out of the new table."
                )
            )
        using = database(options["database"])
        _refuse_transaction(using)
        zone = _zone(options["timezone"] or settings.TIME_ZONE)
        try:
            old = find(using)
            seen = survey(old, zone, using=using)
            self._tell(seen, old.name, zone)
            if seen.refused:
                raise _refusal(seen.refused, is_dry=options["dry_run"])
            if options["dry_run"]:
                self._say_steps(is_aside=old.is_aside)
            else:
                adopt(old, zone, self._say, using=using)
        except (CannotAdopt, DatabaseError) as error:
            text = {"error": str(error).strip()}
            if isinstance(error, TaskException):
                raise CommandError(gettext("%(error)s.") % text) from None
            raise CommandError(
                gettext("%(error)s; start it again when that is mended.") % text
            ) from None

    def _say(self, sentence: str) -> None:
        self.say(sentence)

    def _tell(self, seen: Survey, table: str, zone: tzinfo) -> None:
        say = self.say
        say(
            ngettext(
                "%(table)s has %(total)s row to bring over, %(taken)s of them taken.",
                "%(table)s has %(total)s rows to bring over, %(taken)s of them taken.",
                seen.total,
            )
            % {"table": table, "total": f"{seen.total:,}", "taken": f"{len(seen.taken):,}"}
        )
        if seen.taken:
            say(
                gettext(
                    "A taken one was running, or lost, when the old worker stopped. It waits "
                    "again and runs once more: %(tasks)s."
                )
                % {"tasks": _some(seen.taken)}
            )
        if seen.first:
            name, there, moment = seen.first
            utc = moment.astimezone(timezone.utc)
            say(
                gettext(
                    "Times are read in %(zone)s. The first: %(name)s at %(there)s, that is %(utc)s."
                )
                % {"zone": zone, "name": name, "there": there, "utc": utc}
            )
        if missing := without_handler(seen.codes):
            say(
                gettext("No handler of this project takes %(codes)s: such tasks wait for one.")
                % {"codes": _some(missing)}
            )

    def _say_steps(self, *, is_aside: bool) -> None:
        steps = (
            gettext("--apply would migrate django_tasks and copy the rows.")
            if is_aside
            else gettext(
                "--apply would rename the table to %(aside)s, migrate django_tasks and copy the"
                " rows."
            )
            % {"aside": forerunner.ASIDE}
        )
        self.say(
            gettext(
                "%(steps)s Nothing was changed. Stop all old workers, on all hosts, and the site"
                " before."
            )
            % {"steps": steps}
        )


def _refuse_transaction(using: str) -> None:
    if connections[using].in_atomic_block:
        raise CommandError(
            gettext("adopttasks cannot run inside a transaction: it renames and migrates.")
        )


def _zone(name: str) -> tzinfo:
    try:
        return zone_of(name)
    except TaskException as error:
        raise CommandError(gettext("--timezone: %(error)s") % {"error": error}) from None


def _refusal(refused: Sequence[str], *, is_dry: bool) -> OfLines:
    more = len(refused) - MOST_REFUSED
    lines = [
        *refused[:MOST_REFUSED],
        *([gettext("and %(count)s more") % {"count": f"{more:,}"}] if more > 0 else []),
    ]
    head = gettext("Rows that cannot come over, so that none does (%(count)s):") % {
        "count": f"{len(refused):,}"
    }
    end = (
        gettext("Correct or delete them there, by SQL.")
        if is_dry
        else gettext("Correct or delete them there, by SQL; nothing was changed.")
    )
    return OfLines(head, *lines, end)


def _some(names: Sequence[str]) -> str:
    """Such as "a, b and 7 more"."""
    shown = listed(names[:MOST_NAMES])
    if len(names) <= MOST_NAMES:
        return shown
    return gettext("%(shown)s and %(count)s more") % {
        "shown": shown,
        "count": f"{len(names) - MOST_NAMES:,}",
    }
