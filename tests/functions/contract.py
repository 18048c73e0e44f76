"""Django's own tests of its tasks framework, with our backend in place of Django's own two.

    python -m tests.functions.contract [LABEL ...]

Prints the outcome of each test as JSON. The tests are those of the Django that is installed: its
source is downloaded where it is not in ``.cache``. They run on the database of the test project.
"""

import json
import os
import subprocess
import sys
import tarfile
import unittest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
CACHE = ROOT / ".cache" / "django"


def source(version: str) -> Path:
    """The folder of Django's tests, downloaded unless it is there."""
    place = CACHE / version / "tests"
    if not place.is_dir():
        _download(version)
    return place


def _download(version: str) -> None:
    target = CACHE / version
    target.mkdir(parents=True, exist_ok=True)
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:")
    subprocess.run([*pip, "--dest", str(target), f"Django=={version}"], check=True)
    (archive,) = target.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        for member in files.getmembers():
            _, _, path = member.name.partition("/")
            if path.startswith("tests/tasks/"):
                member.name = path
                files.extract(member, target, filter="data")
    archive.unlink()


class Outcomes(unittest.TextTestResult):
    """Notes how each test has ended: one that was left out has not passed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.outcomes: dict[str, str] = {}

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.outcomes[test.id()] = "not run"

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self.outcomes[test.id()] = "passed"

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self.outcomes[test.id()] = "skipped"

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        self.outcomes[test.id()] = "error"

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self.outcomes[test.id()] = "failed"

    def addSubTest(self, test: unittest.TestCase, subtest: Any, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.outcomes[test.id()] = "failed"


def main(labels: list[str]) -> None:
    """Run the tests and print how they have ended."""
    import django
    from django.conf import settings

    # The adapters read the database inside of async tests.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    sys.path.insert(0, str(source(django.__version__)))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
    database = settings.DATABASES["default"]
    # Beside the test database of a pytest that has started this.
    database["TEST"] = {"NAME": f"{database['NAME']}_contract"}
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "tasks"]
    settings.TASKS = {"default": {"BACKEND": "django_tasks.backend.DatabaseBackend", "QUEUES": []}}
    django.setup()
    from django.tasks.backends import dummy, immediate
    from django.test import SimpleTestCase
    from django.test.runner import DiscoverRunner

    from tests.functions.adapters import Immediate, Waiting

    # The settings of the tests name them by their paths.
    vars(dummy)["DummyBackend"] = Waiting
    vars(immediate)["ImmediateBackend"] = Immediate
    SimpleTestCase.databases = {"default"}
    found: list[Outcomes] = []

    class Runner(DiscoverRunner):
        def get_resultclass(self) -> Any:
            return Outcomes

        def suite_result(self, suite: Any, result: Any, **kwargs: Any) -> Any:
            found.append(result)
            return super().suite_result(suite, result, **kwargs)

    Runner(interactive=False, verbosity=1).run_tests(labels or ["tasks"])
    sys.stdout.write(f"{json.dumps(found[0].outcomes)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
