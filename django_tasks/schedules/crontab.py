"""The five fields of crontab, or six with seconds first. The syntax is that of cronsim."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from django_tasks.exceptions import TaskException, TaskValueError
from django_tasks.schedules.base import LONGEST, SOMEWHERE
from django_tasks.sentences import sentence as _

if TYPE_CHECKING:
    from cronsim import CronSim


@dataclass(frozen=True)
class Crontab:
    """An expression of crontab in its canonical spelling, of which there is a wall time."""

    expression: str

    opening: ClassVar[datetime] = SOMEWHERE

    @property
    def hours(self) -> str:
        return self.expression.split()[-4]

    def walls(self, after: datetime) -> Iterator[datetime]:
        """The wall times strictly later than ``after``; they know no daylight saving time."""
        try:
            yield from _cronsim(self.expression, after)
        except (ValueError, OverflowError):  # behind the last year there is
            return

    def __str__(self) -> str:
        return self.expression


def read_crontab(text: str) -> Crontab:
    """The expression that ``text`` is, whatever its case and blanks.

    Raises TaskValueError for one that is too long, cannot be read or never fires, TaskException if
    cronsim is not installed.
    """
    if len(text) > LONGEST:
        raise TaskValueError(
            "cron", text, _("is longer than %(longest)s characters", longest=f"{LONGEST:,}")
        )
    canonical = " ".join(text.upper().split())
    reason = _wrong_with(canonical)
    if reason is None:
        return Crontab(canonical)
    if _is_impossible_date(canonical):
        raise TaskValueError(
            "cron", text, _("is a schedule that never fires (%(reason)s)", reason=reason)
        )
    raise TaskValueError("cron", text, _("is no cron expression (%(reason)s)", reason=reason))


def _cronsim(expression: str, wall: datetime) -> "CronSim":
    try:
        from cronsim import CronSim
    except ImportError:
        raise TaskException(
            _("a Cron of crontab's fields needs cronsim: pip install 'django-delayed-tasks[cron]'")
        ) from None
    return CronSim(expression, wall)


def _wrong_with(expression: str) -> str | None:
    """The library's reason why there is no time for an expression."""
    try:
        first = next(_cronsim(expression, SOMEWHERE.replace(tzinfo=None)), None)
    except TaskException:
        raise
    except Exception as error:  # noqa: BLE001 - CronSimError, which is there if cronsim is
        return str(error)
    return _("no such date") if first is None else None


def _is_impossible_date(expression: str) -> bool:
    """Tell if there would be a time on other days, and in other months."""
    fields = expression.split()
    if len(fields) not in (5, 6):
        return False
    *clock, day, month, weekday = fields
    others = ((*clock, "*", month, weekday), (*clock, day, "*", weekday))
    return all(_wrong_with(" ".join(other)) is None for other in others)
