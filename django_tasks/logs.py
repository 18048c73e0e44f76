"""Every sentence that this package logs, and its level. Logger: ``django_tasks``.

One line a task stands at DEBUG (``starttask -v 2``): at tens of thousands of tasks a second it
would be the work itself. Of each code the first successes of a minute are INFO, so that a person
sees that it works; all others are counted, and the counts are INFO. What somebody should look at
is WARNING and above.

Reasons in a line are masked. Tracebacks (``exc_info``) are not: they belong to the project's own
logging, which formats them, and to whoever it lets read them.
"""

import logging
import sys
import threading
import traceback
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from time import time
from types import CodeType, TracebackType
from typing import Any, Literal

from django_tasks import redaction, signals
from django_tasks.handlers.running_task import RunningTask
from django_tasks.host import forks
from django_tasks.host.clocks import ticks

logger = logging.getLogger("django_tasks")

LONGEST_REASON = 300
# How many keys a line names.
MOST_KEYS = 20

# How many successes are told in a minute: of each code, and of all codes of a process.
EACH_SUCCESSES = 3
MOST_SUCCESSES = 30
SUCCESSES_SECONDS = 60.0


def connect() -> None:
    """Listen to the package's own signals. Called once, at ready."""
    for signal, receiver in (
        (signals.task_retried, _retried),
        (signals.task_failed, _failed),
        (signals.task_lost, _lost),
        (signals.task_rescued, _rescued),
        (signals.worker_started, _worker_started),
        (signals.worker_stopped, _worker_stopped),
    ):
        signal.connect(receiver, dispatch_uid="django_tasks.logs")
    signals.on_failure(receiver_failed)
    forks.on_failure(fork_failed)


# The way of every line

Post = Callable[[Callable[[], None]], None]


class _Outlet(threading.local):
    """The writer of a thread's lines; None: it writes them itself."""

    post: Post | None = None


_outlet = _Outlet()


def send_through(post: Post | None) -> None:
    """Have the lines of the current thread written by ``post``; None: by itself again.

    For a thread that must not wait for a project's filters and handlers. ``post`` gets a function
    without arguments, to be called once, in another thread: it makes the record and hands it on.
    The record tells the time, the thread and the exception of the moment when it was said.
    """
    _outlet.post = post


def _say(
    level: int,
    text: str,
    *args: Any,
    exc_info: BaseException | Literal[True] | None = None,
    extra: dict[str, Any] | None = None,
) -> None:
    """Log a line. Every line of this package goes through here."""
    if not logger.isEnabledFor(level):
        return
    caller = sys._getframe(1)
    error = sys.exc_info()[1] if exc_info is True else exc_info
    caught = None if error is None else (type(error), error, error.__traceback__)
    place = caller.f_code, caller.f_lineno
    line = _Line(level, text, args, caught, extra, place, time(), threading.current_thread())
    if _outlet.post is None:
        line.write()
    else:
        _outlet.post(line.write)


Caught = tuple[type[BaseException], BaseException, TracebackType | None]


class Unshowable(Exception):
    """In a log line, in place of an exception whose own methods raise when it is formatted."""


def _showable(caught: Caught) -> Caught:
    """The exception, or one that names it: no handler could write a line with the other one."""
    kind, error, _ = caught
    try:
        traceback.format_exception(kind, error, None)
    except BaseException:  # noqa: BLE001 - methods of a project's exception may raise anything
        stand_in = Unshowable(f"{kind.__name__} (its traceback cannot be formatted)")
        return Unshowable, stand_in, None
    return caught


@dataclass(frozen=True, slots=True)
class _Line:
    """A line, the place of its sentence and the moment when it was said."""

    level: int
    text: str
    args: tuple[Any, ...]
    caught: Caught | None
    facts: dict[str, Any] | None
    place: tuple[CodeType, int]
    created: float
    thread: threading.Thread

    def write(self) -> None:
        """Make the record and hand it to the filters and handlers."""
        code, number = self.place
        record = logger.makeRecord(
            logger.name,
            self.level,
            code.co_filename,
            number,
            self.text,
            tuple(str(arg) if isinstance(arg, _InShort) else arg for arg in self.args),
            self.caught and _showable(self.caught),
            func=code.co_name,
            extra=self.facts,
        )
        record.relativeCreated -= (record.created - self.created) * 1000
        record.created = self.created
        record.msecs = float(int(self.created % 1 * 1000))
        record.thread, record.threadName = self.thread.ident, self.thread.name
        logger.handle(record)


# Runs


class _Successes:
    """Picks the first successes of a minute, for a person to see. For all threads, without a lock:
    two that meet tell one line more.
    """

    def __init__(self) -> None:
        self._since = float("-inf")
        self._told: dict[str, int] = {}

    def told(self, biz_code: str) -> int:
        """The place of this success of a code among those to be told, from 1; 0: not told."""
        tick = ticks()
        if not 0 <= tick - self._since < SUCCESSES_SECONDS:
            self._since, self._told = tick, {}
        place = self._told.get(biz_code, 0) + 1
        if place > EACH_SUCCESSES or sum(self._told.values()) >= MOST_SUCCESSES:
            return 0
        self._told[biz_code] = place
        return place


_successes = _Successes()


# These two are called and not signalled: a signal that nobody else listens to costs next to nothing
# as long as we do not either. Where nobody reads INFO they cost one question.


def succeeded(task: RunningTask, seconds: float) -> None:
    if logger.isEnabledFor(logging.INFO):
        _good("%s done %s%s", task, seconds)


def rescheduled(task: RunningTask, seconds: float, when: datetime) -> None:
    if logger.isEnabledFor(logging.INFO):
        _good("%s done, again at %s %s%s", task, seconds, when)


def _good(text: str, task: RunningTask, seconds: float, *times: datetime) -> None:
    place = _successes.told(task.biz_code)
    if not place and not logger.isEnabledFor(logging.DEBUG):
        return
    _say(
        logging.INFO if place else logging.DEBUG,
        text,
        task,
        *map(_local, times),
        _facts(task, seconds),
        "; further ones of this code and minute are counted" if place == EACH_SUCCESSES else "",
        extra=_extra(task, seconds),
    )


def _retried(
    *, task: RunningTask, seconds: float, when: datetime, exception: BaseException, **_: Any
) -> None:
    _say(
        logging.WARNING,
        "%s failed, again at %s %s: %s",
        task,
        _local(when),
        _facts(task, seconds),
        _InShort(exception),
        extra=_extra(task, seconds),
    )


def _failed(
    *,
    task: Any,
    seconds: float | None = None,
    exception: BaseException | None = None,
    error: str = "",
    **_: Any,
) -> None:
    if exception is None or seconds is None:
        _say(logging.ERROR, "%s FAILED: %s", task, error)
        return
    _say(
        logging.ERROR,
        "%s FAILED for good %s",
        task,
        _facts(task, seconds),
        exc_info=exception,
        extra=_extra(task, seconds),
    )


def _lost(*, task: Any, **_: Any) -> None:
    _say(
        logging.WARNING,
        "%s was lost: its row had gone to somebody else before the run ended",
        task,
    )


def _rescued(
    *, worker_id: int, count: int, using: str, tasks: Collection[object] = (), **_: Any
) -> None:
    _say(
        logging.WARNING,
        "Rescued %s of worker %d on %s, which is dead%s",
        _number(count, "task"),
        worker_id,
        using,
        _named(tasks, count),
    )


def run_failed(task: Any) -> None:
    text = "The run of %s failed outside its handler; it is tried again"
    _say(logging.ERROR, text, task, exc_info=True)


def not_settled(task: RunningTask, error: BaseException) -> None:
    _say(
        logging.WARNING,
        "The database did not confirm the end of %s (%s); unless it went through, it runs again",
        task,
        _InShort(error),
    )


def commit_hook_failed(task: RunningTask) -> None:
    text = "%s is done; something that its commit set off failed"
    _say(logging.ERROR, text, task, exc_info=True)


def hook_failed(hook: str, task: RunningTask) -> None:
    _say(logging.ERROR, "%s of %s failed", hook, task, exc_info=True)


def backoff_failed(task: RunningTask) -> None:
    _say(logging.ERROR, "The backoff of %s failed; taking the default", task, exc_info=True)


def schedule_kept(biz_code: str, schedule: str | None, using: str) -> None:
    if schedule is None:
        text = "The handler of %s has no schedule any more; its row on %s goes"
        _say(logging.INFO, text, biz_code, using)
    else:
        text = "The handler of %s runs by itself on %s: %s"
        _say(logging.INFO, text, biz_code, using, schedule)


def schedule_over(biz_code: str, error: Exception) -> None:
    _say(logging.WARNING, "The handler of %s does not run by itself: %s", biz_code, error)


def unknown_trigger(task: Any) -> None:
    text = "%s has a trigger that its handler here does not have; it waits"
    _say(logging.WARNING, text, task)


_MISSED = {
    "coalesce": "missed more than one of its times; it runs once, for the last of them",
    "overrun": "left out times of its schedule that passed meanwhile",
    "catch_up": "left out times of its schedule: more have passed than it is to catch up",
    "run": "is a misfire, and runs all the same",
    "skip": "is a misfire: this time it is skipped",
    "fail": "is a misfire: it is parked as FAILED",
}


def missed(task: RunningTask, lateness: float, action: str) -> None:
    _say(logging.WARNING, "%s, due %.3f s ago, %s", task, lateness, _MISSED[action])


def took_too_long(task: RunningTask, seconds: float, limit: float) -> None:
    text = "%s took %.3f s, more than its timeout of %g s"
    _say(logging.WARNING, text, task, seconds, limit)


def still_running(task: Any, seconds: float, limit: float) -> None:
    text = "%s has been running for %.0f s; its timeout is %g s"
    _say(logging.WARNING, text, task, seconds, limit)


# The worker


def _worker_started(*, worker_id: int, name: str, using: str, **_: Any) -> None:
    _say(logging.INFO, "Worker %d (%s) polls %s", worker_id, name, using)


def _worker_stopped(*, worker_id: int, using: str, **_: Any) -> None:
    _say(logging.INFO, "Worker %d on %s has stopped", worker_id, using)


def shares_one_thread(using: str) -> None:
    _say(
        logging.WARNING,
        "gevent has replaced Python's threads: a handler that computes and a driver that waits in C"
        " (mysqlclient, sqlite3) hold up everything in this process, requests and the heartbeat of"
        " the worker on %s too",
        using,
    )


def unfit_database(sentence: str) -> None:
    """Tell in a ``sentence`` of ``requirements`` what will not go well."""
    _say(logging.WARNING, "%s", sentence)


def worker_failed(using: str) -> None:
    text = "The worker on %s has ended by an error, which is a defect: this process ends, too"
    _say(logging.ERROR, text, using)


def worker_replaced(using: str, old: int, new: int) -> None:
    _say(
        logging.WARNING,
        "Worker %d on %s was taken for dead (no heartbeat for its whole lease); its claims are"
        " lost, it goes on as worker %d",
        old,
        using,
        new,
    )


def stopping(using: str, tasks: Collection[str], seconds: float) -> None:
    """``tasks`` still run, and have ``seconds`` to end."""
    _say(
        logging.INFO,
        "Stopping on %s: %s and %s %g s to end%s",
        using,
        _number(len(tasks), "task still runs", "tasks still run"),
        "has" if len(tasks) == 1 else "have",
        seconds,
        _named(tasks),
    )


def abandoned(using: str, tasks: Collection[str]) -> None:
    if not tasks:
        text = (
            "Stopped on %s without signing off: the database does not answer. Others will take"
            " this worker for dead and its claims for theirs"
        )
        _say(logging.WARNING, text, using)
        return
    _say(
        logging.WARNING,
        "Stopped on %s while %s still ran; %s will be run again%s",
        using,
        _number(len(tasks), "task"),
        "it" if len(tasks) == 1 else "they",
        _named(tasks),
    )


def receivers_unheard(using: str) -> None:
    _say(
        logging.WARNING,
        "Stopped on %s in order, before all receivers of signals and all log handlers had heard"
        " everything: one of them is too slow",
        using,
    )


def unknown_code(using: str, biz_code: str, due: str) -> None:
    is_one = due == "1"
    _say(
        logging.WARNING,
        "%s %s of code %r %s due on %s and no handler is known for it: %s",
        due,
        "task" if is_one else "tasks",
        biz_code,
        "is" if is_one else "are",
        using,
        "it waits" if is_one else "they wait",
    )


def paused(using: str, queue: str, biz_code: str) -> None:
    _say(logging.INFO, "Paused on %s: %s", using, _scope(queue, biz_code))


def resumed(using: str, queue: str, biz_code: str) -> None:
    _say(logging.INFO, "No longer paused on %s: %s", using, _scope(queue, biz_code))


def _scope(queue: str, biz_code: str) -> str:
    code = f"code {biz_code!r}" if biz_code else "every code"
    return f"{code} in queue {queue!r}" if queue else f"{code} in every queue"


def tally(using: str, counters: dict[str, int], seconds: float) -> None:
    facts = ", ".join(f"{count} {what}" for what, count in counters.items() if count)
    _say(logging.INFO, "In the last %.0f s on %s: %s", seconds, using, facts)


def total(using: str, runs: int, seconds: float) -> None:
    """Tell how many runs have ended in all the ``seconds`` of a worker."""
    _say(logging.INFO, "Altogether on %s: %s in %.0f s", using, _number(runs, "run"), seconds)


def end_not_written(task: Any, error: BaseException) -> None:
    text = "The end of %s could not be written (%s); it is FAILED"
    _say(logging.ERROR, text, task, _InShort(error))


def ends_refused(using: str, count: int, error: BaseException) -> None:
    """The ends are kept, and tried again."""
    _say(
        logging.ERROR,
        "%s on %s cannot be written (%s); what else is due goes on",
        _number(count, "end", "ends"),
        using,
        _InShort(error),
    )


# The database

Reason = Literal["silent", "refused", "denied", "unknown", "no file", "empty"]

_DOWN: dict[Reason, str] = {
    "silent": "does not answer",
    "refused": "refuses connections",
    "denied": "refuses the user or the password",
    "unknown": "is not known to its server under this name",
    "no file": "cannot be opened",
    "empty": "has no tables of django_tasks",
}


def database_down(
    using: str, reason: Reason, error: BaseException, kept: int, seconds: float
) -> None:
    """``kept`` ends wait to be written; it has been so for ``seconds``."""
    _say(
        logging.ERROR,
        "Database %s %s (%s)%s%s; trying again until it is back",
        using,
        _DOWN[reason],
        _InShort(error),
        f", for {seconds:.0f} s now" if seconds else "",
        f"; {_number(kept, 'end is', 'ends are')} kept" if kept else "",
    )


def database_back(using: str, seconds: float) -> None:
    _say(logging.WARNING, "Database %s is back after %.1f s", using, seconds)


def hints_lost(using: str, error: BaseException) -> None:
    text = "No hints from %s (%s); polling goes on"
    _say(logging.WARNING, text, using, _InShort(error))


def hints_back(using: str) -> None:
    _say(logging.INFO, "Hints from %s are back", using)


def no_doorbell(host: str, error: BaseException) -> None:
    _say(logging.WARNING, "No doorbell at %s (%s); polling goes on", host, _InShort(error))


def receiver_failed() -> None:
    _say(logging.ERROR, "A receiver of a signal failed", exc_info=True)


def fork_failed(error: BaseException) -> None:
    """Tell it in the child, and of a thread of ours that has forked: nothing takes its lines."""
    send_through(None)
    _say(logging.ERROR, "A child process could not be set right after its fork", exc_info=error)


def poller_died(using: str) -> None:
    text = "The poller on %s has ended by an error; its tasks will be rescued"
    _say(logging.ERROR, text, using, exc_info=True)


def poller_hangs(using: str, seconds: float) -> None:
    _say(
        logging.ERROR,
        "The poller on %s has not finished a cycle for %.0f s although heartbeats go on; tasks that"
        " it has claimed and not started are given back",
        using,
        seconds,
    )


def heartbeat_failed(using: str) -> None:
    _say(logging.ERROR, "A heartbeat on %s failed; it is tried again", using, exc_info=True)


def heartbeat_late(using: str, error: BaseException) -> None:
    _say(
        logging.ERROR,
        "No heartbeat of this worker on %s was possible for its whole lease (%s); it starts nothing"
        " until one is",
        using,
        _InShort(error),
    )


def thread_died(name: str) -> None:
    _say(logging.ERROR, "Thread %s has died; another one takes its place", name)


def claims_missing(using: str, tasks: Collection[str]) -> None:
    text = "Claims on %s were lost inside this worker and are given back%s"
    _say(logging.ERROR, text, using, _named(tasks))


def lane_failed(
    using: str, biz_code: str, queue: str, error: BaseException, seconds: float
) -> None:
    _say(
        logging.ERROR,
        "Tasks of code %r in queue %r on %s cannot be claimed (%s); trying again in %.0f s",
        biz_code,
        queue,
        using,
        _InShort(error),
        seconds,
    )


def not_isolated(task: Any, error: BaseException) -> None:
    _say(
        logging.WARNING,
        "%s, whose worker died twice, is run beside others, for no process of its own can be had:"
        " %s",
        task,
        error,
    )


def loop_interrupted(error: BaseException) -> None:
    _say(
        logging.ERROR,
        "An asyncio task of an async handler has raised %s; other runs go on",
        type(error).__name__,
        exc_info=error,
    )


def not_rescued(using: str, worker_id: int, error: BaseException) -> None:
    _say(
        logging.ERROR,
        "The tasks of worker %d on %s, which is dead, cannot be freed (%s); it is tried again now"
        " and then",
        worker_id,
        using,
        _InShort(error),
    )


def died_after_its_end(task: Any, death: BaseException) -> None:
    text = "%s has ended and this is written; its own process died afterwards: %s"
    _say(logging.WARNING, text, task, death)


def lines_not_written(using: str, error: BaseException) -> None:
    text = "Lines of the history on %s could not be written (%s)"
    _say(logging.ERROR, text, using, _InShort(error))


def schedules_not_kept(using: str, error: BaseException) -> None:
    _say(
        logging.WARNING,
        "The rows of handlers with a schedule on %s could not be brought up to date (%s); trying"
        " again",
        using,
        _InShort(error),
    )


def messages_dropped(using: str, count: int) -> None:
    _say(
        logging.ERROR,
        "%s of the worker on %s could not be delivered: a receiver or a log handler is too slow",
        _number(count, "signal or log line", "signals and log lines"),
        using,
    )


def not_forgiven(using: str, error: BaseException) -> None:
    _say(
        logging.WARNING,
        "The database %s was not told that this stop is in order (%s): what still runs will count"
        " as rescued once",
        using,
        _InShort(error),
    )


def poller_failed(using: str) -> None:
    _say(logging.ERROR, "A cycle of the poller on %s failed; it goes on", using, exc_info=True)


# Locks


def lock_not_renewed(name: str, error: BaseException) -> None:
    text = "Lock %r could not be renewed (%s); trying again until its lease has passed"
    _say(logging.WARNING, text, name, _InShort(error))


def lock_lost(name: str, term: int) -> None:
    text = "Lock %r (term %d) was lost while its section ran: somebody else may hold it"
    _say(logging.ERROR, text, name, term)


def lock_not_freed(name: str, error: BaseException) -> None:
    text = "Lock %r could not be freed (%s); it is free when its lease has passed"
    _say(logging.WARNING, text, name, _InShort(error))


# Processes


def introduced(sentence: str) -> None:
    """Tell what ``starttask`` serves, in its own ``sentence``."""
    _say(logging.INFO, "%s", sentence)


def strange_queue(queue: str) -> None:
    text = "No handler has the queue %r; tasks that were added to it by its name are served"
    _say(logging.INFO, text, queue)


def child_ended(number: int, pid: int, code: int | None, delay: float) -> None:
    _say(
        logging.ERROR,
        "Process %d (pid %d) ended with code %s%s; starting another%s",
        number,
        pid,
        code,
        " (killed; was there not enough memory?)" if code == -9 else "",
        f" in {delay:.1f} s" if delay else "",
    )


def retiring(reached: str) -> None:
    text = "This process has reached its limit, %s: ending when nothing runs any more"
    _say(logging.INFO, text, reached)


def second_signal(tasks: Collection[str]) -> None:
    _say(
        logging.WARNING,
        "Second signal: ending at once%s",
        f"; what still runs will be rescued{_named(tasks)}" if tasks else "",
    )


def supervisor_died() -> None:
    _say(logging.ERROR, "The supervisor is gone: stopping")


# Words


def _number(count: int, one: str, many: str = "") -> str:
    """Such as "1 task", "2 tasks"."""
    return f"{count} {one}" if count == 1 else f"{count} {many or one + 's'}"


def _named(tasks: Iterable[object], count: int = 0) -> str:
    """The keys of ``tasks`` behind a colon, not too many of them; ``count`` are meant in all."""
    keys = [str(task) for task in tasks]
    if not keys:
        return ""
    named = keys[:MOST_KEYS]
    left = max(count, len(keys)) - len(named)
    return f": {', '.join(named)}{f' and {left} more' if left else ''}"


def _facts(task: RunningTask, seconds: float) -> str:
    return (
        f"(attempt {task.attempt}, took {seconds * 1000:.1f} ms,"
        f" {task.lateness * 1000:.1f} ms late)"
    )


def _extra(task: RunningTask, seconds: float) -> dict[str, Any]:
    """For structured logs: the same facts by name."""
    return {
        "task_id": task.id,
        "biz_code": task.biz_code,
        "biz_num": task.biz_num,
        "attempt": task.attempt,
        "duration": seconds,
        "lateness": task.lateness,
    }


class _InShort:
    """An error's reason, put into words by the thread that writes the line.

    A project's code may have a part in that: an exception's own text, and what is to be hidden.
    """

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __str__(self) -> str:
        kind, text = type(self._error).__name__, str(self._error)
        text = text.strip().split("\n")[0].replace("\0", "\\0")
        text = redaction.redacted_head(text, LONGEST_REASON)
        return f"{kind}: {text}" if text else kind


def _local(when: datetime) -> str:
    return when.astimezone().isoformat(sep=" ", timespec="milliseconds")
