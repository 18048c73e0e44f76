"""Calls become rows."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist
from django.utils.json import normalize_json

from django_tasks.calls import results
from django_tasks.calls.declared import handler_of
from django_tasks.calls.handler import CallHandler
from django_tasks.calls.options import Wishes
from django_tasks.calls.tasks import AnyTask, KeyedTask
from django_tasks.client.adding import RANDOM_LENGTH, add_task, add_tasks
from django_tasks.exceptions import TaskExists, TaskTypeError, TaskValueError
from django_tasks.handlers.base import history_of
from django_tasks.models import Task as Row
from django_tasks.sentences import sentence as _
from django_tasks.store import clock
from django_tasks.store.aliases import write_alias
from django_tasks.timezones import for_django
from django_tasks.values.calls import Call, id_of
from django_tasks.values.options import TaskOptions
from django_tasks.values.random_text import random_text

LIFE_LENGTH = 8
# Of a call whose key another one has, which ends meanwhile.
MOST_TRIES = 3
# The arguments of one call.
Arguments = tuple[Sequence[Any], Mapping[str, Any]]


class Enqueueing:
    """The way of calls of one task into the database of its backend."""

    def __init__(self, task: AnyTask, wishes: Wishes, backend: str) -> None:
        """Raises InvalidTask for a function that no worker could find."""
        self._task = task
        self._handler = handler_of(task)
        self._backend = backend
        self._using = write_alias(wishes.database)
        self._options = _options(task, wishes, self._handler)

    def one(self, args: Any, kwargs: Any) -> tuple[Any, bool]:
        """The result of a call, and whether it was stored; if not, another one has its key."""
        for _try in range(MOST_TRIES):
            call = self._call(args, kwargs)
            try:
                stored = add_task(self._row(call), using=self._using, **_conflict(self._task))
            except TaskValueError as error:
                raise _of_arguments(error, args, kwargs) from None
            if self._is_of(call, stored):
                return self._ready(call, stored), True
            standing = id_of(stored.biz_code, stored.biz_num)
            # Race: the call that stands ends meanwhile, and the history keeps nothing of it.
            with suppress(TaskResultDoesNotExist):
                return results.result_of(standing, using=self._using), False
        raise TaskExists("key", call.key, _("belongs to a task that is no call of this function"))

    def many(self, calls: Iterable[Arguments]) -> list[Any]:
        """The results of calls, which are stored in one transaction."""
        made = [self._call(*_arguments(place, call)) for place, call in enumerate(calls)]
        rows = [self._row(call) for call in made]
        add_tasks(rows, using=self._using)
        return [self._ready(call, row) for call, row in zip(made, rows, strict=True)]

    def _call(self, args: Any, kwargs: Any) -> Call:
        task = self._task
        arguments: Any = normalize_json({"args": list(args), "kwargs": kwargs})
        return Call(
            path=self._handler.path,
            **arguments,
            backend=self._backend,
            queue_name=task.queue_name,
            priority=int(task.priority),
            run_after=task.run_after,
            enqueued_at=for_django(clock.now(self._using)),
            life=random_text(LIFE_LENGTH),
            key=task.key if isinstance(task, KeyedTask) else None,
            results=history_of(self._handler),
        )

    def _row(self, call: Call) -> Row:
        is_debounced = isinstance(self._task, KeyedTask) and self._task.on_conflict == "debounce"
        when: Any = None if is_debounced else call.run_after or call.enqueued_at
        return Row(
            biz_code=self._handler.code,
            biz_num=call.key or random_text(RANDOM_LENGTH),
            when=when,
            biz_ext=call.payload(),
            queue=call.queue_name,
            priority=call.priority,
            options=self._options,
        )

    def _is_of(self, call: Call, stored: Row) -> bool:
        """Tell if a call is the one that stands now."""
        words = stored.biz_ext
        if not isinstance(words, dict):  # a decoder of the project may make anything of it
            key = (stored.biz_code, stored.biz_num)
            told = results.standing_call(key, using=self._using)
            return told is not None and told.life == call.life
        return bool(words.get("life") == call.life)

    def _ready(self, call: Call, row: Row) -> Any:
        return results.made(self._task, id_of(row.biz_code, row.biz_num), call)


def _arguments(place: int, call: Any) -> Arguments:
    """The arguments of one of many calls. Raises TaskTypeError for what is no pair of them."""
    try:
        args, kwargs = call
        return list(args), dict(kwargs)
    except (TypeError, ValueError):
        raise TaskTypeError("calls", call, _("must be pairs (args, kwargs)"), index=place) from None


def _conflict(task: AnyTask) -> dict[str, Any]:
    """The arguments of ``add_task`` that say what becomes of a call with the same key."""
    if not isinstance(task, KeyedTask):
        return {}
    return {"on_conflict": task.on_conflict, "wait": task.wait, "at_most": task.at_most}


def _options(task: AnyTask, wishes: Wishes, handler: CallHandler) -> TaskOptions:
    """The options of a call that differ from its function's, which the handler has."""
    given = task.given() if isinstance(task, KeyedTask) else {}
    differing = {name: value for name, value in given.items() if value != getattr(handler, name)}
    if task.backend != handler.task.backend:
        differing |= _terms_of_backend(wishes, handler, given)
    return TaskOptions(**differing)


def _terms_of_backend(
    wishes: Wishes, handler: CallHandler, given: dict[str, Any]
) -> dict[str, Any]:
    """The terms of a call on another backend of ours than that under which its function stands."""
    if wishes.to is not None and wishes.atomic != bool(handler.atomic):
        raise InvalidTask(
            _(
                "%(path)s stands under another backend, which does not agree with this "
                "one about ATOMIC: name this one in its @task.",
                path=handler.path,
            )
        )
    own = {} if wishes.to is not None else handler.own
    terms = {"max_attempts": own.get("max_attempts", wishes.max_attempts)}
    if wishes.backoff is not None and "backoff" not in own:
        terms["backoff"] = wishes.backoff
    return terms | given


def _of_arguments(error: TaskValueError, args: Any, kwargs: Any) -> TaskValueError:
    """An error that names what the caller has given, not where it would have been stored."""
    if error.field != "biz_ext":
        return error
    return type(error)("args and kwargs", [list(args), kwargs], error.problem)
