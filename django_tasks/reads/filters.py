"""The tasks that a person means: what a list shows and what a change of many tasks meets.

An index bounds each look. The claim index has rows by status, then lane by lane by time; the unique
one has them by code, then by number. So conditions about failures mean FAILED rows unless a status
is named, due times are looked up lane by lane, and a number code by code.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from itertools import product
from typing import Any, Literal

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils.dateparse import parse_datetime
from django.utils.formats import number_format
from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy

from django_tasks.client.many import status_of
from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.models import Pause, Task, WorkerRow
from django_tasks.reads.words import stamp
from django_tasks.sentences import sentence as _
from django_tasks.store import search
from django_tasks.store.lanes import Lane, every_lane
from django_tasks.timezones import aware, for_django
from django_tasks.values.amounts import whole_number
from django_tasks.values.keys import (
    BIZ_CODE_LENGTH,
    BIZ_NUM_LENGTH,
    QUEUE_LENGTH,
    check_key,
    check_text,
)
from django_tasks.values.status import OWNED, Status

# A task that is due for longer than this is late: a worker that has nothing else to do would have
# taken it long ago.
LATE_SECONDS = 60
# Of more lanes, or codes, than this, one condition about each would cost more than it saves.
MOST_PLACES = 200
# A code with more tasks than this is not looked through for a part of a number.
MOST_SEARCHED = 20_000
LONGEST_EXCEPTION = 200
LONGEST_ERROR = 1000

Due = Literal["", "due", "late", "future"]
_DUE_WORDS: dict[str, Promise] = {
    "due": gettext_lazy("due now"),
    "late": gettext_lazy("late"),
    "future": gettext_lazy("due in the future"),
}
_MOST_ID = 2**63 - 1

SearchAs = Literal["", "code", "begins", "contains"]
# What a search may mean, within a code and without one.
_WITHIN_A_CODE = ("begins", "contains")
_EVERYWHERE = ("code", "begins")


@dataclass(frozen=True, kw_only=True)
class TaskFilter:
    """The tasks that are meant: all that match everything that is set.

    ``due``: "due" now, "late" (for more than LATE_SECONDS, and not paused as a whole) or "future",
    each of what is PENDING. ``number`` is one number, exactly. ``worker``: the id of the worker
    that has claimed them. ``stuck``: claimed by a worker that is gone or silent. ``exception``: a
    class, or the end of its path. ``error``: a text in the last error. ``since``: nothing has
    changed them before. These three mean what FAILED unless ``status``, ``due``, ``worker`` or
    ``stuck`` says otherwise. ``search``: any part of a number within ``code``, but the beginning
    if it has more than MOST_SEARCHED tasks; without a code a whole code, and if there is none of
    that name, the beginning of a number in every code, or "code/beginning". Which of these it is
    depends on the rows that are there: ``search_as`` says it once for all, "code", "begins" or
    "contains"; see ``settled``.
    """

    status: Status | None = None
    due: Due = ""
    recurring: bool | None = None
    code: str = ""
    number: str = ""
    queue: str | None = None
    worker: int | None = None
    stuck: bool = False
    exception: str = ""
    search: str = ""
    search_as: SearchAs = ""
    error: str = ""
    since: datetime | None = None

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            value = getattr(self, name)
            if value not in ("", None):
                object.__setattr__(self, name, check(name, value))
        for name in ("due", "code", "number", "exception", "search", "search_as", "error"):
            if getattr(self, name) is None:
                raise TaskTypeError(name, None, _("must be a string"))
        for name in ("recurring", "stuck"):
            if not isinstance(getattr(self, name), bool | None):
                raise TaskTypeError(name, getattr(self, name), _("must be True or False"))
        self._check_search_as()

    def _check_search_as(self) -> None:
        if self.search_as and not self.search:
            raise TaskValueError("search_as", self.search_as, _("goes with search alone"))
        meanings = _WITHIN_A_CODE if self.code else _EVERYWHERE
        if self.search_as and self.search_as not in meanings:
            raise none_of("search_as", self.search_as, meanings)

    def __bool__(self) -> bool:
        """Tell if anything is set."""
        return bool(self.params())

    def params(self) -> dict[str, str]:
        """The values that are set, for the query of a URL; ``from_params`` reads it back."""
        values = {each.name: (getattr(self, each.name), each.default) for each in fields(self)}
        return {
            name: _as_param(value) for name, (value, default) in values.items() if value != default
        }

    @classmethod
    def from_params(cls, params: Mapping[str, str]) -> "TaskFilter":
        """Read the query of a URL; what is not about tasks in it is left alone.

        Raises TaskValueError for a value that nothing can have.
        """
        given = {each.name: params.get(each.name, "").strip() for each in fields(cls)}
        values: dict[str, Any] = {
            name: _READERS[name](name, text) if name in _READERS else text
            for name, text in given.items()
            if text
        }
        return cls(**values)

    def settled(self, using: str) -> "TaskFilter":
        """The same filter, with what its ``search`` means now; it means that from now on.

        For a count, the question about it, and the change: between them, and between two batches,
        a code may go, or grow.
        """
        if not self.search or self.search_as:
            return self
        return replace(self, search_as=self._search_as(using))

    def hint(self) -> str:
        """A sentence about what a settled search leaves out; empty if it does not."""
        if not (self.code and self.search_as == "begins"):
            return ""
        text = gettext(
            "Of a code with more than %(most)s tasks, only the beginning of a number is sought."
        )
        return text % {"most": number_format(MOST_SEARCHED, force_grouping=True)}

    def words(self) -> str:
        """One phrase for people, such as "failed, code refund, ConnectionError"."""
        return gettext(", ").join(self._words()) or gettext("all tasks")

    def _words(self) -> Iterator[str]:
        if (status := self._status()) is not None:
            yield str(status.label)
        if self.due:
            yield str(_DUE_WORDS[self.due])
        if self.stuck:
            yield gettext("stuck")
        if self.recurring is not None:
            yield gettext("recurring") if self.recurring else gettext("not recurring")
        for phrase, value in (
            (gettext_lazy("code %(value)s"), self.code),
            (gettext_lazy("number %(value)s"), self.number),
            (gettext_lazy("queue %(value)s"), self.queue),
            (gettext_lazy("of worker %(value)s"), self.worker),
            ("%(value)s", self.exception),
            (self._search_phrase(), self.search),
            (gettext_lazy("with “%(value)s” in the error"), self.error),
            (gettext_lazy("since %(value)s"), self.since and stamp(self.since)),
        ):
            if value not in ("", None):
                yield str(phrase) % {"value": value}

    def _search_phrase(self) -> str | Promise:
        if self.search_as == "code":
            return gettext_lazy("code %(value)s")
        if self.search_as == "contains":
            return gettext_lazy("whose number contains “%(value)s”")
        if self.search_as == "begins" and (self.code or "/" not in self.search):
            return gettext_lazy("whose number begins with “%(value)s”")
        return gettext_lazy("found by “%(value)s”")

    def rows(self, *, using: str, now: datetime, lanes_named: bool = True) -> QuerySet[Task]:
        """The rows that match by the clock ``now`` (aware UTC), in no order.

        ``lanes_named``: an index finds them, by the lanes in which they are. Who names a lane
        himself needs no others, and in their order SQLite would sort them all.
        """
        found = Task.objects.using(using).filter(self._by_columns() & self.sifting())
        if lanes_named and self._lies_in_lanes():
            found = found.filter(self._by_lanes(using, now))
        elif self.due:
            found = found.filter(self._by_time(now)[0])
        # Asked by the statement itself: of 2,000 pauses each would be a condition of each lane, and
        # SQLite takes 1,000. One seek for each scope: with IN, MariaDB goes through all pauses.
        scopes = product(("", OuterRef("queue")), ("", OuterRef("biz_code")))
        for queue, code in scopes if self.due == "late" else ():
            found = found.exclude(Exists(Pause._base_manager.filter(queue=queue, biz_code=code)))
        if self.stuck:
            found = found.filter(_ownerless(using, now))
        if self.number and not self.code:
            found = found.filter(_within_codes(using))
        if self.search:
            found = found.filter(self._by_search(using))
        return found

    def sought(self) -> "TaskFilter":
        """The part that an index finds: all but that of ``sifting``."""
        nothing: dict[str, Any] = {"recurring": None, "exception": "", "error": "", "since": None}
        return replace(self, status=self._status(), **nothing)

    def sifting(self) -> Q:
        """The conditions that no index serves: they are seen in the rows alone."""
        matching = Q()
        if self.recurring is not None:
            matching &= Q(schedule__isnull=not self.recurring)
        if self.exception:
            matching &= Q(exception=self.exception) | Q(exception__endswith=f".{self.exception}")
        if self.error:
            matching &= Q(last_error__icontains=self.error)
        if self.since is not None:
            matching &= Q(update_time__gte=for_django(self.since))
        return matching

    @property
    def one_status(self) -> Status | None:
        """The status that all such tasks have, named or not; None if they may have several."""
        return Status.PENDING if self.due else self._status()

    def _status(self) -> Status | None:
        about_failures = self.exception or self.error or self.since
        elsewhere = self.due or self.stuck or self.worker is not None
        if self.status is None and about_failures and not elsewhere:
            return Status.FAILED
        return self.status

    def _by_columns(self) -> Q:
        matching = Q()
        if (status := self._status()) is not None:
            matching &= Q(status=status)
        if self.code:
            matching &= Q(biz_code=self.code)
        if self.number:
            matching &= Q(biz_num=self.number)
        if self.queue is not None:
            matching &= Q(queue=self.queue)
            if status is None and not self.due:  # an index has queues, by status
                matching &= Q(status__in=list(Status))
        if self.worker is not None:  # few rows are claimed, and the status says where they are
            matching &= Q(status__in=OWNED, claimed_by=self.worker)
        return matching

    def _lies_in_lanes(self) -> bool:
        """Tell if the lanes are to be named, in which the rows are: else an index has too many."""
        placed = self.queue is not None or self._status() is not None
        return bool(self.due or (self.code and placed)) and not self.number

    def lanes(self, *, using: str) -> list[tuple[Status, Lane]]:
        """The lanes in which such rows may be, each with its status."""
        status = self.one_status
        return [
            (each, lane)
            for each in (Status if status is None else (status,))
            for lane in every_lane(each, using=using)
            if self.code in ("", lane.biz_code) and self.queue in (None, lane.queue)
        ]

    def _by_lanes(self, using: str, now: datetime) -> Q:
        """The lanes that may have such rows, each with all its conditions: one range of the index.

        ``due``: of what is PENDING, in the lanes that have something at that time.
        """
        timed, limit = self._by_time(now)
        lanes = self.lanes(using=using)
        if limit is not None and self.due != "future":
            lanes = [(status, lane) for status, lane in lanes if lane.first <= limit]
        within = Q(pk__in=[])
        for status, lane in lanes[: MOST_PLACES + 1]:
            place = Q(queue=lane.queue, priority=lane.priority, biz_code=lane.biz_code)
            within |= Q(status=status) & place & timed
        return within if len(lanes) <= MOST_PLACES else timed

    def _by_time(self, now: datetime) -> tuple[Q, datetime | None]:
        if not self.due:
            return Q(), None
        limit = now - timedelta(seconds=LATE_SECONDS) if self.due == "late" else now
        moment = for_django(limit)
        timed = {
            "due": Q(when__lte=moment),
            "late": Q(when__lt=moment),
            "future": Q(when__gt=moment),
        }[self.due]
        return timed & Q(status=Status.PENDING), limit

    def _search_as(self, using: str) -> SearchAs:
        if self.code:
            return "begins" if _is_large(self.code, using) else "contains"
        return "code" if _is_code(self.search, using) else "begins"

    def _by_search(self, using: str) -> Q:
        meaning = self.search_as or self._search_as(using)
        if meaning == "code":
            return Q(biz_code=self.search)
        if meaning == "contains":
            return search.containing(self.code, self.search, at_start=False)
        if self.code:
            return search.beginning(self.search, using=using)
        code, slash, number = self.search.partition("/")
        if slash and not number:
            return Q(biz_code=code)
        wanted = Q(pk__in=[])
        if slash:
            wanted |= Q(biz_code=code) & search.beginning(number, using=using)
        if len(self.search) <= BIZ_NUM_LENGTH:
            wanted |= search.beginning(self.search, using=using) & _within_codes(using)
        return wanted


def _is_code(text: str, using: str) -> bool:
    return Task._base_manager.using(using).filter(biz_code=text).order_by().exists()


def _is_large(code: str, using: str) -> bool:
    numbers = Task._base_manager.using(using).filter(biz_code=code).order_by().values("biz_num")
    return numbers[: MOST_SEARCHED + 1].count() > MOST_SEARCHED


def _within_codes(using: str) -> Q:
    """Any code, one after the other: so that a number is sought in the index of keys."""
    codes = _codes(using)
    return Q(biz_code__in=sorted(codes)) if len(codes) <= MOST_PLACES else Q()


def _codes(using: str) -> set[str]:
    return {lane.biz_code for status in Status for lane in every_lane(status, using=using)}


def _ownerless(using: str, now: datetime) -> Q:
    workers = WorkerRow._base_manager.using(using).values_list("pk", "heartbeat", "lease")
    alive = [
        worker_id
        for worker_id, heartbeat, lease in workers
        if now <= aware("heartbeat", heartbeat) + timedelta(seconds=lease)
    ]
    return Q(status__in=OWNED) & ~Q(claimed_by__in=alive)


def none_of(name: str, value: object, choices: Iterable[str]) -> TaskValueError:
    """The refusal of a value that is none of those that there are."""
    listed = ", ".join(map(repr, choices))
    return TaskValueError(name, value, _("must be one of %(choices)s", choices=listed))


def _status_of(name: str, value: Any) -> Status:
    return status_of(int(value) if isinstance(value, str) and value.isdecimal() else value)


def _due_of(name: str, value: Any) -> str:
    if value not in _DUE_WORDS:
        raise none_of(name, value, _DUE_WORDS)
    return str(value)


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "status": _status_of,
    "due": _due_of,
    "code": lambda name, value: check_key(name, value, BIZ_CODE_LENGTH),
    "number": lambda name, value: check_key(name, value, BIZ_NUM_LENGTH),
    "queue": lambda name, value: check_key(name, value, QUEUE_LENGTH),
    "worker": lambda name, value: whole_number(name, value, 0, _MOST_ID),
    "exception": lambda name, value: check_key(name, value, LONGEST_EXCEPTION),
    "search": lambda name, value: check_text(name, value, BIZ_CODE_LENGTH + 1 + BIZ_NUM_LENGTH),
    "error": lambda name, value: check_text(name, value, LONGEST_ERROR),
    "since": aware,
}


def _flag_of(name: str, text: str) -> bool:
    if text not in ("0", "1"):
        raise TaskValueError(name, text, _("must be 0 or 1"))
    return text == "1"


def _id_of(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(_MOST_ID)):
        raise TaskValueError(name, text, _("must be the id of a worker, a whole number"))
    return int(text)


def _time_of(name: str, text: str) -> datetime:
    try:
        moment = parse_datetime(text)
    except ValueError:
        moment = None
    if moment is None:
        raise TaskValueError(name, text, _("must be a time such as 2026-11-23T03:00:00+00:00"))
    return aware(name, moment)


_READERS: dict[str, Callable[[str, str], Any]] = {
    "recurring": _flag_of,
    "stuck": _flag_of,
    "worker": _id_of,
    "since": _time_of,
}


def _as_param(value: Any) -> str:
    if isinstance(value, Status):
        return value.name.lower()
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)
