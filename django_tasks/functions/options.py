"""The attributes of the handler of a function: ``@options``, and a backend's OPTIONS."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from django_tasks.exceptions import HandlerError, TaskTypeError
from django_tasks.functions.backoff import checked_backoff
from django_tasks.handlers.base import FUNCTION_ATTRIBUTES, near_name
from django_tasks.near_names import did_you_mean
from django_tasks.sentences import sentence as _
from django_tasks.values.amounts import flag, whole_number
from django_tasks.values.options import MOST_ATTEMPTS
from django_tasks.values.runs import KINDS

F = TypeVar("F", bound=Callable[..., Any])

# Django's own words for these stand in ``@task``; a function is called with one call at a time, and
# hooks are for a class.
_ELSEWHERE = {"queue", "priority", "batch", "merge", "on_failure", "on_passive", "on_stuck"}
NAMES = (FUNCTION_ATTRIBUTES - _ELSEWHERE) | {"biz_code"}
_ATTRIBUTE = "_django_tasks_options"


def options(**attributes: Any) -> Callable[[F], F]:
    """Say of a function what the attributes of a ``TaskHandler`` say: below ``@task``.

    ``@options(max_attempts=5, backoff=[10, 60], max_running=2)``. Besides ``biz_code``, up to 50
    characters, in place of the function's path. Under other backends it says nothing. Raises
    HandlerError for a name that means nothing here.
    """
    if unknown := sorted(attributes.keys() - NAMES):
        refusal = _("options() knows no %(unknown)r", unknown=unknown[0])
        near = near_name(unknown[0], NAMES)
        raise HandlerError(did_you_mean(refusal, near))

    def decorate(function: F) -> F:
        if not callable(function) or hasattr(function, "enqueue"):
            raise HandlerError(_("@options(…) stands below @task, above the function"))
        setattr(function, _ATTRIBUTE, attributes)
        return function

    return decorate


def options_of(function: Callable[..., Any]) -> Mapping[str, Any]:
    """The attributes that ``@options`` has given to a function."""
    found: Mapping[str, Any] = getattr(function, _ATTRIBUTE, {})
    return found


@dataclass(frozen=True, slots=True)
class Defaults:
    """The OPTIONS of one backend of the setting TASKS.

    ``database`` is an alias (None: as the routers say), ``max_attempts`` and ``backoff`` are those
    of functions that say nothing, ``results`` is the history of its functions, ``modules`` are
    modules outside of INSTALLED_APPS that workers may import. With ``to`` its calls are handed to
    the backend of that alias, ``atomic`` in one transaction with their ends.
    """

    database: str | None = None
    max_attempts: int = 1
    backoff: Any = None
    results: str = "all"
    modules: tuple[str, ...] = ()
    to: str | None = None
    atomic: bool = False


def wishes_of(given: Any, defaults: Mapping[str, Any]) -> Defaults:
    """The OPTIONS that can be used; the defaults in place of the others: see ``problems_of``.

    ``defaults`` has a value for each of the names that mean something.
    """
    values = {name.lower(): value for name, value in defaults.items()}
    for name in defaults if isinstance(given, Mapping) else ():
        if given.get(name) is not None:
            with suppress(TypeError, ValueError):
                values[name.lower()] = _CHECKS[name](name, given[name])
    return Defaults(**values)


def problems_of(given: Any, known: Collection[str]) -> Iterator[str]:
    """One sentence for each of a backend's OPTIONS that cannot be used, of the ``known`` names."""
    if not isinstance(given, Mapping):
        yield _("OPTIONS must be a dict, not %(given)r", given=given)
        return
    for name in sorted(given.keys() - set(known), key=str):
        near = near_name(str(name), {each.lower() for each in known})
        yield did_you_mean(_("OPTIONS[%(name)r] means nothing", name=name), near and near.upper())
    for name in known:
        if given.get(name) is not None:
            try:
                _CHECKS[name](name, given[name])
            except (TypeError, ValueError) as error:
                yield _("OPTIONS: %(error)s", error=error)


# The values that each of them may have


def _database(name: str, value: Any) -> str:
    from django.db import connections

    if not isinstance(value, str) or value not in connections:
        choices = ", ".join(repr(alias) for alias in connections)
        raise TaskTypeError(name, value, _("must be one of %(choices)s", choices=choices))
    return value


def _attempts(name: str, value: Any) -> int:
    return whole_number(name, value, 1, MOST_ATTEMPTS)


def _results(name: str, value: Any) -> str:
    if value not in KINDS:
        choices = ", ".join(repr(kind) for kind in KINDS)
        raise TaskTypeError(name, value, _("must be one of %(choices)s", choices=choices))
    return str(value)


def _modules(name: str, value: Any) -> tuple[str, ...]:
    are_many = isinstance(value, Iterable) and not isinstance(value, str)
    if not are_many or not all(isinstance(each, str) for each in value):
        raise TaskTypeError(name, value, _("must be a list of the paths of modules"))
    return tuple(value)


def _alias(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TaskTypeError(name, value, _("must be an alias of TASKS"))
    return value


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "DATABASE": _database,
    "MAX_ATTEMPTS": _attempts,
    "BACKOFF": checked_backoff,
    "RESULTS": _results,
    "MODULES": _modules,
    "TO": _alias,
    "ATOMIC": flag,
}
