"""Calls become rows."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from django.tasks.exceptions import TaskResultDoesNotExist
from django.utils.json import normalize_json

from django_tasks.client.adding import RANDOM_LENGTH, add_task, add_tasks
from django_tasks.client.storing import is_captured, storage
from django_tasks.exceptions import TaskExists, TaskTypeError, TaskValueError
from django_tasks.functions import results
from django_tasks.functions.declared import former_code, handler_of
from django_tasks.functions.options import Defaults
from django_tasks.functions.tasks import AnyTask, KeyedTask, after, restored
from django_tasks.functions.terms import options_of_call
from django_tasks.handlers.base import history_of
from django_tasks.models import Task as Row
from django_tasks.sentences import sentence as _
from django_tasks.store import clock
from django_tasks.store.aliases import write_alias
from django_tasks.timezones import for_django
from django_tasks.values.calls import Call, id_of, longest_key, told_of_text
from django_tasks.values.keys import random_text

LIFE_LENGTH = 8
# Of a call whose key another one has, which ends meanwhile.
MOST_TRIES = 3
# The arguments of one call.
Arguments = tuple[Sequence[Any], Mapping[str, Any]]


class Enqueueing:
    """The way of calls of one task into the database of its backend."""

    def __init__(self, task: AnyTask, wishes: Defaults, backend: str) -> None:
        """Raises InvalidTask for a function that no worker could find."""
        self._task = task
        self._handler = handler_of(task)
        self._backend = backend
        self._using = write_alias(wishes.database)
        self._options = options_of_call(task, wishes, self._handler)

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
            # Race: the call that stands ends meanwhile, and the history keeps nothing of it.
            with suppress(TaskResultDoesNotExist):
                return self._standing(stored), False
        raise TaskExists("key", call.key, _("belongs to a task that is no call of this function"))

    def many(self, calls: Iterable[Arguments]) -> list[Any]:
        """The results of calls, which are stored in one transaction."""
        made = [self._call(*_arguments(place, call)) for place, call in enumerate(calls)]
        rows = [self._row(call) for call in made]
        add_tasks(rows, using=self._using)
        return [self._ready(call, row) for call, row in zip(made, rows, strict=True)]

    def _call(self, args: Any, kwargs: Any) -> Call:
        task = self._task
        try:
            arguments: Any = normalize_json({"args": list(args), "kwargs": kwargs})
        except RecursionError as error:
            problem = _("is not JSON (%(error)s)", error=error)
            raise _of_arguments(TaskValueError("biz_ext", None, problem), args, kwargs) from None
        now = clock.now(self._using)
        run_after: Any = task.run_after
        if isinstance(run_after, timedelta):
            run_after = after(now, run_after)
        return Call(
            path=self._handler.path,
            **arguments,
            backend=self._backend,
            queue_name=task.queue_name,
            priority=int(task.priority),
            run_after=run_after,
            enqueued_at=for_django(now),
            life=random_text(LIFE_LENGTH),
            key=task.key if isinstance(task, KeyedTask) else None,
            results=history_of(self._handler),
            options=self._options.handed,
        )

    def _row(self, call: Call) -> Row:
        is_debounced = isinstance(self._task, KeyedTask) and self._task.on_conflict == "debounce"
        when: Any = None if is_debounced else call.run_after or call.enqueued_at
        code, key = self._handler.code, call.key
        # One of an earlier release is moved where it waits. If it ends now, nothing is lost.
        if key and (former := former_code(self._task.func)):
            there = storage().payload(Row(biz_code=former, biz_num=key), using=self._using)
            code = former if there else code
        return Row(
            biz_code=code,
            biz_num=key or random_text(min(RANDOM_LENGTH, longest_key(code))),
            when=when,
            biz_ext=call.payload(),
            queue=call.queue_name,
            priority=call.priority,
            options=self._options.row,
        )

    def _is_of(self, call: Call, stored: Row) -> bool:
        words = stored.biz_ext
        if not isinstance(words, dict):  # a decoder of the project may make anything of it
            standing = self._call_of(stored)
            return standing is not None and standing.life == call.life
        return bool(words.get("life") == call.life)

    def _call_of(self, stored: Row) -> Call | None:
        told = told_of_text(storage().payload(stored, using=self._using))
        return None if told is None else told.call

    def _standing(self, stored: Row) -> Any:
        """The result of the call that has the key. Raises TaskResultDoesNotExist.

        The database has more to say of it than its row, unless a test has captured it.
        """
        result_id = id_of(stored.biz_code, stored.biz_num)
        if not is_captured(stored):
            return results.result_of(result_id, using=self._using)
        call = self._call_of(stored)
        if call is None:
            raise TaskResultDoesNotExist(result_id)
        return results.of_waiting(result_id, call)

    def _ready(self, call: Call, row: Row) -> Any:
        task = restored(self._task, run_after=call.run_after)
        return results.made(task, id_of(row.biz_code, row.biz_num), call)


def _arguments(place: int, call: Any) -> Arguments:
    try:
        args, kwargs = call
        return list(args), dict(kwargs)
    except (TypeError, ValueError):
        raise TaskTypeError("calls", call, _("must be pairs (args, kwargs)"), index=place) from None


def _conflict(task: AnyTask) -> dict[str, Any]:
    if not isinstance(task, KeyedTask):
        return {}
    return {"on_conflict": task.on_conflict, "wait": task.wait, "at_most": task.at_most}


def _of_arguments(error: TaskValueError, args: Any, kwargs: Any) -> TaskValueError:
    """An error that names what the caller has given, not where it would have been stored."""
    if error.field != "biz_ext":
        return error
    return type(error)("args and kwargs", [list(args), kwargs], error.problem)
