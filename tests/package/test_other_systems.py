"""Web processes and tests of a project import the package where no worker can run."""

import subprocess
import sys

import pytest

# As Windows has it: without these modules, signals and functions.
WITHOUT = """
import importlib, os, signal, sys
sys.modules.update(dict.fromkeys(["resource", "fcntl", "pwd", "grp", "termios"]))
for name in ("SIGHUP", "SIGKILL", "SIGUSR1", "SIGQUIT", "SIGCHLD", "SIGPIPE", "pthread_sigmask"):
    delattr(signal, name)
for name in ("fork", "register_at_fork", "killpg", "setsid", "waitid", "sysconf", "getuid"):
    delattr(os, name)
import django
django.setup()
importlib.import_module(sys.argv[1])
"""


@pytest.mark.parametrize(
    "module",
    [
        "django_tasks.api",
        "django_tasks.admin",
        "django_tasks.testing",
        "django_tasks.metrics.urls",
        "django_tasks.management.commands.addtask",
        "django_tasks.management.commands.starttask",
    ],
)
def test_it_is_imported_where_no_worker_can_run(module: str) -> None:
    command = [sys.executable, "-W", "error", "-c", WITHOUT, module]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
