"""``start()`` in processes that fork later, or that have no threads.

Real servers are in ``tests/environments``; here is what not every installation of them shows.
"""

import os
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from django_tasks import api
from django_tasks.worker import embedded, web_servers
from django_tasks.worker.config import WorkerConfig

pytestmark = pytest.mark.each_database


class Uwsgi(ModuleType):
    """As much of uWSGI's module as a process sees of it."""

    master: int
    worker: int
    post_fork_hook: Callable[[], None]

    def __init__(self, *, master: int = 0, worker: int = 0, threads: int = 1) -> None:
        super().__init__("uwsgi")
        self.has_threads = threads
        self.masterpid = lambda: self.master
        self.worker_id = lambda: self.worker
        self.master, self.worker = master, worker

    def fork(self, worker: int) -> None:
        """Do what uWSGI does in a child, as if this was one."""
        self.master, self.worker = self.master and os.getppid(), worker
        hook: Callable[[], None] | None = getattr(self, "post_fork_hook", None)
        if hook is not None:
            hook()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Databases for which a worker was made; none runs."""
    started: list[str] = []

    class Worker:
        def __init__(self, config: WorkerConfig) -> None:
            self.config = config

        def start(self) -> None:
            started.append(self.config.using)

        def is_alive(self) -> bool:
            return True

        def is_wanted(self) -> bool:
            return True

    monkeypatch.setattr(embedded, "Worker", Worker)
    monkeypatch.setattr(embedded, "_workers", [])
    monkeypatch.setattr(embedded, "_wanted", [])
    embedded._start_wanted_after_fork.cache_clear()
    yield started
    embedded._start_wanted_after_fork.cache_clear()


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Uwsgi]:
    """Have this process be one of uWSGI's."""

    def inside(**facts: int) -> Uwsgi:
        uwsgi = Uwsgi(**facts)
        monkeypatch.setitem(sys.modules, "uwsgi", uwsgi)
        # Not to be imported: it works in a real uWSGI only.
        monkeypatch.setitem(sys.modules, "uwsgidecorators", None)
        return uwsgi

    return inside


Inside = Callable[..., Uwsgi]


def test_in_a_master_it_is_put_off_until_a_child_serves(inside: Inside, started: list[str]) -> None:
    uwsgi = inside(master=os.getpid())
    api.start()
    api.start()
    assert started == []
    uwsgi.fork(0)  # a mule or a spooler
    assert started == []
    uwsgi.fork(2)
    assert started == ["default"]


def test_without_a_master_it_is_put_off_until_the_process_has_become_a_worker(
    inside: Inside, started: list[str]
) -> None:
    uwsgi = inside()
    api.start()
    assert started == []
    uwsgi.fork(1)
    assert started == ["default"]


def test_a_stop_before_the_fork_takes_the_start_back(inside: Inside, started: list[str]) -> None:
    uwsgi = inside(master=os.getpid())
    api.start()
    assert api.shutdown()
    uwsgi.fork(1)
    assert started == []


@pytest.mark.parametrize("facts", [{"master": 1, "worker": 2}, {"worker": 1}, {"master": 1}])
def test_in_a_child_it_starts_at_once(
    facts: dict[str, int], inside: Inside, started: list[str]
) -> None:
    inside(**facts)
    api.start()
    assert started == ["default"]


def test_a_hook_of_somebody_else_is_called_too(inside: Inside, started: list[str]) -> None:
    called: list[str] = []
    uwsgi = inside(master=os.getpid())
    uwsgi.post_fork_hook = lambda: called.append("theirs")
    api.start()
    uwsgi.fork(1)
    assert called == ["theirs"]
    assert started == ["default"]


def test_without_threads_it_says_what_to_write(inside: Inside, started: list[str]) -> None:
    inside(master=os.getpid(), threads=0)
    with pytest.raises(api.CannotStart, match="enable-threads = true"):
        api.start()
    assert started == []


def test_a_folder_named_uwsgi_is_no_server(
    monkeypatch: pytest.MonkeyPatch, started: list[str]
) -> None:
    monkeypatch.setitem(sys.modules, "uwsgi", ModuleType("uwsgi"))
    api.start()
    assert started == ["default"]


# gunicorn


def from_arbiter(pid: int | None) -> None:
    """Call ``start`` as from a method of gunicorn's Arbiter."""

    class Arbiter:
        pass

    arbiter: Any = Arbiter()
    if pid is not None:
        arbiter.pid = pid
    scope: dict[str, Any] = {"__name__": "gunicorn.arbiter", "start": api.start}
    code = compile("def method(self):\n    start()\n", "gunicorn/arbiter.py", "exec")
    exec(code, scope)  # noqa: S102 - a function of a module of that name
    scope["method"](arbiter)


@pytest.mark.parametrize("pid", [None, os.getpid()], ids=["loading", "serving"])
def test_in_gunicorns_master_it_is_refused(pid: int | None, started: list[str]) -> None:
    with pytest.raises(api.CannotStart, match="post_worker_init"):
        from_arbiter(pid)
    assert started == []


def test_in_gunicorns_children_it_starts(started: list[str]) -> None:
    from_arbiter(os.getppid())
    assert started == ["default"]


# gevent


@pytest.mark.parametrize("patched", [True, False])
def test_greenlets_in_the_place_of_threads_are_said(
    patched: bool,
    monkeypatch: pytest.MonkeyPatch,
    started: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkey: Any = ModuleType("gevent.monkey")
    monkey.is_module_patched = lambda name: patched and name == "threading"
    monkeypatch.setitem(sys.modules, "gevent.monkey", monkey)
    assert web_servers.shares_one_thread() == patched
    api.start()
    assert [line.startswith("gevent has replaced") for line in caplog.messages] == [True] * patched
