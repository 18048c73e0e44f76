"""Everything this package raises to its callers: one family under ``TaskException``.

Each is also the built-in exception that a Django user would expect, so that
``except ValueError`` works without knowing this module.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from django_tasks.sentences import Sentence
from django_tasks.sentences import sentence as _


class TaskException(Exception):
    """The root of the family."""


class TaskValueError(TaskException, ValueError):
    """A value that cannot be stored; ``field`` and ``value`` name it.

    ``index`` is the place of the bad task in the iterable given to ``add_tasks``, else None.
    """

    def __init__(
        self, field: str, value: object, problem: str, *, index: int | None = None
    ) -> None:
        super().__init__(field, value, problem)
        self.field = field
        self.value = value
        self.problem = problem
        self.index = index

    @property
    def sentence(self) -> Sentence:
        about = {"field": self.field, "problem": self.problem, "value": shortened(self.value)}
        if self.index is None:
            return _("%(field)s %(problem)s: %(value)s", **about)
        return _("item %(index)s: %(field)s %(problem)s: %(value)s", index=self.index, **about)

    def __str__(self) -> str:
        return str(self.sentence)


class NotHere(TaskException):
    """Beyond this process, and perhaps not beyond another one: a time zone or a library that this
    host lacks, a trigger of another release.
    """


class ValueNotHere(TaskValueError, NotHere):
    """A value that means nothing on this host."""


class TaskTypeError(TaskValueError, TypeError):
    """A value of the wrong type."""


class TaskExists(TaskValueError):
    """``add_task(..., on_conflict="raise")`` met a task with the same key."""


class DirectWrite(TaskException, RuntimeError):
    """A task was to be saved, changed or deleted by the ORM and not by a function of the API."""

    def __init__(self, call: str, instead: str) -> None:
        super().__init__(call, instead)
        self.call = call
        self.instead = instead

    @property
    def sentence(self) -> Sentence:
        return _(
            "%(call)s() would write tasks behind the workers' backs; call %(instead)s instead",
            call=self.call,
            instead=self.instead,
        )

    def __str__(self) -> str:
        return str(self.sentence)


class UnknownDatabase(TaskException, LookupError):
    """A database alias that ``settings.DATABASES`` does not have."""


class HandlerError(TaskException, ValueError):
    """A handler that cannot be registered: no code, a code twice, nothing to run. Or a ``HandOver``
    whose target is missing, or is none.
    """


class ClaimLost(TaskException):
    """Raised inside an ``atomic`` run whose row has gone to somebody else: it rolls back.

    ``ids`` are those of the rows.
    """

    def __init__(self, message: str, ids: Collection[int] = ()) -> None:
        super().__init__(message)
        self.ids = ids


class Misfired(TaskException):
    """A task was parked: it would have started later than it may."""


class RetryLater(TaskException):
    """Raised by a handler: this attempt has failed; try again at a time of its choice.

    ``when``: a datetime (naive: in the current time zone) or a timedelta from now. It counts as an
    attempt like any other.
    """

    def __init__(self, when: datetime | timedelta, reason: str = "") -> None:
        super().__init__(when, reason)
        self.when = when
        self.reason = reason

    def __str__(self) -> str:
        return self.reason or str(_("to be tried again: %(when)s", when=self.when))


class TaskTimeout(TaskException):
    """Raised in the thread of a plain handler when its ``timeout`` has passed, at any place there.

    Its words come when it has left the handler. A handler may catch it, to tidy up and raise it
    again. It is no TimeoutError, for that is an OSError, and code that meets errors of the system
    and goes on (``pathlib``, ``shutil``, the ``poll`` of multiprocessing) would swallow it.
    """


class LockTaken(TaskException, TimeoutError):
    """Somebody else holds the lock, and did so for as long as the caller would wait.

    ``name``; ``holder``, "host:pid:token"; ``term``; ``since``, aware UTC, when it was taken;
    ``until``, aware UTC, when its lease ends unless it is renewed; and ``attributes``: as they were
    at the last look. The holder is empty, and the times are None, if it has left since.
    """

    def __init__(
        self,
        message: str,
        name: str = "",
        holder: str = "",
        term: int = 0,
        since: datetime | None = None,
        until: datetime | None = None,
        attributes: Any = None,
    ) -> None:
        super().__init__(message)
        self.name = name
        self.holder = holder
        self.term = term
        self.since = since
        self.until = until
        self.attributes = attributes


class LockLost(TaskException, RuntimeError):
    """A lock is not held any more although its section goes on, or went on."""


class LockInTransaction(TaskException, RuntimeError):
    """A lock was asked for inside a transaction, where it would protect nothing."""


class CannotStart(TaskException, RuntimeError):
    """``start()`` was called in a process where a worker could not run."""


def shortened(value: Any, limit: int = 80) -> str:
    """``repr(value)``, at most ``limit`` characters, never failing."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - a stranger's __repr__ may raise anything
        text = f"<{type(value).__name__} whose repr fails with {type(error).__name__}>"
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
