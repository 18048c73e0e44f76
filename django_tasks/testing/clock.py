"""The one clock of the package, in the hands of a test."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import date, datetime, time, timedelta
from typing import Any

from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.store import clock
from django_tasks.store.aliases import write_alias
from django_tasks.store.clock import Source
from django_tasks.testing.decorating import Decorator
from django_tasks.testing.frozen import frozen_now
from django_tasks.timezones import aware, for_django

# A moment as tests write it. Naive ones are in the current time zone; a date is its midnight.
Moment = datetime | date | str
_FORMS = "must be a datetime, a date or an ISO text"


class TaskClock(Decorator):
    """The package's clock, from the entry of its ``with`` block to the end, or in the tests that it
    decorates.

    For ``add_task`` and all other functions of the API, and for what is run in place; in the whole
    process and on every database. Real workers and locks keep to the database's clock.
    """

    def __init__(self, source: Source | None = None) -> None:
        self._given = self._source = source
        self._ahead = timedelta()
        self._blocks: list[ExitStack] = []

    @property
    def now(self) -> datetime:
        """The time that it shows: aware UTC, without ``USE_TZ`` naive local time."""
        return for_django(self._read(write_alias(None)))

    def move_to(self, at: Moment) -> None:
        """Show ``at`` from now on, and stand still.

        Raises TaskTypeError or TaskValueError for what is no moment.
        """
        self._source, self._ahead = _still(moment_of(at)), timedelta()

    def tick(self, delta: timedelta | float = 1.0) -> None:
        """Go on by ``delta``: a timedelta or seconds, less than nothing for the past."""
        self._ahead += _delta(delta)

    def _again(self) -> "TaskClock":
        return self

    def __enter__(self) -> "TaskClock":
        if not self._blocks:  # a function that it decorates may be called again
            self._source, self._ahead = self._first_source(), timedelta()
        with ExitStack() as stack:
            stack.enter_context(clock.replaced(self._read))
            self._blocks.append(stack.pop_all())
        return self

    def __exit__(self, *error: object) -> None:
        self._blocks.pop().close()

    def _first_source(self) -> Source:
        return self._given or _frozen_or_still()

    def _read(self, using: str) -> datetime:
        return (self._source or clock.source())(using) + self._ahead


class _Travel(TaskClock):
    def __init__(self, delta: timedelta) -> None:
        super().__init__()
        self._delta = _delta(delta)

    def _first_source(self) -> Source:
        before, delta = present_source(), self._delta
        return lambda using: before(using) + delta


def freeze_tasks(at: Moment | None = None) -> TaskClock:
    """Stop the package's clock at ``at``: a context manager, or a decorator of tests.

    A naive datetime is in the current time zone, a date is its midnight there; a text is in ISO
    format. Without ``at`` it shows what time-machine or freezegun makes the host's clock show, and
    goes on with it; if neither is at work, it stops now. Raises TaskTypeError or TaskValueError for
    what is no moment.
    """
    return TaskClock(None if at is None else _still(moment_of(at)))


def travel(delta: timedelta) -> TaskClock:
    """Put the package's clock ``delta`` ahead of what it shows: a context manager or a decorator.

    One that stands still goes on standing still; another one goes on. Within each other they add
    up.
    """
    return _Travel(delta)


def moment_of(value: Any, field: str = "at") -> datetime:
    """A moment as a test writes it, as aware UTC. Raises TaskTypeError and TaskValueError."""
    if isinstance(value, str):
        try:
            # Of Python 3.10, which does not know the Z.
            value = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
        except ValueError:
            raise TaskValueError(field, value, _FORMS) from None
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    elif not isinstance(value, datetime):
        raise TaskTypeError(field, value, _FORMS)
    return aware(field, value)


@contextmanager
def at_present() -> Iterator[None]:
    """Have the package share a frozen clock of time-machine or freezegun meanwhile."""
    with clock.replaced(present_source()):
        yield


def present(using: str) -> datetime:
    """The time of a test, aware UTC."""
    return present_source()(using)


def present_source() -> Source:
    """The package's clock, if a test has it in hand; else a frozen one, if any; else as usual."""
    source = clock.source()
    return _frozen_or_usual if source is clock.database_now else source


def _frozen_or_usual(using: str) -> datetime:
    return frozen_now() or clock.database_now(using)


def _frozen_or_still() -> Source:
    source = present_source()
    if source is _frozen_or_usual and frozen_now() is not None:
        return source  # and goes on with it
    return _still(source(write_alias(None)))


def _still(moment: datetime) -> Source:
    return lambda using: moment


def _delta(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return timedelta(seconds=value)
    raise TaskTypeError("delta", value, "must be a timedelta or seconds")
