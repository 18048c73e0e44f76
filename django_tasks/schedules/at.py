"""Once."""

from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from django_tasks.exceptions import TaskValueError
from django_tasks.schedules.arguments import UTC, moment
from django_tasks.schedules.base import Asked, PlanOptions, Schedule
from django_tasks.schedules.budget import step
from django_tasks.sentences import sentence as _

if TYPE_CHECKING:
    from typing import Unpack


@dataclass(frozen=True, repr=False, init=False)
class At(Schedule):
    """Once, at an aware datetime; nothing if that has passed.

    Raises TaskValueError for a naive datetime and for one outside of ``start`` and ``end``,
    TaskTypeError for anything else.
    """

    when: datetime

    def __init__(self, when: datetime, /, **options: "Unpack[PlanOptions]") -> None:
        self._become(options, when=moment("at", when))

    def _fire(self, asked: Asked) -> datetime | None:
        step()
        when = self.when.astimezone(UTC)
        return when if when > asked.after else None

    def _zone(self) -> tzinfo | None:
        return self.when.tzinfo

    def _said(self) -> str:
        return f"at {self.when.isoformat()}"

    def _shortest(self) -> None:
        return None

    def _opening(self) -> datetime:
        return self.start or self.when

    def _check_that_it_fires(self) -> None:
        if self.end is not None and self.end < self.when:
            raise TaskValueError("at", self.when.isoformat(), _("is after its end"))
        if self.start is not None and self.start > self.when:
            raise TaskValueError("at", self.when.isoformat(), _("is before its start"))
