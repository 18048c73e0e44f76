"""The registry of handlers, by ``biz_code``.

Filled once, when Django is ready: from ``settings.TASK_HANDLERS`` and from the
``task_handlers.py`` of installed apps. A handler that cannot be registered is kept as a problem,
for the system check and for ``starttask`` to show: a web process still starts.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from inspect import isabstract, isasyncgenfunction, isclass, isgeneratorfunction, signature
from threading import Lock
from types import MappingProxyType, ModuleType
from typing import Any

from django.apps import apps
from django.utils.module_loading import import_string, module_has_submodule

from django_tasks import conf
from django_tasks.backoff import as_backoff
from django_tasks.exceptions import HandlerError, TaskException, TaskValueError, shortened
from django_tasks.handlers.base import (
    FunctionHandler,
    TaskHandler,
    Terms,
    cluster_limit,
    has_own,
    is_async,
    kill_limit,
    method_of,
    terms_of,
)
from django_tasks.host import forks
from django_tasks.near_names import closest
from django_tasks.redaction import without_secrets
from django_tasks.schedules import as_schedule
from django_tasks.sentences import said
from django_tasks.sentences import sentence as _
from django_tasks.values.amounts import duration, whole_number
from django_tasks.values.keys import (
    BIZ_CODE_LENGTH,
    QUEUE_LENGTH,
    check_key,
    check_new,
    check_priority,
)
from django_tasks.values.options import MISFIRES, MOST_MISSED

AUTODISCOVERED = "task_handlers"
MOST_IN_BATCH = 500
NO_TERMS = Terms()

_handlers: dict[str, TaskHandler] = {}
# By codes of an earlier release: each is registered when something that waits asks for it.
FORMER: dict[str, TaskHandler] = {}
_problems: list[str] = []
# By the identity of the handler, which lives as long as this process.
_terms: dict[int, Terms] = {}
_sticky: frozenset[str] = frozenset()
_revision = 0
_lock = Lock()


@forks.in_child
def _renew_lock() -> None:
    global _lock
    _lock = Lock()


def register_task_handler(handler: type[TaskHandler] | TaskHandler) -> None:
    """Register a handler, given as a class or as an instance, at any time.

    A class twice is nothing, and a second instance of one class takes the place of the first.
    Another handler for a code that is taken, or one that cannot work, raises HandlerError.
    """
    global _revision, _sticky
    instance = instance_of(handler)
    code, terms = _checked_code(instance), terms_of(instance)
    with _lock:
        known = _handlers.get(code)
        if known is not None and not _is_same(known, instance):
            two = {"code": code, "known": describe(known), "instance": describe(instance)}
            raise HandlerError(
                _("biz_code %(code)r has two handlers: %(known)s and %(instance)s", **two)
            )
        if known is None or (handler is instance and known is not instance):
            # The terms first: the poller reads them by the handler that it finds.
            _terms[id(instance)] = terms
            _sticky = _sticky | {code} if terms.sticky else _sticky - {code}
            _handlers[code] = instance
            # After the handler: a reader of the new revision finds it.
            _revision += 1


def _is_same(known: TaskHandler, other: TaskHandler) -> bool:
    return known is other or (type(known) is type(other) and not isinstance(known, FunctionHandler))


def revision() -> int:
    """A number that grows with each handler that is registered, for this process alone.

    Read it before ``get_task_handlers()``: as long as it stays the same, so do they. It takes no
    lock.
    """
    return _revision


def get_task_handlers() -> Mapping[str, TaskHandler]:
    """``biz_code`` → handler as they are now, read-only; complete once Django is ready."""
    # A copy: one that is registered meanwhile would break a caller's loop.
    return MappingProxyType(_handlers.copy())


def handler_for(biz_code: str) -> TaskHandler | None:
    return _handlers.get(biz_code)


def recalled(biz_code: str) -> TaskHandler | None:
    """The handler of a code, also if the code is one of an earlier release."""
    if biz_code in FORMER and biz_code not in _handlers:
        register_task_handler(FORMER[biz_code])
    return _handlers.get(biz_code)


def terms_for(biz_code: str) -> Terms:
    """The terms of a code's handler when it was registered; the defaults, if none is known here."""
    handler = _handlers.get(biz_code)
    return NO_TERMS if handler is None else _terms.get(id(handler), NO_TERMS)


def note_of(biz_code: str, payload: str | None) -> str | None:
    """The detail that a code's handler wants in a line that has none. Both are JSON texts."""
    handler = _handlers.get(biz_code)
    return None if handler is None else handler._note(payload)


def sticky_codes() -> frozenset[str]:
    """The codes whose tasks run in one worker, as long as that lives."""
    return _sticky


def killing(codes: Collection[str] = ()) -> list[str]:
    """The codes, of ``codes`` or of all, whose handlers have a ``kill_after``."""
    return sorted(
        code
        for code, handler in get_task_handlers().items()
        if handler.kill_after is not None and (not codes or code in codes)
    )


def problems() -> list[str]:
    """One sentence for each handler that could not be registered at start."""
    return list(_problems)


def load() -> None:
    """Register everything that the settings and the installed apps name. Called once, at ready."""
    for path in _paths():
        what = _("TASK_HANDLERS names %(path)s", path=shortened(path))
        with _noting_problems(what, place=str(path)):
            register_task_handler(_imported(path))
    for app in apps.get_app_configs():
        if module_has_submodule(app.module, AUTODISCOVERED):
            _register_module(f"{app.name}.{AUTODISCOVERED}")


def forget() -> None:
    """Empty the registry: for tests."""
    global _sticky
    _sticky = frozenset()
    _handlers.clear()
    _problems.clear()


def describe(handler: TaskHandler | type[TaskHandler]) -> str:
    """The place of a handler, as it is written in an import."""
    owner: Any = handler if hasattr(handler, "__qualname__") else type(handler)
    return f"{owner.__module__}.{owner.__qualname__}"


@contextmanager
def overridden(others: Iterable[type[TaskHandler] | TaskHandler]) -> Iterator[None]:
    """Have these handlers in the place of those of their codes meanwhile: for tests.

    Raises HandlerError as ``register_task_handler`` does, and then nothing has changed.
    """
    global _revision, _sticky
    handlers, terms, sticky = dict(_handlers), dict(_terms), _sticky
    try:
        for other in others:
            instance = instance_of(other)
            _handlers.pop(_checked_code(instance), None)
            register_task_handler(instance)
        yield
    finally:
        with _lock:
            _replace(_terms, terms)
            _sticky = sticky
            _replace(_handlers, handlers)
            _revision += 1


def _replace(known: dict[Any, Any], before: dict[Any, Any]) -> None:
    known.clear()
    known.update(before)


@contextmanager
def _noting_problems(what: str, place: str) -> Iterator[None]:
    """Turn any exception into a line of ``problems()``: a stranger's module may raise anything.

    The line begins with ``what``, unless the error begins with the ``place`` of the handler.
    """
    try:
        yield
    except TaskException as error:
        words = _masked(error)
        is_named = bool(place) and words.startswith(place)
        _problems.append(words if is_named else _("%(what)s: %(error)s", what=what, error=words))
    except Exception as error:  # noqa: BLE001
        facts = {"what": what, "name": type(error).__name__, "error": _masked(error)}
        _problems.append(_("%(what)s: %(name)s: %(error)s", **facts))


def _masked(error: Exception) -> str:
    words = said(error)
    masked = without_secrets(words)
    return words if masked == words else masked


def _paths() -> list[Any]:
    try:
        return conf.handler_paths()
    except conf.ConfigurationError as error:
        _problems.append(said(error))
        return []


def _imported(path: Any) -> Any:
    if not isinstance(path, str):
        raise HandlerError(_("a dotted path is wanted"))
    return import_string(path)


def _register_module(name: str) -> None:
    with _noting_problems(name, place=name):
        module = import_module(name)
        for handler in _defined_in(module):
            place = f"{name}.{handler.__name__}"
            with _noting_problems(place, place=place):
                register_task_handler(handler)


def _defined_in(module: ModuleType) -> Iterator[Any]:
    for value in vars(module).values():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if isclass(value):
            if issubclass(value, TaskHandler) and not _is_base(value):
                yield value
        elif isinstance(value, TaskHandler) and hasattr(value, "__name__"):
            yield value


def _is_base(handler: type[TaskHandler]) -> bool:
    return isabstract(handler) or (_is_codeless(handler) and bool(handler.__subclasses__()))


def _is_codeless(handler: type[TaskHandler]) -> bool:
    return not handler.biz_code and handler.get_biz_code is TaskHandler.get_biz_code


def _misspelt_code(handler: TaskHandler) -> str | None:
    if handler.biz_code or not _is_codeless(type(handler)):
        return None
    written = sorted(set(dir(handler)) - set(dir(TaskHandler)))
    return next((name for name in written if closest(name, ("biz_code",))), None)


def instance_of(handler: Any) -> TaskHandler:
    """The handler itself, or one made of its class. Raises HandlerError for anything else."""
    if isinstance(handler, TaskHandler):
        return handler
    if isclass(handler) and issubclass(handler, TaskHandler):
        try:
            return handler()
        except Exception as error:
            raise HandlerError(
                _("%(handler)s cannot be made: %(error)s", handler=describe(handler), error=error)
            ) from error
    raise HandlerError(_("%(handler)s is not a TaskHandler", handler=shortened(handler)))


def _checked_code(handler: TaskHandler) -> str:
    place = describe(handler)
    if near := _misspelt_code(handler):
        raise HandlerError(
            _("%(handler)s has no biz_code; is %(near)r meant to be it?", handler=place, near=near)
        )
    try:
        code = check_new("biz_code", check_key("biz_code", handler.get_biz_code(), BIZ_CODE_LENGTH))
        check_new("queue", check_key("queue", handler.queue, QUEUE_LENGTH))
        check_priority(handler.priority)
        _check_attributes(handler)
        _check_policies(handler)
    except (TypeError, ValueError) as error:
        raise HandlerError(_("%(handler)s: %(error)s", handler=place, error=error)) from error
    _check_methods(handler)
    _check_call(handler)
    if handler.atomic and is_async(handler):
        problem = _(
            "%(handler)s is async and atomic; Django's transactions are not async", handler=place
        )
        raise HandlerError(problem)
    return code


def _check_attributes(handler: TaskHandler) -> None:
    for name in ("timeout", "kill_after", "misfire_grace_time"):
        if (value := getattr(handler, name)) is not None:
            duration(name, value)
    for name in ("max_attempts", "history"):
        if (value := getattr(handler, name)) is not None:
            _check_as_setting(name, value)
    if handler.batch is not None:
        whole_number("batch", handler.batch, 1, MOST_IN_BATCH)
    kill_limit(handler)
    cluster_limit(handler)
    try:
        as_backoff(handler.backoff)
    except (TypeError, ValueError) as error:
        raise ValueError(_("backoff: %(error)s", error=error)) from None


def _check_as_setting(name: str, value: Any) -> None:
    try:
        conf.convert(name.upper(), value)
    except (TypeError, ValueError) as error:
        raise TaskValueError(name, value, said(error)) from None


def _check_methods(handler: TaskHandler) -> None:
    one, many = has_own(handler, "handle"), has_own(handler, "handle_batch")
    place = describe(handler)
    if one and many:
        raise HandlerError(
            _("%(handler)s defines handle() and handle_batch(): keep one", handler=place)
        )
    if many and handler.batch is None:
        raise HandlerError(
            _(
                "%(handler)s defines handle_batch() and does not say how many tasks it "
                "takes: give it a batch from 1 to %(most_in_batch)s",
                handler=place,
                most_in_batch=MOST_IN_BATCH,
            )
        )
    wanted = "handle" if handler.batch is None else "handle_batch"
    if not (one or many) or not has_own(handler, wanted):
        raise HandlerError(
            _("%(handler)s does not define %(wanted)s()", handler=place, wanted=wanted)
        )


def _check_call(handler: TaskHandler) -> None:
    method = method_of(handler)
    if isgeneratorfunction(method) or isasyncgenfunction(method):
        raise HandlerError(
            _(
                "%(handler)s must return its answer, not yield it: a generator does not "
                "run when it is called",
                handler=describe(handler),
            )
        )
    try:
        # A wrapper is what is called; it may well add arguments to those that it is given.
        signature(method, follow_wrapped=False).bind("task")
    except TypeError:
        function = getattr(handler, "__name__", None)
        is_one = handler.batch is None
        name, word = ("handle", "task") if is_one else ("handle_batch", "tasks")
        form = f"{function}({word})" if function else f"{name}(self, {word})"
        facts = {"handler": describe(handler), "form": form}
        raise HandlerError(
            _("%(handler)s must take one task: write def %(form)s", **facts)
            if is_one
            else _("%(handler)s must take a list of tasks: write def %(form)s", **facts)
        ) from None
    except ValueError:  # written in C, without a signature
        return


def _check_policies(handler: TaskHandler) -> None:
    if handler.schedule is not None:
        as_schedule(handler.schedule)
    elif handler.each_host or handler.sticky:
        name = "each_host" if handler.each_host else "sticky"
        raise ValueError(_("%(name)s goes with a schedule of the handler's own", name=name))
    if handler.each_host and handler.sticky:
        raise ValueError(_("sticky is for one worker and each_host for all hosts: keep one"))
    if has_own(handler, "on_passive") and not handler.sticky:
        raise ValueError(_("on_passive goes with sticky: nobody would call it"))
    if (wish := handler.on_misfire) not in (None, *MISFIRES):
        raise ValueError(
            _("on_misfire must be 'run', 'skip' or 'fail', not %(on_misfire)r", on_misfire=wish)
        )
    if handler.catch_up is not None:
        whole_number("catch_up", handler.catch_up, 1, MOST_MISSED)
    for name in ("retry_on", "fail_on"):
        kinds = getattr(handler, name)
        if not isinstance(kinds, tuple) or not all(_is_exception(kind) for kind in kinds):
            facts = {"name": name, "kinds": shortened(kinds)}
            raise TypeError(_("%(name)s must be a tuple of exceptions, not %(kinds)s", **facts))


def _is_exception(kind: Any) -> bool:
    return isclass(kind) and issubclass(kind, BaseException)
