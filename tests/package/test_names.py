"""Names that lead to one place: a public class has a name of its own."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2] / "django_tasks"
# Django asks for one of that name in each command, and in forms and models; the filter of the log
# is public, and means what it is called there.
MAY_STAND_TWICE = {"Command", "Media", "Meta", "TaskFilter"}


def test_a_public_class_has_a_name_of_its_own() -> None:
    places = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{path.relative_to(ROOT)}")
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert {name: twice[name] for name in twice.keys() - MAY_STAND_TWICE} == {}
