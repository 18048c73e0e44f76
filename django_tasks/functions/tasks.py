"""Django's Task with a key and with the options of one call."""

from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.tasks import task_backends
from django.tasks.base import DEFAULT_TASK_PRIORITY, Task
from django.tasks.exceptions import InvalidTask

from django_tasks.backoff import Backoff, Duration
from django_tasks.exceptions import TaskValueError
from django_tasks.functions.backends import backend_of
from django_tasks.functions.backoff import Judge
from django_tasks.sentences import said
from django_tasks.sentences import sentence as _
from django_tasks.timezones import aware, for_django
from django_tasks.values.keys import check_number

if TYPE_CHECKING:
    from django_tasks.client.arguments import Number
    from django_tasks.store.control import CancelResult
    from django_tasks.values.conflicts import Conflict

    AnyTask = Task[..., Any]
else:
    AnyTask = Task

# The fields besides Django's that tasks of other backends may have as well, by the same names.
TERMS = ("max_attempts", "backoff", "timeout")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedTask(AnyTask):
    """The Task that ``@task`` makes under our backend.

    ``key``            its calls have this business key, up to 62 characters less those of the code:
                       a call that waits is moved by the next one. None: a random one
    ``on_conflict``    "replace", "keep", "earliest", "raise" or "debounce" with ``wait`` and
                       ``at_most``, as ``add_task`` has them; the call that stands is returned
    ``max_attempts``, ``backoff``, ``timeout``  as ``TaskOptions`` has them; None: as the function.
                       In ``@task``, but not in ``using()``, a ``backoff`` may also be an object
                       with ``delay()``, or a function: see BACKOFF
    ``run_after``      besides what Django has, a timedelta from ``enqueue``
    """

    key: str | None = None
    on_conflict: "Conflict" = "replace"
    wait: Duration | None = None
    at_most: Duration | None = None
    max_attempts: int | None = None
    backoff: Backoff | Duration | list[Duration] | Judge | None = None
    timeout: Duration | None = None

    def using(
        self,
        *,
        key: "Number | None" = None,
        run_after: datetime | timedelta | None = None,
        **changes: Any,
    ) -> "KeyedTask":
        """A task with other values, as Django has it; raises InvalidTask.

        Besides Django's, any field of this class. A ``run_after`` that is a timedelta counts from
        each ``enqueue``, by the database's clock; under a backend that is not ours, from now.
        """
        known = {each.name for each in fields(self)} - {"func", "takes_context"}
        if unknown := sorted(changes.keys() - known):
            raise TypeError(
                _("using() got an unexpected keyword argument %(unknown)r", unknown=unknown[0])
            )
        if key is not None:
            changes["key"] = checked_key(key)
        delay: Any = self.run_after if run_after is None else run_after
        if (
            isinstance(delay, timedelta)
            and backend_of(changes.get("backend") or self.backend) is None
        ):
            delay = after(_now(), delay)
        changes["run_after"] = delay
        changed = {name: value for name, value in changes.items() if value is not None}
        return replace(self, **changed)

    def given(self) -> dict[str, Any]:
        """Its options that are not None, by name."""
        values = ((name, getattr(self, name)) for name in TERMS)
        return {name: value for name, value in values if value is not None}

    @property
    def biz_code(self) -> str:
        """The code of its calls, for the functions of ``django_tasks.api``."""
        from django_tasks.functions.declared import code_for

        return code_for(self.func)

    def result_id(self, key: "Number") -> str:
        """The id of the result of the call with this key."""
        return f"{self.biz_code}:{checked_key(key)}"

    def cancel(self, key: "Number | None" = None) -> "CancelResult":
        """Cancel the call with this key, or of ``using(key=…)``: see ``cancel_task``."""
        from django_tasks.client.control import cancel_task
        from django_tasks.functions.declared import former_code

        number = self.key if key is None else checked_key(key)
        if number is None:
            raise InvalidTask(_("key is missing: only a call with a key is cancelled by it"))
        wishes = getattr(self.get_backend(), "wishes", None)
        using, former = wishes and wishes.database, former_code(self.func)
        done = cancel_task(self.biz_code, number, using=using)
        return done if done or former is None else cancel_task(former, number, using=using)

    async def acancel(self, key: "Number | None" = None) -> "CancelResult":
        """``cancel`` for async code."""
        from asgiref.sync import sync_to_async

        return await sync_to_async(self.cancel)(key)


def _now() -> datetime:
    from django_tasks.store import clock  # it needs the models; functions come before
    from django_tasks.store.aliases import write_alias

    return clock.now(write_alias(None))


def after(now: datetime, delay: timedelta) -> datetime:
    """The moment ``delay`` after ``now`` (aware), as Django has it. Raises InvalidTask."""
    try:
        return for_django(aware("run_after", now + delay))
    except (OverflowError, TaskValueError):
        raise InvalidTask(
            _("run_after is out of the range of times: %(delay)r", delay=delay)
        ) from None


def checked_key(key: "Number") -> str:
    """A key as text. Raises InvalidTask for one that no row can have."""
    try:
        return check_number(key)
    except TaskValueError as error:
        raise InvalidTask(said(type(error)("key", error.value, error.problem))) from error


def for_backend(task: AnyTask, alias: str) -> AnyTask:
    """The task that a backend runs now, in place of one of ours. Raises InvalidTask.

    It has the options of ours that the tasks of that backend have, too.
    """
    backend = task_backends[alias]
    known = {each.name for each in fields(backend.task_class)}.intersection(TERMS)
    terms = {name: getattr(task, name, None) for name in known}
    return backend.task_class(
        func=task.func,
        priority=task.priority if backend.supports_priority else DEFAULT_TASK_PRIORITY,
        queue_name=task.queue_name,
        backend=alias,
        run_after=None,
        takes_context=task.takes_context,
        **{name: value for name, value in terms.items() if value is not None},
    )


def restored(task: AnyTask, **changes: Any) -> Any:
    """A task with other values, not validated: what was enqueued may not fit the settings now."""
    if all(getattr(task, name) == value for name, value in changes.items()):
        return task
    new = object.__new__(type(task))
    for each in fields(task):
        value = changes.get(each.name, getattr(task, each.name))
        object.__setattr__(new, each.name, value)
    return new
