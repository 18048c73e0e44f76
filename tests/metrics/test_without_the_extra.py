"""A project without prometheus-client: one sentence, and nothing else needs it."""

import subprocess
import sys

HIDDEN = """
import sys
from importlib.abc import MetaPathFinder

class Hidden(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "prometheus_client":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
import django
from django.conf import settings
settings.configure(INSTALLED_APPS=["django_tasks"], DATABASES={})
django.setup()
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", HIDDEN + program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_one_sentence_names_the_extra() -> None:
    for module in (
        "django_tasks.metrics",
        "django_tasks.metrics.page",
        "django_tasks.metrics.urls",
    ):
        done = run(f"import {module}")
        assert done.returncode == 1
        last = done.stderr.strip().splitlines()[-1]
        assert last.startswith("django_tasks.conf.ConfigurationError: ")
        assert "pip install 'django-delayed-tasks[prometheus]'" in last
        assert "ModuleNotFoundError" not in done.stderr


def test_nothing_else_needs_it() -> None:
    done = run("import django_tasks.api, django_tasks.reads.overview, django_tasks.worker.worker")
    assert (done.returncode, done.stderr) == (0, "")
