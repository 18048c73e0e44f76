"""The function of a code or of a path. Only modules that the project has named are imported."""

import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from types import FunctionType, ModuleType
from typing import Any

from django.apps import apps
from django.db.models import TextField
from django.db.models.functions import Cast
from django.tasks.base import Task
from django.tasks.exceptions import TaskResultDoesNotExist
from django.utils.module_loading import module_has_submodule

from django_tasks import logs
from django_tasks.functions import declared
from django_tasks.functions.backends import backend_of, modules, ours
from django_tasks.functions.declared import MODULE
from django_tasks.functions.tasks import AnyTask
from django_tasks.handlers.registry import recalled
from django_tasks.sentences import sentence as _
from django_tasks.values.calls import key_of, told_of_text

# A sentence for each module that could not be imported when this process last tried.
_NOT_IMPORTED: dict[str, str] = {}


class UnknownFunction(TaskResultDoesNotExist, ImportError):
    """There is a result, and this release of the project does not have its function."""


class FunctionFinder:
    """Finds the handlers of functions for workers: see ``handlers.finders``."""

    def is_wanted(self) -> bool:
        return any(ours())

    def discover(self) -> None:
        """Import the ``tasks.py`` of installed apps, and the modules of MODULES.

        A function with a schedule has to be known before it is called.
        """
        _NOT_IMPORTED.clear()
        for module in _named():
            _try_to_import(module)

    def problems(self) -> list[str]:
        """One sentence for each module that cannot be imported, and for each code that is taken."""
        return [*not_imported(), *declared.problems()]

    def find_at(self, path: str) -> None:
        """Import the module of a path, if that is allowed; one that fails is told by the log."""
        module = path.rpartition(".")[0]
        try:
            if module not in _NOT_IMPORTED:  # nor told again
                _note(path)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a stranger's module, as below
            logs.not_imported(module, error)

    def find(self, biz_code: str, *, using: str) -> None:
        """Import the module of the code's function, if that is allowed.

        Its path stands in the payload of its tasks, and the backend of the call besides; without
        one, the code is the path. A function may have moved: the newest task is asked first.
        """
        for path, alias in _places(biz_code, using):
            _note(path, alias)
            if recalled(biz_code) is not None:
                return


def not_imported() -> list[str]:
    """One sentence for each module that could not be imported when functions were discovered."""
    return list(_NOT_IMPORTED.values())


def never_running() -> Iterator[str]:
    """One sentence for each function with a schedule that this process knows, and no worker would.

    For a check: other code than a worker's has imported its module, such as that of a view.
    """
    late = declared.scheduled_later()
    reached = _reached(_named()) if late else set()
    for handler in late:
        if (module := handler.task.func.__module__) not in reached:
            words = {"path": handler.path, "module": module}
            yield _("%(path)s has a schedule, and no worker imports %(module)s", **words)


def forget() -> None:
    """Forget what other settings had imported."""
    _NOT_IMPORTED.clear()


def task_of(path: str, result_id: str) -> AnyTask:
    """The Task of a result: of its path, or that of its code if it has moved.

    Raises UnknownFunction.
    """
    try:
        task = _task_at(path)
    except Exception as error:
        facts = {"result_id": result_id, "path": path, "error": error}
        raise UnknownFunction(
            _("%(result_id)s: %(path)s cannot be imported (%(error)s)", **facts)
        ) from error
    if task is None:
        code, _number = key_of(result_id) or ("", "")
        task = declared.task_with(code)
    if task is None:
        raise UnknownFunction(
            _("%(result_id)s: there is no @task at %(path)s", result_id=result_id, path=path)
        )
    return task


def is_there(path: str) -> bool:
    """Tell if there is a function at this path, in this release."""
    return _task_at(path) is not None


def is_allowed(module: str) -> bool:
    """Tell if a module lies in an installed app, or is named by MODULES."""
    if apps.get_containing_app_config(module) is not None:
        return True
    return any(module == each or module.startswith(f"{each}.") for each in modules())


def _task_at(path: str) -> AnyTask | None:
    """The Task of a path, if there is one that may be imported.

    Not by Django's import_string, which will prefer a module of that name to the function.
    """
    if (known := declared.task_known(path)) is not None:
        return known
    module, _, name = path.rpartition(".")
    if not module or not is_allowed(module):
        return None
    try:
        found = getattr(import_module(module), name, None)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        return None  # this release does not have it
    return found if isinstance(found, Task) else None


def _note(path: str, alias: str | None = None) -> None:
    task = _task_at(path)
    if task is not None and (backend := backend_of(alias or task.backend)) is not None:
        declared.note(task, backend.wishes)


def _places(biz_code: str, using: str) -> Iterator[tuple[str, str | None]]:
    """Paths at which the function of a code may stand, and aliases of the backends of its calls."""
    from django_tasks.models import Task as Row

    rows = Row._base_manager.using(using).filter(biz_code=biz_code)
    texts = rows.values_list(Cast("biz_ext", TextField()), flat=True)
    for order in ("-id", "id"):
        told = told_of_text(texts.order_by(order).first())
        yield (told.call.path, told.call.backend) if told else (biz_code, None)


def _named() -> list[str]:
    named = [each for each in apps.get_app_configs() if each.module is not None]
    found = [each.name for each in named if module_has_submodule(each.module, MODULE)]
    return [*(f"{name}.{MODULE}" for name in found), *modules()]


def _reached(named: list[str]) -> set[str]:
    found, left = set(), list(named)
    while left:
        name = left.pop()
        if name not in found and name in sys.modules:
            found.add(name)
            values = list(getattr(sys.modules[name], "__dict__", {}).values())
            left += filter(None, map(_home, values))
    return found


def _home(value: Any) -> str | None:
    """The module that a value of a module comes from. By its type: a lazy one stays asleep."""
    kind = type(value)
    if issubclass(kind, Task):
        value = value.func
    elif not issubclass(kind, (ModuleType, FunctionType, type)):
        return None
    return str(getattr(value, "__name__" if issubclass(kind, ModuleType) else "__module__", ""))


def missing(named: Iterable[str]) -> Iterator[str]:
    """One sentence for each module of MODULES that is not there.

    None of them is imported, but the packages that they are in.
    """
    for module in named:
        try:
            spec = find_spec(module)
        except Exception as error:  # noqa: BLE001 - a stranger's package may raise anything
            yield _(
                "OPTIONS: MODULES names %(module)r, which cannot be found (%(error)s)",
                module=module,
                error=error,
            )
        else:
            if spec is None:
                yield _("OPTIONS: MODULES names %(module)r, and there is none", module=module)


def _try_to_import(module: str) -> None:
    try:
        import_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a stranger's module may raise anything
        logs.not_imported(module, error)
        words = {"module": module, "kind": type(error).__name__, "error": error}
        _NOT_IMPORTED[module] = _("%(module)s cannot be imported (%(kind)s: %(error)s)", **words)
