"""``manage.py adopttasks``: the tasks of the forerunner come over."""

from collections.abc import Sequence
from datetime import timezone, tzinfo
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connections

from django_tasks.coming.adoption import CannotAdopt, Survey, adopt, find, survey
from django_tasks.coming.handlers import without_handler
from django_tasks.coming.places import database
from django_tasks.exceptions import TaskException
from django_tasks.schedules.arguments import zone as zone_of
from django_tasks.store import forerunner

# How many keys one line names, and how many rows that cannot come over are listed.
MOST_NAMES, MOST_REFUSED = 20, 1000


class Command(BaseCommand):
    help = (
        "Bring the tasks of the forerunner's table t_task over: rename that table, make the tables"
        " of django_tasks, copy the rows. Stop everything that uses the table before. A run that"
        " was interrupted is started again in the same way."
    )
    # Its checks look at the tables that this command makes.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("--dry-run", action="store_true", help="say what would be done; change nothing")
        add("--apply", action="store_true", help="do it")
        add("--database", metavar="ALIAS", help="where the table is; default: as the router says")
        add(
            "--timezone",
            metavar="ZONE",
            help="of the times in the table (default: settings.TIME_ZONE)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["dry_run"] == options["apply"]:
            raise CommandError(
                "Say --dry-run to see what would be done, or --apply to do it. Before --apply stop"
                " all processes of the old component and of the site: nobody can see from here if"
                " one still runs, and an old worker would take tasks out of the new table."
            )
        using = database(options["database"])
        _refuse_transaction(using)
        zone = _zone(options["timezone"] or settings.TIME_ZONE)
        try:
            old = find(using)
            seen = survey(old, zone, using=using)
            self._tell(seen, old.name, zone)
            if seen.refused:
                raise CommandError(_refusal(seen.refused, is_dry=options["dry_run"]))
            if options["dry_run"]:
                self._say_steps(is_aside=old.is_aside)
            else:
                adopt(old, zone, self.stdout.write, using=using)
        except (CannotAdopt, DatabaseError) as error:
            again = (
                "" if isinstance(error, TaskException) else "; start it again when that is mended"
            )
            raise CommandError(f"{str(error).strip()}{again}.") from None

    def _tell(self, seen: Survey, table: str, zone: tzinfo) -> None:
        say = self.stdout.write
        say(f"{table} has {seen.total:,} rows to bring over, {len(seen.taken):,} of them taken.")
        if seen.taken:
            say(
                "A taken one was running, or lost, when the old worker stopped. It waits again and"
                f" runs once more: {_some(seen.taken)}."
            )
        if seen.first:
            name, there, moment = seen.first
            utc = moment.astimezone(timezone.utc)
            say(f"Times are read in {zone}. The first: {name} at {there}, that is {utc}.")
        if missing := without_handler(seen.codes):
            say(f"No handler of this project takes {_some(missing)}: such tasks wait for one.")

    def _say_steps(self, *, is_aside: bool) -> None:
        rename = "" if is_aside else f"rename the table to {forerunner.ASIDE}, "
        self.stdout.write(
            f"--apply would {rename}migrate django_tasks and copy the rows. Nothing was changed."
            " Stop all old workers, on all hosts, and the site before."
        )


def _refuse_transaction(using: str) -> None:
    if connections[using].in_atomic_block:
        raise CommandError("adopttasks cannot run inside a transaction: it renames and migrates.")


def _zone(name: str) -> tzinfo:
    try:
        return zone_of(name)
    except TaskException as error:
        raise CommandError(f"--timezone: {error}") from None


def _refusal(refused: Sequence[str], *, is_dry: bool) -> str:
    more = len(refused) - MOST_REFUSED
    lines = [*refused[:MOST_REFUSED], *([f"and {more:,} more"] if more > 0 else [])]
    head = f"Rows that cannot come over, so that none does ({len(refused):,}):"
    end = "Correct or delete them there, by SQL" + ("." if is_dry else "; nothing was changed.")
    return "\n".join([head, *lines, end])


def _some(names: Sequence[str]) -> str:
    """Such as "a, b and 7 more"."""
    shown = ", ".join(names[:MOST_NAMES])
    return f"{shown} and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else shown
