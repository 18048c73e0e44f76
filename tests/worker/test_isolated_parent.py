"""Decisions of the parent of a process of its own, before it starts one."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from django_tasks.worker.isolated import parent
from django_tasks.worker.isolated.parent import NoProcess


def connections(names: dict[str, Any], *, vendor: str = "sqlite", in_memory: bool = False) -> Any:
    class Connections(dict[str, Any]):
        settings = {alias: {"NAME": name} for alias, name in names.items()}

    own = SimpleNamespace(vendor=vendor, is_in_memory_db=lambda: in_memory)
    return Connections(dict.fromkeys(names, own))


def test_databases_are_named_as_they_are_here(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"default": "shop", "other": None}
    monkeypatch.setattr(parent, "connections", connections(names))
    assert parent._databases("default") == {"default": "shop", "other": ""}


@pytest.mark.parametrize(
    ("names", "in_memory"),
    [
        ({"default": ":memory:"}, True),
        ({"default": "shop", "other": "file:x?mode=memory&cache=shared"}, False),
    ],
    ids=str,
)
def test_nobody_else_can_open_a_database_in_memory(
    monkeypatch: pytest.MonkeyPatch, names: dict[str, Any], in_memory: bool
) -> None:
    monkeypatch.setattr(parent, "connections", connections(names, in_memory=in_memory))
    with pytest.raises(NoProcess, match="in the memory of this process"):
        parent._databases("default")


def test_a_server_is_never_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    own = connections({"default": "shop"}, vendor="mysql", in_memory=True)
    monkeypatch.setattr(parent, "connections", own)
    assert parent._databases("default") == {"default": "shop"}


@pytest.mark.parametrize(
    ("code", "cause"), [(0, "exit code 0"), (3, "exit code 3"), (-9, "signal SIGKILL")]
)
def test_the_cause_of_an_end_is_named(code: int, cause: str) -> None:
    assert parent._cause(code) == cause


def test_a_signal_without_a_name_is_a_number() -> None:
    assert parent._cause(-99) == "signal 99"


def test_an_interpreter_of_another_name_is_looked_for_beside(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """A server that embeds Python is its executable."""
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    python.touch(0o755)
    monkeypatch.setattr(sys, "executable", "/usr/sbin/uwsgi")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert parent._python() == str(python)
    python.chmod(0o644)
    with pytest.raises(NoProcess, match="no Python interpreter"):
        parent._python()


@pytest.mark.parametrize("name", ["python3.11", "pypy3"])
def test_that_of_this_process_is_taken_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, name: str
) -> None:
    (tmp_path / name).touch(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / name))
    assert parent._python() == sys.executable


def test_the_settings_in_force_are_those_of_their_module(settings: Any) -> None:
    settings.SETTINGS_MODULE = "shop.settings"
    assert parent._settings_module() == "shop.settings"


def test_settings_of_no_module_cannot_be_had_elsewhere(settings: Any) -> None:
    settings.SETTINGS_MODULE = None
    with pytest.raises(NoProcess, match="those of no module"):
        parent._settings_module()
