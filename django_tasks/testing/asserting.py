"""Assertions about tasks, which say what is there instead."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta
from typing import Any

from django_tasks import signals
from django_tasks.backoff import Duration, seconds
from django_tasks.client import storing
from django_tasks.exceptions import TaskTypeError, TaskValueError, shortened
from django_tasks.models import Task
from django_tasks.store.aliases import read_alias
from django_tasks.testing.capturing import Captured
from django_tasks.testing.clock import Moment, moment_of
from django_tasks.testing.codes import Code, code_of
from django_tasks.testing.telling import but, differences, moment, told
from django_tasks.values.hosts import is_schedule_num
from django_tasks.values.keys import check_number

ANY: Any = object()


def assert_task_added(
    code: Code,
    num: Any = ANY,
    /,
    *,
    when: Moment | timedelta = ANY,
    delta: Duration = 1.0,
    biz_ext: Any = ANY,
    using: str | None = None,
    **payload: Any,
) -> Task:
    """Assert that a task of ``code`` is stored, or captured in ``captured_tasks``; returns it.

    ``code`` is a text, or what has the code: a handler, a ``@task`` function. ``num`` is its
    number, any if it is left out. ``when`` is its time: a moment, see ``freeze_tasks``, or a
    timedelta from the add. ``delta``, a timedelta or seconds, is how far off it may be. ``biz_ext``
    is the whole payload; other keywords are values that it has under these keys. Of several tasks
    one that matches is enough.

    Raises AssertionError, which tells how the nearest ones differ; TaskTypeError or TaskValueError
    for what no task can have.
    """
    __tracebackhide__ = True
    code = code_of(code)
    tasks = _tasks(using, code)
    wanted = _Wanted(num if num is ANY else check_number(num), when, delta, biz_ext, payload)
    found = [(task, wanted.differences(task)) for task in tasks]
    for task, different in found:
        if not different:
            return task
    raise AssertionError(f"There is no task {code}/{wanted}. {but(found, _tasks(using))}")


def assert_no_task(
    code: Code | None = None, num: Any = ANY, /, *, using: str | None = None
) -> None:
    """Assert that no task is stored, or captured in ``captured_tasks``: none of this code and
    number, none of this code, or none at all.

    The rows that workers keep for handlers with a schedule do not count, unless ``num`` names one.
    Raises AssertionError, which lists what is there.
    """
    __tracebackhide__ = True
    tasks = _tasks(using, None if code is None else code_of(code), with_schedules=num is not ANY)
    if num is not ANY:
        tasks = [task for task in tasks if task.biz_num == check_number(num)]
    if tasks:
        raise AssertionError(f"There should be no such task, and there is {told(tasks)}")


def assertNumTasks(
    num: int,
    func: Callable[..., Any] | None = None,
    *args: Any,
    code: Code | None = None,
    using: str | None = None,
    **kwargs: Any,
) -> AbstractContextManager[None]:
    """Assert that ``num`` tasks are added or moved in a ``with`` block, or by a call of ``func``.

    Of ``code`` alone, if it is given, and of one database, if ``using`` is. A key that is added
    twice is one task; what ``on_conflict`` leaves alone is none. Raises AssertionError, which lists
    them.
    """
    __tracebackhide__ = True
    if isinstance(num, bool) or not isinstance(num, int):
        raise TaskTypeError("num", num, "must be a whole number")
    counting = _Counting(num, None if code is None else code_of(code), using)
    if func is None:
        return counting
    with counting:
        func(*args, **kwargs)
    return nullcontext()


class _Counting(AbstractContextManager[None]):
    """Counts tasks, of a code and a database if these are not None."""

    def __init__(self, num: int, code: str | None, using: str | None) -> None:
        self._num = num
        self._code = code
        self._using = using
        self._added: dict[tuple[str, str, str], Task] = {}

    def __enter__(self) -> None:
        self._added.clear()
        signals.task_added.connect(self._note, sender=Task)

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        __tracebackhide__ = True
        signals.task_added.disconnect(self._note, sender=Task)
        if kind is None and len(tasks := self._tasks()) != self._num:
            were = "1 task was" if len(tasks) == 1 else f"{len(tasks)} tasks were"
            raise AssertionError(f"{were} added, not {self._num}: {told(tasks)}")

    def _note(self, sender: Any, task: Task, using: str, **facts: Any) -> None:
        self._added[using, task.biz_code, task.biz_num] = task

    def _tasks(self) -> list[Task]:
        return [
            task
            for (alias, code, number), task in self._added.items()
            if self._code in (None, code)
            and self._using in (None, alias)
            and not is_schedule_num(number)
        ]


class _Wanted:
    """The task that a test asks for."""

    def __init__(
        self, num: Any, when: Any, delta: Duration, biz_ext: Any, payload: dict[str, Any]
    ) -> None:
        self._num = num
        self._when = when
        if when is not ANY and not isinstance(when, timedelta):
            self._when = moment_of(when, "when")
        self._delta = _checked_delta(delta)
        self._biz_ext = biz_ext
        self._payload = payload

    def differences(self, task: Task) -> list[str]:
        """The ways in which a task is another one; none if it is one that is wanted."""
        wanted: dict[str, Any] = {}
        if self._num is not ANY:
            wanted["num"] = self._num
        if self._biz_ext is not ANY:
            wanted["biz_ext"] = self._biz_ext
        when = None if self._when is ANY else self._when
        return differences(task, wanted, when, self._delta, self._payload)

    def __str__(self) -> str:
        parts = ["…" if self._num is ANY else self._num]
        if isinstance(self._when, timedelta):
            parts.append(f"due {self._when} after its add")
        elif isinstance(self._when, datetime):
            parts.append(f"due {moment(self._when)}")
        if self._biz_ext is not ANY:
            parts.append(f"with the payload {shortened(self._biz_ext)}")
        if self._payload:
            parts.append(f"with {shortened(self._payload)} in its payload")
        return ", ".join(parts)


def _checked_delta(delta: Any) -> timedelta:
    try:
        return timedelta(seconds=seconds(delta))
    except (TypeError, ValueError):
        raise TaskValueError("delta", delta, "must be a timedelta or seconds") from None


def _tasks(
    using: str | None, code: str | None = None, *, with_schedules: bool = True
) -> list[Task]:
    """The tasks that a test can see: captured ones, or rows; in the order of their times."""
    place = storing.storage()
    if isinstance(place, Captured):
        tasks = list(place.tasks)
    else:
        rows = Task._base_manager.using(read_alias(using))
        tasks = list(rows.all() if code is None else rows.filter(biz_code=code))
    tasks = [
        task
        for task in tasks
        if code in (None, task.biz_code) and (with_schedules or not is_schedule_num(task.biz_num))
    ]
    return sorted(tasks, key=lambda task: (task.when, str(task)))
