"""Functions may be declared before Django is set up, as in a module that an app imports early."""

import subprocess
import sys

PROGRAM = """
from django.conf import settings

settings.configure(
    INSTALLED_APPS=["django_tasks"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    TASKS={"default": {"BACKEND": "django_tasks.backend.DatabaseBackend"}},
)
from django.tasks import task
from django_tasks.backend import options


@task
@options(max_attempts=3)
def early():
    pass


import django

django.setup()
from django_tasks.api import get_task_handlers

assert get_task_handlers()["__main__.early"].max_attempts == 3
"""


def test_a_function_is_declared_before_the_apps_are_ready() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
