"""The calls in the cells of tables: those of functions of ours have keywords that these take."""

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from docutils import nodes

from django_tasks import api, schedules, testing
from django_tasks.client.adding import Facts
from django_tasks.models import Task
from django_tasks.schedules.base import PlanOptions
from django_tasks.worker.config import WorkerConfig
from tests.site.reading import parse

OURS = {name: getattr(each, name) for each in (testing, schedules, api) for name in each.__all__}
CALL = re.compile(r"\w\(")
# The keywords that a function takes behind ``**``, by the name of that parameter.
BEHIND = {
    "attributes": {name for name in vars(api.TaskHandler) if not name.startswith("_")},
    "facts": {*Facts.__annotations__},
    "options": {*PlanOptions.__annotations__},
    "which": {*inspect.signature(api.find_tasks).parameters},
    "wishes": {*WorkerConfig.__dataclass_fields__},
}


def complaints(path: Path) -> list[str]:
    """One sentence for each call in a table that could not be made as it is written."""
    return [
        f"{path}: “{text}”: {problem}" for text in _calls(path) for problem in _problems_of(text)
    ]


def _calls(path: Path) -> Iterator[str]:
    for row in parse(path).findall(nodes.row):
        for literal in row.findall(nodes.literal):
            if CALL.search(text := literal.astext()):
                yield text


def _problems_of(text: str) -> Iterator[str]:
    tree = _parsed(text)
    if tree is None:
        yield "is no Python"
        return
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if (taken := _keywords_of(call.func)) is not None:
            for name in sorted({each.arg for each in call.keywords if each.arg} - taken):
                yield f"{ast.unparse(call.func)}() takes no {name}"


def _parsed(text: str) -> ast.AST | None:
    """The tree of a statement, a decorator or an argument; an ellipsis stands for any value."""
    code = text.replace("…", "...")
    for form in ("{}", "{}\ndef function(): ...", "function({})", "def {}: ..."):
        try:
            return ast.parse(form.format(code))
        except SyntaxError:
            continue
    return None


def _keywords_of(function: ast.expr) -> set[str] | None:
    """The keywords that a function of ours takes; None if it is none, or takes any."""
    names = ast.unparse(function).split(".")
    found: Any = OURS.get(names[0])
    for name in names[1:]:
        found = getattr(found, name, None)
    if not callable(found) or (isinstance(found, type) and issubclass(found, BaseException)):
        return None
    return _fields_of(found) if found in (Task, api.TaskRun, api.Pause) else _parameters(found)


def _fields_of(model: Any) -> set[str]:
    return {field.name for field in model._meta.concrete_fields}


def _parameters(function: Callable[..., Any]) -> set[str] | None:
    found = inspect.signature(function).parameters.values()
    names = {each.name for each in found if each.kind is not each.VAR_KEYWORD}
    for each in found:
        if each.kind is each.VAR_KEYWORD:
            if each.name not in BEHIND or function is testing.running_task:  # those of a row
                return None
            names |= BEHIND[each.name]
    return names
