"""Web processes and tests of a project import the package where no worker can run."""

import subprocess
import sys

# As Windows has it: without these modules, signals and functions.
WITHOUT = """
import asyncio, http.server, importlib, multiprocessing, os, select, signal, socket, subprocess
import sys, tempfile, time, uuid  # the library of this system, before anything is hidden
import django.db.backends.sqlite3.base, django.test
sys.modules.update(dict.fromkeys("resource fcntl pwd grp termios tty pty syslog".split()))
missing = {
    signal: "SIGHUP SIGKILL SIGUSR1 SIGUSR2 SIGQUIT SIGCHLD SIGPIPE SIGALRM setitimer sigwait "
    "pthread_sigmask pthread_kill alarm",
    os: "fork register_at_fork killpg setsid setpgid getpgid waitid sysconf getuid geteuid "
    "getloadavg uname sched_getaffinity sched_yield WNOHANG WIFSIGNALED WTERMSIG O_NONBLOCK",
    select: "poll epoll",
    socket: "AF_UNIX socketpair SO_REUSEPORT",
    time: "clock_gettime clock_gettime_ns CLOCK_MONOTONIC CLOCK_BOOTTIME tzset",
}
for module, names in missing.items():
    for name in names.split():
        vars(module).pop(name, None)
"""

# Nothing is taken from the settings of the tests: a process may have none in its environment.
SETTINGS = """
from django.conf import settings

def configure(*apps):
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
    settings.configure(
        INSTALLED_APPS=[*(f"django.contrib.{app}" for app in apps), "django_tasks"],
        DATABASES={"default": database},
        SECRET_KEY="x" * 50,
    )
    django.setup()
"""

IMPORTED = """
configure("admin", "auth", "contenttypes", "messages", "sessions")
for name in sys.argv[1:]:
    importlib.import_module(name)
"""

PROJECT = """
configure("auth", "contenttypes")
from django.core.management import CommandError, call_command
call_command("migrate", verbosity=0)
call_command("check", fail_level="WARNING")

from django_tasks.api import TaskHandler, add_task, lock
from django_tasks.testing import override_handlers, run_due_tasks

class Order(TaskHandler):
    biz_code = "order"

    def handle(self, task):
        pass

with override_handlers(Order):
    with lock("door"):
        add_task("order", "1")
    call_command("addtask", "order", "2")
    call_command("listtasks")
    call_command("taskstatus")
    assert [ran.outcome for ran in run_due_tasks()] == ["done", "done"]
try:
    call_command("starttask")
except CommandError as error:
    print(error, file=sys.stderr)
"""


def without(program: str, *arguments: str) -> tuple[int, str]:
    """Run a program there; returns its exit code, and what it says on stderr."""
    command = [sys.executable, "-W", "error", "-c", WITHOUT + SETTINGS + program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_it_is_imported_where_no_worker_can_run() -> None:
    names = ("api", "models", "checks", "admin", "testing.plugin", "metrics.urls")
    commands = (f"management.commands.{name}" for name in ("addtask", "starttask"))
    assert without(IMPORTED, *(f"django_tasks.{name}" for name in (*names, *commands))) == (0, "")


def test_tasks_are_added_shown_and_tested_there() -> None:
    refusal = "Workers run on systems of POSIX: this one is another.\n"
    assert without(PROJECT) == (0, refusal)
