"""The version, read without an import of the package."""

import ast
from pathlib import Path

from devtools import CHECKOUT


def version_of(source: Path = CHECKOUT) -> str:
    tree = ast.parse((source / "django_tasks" / "__init__.py").read_text(encoding="utf-8"))
    for each in tree.body:
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "__version__":
            return str(ast.literal_eval(each.value))
    raise LookupError("django_tasks has no __version__")
