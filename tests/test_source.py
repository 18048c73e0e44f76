"""What the source may not contain: ways from a text in a row to code, to SQL, to markup.

Read from the syntax tree, so that a comment or a text harms nobody.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import django_tasks

ROOT = Path(django_tasks.__file__).parent
FILES = {str(path.relative_to(ROOT)): path for path in sorted(ROOT.rglob("*.py"))}
STORE = [name for name in FILES if name.startswith("store/")]

# They make objects, or code, of bytes or texts.
FORBIDDEN_MODULES = {
    *("pickle", "_pickle", "cPickle", "dill", "cloudpickle", "jsonpickle", "marshal", "shelve"),
    *("yaml", "ruamel", "code", "codeop", "runpy", "pty", "subprocess", "ctypes", "cffi"),
    *("imp", "pkgutil", "zipimport", "pydoc"),
}
FORBIDDEN_NAMES = {
    *("eval", "exec", "compile", "__import__", "globals", "locals", "execfile"),
    *("mark_safe", "SafeString", "SafeText", "RawSQL", "PickleSerializer"),
}
FORBIDDEN_ATTRIBUTES = {
    *("system", "popen", "execv", "execve", "spawnv", "raw", "extra", "executescript"),
    *("__reduce__", "__reduce_ex__", "__setstate__", "__getstate__", "__subclasses__"),
    "allow_tags",
}
IMPORTERS = {"import_module", "import_string", "importlib", "module_loading"}


def nodes(name: str) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(FILES[name].read_text(encoding="utf-8")))


def imported(name: str) -> Iterator[str]:
    """Every module and every name that a file imports, dotted."""
    for node in nodes(name):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def used(name: str) -> set[str]:
    return {node.id for node in nodes(name) if isinstance(node, ast.Name)}


def attributes(name: str) -> set[str]:
    return {node.attr for node in nodes(name) if isinstance(node, ast.Attribute)}


def test_every_file_is_looked_at() -> None:
    assert len(FILES) > 50
    assert {"admin/tasks.py", "store/upsert.py", "worker/execution.py", "payload.py"} <= set(FILES)


# Code


@pytest.mark.parametrize("name", FILES)
def test_nothing_can_make_objects_or_code_of_a_text(name: str) -> None:
    # A suspect runs in another process of this very interpreter: a module of ours, by its name.
    modules = {"subprocess"} if name == "worker/isolation.py" else set()
    assert not {each.partition(".")[0] for each in imported(name)} & (FORBIDDEN_MODULES - modules)
    assert not used(name) & FORBIDDEN_NAMES
    assert not attributes(name) & (FORBIDDEN_NAMES - {"compile"})
    # Subclasses of a handler are asked for when handlers are registered, of no other class.
    allowed = {"__subclasses__"} if name == "registry.py" else set()
    assert not attributes(name) & (FORBIDDEN_ATTRIBUTES - allowed)


@pytest.mark.parametrize("name", FILES)
def test_only_patterns_are_compiled(name: str) -> None:
    compiling = [
        node.value
        for node in nodes(name)
        if isinstance(node, ast.Attribute) and node.attr == "compile"
    ]
    assert all(isinstance(value, ast.Name) and value.id == "re" for value in compiling)


def test_modules_are_imported_by_name_only_where_handlers_are_registered() -> None:
    importing = {
        name
        for name in FILES
        for module in imported(name)
        if IMPORTERS & set(module.split(".")) and module != "importlib.metadata"
    }
    # installation.py asks which distributions are installed, and imports none of them.
    assert importing - {"installation.py"} == {"registry.py"}
    assert not any("import_module" in used(name) for name in FILES if name != "registry.py")


def calls(name: str, function: str) -> Iterator[ast.Call]:
    for node in nodes(name):
        if isinstance(node, ast.Call):
            called = node.func
            if function in (getattr(called, "id", None), getattr(called, "attr", None)):
                yield node


def test_what_is_imported_comes_from_the_settings_and_the_installed_apps() -> None:
    (by_path,) = calls("registry.py", "_imported")
    (by_module,) = calls("registry.py", "_register_module")
    source = FILES["registry.py"].read_text(encoding="utf-8")
    assert "for path in _paths():" in source
    assert ast.unparse(by_path.args[0]) == "path"
    assert ast.unparse(by_module.args[0]) == "f'{app.name}.{AUTODISCOVERED}'"
    assert len(list(calls("registry.py", "import_string"))) == 1
    assert len(list(calls("registry.py", "import_module"))) == 1


def test_processes_are_forked_so_that_nothing_is_pickled_for_them() -> None:
    using = [name for name in FILES if "multiprocessing" in set(imported(name))]
    assert using == ["worker/supervisor.py"]
    (call,) = calls("worker/supervisor.py", "get_context")
    assert ast.unparse(call.args[0]) == "'fork'"
    assert "multiprocessing.Queue" not in FILES[using[0]].read_text(encoding="utf-8")


# SQL

# What may stand inside the braces of a statement: constants of the module (whose names are upper
# case), placeholders, a dialect's own words, and local pieces that are made of nothing else.
PLACEHOLDERS = {"marks", "_tuples", "_claimed_columns"}
PIECES = {
    *("among", "cancelling", "codes", "column", "expression", "ext", "insert", "marked", "old"),
    "scheduled",
    *(
        "new_when",
        "owned",
        "quote",
        "sets",
        "statuses",
        "subquery",
        "template",
        "union",
        "wanted",
        "when",
    ),
    *(
        "arrays",
        "casts",
        "column",
        "columns",
        "condition",
        "constants",
        "created",
        "end",
        "ended",
        "fence",
        "found",
    ),
    *("kind", "lock", "milliseconds", "name", "names", "rows", "source", "which"),
}
OWNERS = {"dialect", "self", "Status", "', '", "' UNION ALL '"}


def is_harmless(node: ast.expr) -> bool:
    """Whether an expression can only be a piece of a statement."""
    if isinstance(node, ast.Name):
        return node.id.isupper() or node.id in PIECES
    if isinstance(node, ast.Attribute):
        owner = ast.unparse(node.value)
        return owner in OWNERS or owner.isupper() or node.attr == "db_table"
    if isinstance(node, ast.Call):
        function = node.func
        if isinstance(function, ast.Attribute):
            return is_harmless(function) or ast.unparse(node) == "name.strip()"
        return getattr(function, "id", "") in {*PLACEHOLDERS, "new"}
    return False


def statements(name: str) -> Iterator[ast.JoinedStr]:
    """F-strings that become SQL: all but messages of errors, names of rows, and parameters."""
    no_sql = (ast.Raise, ast.List)
    tree = ast.parse(FILES[name].read_text(encoding="utf-8"))
    others = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, no_sql) or getattr(node, "name", "") == "__str__"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and id(node) not in others:
            yield node


@pytest.mark.parametrize("name", STORE)
def test_statements_are_put_together_of_constants_and_placeholders(name: str) -> None:
    for text in statements(name):
        for part in text.values:
            if isinstance(part, ast.FormattedValue):
                assert part.conversion == -1, ast.unparse(text)
                assert is_harmless(part.value), ast.unparse(text)


def test_a_value_in_a_statement_would_be_found() -> None:
    for wrong in ("task.biz_num", "row[0]", "biz_code", "str(worker_id)", "task.biz_num.upper()"):
        assert not is_harmless(ast.parse(wrong, mode="eval").body)


def test_only_the_dialects_and_the_checks_speak_to_a_cursor() -> None:
    speaking = {
        name
        for name in FILES
        for call in calls(name, "execute")
        if ast.unparse(call.func) == "cursor.execute"
    }
    assert speaking == {"checks.py", "store/dialects.py", "wakeup/postgres.py"}
    for name in FILES:
        assert "executemany" not in attributes(name)
        for call in calls(name, "execute"):
            # "…" % value and "…".format(value) are no statements of ours.
            assert not isinstance(call.args[0], ast.BinOp), ast.unparse(call)
            assert ".format(" not in ast.unparse(call.args[0])


# Markup


def test_markup_is_made_of_constant_templates() -> None:
    for name in FILES:
        for call in calls(name, "format_html"):
            assert isinstance(call.args[0], ast.Constant), ast.unparse(call)
        assert not list(calls(name, "mark_safe"))
    templates = [path for path in ROOT.rglob("*.html") if "|safe" in path.read_text()]
    assert templates == []
