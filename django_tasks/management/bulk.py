"""One step for all tasks that match filters: what the commands that do so have in common."""

import sys
from collections.abc import Generator, Iterator
from typing import Any, ClassVar

from django.core.management.base import CommandParser
from django.utils.translation import gettext, ngettext

from django_tasks.client.arguments import check_code, check_queue
from django_tasks.client.changes import Piece, Step
from django_tasks.management.base import TaskCommand, trouble, usage
from django_tasks.management.choosing import add_filters, filter_of
from django_tasks.models import Pause
from django_tasks.reads.filters import TaskFilter
from django_tasks.reads.many import meant, steps
from django_tasks.reads.plain import amount
from django_tasks.reads.words import Amount, counted, scope_words
from django_tasks.sentences import plain
from django_tasks.values.status import Status

# More tasks than this are not changed without a word of somebody.
MOST_UNASKED = 100
# A count that is shown before something is done goes no further.
MOST_COUNTED = 100_000


class BulkCommand(TaskCommand):
    """``step`` is taken with what the filters find; ``--all`` with every task."""

    step: ClassVar[Step]
    # Lazy plurals by "number", of "%(count)s" and "%(words)s".
    would: ClassVar[Any]
    done: ClassVar[Any]
    asks: ClassVar[str]

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        add_filters(parser)
        add_manners(parser)
        self.add_progress(parser)

    def answer(self, options: dict[str, Any]) -> None:
        which = filter_of(options, self.using)
        refuse_everything(which, options)
        self.take(which, options)

    def take(self, which: TaskFilter, options: dict[str, Any]) -> None:
        """Take the step with the tasks of ``which``; of an empty one, with all."""
        which = which.settled(self.using)  # what is counted is what is changed
        count = counted(sum(self._count(each) for each in self.parts(which)), MOST_COUNTED)
        if not count.number:
            self.warn_of_names(which.code, which.queue)
        if options["dry_run"]:
            self._tell_would(which, count)
            return
        if count.number > MOST_UNASKED and not options["yes"]:
            self._ask(which, count)
        changed, left, going = self._take(which, count, options)
        if self.is_json:
            self.say_json(
                {
                    "filter": which.params(),
                    "changed": changed,
                    "left": left,
                    "running": going,
                }
            )
            return
        self.say(_said(self.done, Amount(changed), which))
        self._tell_rest(left, going)

    def parts(self, which: TaskFilter) -> list[TaskFilter]:
        """The filters to go through: every task is those of each status.

        What is being cancelled comes before what runs, which is being cancelled after that.
        """
        if which:
            return [which]
        statuses = [Status.CANCELLING, *(each for each in Status if each != Status.CANCELLING)]
        return [TaskFilter(status=status) for status in statuses]

    def batches(self, part: TaskFilter, options: dict[str, Any]) -> Generator[Piece, None, None]:
        return steps(part, self.step, using=self.using)

    def _count(self, part: TaskFilter) -> int:
        rows = meant(part, self.step, using=self.using, now=self.now)
        return rows.values("pk")[: MOST_COUNTED + 1].count()

    def _take(
        self, which: TaskFilter, count: Amount, options: dict[str, Any]
    ) -> tuple[int, int, int]:
        changed = left = going = 0
        try:
            with self.progress(None if count.is_more else count.number, options) as shown:
                for batch in self._all_batches(which, options):
                    changed, left = changed + batch.changed, left + batch.left
                    going += batch.going
                    shown.advance(batch.seen)
        except KeyboardInterrupt:
            sentence = gettext("Stopped before the end. %(sentence)s") % {
                "sentence": _said(self.done, Amount(changed), which)
            }
            raise trouble(sentence) from None
        return changed, left, going

    def _all_batches(self, which: TaskFilter, options: dict[str, Any]) -> Iterator[Piece]:
        for part in self.parts(which):
            batches = self.batches(part, options)
            try:
                yield from batches
            finally:
                batches.close()  # now, and not when it is collected: it tells of what was done

    def _tell_would(self, which: TaskFilter, count: Amount) -> None:
        if self.is_json:
            self.say_json({"filter": which.params(), "dry_run": True, **amount(count)})
        else:
            self.say(_said(self.would, count, which))

    def _tell_rest(self, left: int, going: int) -> None:
        if left:
            self.say(
                ngettext(
                    "%(count)s did not match any more when its turn came.",
                    "%(count)s did not match any more when their turn came.",
                    left,
                )
                % {"count": f"{left:,}"}
            )
        if going:
            self.say(
                ngettext(
                    "%(count)s of them runs, and is gone when its run ends.",
                    "%(count)s of them run, and are gone when their runs end.",
                    going,
                )
                % {"count": f"{going:,}"}
            )

    def _ask(self, which: TaskFilter, count: Amount) -> None:
        sentence = _said(self.would, count, which)
        if sys.stdin is None or not sys.stdin.isatty():
            raise usage(
                gettext("%(sentence)s So many are changed with --yes only.")
                % {"sentence": sentence}
            )
        if input(_question(sentence, self.asks)).strip().lower() not in ("y", "yes"):
            raise trouble(gettext("Nothing was changed."))


class PauseCommand(BulkCommand):
    """The common part of pausing and resuming: of a whole, or task by task."""

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
        if is_dry:
            self.warn_of_names(which.code, which.queue)
        changed = False if is_dry else self.whole(code or "", queue or "")
        if self.is_json:
            said: dict[str, Any] = {"biz_code": code or "", "queue": queue or ""}
            self.say_json(said | ({"dry_run": True} if is_dry else {"changed": changed}))
            return
        sentence = self.done_whole if changed else self.nothing_whole
        scope = scope_words(Pause(biz_code=code or "", queue=queue or ""))
        self.say(str(self.would_whole if is_dry else sentence) % {"scope": scope})


def _question(sentence: str, asks: Any) -> str:
    # The answers stay: scripts give them.
    words = {"sentence": plain(sentence), "question": asks}
    return gettext("%(sentence)s %(question)s [y/N] ") % words


def add_manners(parser: CommandParser) -> None:
    add = parser.add_argument
    add("--all", action="store_true", help=gettext("every task there is"))
    add(
        "--dry-run",
        action="store_true",
        help=gettext("count what would be changed; change nothing"),
    )
    add(
        *("--yes", "-y", "--no-input", "--noinput"),
        dest="yes",
        action="store_true",
        help=gettext("do not ask, also for more than %(most)s tasks") % {"most": MOST_UNASKED},
    )


def refuse_everything(which: TaskFilter, options: dict[str, Any]) -> None:
    if not which and not options["all"]:
        raise usage(
            gettext("Say which tasks are meant, by --code, --failed or another filter, or --all.")
        )
    if which and options["all"]:
        raise usage(gettext("--all means every task: say it without a filter."))


def _said(plural: Any, count: Amount, which: TaskFilter) -> str:
    number = f"{count.number:,}"
    if count.is_more:
        number = gettext("More than %(count)s") % {"count": number}
    return str(plural % {"number": count.number, "count": number, "words": which.words()})
