"""Releases of a project: the newer of two says when a handler runs. No Django."""

import re
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.sentences import sentence as _

LONGEST_NAME = 50
# Two processes of one release measure the moment of its start by round trips of their own.
SAME_START = timedelta(seconds=5)


class Release(NamedTuple):
    """The moment at which its first process started here, aware UTC by the database's clock; and
    the setting RELEASE, or an empty text.
    """

    started: datetime
    name: str = ""

    def __str__(self) -> str:
        return f"{self.started.isoformat()} {self.name}".rstrip()

    def is_older_than(self, other: "Release") -> bool:
        """Tell by the names, where both have one and one is greater; by the moments otherwise."""
        if self.name and other.name and (own := _grown(self.name)) != (its := _grown(other.name)):
            return own < its
        return other.started - self.started > SAME_START


def checked_release(field: str, value: Any) -> Release:
    """The release that a row keeps, or its text. Raises TaskTypeError or TaskValueError."""
    if isinstance(value, Release):
        return value
    if not isinstance(value, str):
        raise TaskTypeError(field, value, _("must be a text"))
    moment, _blank, name = value.partition(" ")
    try:
        started = datetime.fromisoformat(moment)
    except ValueError:
        started = None
    if started is None or started.tzinfo is None:
        raise TaskValueError(field, value, _("must begin with a time and its offset"))
    return Release(started, name)


def release_name(value: Any) -> str:
    """The setting RELEASE as a text. Raises TypeError or ValueError."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError(_("must be a whole number or a text that grows"))
    name = str(value).strip()
    if len(name) > LONGEST_NAME:
        raise ValueError(_("must be up to %(number)s characters", number=LONGEST_NAME))
    return name


def _grown(name: str) -> list[tuple[int, str]]:
    """A key to sort names by: what is a number in them counts as one, so "v10" is after "v9"."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return [(int(part), "") if part[0].isdigit() else (-1, part) for part in parts]
