"""The process in which a worker finds itself: web servers that fork, and gevent.

A server that loads the application before it forks must not have threads of ours then. uWSGI forks
in C, past everything that Python does at a fork: without the interpreter's lock, which one of our
threads held, the child never answers a request. gunicorn forks in Python, but a lock that one of
ours held just then, of a module under import for instance, stays locked in the child: measured,
that happened in three of four starts.
"""

import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from django_tasks.exceptions import CannotStart
from django_tasks.sentences import sentence as _

NO_THREADS = _(
    "start() needs threads, and this uWSGI runs none of Python's: say "
    "enable-threads = true in its configuration, or --enable-threads."
)
IN_ARBITER = _(
    "start() was called in gunicorn's master process (by preload_app, or in "
    "a hook), which forks: call it in post_worker_init() in gunicorn.conf.py."
)


def is_before_fork() -> bool:
    """Tell if this is a uWSGI process that is yet to fork into those that answer requests.

    Raises CannotStart where no worker could run, neither here nor there.
    """
    if _is_gunicorn_arbiter():
        raise CannotStart(IN_ARBITER)
    uwsgi = _uwsgi()
    if uwsgi is None:
        return False
    if not getattr(uwsgi, "has_threads", True):
        raise CannotStart(NO_THREADS)
    if uwsgi.masterpid():
        return bool(uwsgi.masterpid() == os.getpid())
    return bool(uwsgi.worker_id() == 0)


def call_after_fork(callback: Callable[[], None]) -> None:
    """Have uWSGI call ``callback`` in each process that answers requests, at its start.

    What others have it call goes on being called: functions that were decorated with uWSGI's
    ``postfork``, before or after this, and a hook that was set by hand before this.
    """
    uwsgi = _uwsgi()

    def in_worker() -> None:
        if uwsgi.worker_id() > 0:  # not in a mule or a spooler
            callback()

    hooks = [*_former_hooks(uwsgi), in_worker]

    def hook() -> None:
        for each in hooks:
            each()

    uwsgi.post_fork_hook = hook


def shares_one_thread() -> bool:
    """Tell if gevent has replaced Python's threads by greenlets."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("threading"))


def _former_hooks(uwsgi: Any) -> list[Callable[[], Any]]:
    """The hook that was set before, and that of ``uwsgidecorators``.

    The module sets its hook when it is imported, and forgets a former one: so it is imported now.
    """
    former = getattr(uwsgi, "post_fork_hook", None)
    try:
        import uwsgidecorators
    except Exception:  # noqa: BLE001 - without a master it raises a bare Exception
        return [] if former is None else [former]
    is_new = uwsgi.post_fork_hook is not former
    hooks = [former, uwsgidecorators.postfork_chain_hook if is_new else None]
    return [hook for hook in hooks if hook is not None]


def _uwsgi() -> Any:
    """The module that uWSGI puts into its processes; None elsewhere."""
    module = sys.modules.get("uwsgi")  # not imported: a project may have a folder of that name
    return module if hasattr(module, "worker_id") else None


def _is_gunicorn_arbiter() -> bool:
    """Tell if this call comes from gunicorn's master process.

    gunicorn says so nowhere. But its master is in a method of its ``Arbiter``, and so is each of
    its children, in one that knows the master's process id.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == "gunicorn.arbiter":
            arbiter = frame.f_locals.get("self")
            return getattr(arbiter, "pid", None) in (None, os.getpid())
        frame = frame.f_back
    return False
