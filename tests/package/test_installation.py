"""The wheel, installed into an environment of its own, in a new project."""

import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from devtools.release.distributions import Distributions
from tests.package.conftest import checked

SETTINGS = """
INSTALLED_APPS += ["django_tasks", "shop"]
DATABASES["default"]["OPTIONS"] = {
    "timeout": 20,
    "transaction_mode": "IMMEDIATE",
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
}
"""

HANDLERS = """
from pathlib import Path

from django_tasks.api import TaskHandler


class Greet(TaskHandler):
    biz_code = "greet"

    def handle(self, task):
        Path(task.biz_num).write_text("Hello!")
"""

WHERE = "import django_tasks; print(django_tasks.__file__)"
IN_CHINESE = """
from django.utils.translation import override
from django_tasks.models import Task
with override("zh-hans"):
    print(Task._meta.verbose_name)
"""


@pytest.fixture(scope="module")
def python(distributions: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel, and Django from ours: nothing is fetched."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place, with_pip=False)
    program = place / "bin" / "python"
    install = ("install", "--quiet", "--no-index", "--no-deps", distributions.wheel)
    checked(sys.executable, "-m", "pip", "--python", program, *install, cwd=place)
    (site,) = place.glob("lib/python*/site-packages")
    (site / "django.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return program


@pytest.fixture(scope="module")
def project(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    for words in (("startproject", "mysite", "."), ("startapp", "shop")):
        checked(python, "-m", "django", *words, cwd=folder)
    with open(folder / "mysite" / "settings.py", "a", encoding="utf-8") as settings:
        settings.write(SETTINGS)
    (folder / "shop" / "task_handlers.py").write_text(HANDLERS, encoding="utf-8")
    return folder


def test_the_package_is_that_of_the_wheel(python: Path, tmp_path: Path) -> None:
    where = checked(python, "-c", WHERE, cwd=tmp_path)
    assert Path(where).is_relative_to(python.parents[1])


def test_a_new_project_runs_a_task(python: Path, project: Path, tmp_path: Path) -> None:
    def manage(*words: str) -> str:
        return checked(python, "manage.py", *words, cwd=project)

    manage("migrate", "--verbosity=0")
    said = manage("check", "--fail-level=WARNING", "--database=default")
    assert "no issues" in said
    greeting = tmp_path / "greeting"
    manage("addtask", "greet", str(greeting))
    manage("starttask", "--until-empty")
    assert greeting.read_text() == "Hello!"
    assert any("\u4e00" <= each <= "\u9fff" for each in manage("shell", "-v0", "-c", IN_CHINESE))
