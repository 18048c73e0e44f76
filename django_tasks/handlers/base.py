"""Handlers: the code of one ``biz_code``."""

from collections.abc import Callable, Collection, Iterable, Sequence
from inspect import isclass, iscoroutinefunction
from typing import Any, ClassVar, NamedTuple

from django_tasks import payloads
from django_tasks.backoff import Backoff, Duration, Exponential, seconds
from django_tasks.conf import options
from django_tasks.exceptions import HandlerError, RetryLater, TaskTimeout, shortened
from django_tasks.handlers.running_task import PassiveTask, RunningTask
from django_tasks.near_names import closest, did_you_mean
from django_tasks.sentences import sentence as _
from django_tasks.values.keys import DEFAULT_QUEUE
from django_tasks.values.limits import Limit, as_limit
from django_tasks.values.options import OnMisfire
from django_tasks.values.runs import History


class Stop:
    """Returned by ``handle``, the class or an instance: the task is finished, schedule or not."""


class Finished:
    """Returned by ``handle``: as None, and the history keeps ``value`` with the run.

    It is found as ``get_runs(code, num)[0].return_value``, as long as HISTORY_AGE says; a handler
    with ``history = "none"`` keeps nothing. ``value`` is JSON, as a payload is. Raises
    TaskTypeError or TaskValueError for one that cannot be stored.
    """

    __slots__ = ("detail",)

    def __init__(self, value: Any = None) -> None:
        self.detail: str = payloads.encoded({"return_value": value}, "return_value") or ""

    @classmethod
    def with_detail(cls, detail: str) -> "Finished":
        """The answer with a JSON text that is stored as it is."""
        finished = cls.__new__(cls)
        finished.detail = detail
        return finished


class TaskHandler:
    """Subclass this, give ``biz_code`` and write ``handle``.

    One instance serves all threads of a process: keep no state of a run on ``self``.

    ``queue``, ``priority``  where its tasks wait, unless a task says otherwise; higher first
    ``max_attempts``         failed runs before a task is FAILED; None: the setting MAX_ATTEMPTS
    ``backoff``              a delay, a list of delays, or an object with ``delay(attempt)``;
                             by default exponential with full jitter, 10 s doubling up to 1 h
    ``timeout``              timedelta or seconds: a run that takes longer is told of and ended:
                             an ``async def handle`` is cancelled, TaskTimeout is raised in the
                             thread of another one; None: no limit
    ``interrupt``            False: a handler that is not async is only told of, and goes on
    ``kill_after``           timedelta or seconds: a run that has not ended so long after its start
                             has failed, and ``starttask`` replaces its process; None: never
    ``max_running``          how many of its tasks may run at once in the whole cluster; None: any
    ``rate_limit``           how many may start in a second, minute, hour or day, in the whole
                             cluster: "10/s", "100/m", "5000/h", "3/d"; None: any
    ``batch``                the most tasks that one call of ``handle_batch`` gets, 1 to 500; None:
                             it has ``handle``
    ``atomic``               run ``handle`` and write its end in one transaction on the task's
                             database: effects there happen exactly once
    ``retry_on``             exceptions after which a run is tried again; any other fails at once
    ``fail_on``              exceptions that fail at once all the same
    ``history``              which of its runs the history keeps: "all", "problems" (those that did
                             not simply go well) or "none"; None: the setting HISTORY
    ``schedule``             when it runs by itself: a value of ``django_tasks.schedules``, its
                             text, a timedelta, or a trigger with APScheduler's
                             ``get_next_fire_time``; workers keep one row for it
    ``sticky``               with a schedule: one worker runs all tasks of its queue as long as that
                             worker lives; the others hear of it by ``on_passive``
    ``each_host``            with a schedule: it runs on every host, and workers keep a row for each

    What becomes of times that have passed, of a schedule or not:

    ``misfire_grace_time``   timedelta or seconds; a run that would start later is a misfire; None:
                             never
    ``on_misfire``           "run", "skip" or "fail"; by default "skip" with a schedule, which goes
                             on, and "fail" without: the task is parked as FAILED
    ``coalesce``             of several times that were missed only the last one runs
    ``catch_up``             without ``coalesce``: the most of them that run, the one that waits and
                             the last ones; None: all
    """

    biz_code: ClassVar[str] = ""
    queue: ClassVar[str] = DEFAULT_QUEUE
    priority: ClassVar[int] = 0
    max_attempts: ClassVar[int | None] = None
    backoff: ClassVar[Backoff | Duration | Sequence[Duration]] = Exponential()
    timeout: ClassVar[Duration | None] = None
    interrupt: ClassVar[bool] = True
    kill_after: ClassVar[Duration | None] = None
    max_running: ClassVar[int | None] = None
    rate_limit: ClassVar[str | None] = None
    batch: ClassVar[int | None] = None
    atomic: ClassVar[bool] = False
    retry_on: ClassVar[tuple[type[BaseException], ...]] = (BaseException,)
    fail_on: ClassVar[tuple[type[BaseException], ...]] = ()
    history: ClassVar[History | None] = None
    schedule: ClassVar[Any] = None
    sticky: ClassVar[bool] = False
    each_host: ClassVar[bool] = False
    misfire_grace_time: ClassVar[Duration | None] = None
    on_misfire: ClassVar[OnMisfire | None] = None
    coalesce: ClassVar[bool] = True
    catch_up: ClassVar[int | None] = None

    def get_biz_code(self) -> str:
        """The ``biz_code`` of the tasks that this handler runs."""
        return self.biz_code

    def handle(self, task: RunningTask) -> Any:
        """Do the work. May be ``async def``.

        Return None when the task is finished, ``Finished(value)`` if the history is to keep a value
        besides, or its next time: a datetime (naive: in the
        current time zone) or a timedelta from now. With a schedule, None means its next time; a
        time that is returned comes before it, once; ``Stop`` ends it. Anything else, and any
        exception, is a failed attempt; ``RetryLater`` says when to try again.
        """
        raise NotImplementedError

    def handle_batch(self, tasks: list[RunningTask]) -> Any:
        """Do the work of 1 to ``batch`` tasks at once: as many as are due, no two of one key.

        In place of ``handle``, and may be ``async def`` as well. Return None when all of them are
        finished, or a mapping of tasks to what ``handle`` might return, or to an exception for one
        that has failed; a task that is not in it is finished. If it raises, halves of the tasks are
        tried until those that fail are alone; only a task that failed alone is charged an attempt.
        """
        raise NotImplementedError

    def merge(self, waiting: Any, added: Any) -> Any:
        """The payload of a task that is added with ``on_conflict="debounce"`` while it waits.

        Called by ``add_task``, under the row's lock: be quick. By default what is added replaces
        what waits.
        """
        return added

    def on_failure(self, task: RunningTask, exc: BaseException) -> None:
        """Called after the last attempt failed, before the row is written as FAILED.

        At least once: a process that dies in between runs the task again. What it raises is
        logged and changes nothing. What an ``atomic`` run did is rolled back by then; if it was an
        answer of an ``atomic`` ``handle_batch``, this is a part of its transaction (an ``async``
        hook is not, and must wait for nothing that the batch has locked).
        """

    def on_passive(self, task: PassiveTask) -> None:
        """Called at each time of the schedule of a ``sticky`` handler, in the workers that serve
        its tasks and are not the active one.

        In a thread of its own, one call after the other; times that pass meanwhile are left out.
        May be ``async def``. An exception is logged and changes nothing.
        """

    def on_stuck(self, task: RunningTask, seconds: float) -> None:
        """Called once when a run has been going on for ``seconds``, more than its ``timeout``.

        In a thread of its own, when the run is being ended, which may take a while. What it raises
        is logged and changes nothing.
        """

    def _note(self, payload: str | None) -> str | None:
        return None


class FunctionHandler(TaskHandler):
    """A plain function as a handler; made by ``task_handler``. Calling it calls the function."""

    def __init__(self, function: Callable[[RunningTask], Any], biz_code: str, **attributes: Any):
        if unknown := sorted(attributes.keys() - FUNCTION_ATTRIBUTES):
            refusal = _("task_handler() knows no %(unknown)r", unknown=unknown[0])
            near = near_name(unknown[0], FUNCTION_ATTRIBUTES)
            raise HandlerError(did_you_mean(refusal, near))
        method = "handle" if attributes.get("batch") is None else "handle_batch"
        self.__dict__.update(attributes, biz_code=biz_code, **{method: function})
        self._function = function
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__module__ = function.__module__
        self.__doc__ = function.__doc__

    def __call__(self, task: Any) -> Any:
        return self._function(task)


# All that a class may say but for what the decorator and the function say themselves.
FUNCTION_ATTRIBUTES = frozenset(name for name in vars(TaskHandler) if not name.startswith("_")) - {
    "biz_code",
    "get_biz_code",
    "handle",
    "handle_batch",
}


def task_handler(
    biz_code: str, **attributes: Any
) -> Callable[[Callable[[RunningTask], Any]], FunctionHandler]:
    """Make a handler of a function: ``@task_handler("push", queue="mail", max_attempts=3)``.

    Takes the class attributes of ``TaskHandler``, and its hooks as functions without ``self``:
    ``on_failure(task, exc)``, ``on_stuck(task, seconds)`` and ``merge(waiting, added)``. Raises
    HandlerError for any other, and where the code is missing. The function must still be
    registered: by TASK_HANDLERS, by standing in an app's ``task_handlers.py``, or by
    ``register_task_handler``.
    """
    if callable(biz_code):
        raise HandlerError(_without_code(biz_code))

    def decorate(function: Callable[[RunningTask], Any]) -> FunctionHandler:
        if isclass(function) or not callable(function):
            raise HandlerError(
                _(
                    "@task_handler(%(biz_code)r) goes above a function, not %(function)s",
                    biz_code=biz_code,
                    function=shortened(function),
                )
            )
        return FunctionHandler(function, biz_code, **attributes)

    return decorate


def _without_code(function: Any) -> str:
    name = getattr(function, "__name__", "function")
    if isclass(function):
        return _(
            "@task_handler goes above a function; write class %(name)s(TaskHandler) without it",
            name=name,
        )
    return _(
        "@task_handler needs a biz_code: write @task_handler(%(name)r) above def %(name)s(task)",
        name=name,
    )


# Names of other task queues, and ours; of several, the first that is to be had.
_ELSEWHERE = {
    **dict.fromkeys(("retries", "max_retries"), ("max_attempts",)),
    "retry_backoff": ("backoff",),
    "autoretry_for": ("retry_on",),
    "max_concurrency": ("max_running",),
    **dict.fromkeys(("cron", "crontab"), ("schedule",)),
    **dict.fromkeys(("time_limit", "soft_time_limit"), ("timeout", "kill_after")),
    "ignore_result": ("history",),
}


def near_name(name: str, names: Collection[str]) -> str | None:
    """The one of ``names`` that somebody who wrote ``name`` may have meant, or None."""
    if meant := _ELSEWHERE.get(name.lower()):
        return next((each for each in meant if each in names), None)
    return closest(name, names)


def has_own(handler: TaskHandler, hook: str) -> bool:
    """Tell if a handler has a ``hook`` of its own: by its class, or as a function's handler has."""
    method = getattr(handler, hook)
    return getattr(method, "__func__", method) is not getattr(TaskHandler, hook)


def method_of(handler: TaskHandler) -> Callable[..., Any]:
    """The method that does a handler's work."""
    return handler.handle if handler.batch is None else handler.handle_batch


def is_async(handler: TaskHandler) -> bool:
    return iscoroutinefunction(method_of(handler))


def attempts_allowed(handler: TaskHandler | None) -> int:
    """The number of failed runs that make a task FAILED."""
    own = handler.max_attempts if handler is not None else None
    return options().max_attempts if own is None else own


def may_retry(handler: TaskHandler, error: BaseException) -> bool:
    """Tell if a run that raised ``error`` may be tried again."""
    kinds = (type(error), TimeoutError) if isinstance(error, TaskTimeout) else (type(error),)
    wanted = _are_any(kinds, handler.retry_on) and not _are_any(kinds, handler.fail_on)
    return wanted or isinstance(error, RetryLater)


def _are_any(kinds: Iterable[type], named: tuple[type[BaseException], ...]) -> bool:
    return any(issubclass(kind, named) for kind in kinds)


def time_limit(handler: TaskHandler) -> float | None:
    """The handler's ``timeout`` in seconds, or None."""
    return None if handler.timeout is None else seconds(handler.timeout)


def kill_limit(handler: TaskHandler) -> float | None:
    """The handler's ``kill_after`` in seconds, or None.

    Raises TypeError or ValueError for one that is unusable.
    """
    if handler.kill_after is None:
        return None
    limit, timeout = seconds(handler.kill_after), time_limit(handler)
    if limit <= (timeout or 0):
        raise ValueError(_too_early(handler, timeout))
    return limit


def _too_early(handler: TaskHandler, timeout: float | None) -> str:
    given = handler.kill_after
    if timeout is None:
        return _("kill_after must be more than 0, not %(given)r", given=given)
    return _(
        "kill_after must be longer than the timeout of %(timeout)g s, not %(given)r",
        timeout=timeout,
        given=given,
    )


def history_of(handler: TaskHandler) -> str:
    """The runs that the history keeps."""
    return handler.history or options().history


def cluster_limit(handler: TaskHandler) -> Limit | None:
    """The handler's ``max_running`` and ``rate_limit``, or None."""
    return as_limit(handler.max_running, handler.rate_limit)


class Terms(NamedTuple):
    """Attributes of a handler as they were when it was registered; None: not said.

    For the poller's thread, which reads nothing of a handler itself: an attribute may be a
    property, and take as long as it likes. ``timeout`` is seconds.
    """

    queue: str = DEFAULT_QUEUE
    priority: int = 0
    sticky: bool = False
    has_passive_hook: bool = False
    each_host: bool = False
    limit: Limit | None = None
    batch: int = 1
    history: str | None = None
    max_attempts: int | None = None
    timeout: float | None = None

    @property
    def kept(self) -> str:
        """The runs that the history keeps."""
        return self.history or options().history


def terms_of(handler: TaskHandler) -> Terms:
    """Read the attributes of a handler. Raises TypeError or ValueError for one that is unusable."""
    return Terms(
        queue=handler.queue,
        priority=handler.priority,
        sticky=bool(handler.sticky),
        has_passive_hook=has_own(handler, "on_passive"),
        each_host=bool(handler.each_host),
        limit=cluster_limit(handler),
        batch=handler.batch or 1,
        history=handler.history,
        max_attempts=handler.max_attempts,
        timeout=time_limit(handler),
    )
