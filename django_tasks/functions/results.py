"""Results of calls: from the row while it lives, and from its runs afterwards."""

from collections.abc import Iterator, Sequence
from copy import copy
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

from django.db.models import TextField
from django.db.models.functions import Cast
from django.tasks import task_backends
from django.tasks.base import TaskError, TaskResult, TaskResultStatus
from django.tasks.exceptions import InvalidTaskBackend, TaskResultDoesNotExist

from django_tasks.functions import finding
from django_tasks.functions.tasks import AnyTask, KeyedTask, restored
from django_tasks.handlers.running_task import RunningTask
from django_tasks.models import Task, TaskRun, WorkerRow
from django_tasks.sentences import sentence as _
from django_tasks.values.calls import Call, Told, key_of, told_of_text
from django_tasks.values.options import options_of_text
from django_tasks.values.status import OWNED, RunOutcome, Status

# Lines that one statement reads, and those that one look reads: most calls have one line, and one
# that is tried for weeks must not cost seconds and its tracebacks all the memory.
AT_ONCE, MOST_LINES = 50, 500
# The class of an error whose own class is not known: nobody saw the end of that run.
UNKNOWN_ERROR = "builtins.Exception"
# These lines are no runs: the function was not called.
_NO_RUNS = (RunOutcome.CANCELLED, RunOutcome.SKIPPED)
# The last line of a call that is over and not done.
_ENDS = (*_NO_RUNS, RunOutcome.FAILED, RunOutcome.LOST)


class Attempts(NamedTuple):
    """The runs of a call that have ended."""

    started: datetime | None
    last: datetime | None
    ended: datetime | None
    workers: Sequence[str]
    errors: Sequence[TaskError]


NO_ATTEMPTS = Attempts(None, None, None, (), ())


def result_of(result_id: object, *, using: str) -> Any:
    """The result of a call by its id. Raises TaskResultDoesNotExist.

    The row first and then its runs: an end takes the row away and writes its line in one
    transaction, so a call that ends in between is found by its line.
    """
    key = key_of(result_id)
    row = _row(key, using) if key else None
    lines = _lines(key, row and row.told, using) if key else []
    told = row.told if row else _last_told(lines)
    # Without its row: a run that was to be followed by another one is no end.
    is_over = _done(lines) is not None or (lines and lines[-1].outcome in _ENDS)
    if told is None or (row is None and not is_over):
        raise TaskResultDoesNotExist(str(result_id))
    return _Look(str(result_id), told.call, row, lines, using).result()


def attempts_before(task: RunningTask, call: Call) -> Attempts:
    """The runs of a call before the one that is going on.

    No more of them than there were: the runs of a schedule are calls without an end.
    """
    key = (task.biz_code, task.biz_num)
    lines = _lines(key, Told(call, {}), task.using, most=task.attempt - 1)
    return _attempts(lines, call)


def of_waiting(result_id: str, call: Call) -> Any:
    """The result of a call that nobody has begun to run."""
    task = restored_task(finding.task_of(call.path, result_id), call)
    return made(task, result_id, call)


def restored_task(declared: AnyTask, call: Call) -> Any:
    """The Task of a call as it was enqueued."""
    facts: dict[str, Any] = {
        "priority": call.priority,
        "queue_name": call.queue_name,
        "backend": call.backend,
        "run_after": call.run_after,
    }
    if isinstance(declared, KeyedTask):
        facts |= {"key": call.key} | _options(call)
    return restored(declared, **facts)


def _options(call: Call) -> dict[str, Any]:
    given = options_of_text(call.options).given()
    # Other backends may want seconds that are whole numbers.
    is_whole = {name for name, it in given.items() if isinstance(it, float) and it.is_integer()}
    return given | {name: int(given[name]) for name in is_whole}


# The database


class _Row(NamedTuple):
    status: int
    claimed_by: int | None
    claim_time: datetime | None
    update_time: datetime
    last_error: str
    text: str | None

    @property
    def told(self) -> Told | None:
        return told_of_text(self.text)


class _Line(NamedTuple):
    id: int
    outcome: str
    started: datetime
    ended: datetime
    worker: str
    error: str
    exception: str
    text: str | None

    @property
    def told(self) -> Told | None:
        return told_of_text(self.text)


def _row(key: tuple[str, str], using: str) -> _Row | None:
    columns = _Row._fields[:-1]
    text = Cast("biz_ext", TextField())  # see told_of_text
    rows = Task._base_manager.using(using).filter(biz_code=key[0], biz_num=key[1])
    found = rows.values_list(*columns, text).first()
    return None if found is None else _Row._make(found)


def _lines(
    key: tuple[str, str], told: Told | None, using: str, most: int | None = None
) -> list[_Line]:
    """The last lines of one life of a key, in order: of ``told``, or of the last life.

    Lives follow each other: a call that was moved while it ran has the line of that run before all
    of its own. A line without a call is one of a run that nobody saw the end of: it began with the
    claim, after the call was enqueued if it is of that.
    """
    life = told and told.call
    lines: list[_Line] = []
    for line in islice(_backwards(key, using), MOST_LINES if most is None else most):
        found = line.told
        if found is not None:
            life = life or found.call
            if found.call.life != life.life:
                break
        elif line.outcome in _NO_RUNS:
            continue  # of a task that was no call
        elif life is not None and line.started < life.enqueued_at:
            break
        lines.append(line)
    return lines[::-1]


def _backwards(key: tuple[str, str], using: str) -> Iterator[_Line]:
    columns = _Line._fields[1:-1]
    rows = TaskRun._base_manager.using(using).filter(biz_code=key[0], biz_num=key[1])
    found = rows.order_by("-id").values_list("id", *columns, Cast("detail", TextField()))
    some = list(found[:AT_ONCE])
    while some:
        yield from map(_Line._make, some)
        some = list(found.filter(id__lt=some[-1][0])[:AT_ONCE])


def _last_told(lines: Sequence[_Line]) -> Told | None:
    return next((told for line in reversed(lines) if (told := line.told)), None)


def _done(lines: Sequence[_Line]) -> Told | None:
    """The good end of a call, if it has come to one.

    Not always the last line: a worker that was taken for dead tells later that its run was lost.
    """
    ends = (line.told for line in lines if line.outcome == RunOutcome.DONE)
    return next((told for told in ends if told is not None), None)


def _worker_name(worker_id: int, using: str) -> str:
    names = WorkerRow._base_manager.using(using).filter(pk=worker_id).values_list("name", flat=True)
    return names.first() or f"#{worker_id}"


# The meaning of rows and lines


def _attempts(lines: Sequence[_Line], call: Call) -> Attempts:
    runs = [line for line in lines if line.outcome not in _NO_RUNS]
    # Two readings of the database's clock may differ by a millisecond.
    started = [max(line.started, call.enqueued_at) for line in runs]
    return Attempts(
        started=started[0] if runs else None,
        last=started[-1] if runs else None,
        ended=lines[-1].ended if lines else None,
        workers=[line.worker for line in runs],
        errors=[error_of(line.error, line.exception) for line in lines if line.error],
    )


def error_of(text: str, path: str) -> TaskError:
    """An error as Django has it; a traceback ends with a new line there."""
    return TaskError(exception_class_path=path or UNKNOWN_ERROR, traceback=f"{text.rstrip()}\n")


class _Look(NamedTuple):
    id: str
    call: Call
    row: _Row | None
    lines: Sequence[_Line]
    using: str

    def result(self) -> Any:
        call, attempts = self.call, _attempts(self.lines, self.call)
        done = _done(self.lines)
        if done is not None and done.handed is not None:
            return _elsewhere(self.id, call, *done.handed)
        status, started, last, workers = self._status(), attempts.started, attempts.last, []
        if status == TaskResultStatus.RUNNING and self.row and self.row.claimed_by:
            last = self.row.claim_time
            workers = [_worker_name(self.row.claimed_by, self.using)]
        result = made(
            restored_task(finding.task_of(call.path, self.id), call),
            self.id,
            call,
            status=status,
            started_at=started or last,
            last_attempted_at=last,
            finished_at=self._ended(status, attempts),
            errors=self._errors(status, attempts),
            worker_ids=[*attempts.workers, *workers],
        )
        if status == TaskResultStatus.SUCCESSFUL:
            object.__setattr__(result, "_return_value", done and done.return_value)
        return result

    def _status(self) -> TaskResultStatus:
        if _done(self.lines) is not None:
            return TaskResultStatus.SUCCESSFUL  # also where the row was read before its end
        if self.row is None or self.row.status == Status.FAILED:
            return TaskResultStatus.FAILED
        # A run that has begun before is one of the call that had this key then.
        claimed = self.row.claim_time
        is_running = self.row.status in OWNED and claimed and claimed >= self.call.enqueued_at
        return TaskResultStatus.RUNNING if is_running else TaskResultStatus.READY

    def _ended(self, status: TaskResultStatus, attempts: Attempts) -> datetime | None:
        if status not in (TaskResultStatus.FAILED, TaskResultStatus.SUCCESSFUL):
            return None
        return attempts.ended or (self.row and self.row.update_time)

    def _errors(self, status: TaskResultStatus, attempts: Attempts) -> list[TaskError]:
        if not attempts.errors and self.row and self.row.last_error:
            return [error_of(self.row.last_error, "")]
        return list(attempts.errors)


def _elsewhere(result_id: str, call: Call, alias: str, id_there: str) -> Any:
    """The result of a call that another backend has, under our id.

    Of a backend that keeps none it is known that it has the call, and no more.
    """
    task = restored_task(finding.task_of(call.path, result_id), call)
    try:
        result: Any = copy(task_backends[alias].get_result(id_there))
    except NotImplementedError:
        return made(task, result_id, call)
    except InvalidTaskBackend as error:
        raise TaskResultDoesNotExist(
            _("%(result_id)s: it was handed over; %(error)s", result_id=result_id, error=error)
        ) from error
    for name, value in (("task", task), ("id", result_id), ("backend", call.backend)):
        object.__setattr__(result, name, value)
    return result


def made(task: AnyTask, result_id: str, call: Call, **facts: Any) -> Any:
    """The result of a call, as nobody has begun to run it unless ``facts`` say otherwise."""
    values: dict[str, Any] = {
        "status": TaskResultStatus.READY,
        "started_at": None,
        "last_attempted_at": None,
        "finished_at": None,
        "errors": [],
        "worker_ids": [],
    }
    return TaskResult(
        task=task,
        id=result_id,
        enqueued_at=call.enqueued_at,
        args=call.args,
        kwargs=call.kwargs,
        backend=call.backend,
        **(values | facts),
    )
