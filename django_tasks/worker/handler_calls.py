"""The call of a handler, for one run or for a batch of them, and the meaning of its answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from inspect import iscoroutine
from typing import Any, NamedTuple

from django_tasks.exceptions import TaskTypeError
from django_tasks.handlers.base import Finished, Stop, is_async
from django_tasks.handlers.current import Batch, about
from django_tasks.handlers.recurrence import chosen
from django_tasks.handlers.running_task import RunningTask
from django_tasks.sentences import said
from django_tasks.sentences import sentence as _
from django_tasks.values.outcomes import DONE, Done, Reschedule
from django_tasks.worker.coroutines import EventLoop
from django_tasks.worker.endings import moment_of
from django_tasks.worker.misfires import UnreadableSchedule, following
from django_tasks.worker.places import place_of
from django_tasks.worker.run import Run, RunEnd, Standing
from django_tasks.worker.timeouts import Timeouts

ANSWERS = _("must return None, Finished, a datetime, a timedelta or Stop")
ANSWERS_OF_BATCH = _("must return None, or a mapping of its tasks to their answers")


class Answer(NamedTuple):
    """The end of one run of a batch, or the exception that its handler has answered for it."""

    run: Run
    end: RunEnd | None
    error: BaseException | None = None


class Calls:
    """Called by all executor threads at once. Whatever the handler raises passes."""

    def __init__(self, standing: Standing, loop: EventLoop, timeouts: Timeouts) -> None:
        self._clock = standing.clock
        self._loop = loop
        self._timeouts = timeouts

    def one(self, run: Run) -> RunEnd:
        """Call the handler with one task."""
        if run.handler.batch is not None:
            return self._batch_of_one(run)
        if run.timeout is None and run.handler.kill_after is None:
            answer = run.handler.handle(run.task)
        else:
            answer = self._limited([run], "handle()", run.handler.handle, run.task)
        if iscoroutine(answer):  # not asked of the function: that is slower, and misses wrappers
            answer = self._awaited([run], "handle()", answer)
        return self._end_of(run, "handle()", answer)

    def _batch_of_one(self, run: Run) -> RunEnd:
        with about(Batch((run.task,))):
            ((_, end, error),) = self.all([run])
        if end is None:
            raise error or AssertionError("no end and no error")
        return end

    def all(self, runs: Sequence[Run]) -> list[Answer]:
        """Call the handler with the tasks of a batch."""
        name = "handle_batch()"
        method, tasks = runs[0].handler.handle_batch, [run.task for run in runs]
        answer = self._limited(runs, name, method, tasks)
        if iscoroutine(answer):
            answer = self._awaited(runs, name, answer)
        answers = _by_task(name, answer, runs)
        return [self._answer(run, name, answers.get(run.task)) for run in runs]

    def _answer(self, run: Run, name: str, answer: Any) -> Answer:
        if isinstance(answer, BaseException):
            return Answer(run, None, answer)
        return Answer(run, self._end_of(run, name, answer))

    def _limited(
        self, runs: Sequence[Run], name: str, method: Callable[..., Any], what: Any
    ) -> Any:
        """Call the handler's method. A coroutine function is not timed: it only makes one."""
        limit, handler = _shortest(runs), runs[0].handler
        if (limit is None and handler.kill_after is None) or is_async(handler):
            return method(what)
        if limit is not None and handler.interrupt:
            return self._timeouts.call(runs, limit, name, method, what)
        return self._timeouts.during(runs, limit, name, partial(method, what))

    def _awaited(self, runs: Sequence[Run], name: str, answer: Any) -> Any:
        if runs[0].handler.atomic:
            answer.close()  # its thread would not be in our transaction
            raise TaskTypeError(name, answer, _("must be no coroutine where atomic is set"))
        limit = _shortest(runs)
        wait = partial(self._loop.run, answer, limit, name)
        if limit is None and runs[0].handler.kill_after is None:
            return wait()
        return self._timeouts.during(runs, limit, name, wait, partial(place_of, answer))

    def _end_of(self, run: Run, name: str, answer: Any) -> RunEnd:
        if (answer is None and run.recurrence is None) or _means_stop(answer):
            return run, DONE
        detail: str | None = None
        if isinstance(answer, Finished):
            answer, detail = None, answer.detail
            if run.recurrence is None:
                return run, _done(detail)
        payload = run.task.changed_payload()
        if answer is None:
            return self._next_after_success(run, biz_ext=payload, detail=detail)
        when = moment_of(name, answer, self._clock, ANSWERS)
        if run.recurrence is None:
            return run, Reschedule(when, payload)
        later = chosen(run.claimed, run.recurrence, when, self._clock.now())
        return run, replace(later, biz_ext=payload)

    def _next_after_success(self, run: Run, **facts: str | None) -> RunEnd:
        """The work is done: an error of the schedule must not have it done again."""
        try:
            return following(run, self._clock, **facts) or (run, _done(facts["detail"]))
        except Exception as error:
            raise UnreadableSchedule(said(error)) from error


def _shortest(runs: Sequence[Run]) -> float | None:
    return min((run.timeout for run in runs if run.timeout is not None), default=None)


def _by_task(name: str, answer: Any, runs: Sequence[Run]) -> Mapping[RunningTask, Any]:
    if answer is None:
        return {}
    if not isinstance(answer, Mapping) or not answer.keys() <= {run.task for run in runs}:
        raise TaskTypeError(name, answer, ANSWERS_OF_BATCH)
    return answer


def _done(detail: str | None) -> Done:
    return DONE if detail is None else Done(detail=detail)


def _means_stop(answer: Any) -> bool:
    return answer is Stop or isinstance(answer, Stop)
