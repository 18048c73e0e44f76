"""The functions that this process knows as tasks of ours, and their handlers."""

import sys
from collections.abc import Callable
from typing import Any

from django.apps import apps
from django.tasks.base import Task
from django.tasks.exceptions import InvalidTask

from django_tasks.exceptions import HandlerError, TaskValueError
from django_tasks.functions.backends import backend_of, modules
from django_tasks.functions.backoff import checked_backoff
from django_tasks.functions.handler import CallHandler, FormerHandler
from django_tasks.functions.options import Defaults, options_of
from django_tasks.functions.tasks import AnyTask
from django_tasks.handlers.registry import FORMER, describe, handler_for, register_task_handler
from django_tasks.sentences import said
from django_tasks.sentences import sentence as _
from django_tasks.values.calls import code_of
from django_tasks.values.keys import BIZ_CODE_LENGTH, check_key

# In each app: what workers import before they start.
MODULE = "tasks"
# Declared before the apps were known, whose labels names may need.
EARLY: list[tuple[AnyTask, Defaults]] = []
# By function: a handler serves all tasks of it, whatever ``using()`` has made of them.
_handlers: dict[Callable[..., Any], CallHandler] = {}
_by_path: dict[str, CallHandler] = {}
# The paths of those that Django's start has imported, as it does in each process.
_at_start: set[str] = set()
# By path: why a function has no handler.
_problems: dict[str, str] = {}


def note(task: AnyTask, wishes: Defaults) -> CallHandler | None:
    """Register the handler of a task's function, unless it is; returns it. Raises InvalidTask.

    When ``@task`` stands above it, and at each ``using()`` and ``enqueue()``: so it must be quick.
    A function whose code is taken is no error here, where a project is being imported: it is a
    problem for a check to report.
    """
    handler = _handlers.get(task.func)
    if handler is not None and handler_for(handler.code) is handler:
        return handler
    if not apps.apps_ready:
        EARLY.append((task, wishes))
        return None
    if handler is None:
        declared = _as_declared(task)
        backend = backend_of(declared.backend)
        handler = _made(declared, wishes if backend is None else backend.wishes)
    path = task.module_path
    known = handler_for(handler.code)
    if known is not None and not (isinstance(known, CallHandler) and known.path == path):
        facts = {"path": path, "code": handler.code, "known": describe(known)}
        _problems[path] = _("%(path)s has the code %(code)r, as has %(known)s", **facts)
        return None
    _problems.pop(path, None)
    try:
        register_task_handler(handler)
    except HandlerError as error:
        raise InvalidTask(said(error)) from error
    _handlers[task.func] = _by_path[path] = handler
    if not apps.ready:
        _at_start.add(path)
    if (former := former_code(task.func)) is not None:
        FORMER[former] = FormerHandler(former, handler)
    return handler


def _as_declared(task: AnyTask) -> AnyTask:
    """The task that stands at its path, in place of one that ``using()`` has made of it.

    There is none yet while ``@task`` stands above a function that is just being defined.
    """
    found = _at_path(task)
    return found if isinstance(found, Task) and found.func is task.func else task


def _at_path(task: AnyTask) -> Any:
    return getattr(sys.modules.get(task.func.__module__), task.func.__qualname__, None)


def _made(task: AnyTask, wishes: Defaults) -> CallHandler:
    own = options_of(task.func)
    code = own.get("biz_code", _usual_code(task.func))
    try:
        check_key("biz_code", code, BIZ_CODE_LENGTH)
        if ":" in code:
            raise TaskValueError("biz_code", code, _("must not contain a colon"))
        if "backoff" in own:
            checked_backoff("backoff", own["backoff"])
    except TaskValueError as error:
        path = task.module_path
        raise InvalidTask(_("%(module_path)s: %(error)s", module_path=path, error=error)) from error
    return CallHandler(code, task, wishes, own)


def handler_of(task: AnyTask) -> CallHandler:
    """The handler of a task that is about to be enqueued. Raises InvalidTask if there can be none.

    A worker in another process finds the function by its path, so that must lead back to it.
    """
    path, function = task.module_path, task.func
    found = getattr(_at_path(task), "func", None)
    if found is not function or function.__module__ == "__main__":
        raise InvalidTask(
            _(
                "No worker could import %(path)s: @task must be the outermost decorator "
                "of a function that stands in a module under its own name.",
                path=path,
            )
        )
    handler = _handlers.get(function)
    if handler is None or path in _problems:
        raise InvalidTask(_problems.get(path, _("%(path)s is no task of this backend.", path=path)))
    return handler


def code_for(function: Callable[..., Any]) -> str:
    """The code of a function's calls."""
    handler = _handlers.get(function)
    if handler is not None:
        return handler.code
    return str(options_of(function).get("biz_code", _usual_code(function)))


def former_code(function: Callable[..., Any]) -> str | None:
    """The code of 40 characters under which calls of earlier releases wait, if it is another."""
    former = code_of(f"{function.__module__}.{function.__qualname__}")
    is_usual = "biz_code" not in options_of(function)
    return former if is_usual and former != code_for(function) else None


def _usual_code(function: Callable[..., Any]) -> str:
    """The code of a function that says none: its path; in place of a long one ``label.function``.

    Apps and settings decide, the same in each process of a release, and not what this one has
    imported so far. So a label stands only for a module that ``check`` and each worker import
    before anything runs, and hear of a namesake (E008); in others a long path is cut.
    """
    module, name = function.__module__, function.__qualname__
    code = path = f"{module}.{name}"
    if len(path) > BIZ_CODE_LENGTH and (app := apps.get_containing_app_config(module)) is not None:
        is_met = module == f"{app.name}.{MODULE}" or module in modules()
        code = f"{app.label}.{name}" if is_met else path
    return code if len(code) <= BIZ_CODE_LENGTH else code_of(path)


def task_known(path: str) -> AnyTask | None:
    """The task of a function of this path that this process knows."""
    handler = _by_path.get(path)
    return None if handler is None else handler.task


def scheduled_later() -> list[CallHandler]:
    """Those with a schedule whose modules Django's start has not imported."""
    found = (each for path, each in sorted(_by_path.items()) if path not in _at_start)
    return [each for each in found if each.schedule is not None]


def task_with(code: str) -> AnyTask | None:
    """The task of the function that has a code in this process."""
    handler = handler_for(code)
    return handler.task if isinstance(handler, CallHandler) else None


def forget() -> None:
    """Have each handler made again when it is asked for: the settings have changed."""
    _handlers.clear()
    _by_path.clear()


def problems() -> list[str]:
    """One sentence for each function whose code is taken."""
    return sorted(_problems.values())
