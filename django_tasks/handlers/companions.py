"""Others that go along with each run: a tracker of errors that has a scope for it.

They belong to the process, and are there before the first run. What they raise harms nothing.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from django_tasks.handlers.running_task import RunningTask

T = TypeVar("T")
Tasks = Sequence[RunningTask]


class Companion(Protocol):
    """Used by all threads that run tasks at once."""

    def around(self, tasks: Tasks) -> AbstractContextManager[object]:
        """A context for one run, or for a batch of them: hooks, signals and log lines too."""

    def failed(self, task: RunningTask, error: BaseException, *, is_final: bool) -> None:
        """Hear of a failure inside the context of its run, before the log and receivers do.

        ``is_final``: it is not tried again.
        """

    def leave(self) -> None:
        """Get done with what it has to do: this process is about to end."""


COMPANIONS: list[Companion] = []
# Says that one has failed. ``logs``, which stands above this module, puts its function in.
_report: list[Callable[[], None]] = []


def on_failure(report: Callable[[], None]) -> None:
    """Have ``report`` called, with the exception at hand, when a companion fails."""
    _report[:] = [report]


def accompanied(tasks: Tasks, call: Callable[[], T]) -> T:
    """The answer of ``call``, made inside the contexts of all companions. It should not raise."""
    entered = [context for each in COMPANIONS if (context := _entered(each, tasks))]
    try:
        return call()
    finally:
        for context in reversed(entered):
            _leave(context)


def tell_of_failure(task: RunningTask, error: BaseException, *, is_final: bool) -> None:
    """Have each companion hear of a failure."""
    for each in COMPANIONS:
        try:
            each.failed(task, error, is_final=is_final)
        except BaseException:  # noqa: BLE001 - a stranger's code
            _say()


def take_leave() -> None:
    """Let each companion get done; before a process ends by ``os._exit``, or as a fork does."""
    for each in COMPANIONS:
        try:
            each.leave()
        except BaseException:  # noqa: BLE001 - a stranger's code
            _say()


def _entered(companion: Companion, tasks: Tasks) -> AbstractContextManager[object] | None:
    try:
        context = companion.around(tasks)
        context.__enter__()
    except BaseException:  # noqa: BLE001 - a stranger's code, and the run must begin all the same
        _say()
        return None
    return context


def _leave(context: AbstractContextManager[object]) -> None:
    try:
        context.__exit__(None, None, None)
    except BaseException:  # noqa: BLE001 - a stranger's code, and the end must be written
        _say()


def _say() -> None:
    for report in _report:
        report()
