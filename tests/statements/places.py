"""The places of the package that speak to a database, as its source shows them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import django_tasks

PACKAGE = Path(django_tasks.__file__).parent
LEFT_OUT = ("testing/", "migrations/")

# What hands a text to a database: the dialects' methods, and the drivers' cursors.
SENDERS = frozenset({"execute", "executemany", "fetch", "insert", "insert_absent"})
# What makes a query of Django's another one, or asks it.
_QUERIES = frozenset(
    {
        *("aggregate", "annotate", "create", "defer", "distinct", "exclude", "exists", "filter"),
        *("in_bulk", "iterator", "log_actions", "only", "order_by", "select_for_update", "using"),
        "values_list",
    }
)
# Dictionaries and texts have methods of these names as well: with other arguments.
_WITHOUT_ARGUMENTS = frozenset({"count", "delete", "first", "last"})
# What stands in a query: each database has a text of its own for it.
_CONDITIONS = frozenset(
    {
        *("Case", "Cast", "Exact", "F", "GreaterThan", "Greatest", "Max", "Q", "Right", "StrIndex"),
        *("Value", "When", "_Bare"),
    }
)
_SQL = re.compile(
    r"\b(SELECT|INSERT|UPDATE|DELETE|FROM|WHERE|SET|JOIN|UNION|LIMIT|OFFSET|ORDER BY|GROUP BY|BEGIN"
    r"|VALUES|RETURNING|PRAGMA|SHOW|ALTER|DROP|LISTEN|CAST|COALESCE|EXISTS|BETWEEN|CONFLICT)\b"
)
_SENTENCES = frozenset({"_", "gettext", "gettext_lazy", "ngettext", "ngettext_lazy"})


class Place(NamedTuple):
    """A call that sends a text ("send") or makes a query ("query"), a condition, or a text of SQL.

    ``function`` is that of the class and function, or of the constant, in which it stands.
    """

    kind: str
    module: str
    function: str
    lines: range
    node: ast.expr
    # Of a text: what stands between its gaps.
    parts: tuple[str, ...] = ()

    def stands_in(self, statement: str) -> bool:
        """Tell if a statement has the parts of this text, in their order."""
        place = 0
        for part in self.parts:
            place = statement.find(part, place)
            if place < 0:
                return False
            place += len(part)
        return True

    @property
    def code(self) -> str:
        return ast.unparse(self.node)

    def __str__(self) -> str:
        return f"{self.module}:{self.lines[0]}, {self.function}: {self.code[:120]}"


def places() -> list[Place]:
    """All of them, in the order of modules."""
    return [
        place
        for path in sorted(PACKAGE.rglob("*.py"))
        if not (module := str(path.relative_to(PACKAGE))).startswith(LEFT_OUT)
        for place in places_in(module, path.read_text())
    ]


def places_in(module: str, source: str) -> list[Place]:
    finder = _Finder(module)
    finder.visit(ast.parse(source))
    return finder.found


class _Finder(ast.NodeVisitor):
    def __init__(self, module: str) -> None:
        self.found: list[Place] = []
        self._module = module
        self._names: list[str] = []
        self._in_a_chain: set[ast.expr] = set()

    def visit_FunctionDef(self, node: Any) -> None:
        self._within(node.name, node)

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef

    def visit_Assign(self, node: ast.Assign) -> None:
        target = node.targets[0]
        is_constant = isinstance(target, ast.Name) and not self._names
        self._within(ast.unparse(target) if is_constant else "", node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # no docstring
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in _SENTENCES:
            return
        kind = _kind(node)
        if kind and node not in self._in_a_chain:
            self._add(kind, node)
        if kind == "query":
            self._in_a_chain.update(_chain(node))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self._add_text(node, node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        texts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
        self._add_text(node, "".join(map(str, texts)))
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.visit(part.value)

    def _within(self, name: str, node: ast.AST) -> None:
        self._names += [name] if name else []
        self.generic_visit(node)
        self._names = self._names[: -1 if name else None]

    def _add_text(self, node: ast.expr, text: str) -> None:
        if _SQL.search(text):
            self._add("text", node, *re.split(r"\{\w*\}", text))

    def _add(self, kind: str, node: ast.expr, *parts: str) -> None:
        lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        function = ".".join(self._names)
        self.found.append(Place(kind, self._module, function, lines, node, parts))


def _kind(call: ast.Call) -> str:
    if isinstance(call.func, ast.Name):
        return "condition" if call.func.id in _CONDITIONS else ""
    if not isinstance(call.func, ast.Attribute):
        return ""
    name, given = call.func.attr, bool(call.args or call.keywords)
    if name in SENDERS:
        return "send"
    is_query = name in _QUERIES or (name in _WITHOUT_ARGUMENTS and not given)
    is_query |= (name == "values" and given) or (name == "update" and not call.args and given)
    return "query" if is_query else ""


def _chain(node: ast.expr) -> Iterator[ast.expr]:
    """The calls before this one: a query is one place, however many calls it is made by."""
    while isinstance(node, (ast.Call, ast.Attribute, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
        yield node
