"""The mutants as mutmut writes them: functions beside the original one, in the same file."""

import ast
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ORIGINAL = "__mutmut_orig"

# The files are no longer what they were: they have classes with one attribute declared in many
# functions, and comments for errors that are elsewhere now.
NOT_OF_A_MUTANT = ("no-redef", "has-type")
TYPE_CHECKER = (
    *("mypy", "--package", "django_tasks", "--output", "json", "--no-warn-unused-ignores"),
    *(word for code in NOT_OF_A_MUTANT for word in ("--disable-error-code", code)),
)


class Function(NamedTuple):
    """A mutant by the name that mutmut gives it, its lines in the file, and its text."""

    name: str
    first: int
    last: int
    text: str


def functions(root: Path, path: Path) -> list[Function]:
    """The mutants in a file below ``root``, and the originals."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and "__mutmut_" in node.name:
            first, last = node.lineno, node.end_lineno or node.lineno
            text = "\n".join(lines[first - 1 : last]).replace(node.name, "", 1)
            found.append(Function(f"{module}.{node.name}", first, last, text))
    return found


def of_case_alone(root: Path) -> set[str]:
    """The mutants of the store that differ from the original in upper and lower case only.

    They are of SQL, which no database reads otherwise.
    """
    return {name for path in root.glob("django_tasks/store/**/*.py") for name in _cases(root, path)}


def _cases(root: Path, path: Path) -> Iterator[str]:
    found = functions(root, path)
    originals = {
        each.name.removesuffix(ORIGINAL): each.text.lower()
        for each in found
        if each.name.endswith(ORIGINAL)
    }
    for each in found:
        original = originals[each.name.rpartition("__mutmut_")[0]]
        if not each.name.endswith(ORIGINAL) and each.text.lower() == original:
            yield each.name


def refused_by_types(root: Path) -> set[str]:
    """The mutants that the type checker refuses."""
    command = [sys.executable, "-m", *TYPE_CHECKER]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    lines: dict[Path, set[int]] = defaultdict(set)
    for text in result.stdout.splitlines():
        report = json.loads(text)
        if report["severity"] == "error":
            lines[root / report["file"]].add(report["line"])
    if not lines:
        sys.exit(f"{result.stderr}\nThe type checker says nothing: see above.")
    return {
        each.name
        for path, wrong in lines.items()
        for each in functions(root, path)
        if not wrong.isdisjoint(range(each.first, each.last + 1))
    }
