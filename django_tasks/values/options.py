"""Options of one task: what differs from its handler. No Django."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any, Literal

from django_tasks.backoff import Backoff, Delays, Duration, Exponential, as_backoff, seconds
from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.sentences import sentence as _
from django_tasks.values.amounts import flag, seconds_between, whole_number
from django_tasks.values.releases import Release, checked_release

OnMisfire = Literal["run", "skip", "fail"]
MISFIRES = ("run", "skip", "fail")
# The most missed times that may be run all the same: ``catch_up``.
MOST_MISSED = 100_000
MOST_ATTEMPTS = 10_000
LONGEST = 10 * 366 * 86_400.0


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """Options of one task. None: as its handler says.

    ``max_attempts``        failed runs before it is FAILED, 1 to 10,000
    ``timeout``             timedelta or seconds: see ``TaskHandler``
    ``expires``             it does not start later than this, nor is it tried again: a datetime
                            (naive: in the current time zone), or a timedelta from the add.
                            An expired task is a misfire: FAILED, or skipped
    ``backoff``             a delay, a list of delays, or ``Exponential``
    ``misfire_grace_time``  timedelta or seconds: a run that would start later is a misfire
    ``on_misfire``          "run", "skip" or "fail"
    ``coalesce``            of several times that were missed only the last one runs
    ``catch_up``            the most of them that run
    ``release``             of a handler's own row: the release that has written its schedule. Its
                            workers keep it; another row does not need it

    Raises TaskTypeError or TaskValueError for a value that cannot be used.
    """

    max_attempts: int | None = None
    timeout: Duration | None = None
    expires: datetime | timedelta | None = None
    backoff: Backoff | Duration | Sequence[Duration] | None = None
    misfire_grace_time: Duration | None = None
    on_misfire: OnMisfire | None = None
    coalesce: bool | None = None
    catch_up: int | None = None
    release: Release | str | None = None

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, check(name, value))
        if self.coalesce and self.catch_up is not None:
            raise TaskValueError("catch_up", self.catch_up, _("does not go with coalesce"))
        if self.expires is not None and self.on_misfire == "run":
            raise TaskValueError("on_misfire", "run", _("does not go with expires"))

    def __bool__(self) -> bool:
        return self is not NO_OPTIONS and self != NO_OPTIONS

    def given(self) -> dict[str, Any]:
        """Its options that are not None, by name; a release as its text."""
        values = ((each.name, getattr(self, each.name)) for each in fields(self))
        texts = ((name, str(it) if isinstance(it, Release) else it) for name, it in values)
        return {name: value for name, value in texts if value is not None}

    def over(self, other: "TaskOptions") -> "TaskOptions":
        """These options, and those of ``other`` where these say nothing."""
        return TaskOptions(**{**other.given(), **self.given()})


def options_to_text(options: TaskOptions) -> str | None:
    """Options as JSON, or None if there is none; ``expires`` must be an aware datetime."""
    if not options:
        return None
    return json.dumps({name: _plain(value) for name, value in options.given().items()})


@lru_cache(maxsize=1024)  # a worker reads the same texts again and again
def options_of_text(text: str | None) -> TaskOptions:
    """The options that ``options_to_text`` has written. Raises TaskValueError for another text."""
    if text is None:
        return NO_OPTIONS
    try:
        facts = json.loads(text)
        if expires := facts.get("expires"):
            facts["expires"] = datetime.fromisoformat(expires)
            if facts["expires"].tzinfo is None:
                raise ValueError(_("expires has no offset"))
        if isinstance(backoff := facts.get("backoff"), dict):
            facts["backoff"] = Exponential(**backoff)
        return TaskOptions(**facts)
    except (TypeError, ValueError, AttributeError) as error:
        raise TaskValueError(
            "options", text, _("cannot be read (%(error)s)", error=error)
        ) from None


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat()
    if isinstance(value, Exponential):
        return {"first": seconds(value.first), "factor": value.factor, "cap": seconds(value.cap)}
    return list(value.delays) if isinstance(value, Delays) else value


# What each option may be


def _attempts(field: str, value: Any) -> int:
    return whole_number(field, value, 1, MOST_ATTEMPTS)


def _seconds(field: str, value: Any) -> float:
    return seconds_between(field, value, 0, LONGEST)


def _expires(field: str, value: Any) -> datetime | timedelta:
    if not isinstance(value, (datetime, timedelta)):
        raise TaskTypeError(field, value, _("must be a datetime or a timedelta"))
    if isinstance(value, timedelta) and value <= timedelta():
        raise TaskValueError(field, value, _("must be later than now"))
    return value


def _backoff(field: str, value: Any) -> Exponential | Delays:
    try:
        backoff = as_backoff(value)
    except TypeError:
        raise TaskTypeError(field, value, _BACKOFFS) from None
    except ValueError as error:
        raise TaskValueError(field, value, _("is none (%(error)s)", error=error)) from None
    if not isinstance(backoff, (Exponential, Delays)):
        raise TaskTypeError(field, value, _BACKOFFS)
    return backoff


_BACKOFFS = _("must be a delay, a list of delays or an Exponential: a row can hold nothing else")


def _misfire(field: str, value: Any) -> str:
    if value not in MISFIRES:
        raise TaskValueError(field, value, _("must be 'run', 'skip' or 'fail'"))
    return str(value)


def _catch_up(field: str, value: Any) -> int:
    return whole_number(field, value, 1, MOST_MISSED)


_CHECKS = {
    "max_attempts": _attempts,
    "timeout": _seconds,
    "expires": _expires,
    "backoff": _backoff,
    "misfire_grace_time": _seconds,
    "on_misfire": _misfire,
    "coalesce": flag,
    "catch_up": _catch_up,
    "release": checked_release,
}

NO_OPTIONS = TaskOptions()


def no_options() -> TaskOptions:
    """The options of a task that says none: always the same, for a task is made in microseconds."""
    return NO_OPTIONS


# Those that a caller may give.
NAMES = frozenset(_CHECKS) - {"release"}
