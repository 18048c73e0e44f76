"""One run of a call, as Django's framework sees it: its result, its context and its signals."""

import json
import logging
from typing import TYPE_CHECKING, Any

from django.tasks.base import TaskContext, TaskResultStatus
from django.tasks.signals import task_finished, task_started
from django.utils.json import normalize_json

from django_tasks.conf import options as settings
from django_tasks.exceptions import TaskException, TaskTypeError
from django_tasks.functions import finding, results
from django_tasks.functions.backends import sender_of, target_of
from django_tasks.functions.hearing import is_heard
from django_tasks.functions.tasks import for_backend
from django_tasks.handlers.base import Finished, history_of
from django_tasks.handlers.running_task import RunningTask
from django_tasks.sentences import sentence as _
from django_tasks.store import clock
from django_tasks.timezones import for_django
from django_tasks.values import payload_text
from django_tasks.values.calls import Call, id_of, is_like_a_call, told_of_text
from django_tasks.worker.error_text import class_path, error_text

if TYPE_CHECKING:
    from django_tasks.functions.handler import CallHandler


class Attempt:
    """Django's signals come before the end is written, and once more if the run is repeated.

    A result is built if somebody looks at it: a receiver, Django's own log, or the function, by its
    context.
    """

    def __init__(self, handler: "CallHandler", task: RunningTask) -> None:
        self._handler = handler
        self._task = task
        told = told_of_text(task.payload_text)
        self.call = told.call if told else _call_without_words(handler, task)
        if self.call.path != handler.path:
            _check_moved(handler, self.call.path)
        self._text = task.payload_text if told else None
        self._result: Any = None

    @property
    def target(self) -> str | None:
        """The alias of the backend to which this call is handed; None: it is run here."""
        return target_of(self.call.backend)

    def begin(self) -> None:
        """Tell of the start."""
        if self._handler.task.takes_context or is_heard(task_started, logging.INFO):
            self._result = self._running()
            task_started.send_robust(sender_of(self.call.backend), task_result=self._result)

    @property
    def args(self) -> list[Any]:
        """The positional arguments of the function."""
        if self._handler.task.takes_context:
            return [TaskContext(task_result=self._result), *self.call.args]
        return self.call.args

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments of the function."""
        return self.call.kwargs

    def finished(self, value: Any) -> Finished | None:
        """The answer of a handler whose function has returned ``value``; tells of the end.

        Raises TypeError for a value that is not JSON, TaskValueError for one that cannot be stored.
        """
        value = normalize_json(value)
        text = payload_text.dump(
            {"return_value": value}, settings().payload_limit, field="return_value"
        )
        if is_heard(task_finished, logging.INFO):
            result = self._result or self._running()
            self._tell_end(self._ended(result, TaskResultStatus.SUCCESSFUL, value))
        return self._kept(text or "{}")

    def handed_over(self) -> Finished | None:
        """The answer of a handler that has enqueued the call on the backend it is for.

        Errors of that backend pass: the call is handed to it again, as the backoff says.
        """
        target = self.target or ""
        task = results.restored_task(self._handler.task, self.call)
        result = for_backend(task, target).enqueue(*self.call.args, **self.call.kwargs)
        handed: dict[str, Any] = {"handed": {"backend": target, "id": result.id}}
        return self._kept(json.dumps(handed))

    def _kept(self, words: str) -> Finished | None:
        """The call, completed by some words, for the history if that keeps it. JSON texts.

        A history of problems keeps the good end of a call of which it may have others: or its
        result would be that of an older run, or of the call that had its key before.
        """
        kept = history_of(self._handler)
        has_others = self._task.attempt > 1 or self.call.key is not None
        if kept == "none" or (kept == "problems" and not has_others):
            return None
        told = self._text or payload_text.portable(json.dumps(self.call.payload()))
        return Finished.with_detail(f"{told[:-1]}, {words[1:]}")

    def failed(self, error: BaseException) -> None:
        """Tell of the last attempt, which has failed."""
        if is_heard(task_finished, logging.ERROR):
            self._tell_end(self.failure(error))

    def failure(self, error: BaseException) -> Any:
        """The result as of an attempt that has failed and is the last one."""
        result = self._running()
        result.errors.append(results.error_of(error_text(error), class_path(error)))
        return self._ended(result, TaskResultStatus.FAILED)

    def _running(self) -> Any:
        task, call = self._task, self.call
        before = results.attempts_before(task, call) if task.attempt > 1 else results.NO_ATTEMPTS
        started = max(task.started, call.enqueued_at)
        return results.made(
            results.restored_task(self._handler.task, call),
            id_of(task.biz_code, task.biz_num),
            call,
            status=TaskResultStatus.RUNNING,
            started_at=before.started or started,
            last_attempted_at=started,
            errors=list(before.errors),
            worker_ids=[*before.workers, task.worker],
        )

    def _ended(self, result: Any, status: TaskResultStatus, value: Any = None) -> Any:
        now = for_django(clock.now(self._task.using))
        object.__setattr__(result, "_return_value", value)
        object.__setattr__(result, "finished_at", max(now, result.last_attempted_at))
        object.__setattr__(result, "status", status)
        return result

    def _tell_end(self, result: Any) -> None:
        task_finished.send_robust(sender_of(self.call.backend), task_result=result)


def _call_without_words(handler: "CallHandler", task: RunningTask) -> Call:
    """The call that a row means which was not enqueued: that of a schedule, or of ``add_task``.

    Its payload is the arguments: a mapping has names, a list has none, and ``{"args": […],
    "kwargs": {…}}``, as importers write it, has both. Raises TaskTypeError for any other, and for
    that of a call which this release cannot read.
    """
    words, given = task.biz_ext, handler.task
    if is_like_a_call(words):
        raise TaskTypeError("biz_ext", words, _("is a call that this release cannot read"))
    if words is not None and not isinstance(words, (list, dict)):
        raise TaskTypeError("biz_ext", words, _("must be arguments: a list, a mapping or None"))
    args = words if isinstance(words, list) else []
    kwargs = words if isinstance(words, dict) else {}
    if kwargs.keys() == {"args", "kwargs"}:
        both = kwargs["args"], kwargs["kwargs"]
        if isinstance(both[0], list) and isinstance(both[1], dict):
            args, kwargs = both
    return Call(
        path=handler.path,
        args=args,
        kwargs=kwargs,
        backend=given.backend,
        queue_name=task.queue,
        priority=task.priority,
        run_after=None,
        enqueued_at=task.create_time,
        life="",
    )


def _check_moved(handler: "CallHandler", path: str) -> None:
    """Raise TaskException if a call is of another function than its code's handler.

    A function may have moved and kept its code. Another one that is still there has a code which is
    taken, and must not have its calls run by somebody else.
    """
    if finding.is_there(path):
        raise TaskException(
            _(
                "This is a call of %(path)s, and the handler of its code here is "
                "%(other)s: give one of them @options(biz_code=…).",
                path=path,
                other=handler.path,
            )
        )
