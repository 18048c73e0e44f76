"""The manners that the commands for people share: arguments, answers, exit codes."""

import getpass
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser, OutputWrapper
from django.db import Error
from django.utils.translation import gettext, override
from django.utils.translation import gettext_lazy as _

from django_tasks.client.doubts import doubts
from django_tasks.exceptions import TaskException
from django_tasks.importers.found import database
from django_tasks.management import output
from django_tasks.sentences import plain
from django_tasks.store import clock, tables

# Exit codes: something is wrong with the tasks, or with the way in which the command was called.
TROUBLE, USAGE = 1, 2
# A line of progress comes each time that so many tasks are done, where there is no bar.
EVERY = 5000
NO_TQDM = _(
    "There is no progress bar without tqdm (pip install "
    "'django-delayed-tasks[progress]'): a line comes now and then."
)


def tqdm_class() -> Any | None:
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    return tqdm


class ProgressBar:
    """``advance`` by what has been done; used as a context. ``say`` writes one line."""

    def __init__(
        self, total: int | None, say: Callable[[str], None], *, is_wanted: bool, is_quiet: bool
    ) -> None:
        """``is_wanted``: somebody has asked for a bar. ``is_quiet``: nothing is to be said."""
        self._total = total
        self._say = say
        self._done = 0
        self._is_quiet = is_quiet
        self._bar: Any = None
        if not is_quiet and (is_wanted or _is_terminal()):
            tqdm = tqdm_class()
            if tqdm is not None:
                self._bar = tqdm(total=total, unit=gettext(" tasks"), file=sys.stderr, leave=False)
            elif is_wanted:
                say(str(NO_TQDM))

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *raised: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def advance(self, count: int) -> None:
        before, self._done = self._done, self._done + count
        if self._bar is not None:
            self._bar.update(count)
        elif not self._is_quiet and self._done // EVERY > before // EVERY:
            if self._total is None:
                text, total = gettext("%(done)s tasks"), 0
            else:
                text, total = gettext("%(done)s of %(total)s tasks"), self._total
            self._say(text % {"done": f"{self._done:,}", "total": f"{total:,}"})


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


class OfLines(CommandError):
    """An error of several lines."""

    def __init__(self, *lines: object) -> None:
        super().__init__("\n".join(map(plain, lines)))


class TranslatedCommand(BaseCommand):
    """A command whose ``help`` is lazy: argparse takes nothing but text.

    It does its work, and ends with its usual code, also if nobody reads its output to the end.
    Nothing that it says moves the cursor, whatever stands in rows.
    """

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        self.help = str(self.help)
        return super().create_parser(prog_name, subcommand, **kwargs)

    def execute(self, *args: Any, **options: Any) -> str | None:
        given = options.get("stdout")
        out = output.Unread(OutputWrapper(given) if given else self.stdout)
        try:
            return super().execute(*args, **{**options, "stdout": out})
        except OfLines:
            raise
        except CommandError as error:
            error.args = (plain(error),)
            raise
        finally:
            out.flush()

    def say(self, *lines: Any) -> None:
        """Write each value as a line."""
        for line in lines:
            self.stdout.write(plain(line))

    def warn(self, line: str) -> None:
        self.stderr.write(plain(line))


@contextmanager
def told_of_errors(using: str) -> Iterator[None]:
    """Turn an error of the database ``using`` into a sentence and exit code 1."""
    try:
        yield
    except Error as error:
        raise CommandError(str(tables.words(error, using))) from None


class TaskCommand(TranslatedCommand):
    """``answer`` does the work. What the package refuses is one sentence and exit code 2."""

    # It must work on a night when the checks of some other app do not pass.
    requires_system_checks: list[str] = []

    using: str
    is_json: bool

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        # A flag that is nearly another one is not to be taken for it.
        return super().create_parser(prog_name, subcommand, **{"allow_abbrev": False, **kwargs})

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add(
            "--database",
            metavar="ALIAS",
            help=gettext("where the tasks are; default: as the router says"),
        )
        add(
            "--format",
            choices=(output.TEXT, output.JSON),
            default=output.TEXT,
            help=gettext("for people, or for programs (%(default)s)"),
        )

    def add_key(self, parser: CommandParser) -> None:
        """Add the arguments that name one task."""
        parser.add_argument("code", help=gettext("its biz_code"))
        parser.add_argument("number", help=gettext("its biz_num"))

    def add_progress(self, parser: CommandParser) -> None:
        text = gettext("show a progress bar also in a file or a pipe")
        parser.add_argument("--progress", action="store_true", help=text)

    def warn_of_names(self, code: str, queue: str | None) -> None:
        """Tell of a code or queue that may be misspelt, where nothing was found of it."""
        for doubt in doubts(code, queue, using=self.using):
            self.warn(str(doubt))

    def handle(self, *args: Any, **options: Any) -> None:
        self.is_json = options["format"] == output.JSON
        try:
            self.using = database(options["database"])
        except CommandError as error:
            raise usage(str(error)) from None
        try:
            # Programs read it, which know one language.
            with told_of_errors(self.using), override("en") if self.is_json else nullcontext():
                self.answer(options)
        except TaskException as error:
            raise usage(gettext("%(error)s.") % {"error": error}) from None

    def answer(self, options: dict[str, Any]) -> None:
        raise NotImplementedError

    @property
    def now(self) -> datetime:
        """The clock of the database."""
        return clock.now(self.using)

    def say_json(self, value: Mapping[str, Any]) -> None:
        self.stdout.write(output.as_json(value))

    def progress(self, total: int | None, options: dict[str, Any]) -> ProgressBar:
        """The progress of a long change, which says nothing between the lines of JSON."""
        is_wanted = options["progress"]
        return ProgressBar(total, self.stderr.write, is_wanted=is_wanted, is_quiet=self.is_json)

    def say_table(
        self, heads: Sequence[Any], rows: Iterable[list[Any]], spare: Iterable[int] = ()
    ) -> None:
        self.say(*output.table([str(head) for head in heads], rows, output.width(), spare))


def usage(sentence: str) -> CommandError:
    return CommandError(sentence, returncode=USAGE)


def trouble(sentence: str) -> CommandError:
    return CommandError(sentence, returncode=TROUBLE)


def person() -> str:
    """The user of the operating system, for a note of who did it; empty if it has no name."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container may run as a bare number
        return ""
