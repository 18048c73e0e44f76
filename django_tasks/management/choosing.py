"""The tasks that a command is about, as arguments: the filters of the lists."""

from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandParser
from django.db.models import Q
from django.utils.translation import gettext

from django_tasks.exceptions import TaskValueError
from django_tasks.management.times import past
from django_tasks.models import WorkerRow
from django_tasks.reads.filters import TaskFilter
from django_tasks.store import clock
from django_tasks.values.status import Status

Add = Callable[..., Any]  # of an argument, to a parser or to a group of them

_FLAGS = ("failed", "late", "due", "future")


def add_filters(parser: CommandParser) -> None:
    """Add an argument for each condition; all that are given must hold."""
    group = parser.add_argument_group(gettext("tasks"))
    _add_states(group.add_mutually_exclusive_group().add_argument)
    _add_names(group.add_argument)
    _add_kinds(group.add_mutually_exclusive_group().add_argument)
    _add_troubles(group.add_argument)


def _add_states(add: Add) -> None:
    names = [status.name.lower() for status in Status]
    add("--status", choices=names, help=gettext("in this state"))
    add("--failed", action="store_true", help=gettext("have FAILED"))
    late = gettext("due for more than a minute, not paused")
    add("--late", action="store_true", help=late)
    add("--due", action="store_true", help=gettext("due now"))
    add("--future", action="store_true", help=gettext("due later"))


def _add_names(add: Add) -> None:
    add("--code", default="", help=gettext("of this biz_code"))
    add("--number", default="", help=gettext("with exactly this biz_num, of any code or of --code"))
    add("--queue", help=gettext("in this queue"))


def _add_kinds(add: Add) -> None:
    facts: dict[str, Any] = {"dest": "recurring", "action": "store_const"}
    add("--recurring", const=True, help=gettext("with a schedule of their own"), **facts)
    add("--once", const=False, help=gettext("without a schedule"), **facts)


def _add_troubles(add: Add) -> None:
    add("--worker", metavar="ID|NAME", help=gettext("claimed by this worker"))
    add("--stuck", action="store_true", help=gettext("claimed by a worker that is gone or silent"))
    exception = gettext("failed with it, such as ConnectionError")
    add("--exception", default="", metavar="CLASS", help=exception)
    add("--error", default="", metavar="TEXT", help=gettext("failed with this text in the error"))
    search = gettext(
        "part of a number of --code; or a code, the beginning of a number, code/beginning"
    )
    add("--search", default="", metavar="TEXT", help=search)
    since = gettext("have failed (or changed) since then: midnight, 2h, 02:14")
    add("--since", metavar="TIME", help=since)


def filter_of(options: dict[str, Any], using: str) -> TaskFilter:
    """The filter that the arguments make; TaskValueError for a value that no task can have."""
    given = {name: options[name] for name in ("code", "number", "queue", "recurring", "stuck")}
    given |= {name: options[name] for name in ("exception", "error", "search")}
    if options["failed"]:
        given["status"] = Status.FAILED
    elif options["status"]:
        given["status"] = Status[options["status"].upper()]
    given["due"] = next((name for name in _FLAGS[1:] if options[name]), "")
    if options["since"] is not None:
        given["since"] = past("--since", options["since"], clock.now(using))
    if options["worker"] is not None:
        given["worker"] = _worker(options["worker"], using)
    return TaskFilter(**given)


def _worker(text: str, using: str) -> int:
    if text.isascii() and text.isdecimal() and len(text) < 19:
        return int(text)
    rows = WorkerRow._base_manager.using(using)
    found = list(rows.filter(Q(name=text) | Q(name__startswith=f"{text}:"))[:2])
    if len(found) != 1:
        problem = (
            gettext("are several workers: say the whole name") if found else gettext("is no worker")
        )
        raise TaskValueError("worker", text, problem)
    return int(found[0].pk)
