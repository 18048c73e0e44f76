"""Ask a handler what becomes of its effects when a run does not go through."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django_tasks import logs
from django_tasks.client import storing
from django_tasks.client.arguments import checked_task
from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.handlers.base import TaskHandler
from django_tasks.handlers.registry import describe, handler_for
from django_tasks.handlers.running_task import RunningTask
from django_tasks.models import Task
from django_tasks.store.aliases import write_alias
from django_tasks.store.upsert import NewTask
from django_tasks.testing.clock import freeze_tasks, present
from django_tasks.testing.codes import Handler, handler_of
from django_tasks.testing.effects import (
    Column,
    CountedModels,
    Effects,
    differences,
    linked,
    unsteady,
)
from django_tasks.testing.handlers import override_handlers
from django_tasks.testing.runs import Ran
from django_tasks.testing.scenes import NotClaimed, Stage, mails
from django_tasks.testing.statements import Point, Statement, Watch, points_of
from django_tasks.testing.worker import PlaceWorker
from django_tasks.values.amounts import whole_number

# Failures, and the lines of each, that a message tells.
MOST_TOLD = 5
MOST_LINES = 6


@dataclass(frozen=True, slots=True)
class CrashTest:
    """The answer about a handler that is safe to repeat.

    ``statements`` are those of a single run, ``deaths`` the moments at which it was killed,
    ``runs`` all runs that were made. ``left_out`` are the columns that differ between two single
    runs, and were not compared: "shop.Order.paid_at".
    """

    statements: int
    deaths: int
    runs: int
    left_out: tuple[str, ...]


def crash_test(
    handler: Handler,
    task: Task | RunningTask,
    *,
    ignore: Iterable[str] = (),
    deaths: int = 100,
    using: str | None = None,
) -> CrashTest:
    """Assert that ``handler`` may be run again, as at-least-once does, without doing things twice.

    ``handler`` is a class, an instance, or a function with ``@task_handler`` or Django's ``@task``.
    ``task`` is what ``add_task`` takes or returns, or a ``running_task``. From the present state of
    the database the handler is run once, and then again and again: killed after each statement that
    writes, and before its end is written, and run again; cancelled in the middle; moved in the
    middle, and run again; lost to another worker in the middle, which runs it again. Each try is
    taken back, and the log of the package is silent meanwhile. All rows of models that are not
    ours, the tasks, and the mails of Django's locmem backend must be as after the single run.
    Columns that differ between two single runs are left out; so is what ``ignore`` names, as
    "app.Model" or "app.Model.field". ``deaths`` is the largest number of moments, spread evenly if
    there are more.

    Raises AssertionError, which names the statement and the rows; the exception of a handler that
    fails without any of this; NotClaimed for a task that is paused; TaskTypeError or TaskValueError
    for bad arguments, HandlerError for a handler that cannot be registered.
    """
    __tracebackhide__ = True
    alias = write_alias(using)
    made = handler_of(handler)
    most = whole_number("deaths", deaths, 1, 100_000)
    with _undisturbed(alias), override_handlers(made):
        new = _new(task, made, alias)
        stage = Stage(new, handler_for(new.biz_code) or made, alias)
        return _Trial(stage, CountedModels(stage.aliases, ignore), most).verdict()


class _Trial:
    """All tries of one handler."""

    def __init__(self, stage: Stage, scope: CountedModels, most: int) -> None:
        self._stage = stage
        self._scope = scope
        self._most = most
        self._before = scope.now()
        self._runs = 0
        self._failures: list[str] = []
        self._statements: Sequence[Statement] = ()
        self._single: Effects
        self._left_out: set[Column] = set()

    def verdict(self) -> CrashTest:
        __tracebackhide__ = True
        mails_before = mails()
        self._single = self._once()
        self._left_out = unsteady(self._before, self._single, self._once())
        points = _spread(points_of(self._statements, mails_before), self._most)
        for point in points:
            self._killed(point)
        middle = (len(self._statements) + 1) // 2
        self._cancelled(middle)
        self._repeated(middle, "Lost", self._stage.free, [self._single])
        self._repeated(middle, "Moved", self._stage.move, [self._single, *self._twice()])
        if self._failures:
            raise AssertionError(self._report())
        left_out = tuple(sorted(f"{label}.{column}" for label, column in self._left_out))
        return CrashTest(len(self._statements), len(points), self._runs, left_out)

    def _once(self) -> Effects:
        """Run it to its end; the effects of that."""
        with self._stage.scene():
            watch = Watch(self._stage.aliases, mails)
            ran = self._ran(self._stage.run(watch))
            if ran is None:
                raise NotClaimed(f"{self._name()} cannot start: it is paused, or it has expired")
            if ran.exception is not None:
                raise ran.exception
            self._statements = watch.statements
            return self._effects()

    def _killed(self, point: Point) -> None:
        """Kill it at a moment, and have it run again."""
        with self._stage.scene():
            watch = self._stage.run_until_death(point)
            self._runs += 1
            if watch.was_swallowed:
                where = f"Killed {self._told(point)}, it went on:"
                self._fail(where, ["it catches BaseException, and so the end of its own process"])
            elif watch.is_dead:
                self._run_again(f"Killed {self._told(point)}, and run again:", [self._single])

    def _cancelled(self, middle: int) -> None:
        with self._stage.scene():
            ran = self._ran(self._stage.in_the_middle(middle, self._stage.cancel))
            where = f"Cancelled {self._told_middle(middle)}:"
            if ran is not None and ran.exception is not None:
                self._fail(where, [f"it raises {ran.exception!r}"])
            elif self._stage.is_there():
                self._fail(where, ["its row is still there"])

    def _twice(self) -> list[Effects]:
        """The effects of two runs in a row, the second one asked for; none if that fails.

        Somebody who moves a task while it runs asks for another run.
        """
        with self._stage.scene():
            self._ran(self._stage.run())
            self._stage.prepare()
            ran = self._ran(self._stage.run())
            return [self._effects()] if ran is not None and ran.exception is None else []

    def _repeated(
        self, middle: int, word: str, act: Callable[[PlaceWorker], None], good: Sequence[Effects]
    ) -> None:
        with self._stage.scene():
            ran = self._ran(self._stage.in_the_middle(middle, act))
            where = f"{word} {self._told_middle(middle)}, and run again:"
            if ran is not None and ran.exception is not None:
                self._fail(where, [f"it raises {ran.exception!r}"])
            else:
                self._run_again(where, good)

    def _run_again(self, where: str, good: Sequence[Effects]) -> None:
        ran = self._ran(self._stage.run())
        if ran is not None and ran.exception is not None:
            self._fail(where, [f"the second run raises {ran.exception!r}"])
            return
        effects = self._effects()
        different = [differences(self._before, each, effects, self._left_out) for each in good]
        if all(different):
            self._fail(where, different[0])

    def _ran(self, ran: Ran | None) -> Ran | None:
        self._runs += ran is not None
        return ran

    def _effects(self) -> Effects:
        return linked(self._before, self._scope.now())

    def _fail(self, where: str, lines: Sequence[str]) -> None:
        told = [f"    {line}" for line in lines[:MOST_LINES]]
        if len(lines) > MOST_LINES:
            told.append(f"    and {len(lines) - MOST_LINES} more differences")
        self._failures.append("\n".join([f"  {where}", *told]))

    def _report(self) -> str:
        more = len(self._failures) - MOST_TOLD
        rest = [f"  … and in {more} more ways"] if more > 0 else []
        head = f"{describe(self._stage.handler)} is not safe to repeat ({self._name()})."
        return "\n".join([head, *self._failures[:MOST_TOLD], *rest])

    def _told(self, point: Point) -> str:
        if point.side == "at the end":
            return "at its end, before that was written"
        count, statement = len(self._statements), self._statements[point.number - 1]
        return f"{point.side} statement {point.number} of {count}, {statement}"

    def _told_middle(self, middle: int) -> str:
        return self._told(Point("after", middle)) if middle else "at its beginning"

    def _name(self) -> str:
        return f"{self._stage.new.biz_code}/{self._stage.new.biz_num}"


@contextmanager
def _undisturbed(using: str) -> Iterator[None]:
    """Have time stand still, and tasks stored, also where a test captures them: each try is taken
    back, and a list would not be.
    """
    moment = present(using)
    with freeze_tasks(moment), storing.replaced(storing.Database()), _silence():
        yield


@contextmanager
def _silence() -> Iterator[None]:
    """Have the package log nothing: it would tell of each death as of one in production."""
    was_disabled, logs.logger.disabled = logs.logger.disabled, True
    try:
        yield
    finally:
        logs.logger.disabled = was_disabled


def _new(task: Any, handler: TaskHandler, using: str) -> NewTask:
    """The task as it is stored for each try, due now."""
    if isinstance(task, RunningTask):
        names = ("biz_code", "biz_num", "when", "biz_ext", "queue", "priority", "schedule")
        facts = {name: getattr(task, name) for name in names}
        task = Task(**facts, options=task.options)
    elif not isinstance(task, Task):
        raise TaskTypeError("task", task, "must be a Task or a running_task()")
    if task.biz_code != handler.get_biz_code():
        raise TaskValueError("task", task, f"is none of {handler.get_biz_code()!r}")
    new = checked_task(task, using, when=None if task.when else present(using))
    return new._replace(when=min(new.when, present(using)))


def _spread(points: Sequence[Point], most: int) -> Sequence[Point]:
    """At most so many of them, from the first to the last."""
    if len(points) <= most:
        return points
    step = (len(points) - 1) / max(1, most - 1)
    return [points[round(number * step)] for number in range(most)]
