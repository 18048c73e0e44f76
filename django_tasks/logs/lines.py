"""The way of every line: from its sentence to the project's filters and handlers."""

import logging
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import time
from types import CodeType, TracebackType
from typing import Any

from django_tasks.logs.phrases import harmless, in_short
from django_tasks.sentences import CONTROLS, Sentence, in_english, plain

logger = logging.getLogger("django_tasks")

Post = Callable[[Callable[[], None]], None]
Caught = tuple[type[BaseException], BaseException, TracebackType | None]


class _Outlet(threading.local):
    """The writer of a thread's lines; None: it writes them itself."""

    post: Post | None = None


_outlet = _Outlet()


def send_through(post: Post | None) -> None:
    """Have the lines of the current thread written by ``post``; None: by itself again.

    For a thread that must not wait for a project's filters and handlers. ``post`` gets a function
    without arguments, to be called once, in another thread: it makes the record and hands it on.
    The record tells the time, the thread and the exception of the moment when it was said.
    """
    _outlet.post = post


def say(
    event: str,
    level: int,
    text: str,
    words: Mapping[str, Any] | None = None,
    /,
    *,
    exc_info: Any = None,
    **fields: Any,
) -> None:
    """Log a line, as of the function that calls this. Every line of the package goes here.

    ``event`` is its name, for programs: it stays when the words change. So do ``fields``, the facts
    of the line by name; they are texts, numbers, None, and collections of those, or an exception,
    which is told in short. ``text`` names the facts, and the ``words``, which are for it alone.
    ``exc_info`` is an exception, or True for the one at hand.
    """
    if not logger.isEnabledFor(level):
        return
    caller = sys._getframe(1)
    error: BaseException | None = sys.exc_info()[1] if exc_info is True else exc_info
    caught = None if error is None else (type(error), error, error.__traceback__)
    place = caller.f_code, caller.f_lineno
    fields["event"] = event
    thread = threading.current_thread()
    line = _Line(level, text, words or {}, caught, fields, place, time(), thread)
    if _outlet.post is None:
        line.write()
    else:
        _outlet.post(line.write)


class Unshowable(Exception):
    """In a log line, in place of an exception whose own methods raise when it is formatted."""


def _showable(caught: Caught) -> Caught:
    """The exception, or one that names it: no handler could write a line with the other one."""
    kind, error, _ = caught
    try:
        traceback.format_exception(kind, error, None)
    except BaseException:  # noqa: BLE001 - methods of a project's exception may raise anything
        stand_in = Unshowable(f"{kind.__name__} (its traceback cannot be formatted)")
        return Unshowable, stand_in, None
    return caught


def _in_words(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts that are put into words here and now: those that read the record may do so later."""
    return {name: _told(value) for name, value in facts.items()}


def _told(value: Any) -> Any:
    if isinstance(value, BaseException):
        return in_short(value)
    return str(value) if isinstance(value, Sentence) else value


@dataclass(frozen=True, slots=True)
class _Line:
    level: int
    text: str
    words: Mapping[str, Any]
    caught: Caught | None
    fields: dict[str, Any]
    place: tuple[CodeType, int]
    created: float
    thread: threading.Thread

    def write(self) -> None:
        """Make the record and hand it to the filters and handlers: in English, as one line."""
        try:
            with in_english():
                self._write()
        except Exception:  # noqa: BLE001 - a stranger's filter: it must change no end of a run
            if logging.raiseExceptions:
                traceback.print_exc()

    def _write(self) -> None:
        code, number = self.place
        fields = _in_words(self.fields)
        text, args = self.text, ({**fields, **_in_words(self.words)},)
        if CONTROLS.search(line := text % args[0]):
            text, args = "%(line)s", ({"line": plain(line)},)
        record = logger.makeRecord(
            logger.name,
            self.level,
            code.co_filename,
            number,
            text,
            args,
            self.caught and _showable(self.caught),
            func=code.co_name,
            extra={name: harmless(value) for name, value in fields.items()},
        )
        record.relativeCreated -= (record.created - self.created) * 1000
        record.created = self.created
        record.msecs = float(int(self.created % 1 * 1000))
        record.thread, record.threadName = self.thread.ident, self.thread.name
        logger.handle(record)
