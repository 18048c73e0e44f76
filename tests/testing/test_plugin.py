"""The plugin of pytest is there for those that ask for it, and costs the others nothing."""

from pathlib import Path

import pytest

from django_tasks import testing
from tests.testing.page import announce, run

FREE = """
import sys


def test_nothing_was_imported():
    assert "django_tasks.testing.plugin" in sys.modules
    assert not {"django", "django_tasks.models"} & set(sys.modules)
"""


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A project without Django."""
    announce(tmp_path)
    (tmp_path / "test_plain.py").write_text(FREE)
    return tmp_path


def test_without_django_it_imports_nothing(plain: Path) -> None:
    done = run(plain, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:django")
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_it_can_be_switched_off(plain: Path) -> None:
    options = ("-p", "no:cacheprovider", "-p", "no:django", "-p", "no:django_tasks")
    done = run(plain, "-m", "pytest", "-q", *options)
    assert "1 failed" in done.stdout, done.stdout + done.stderr


def test_each_function_of_the_kit_is_a_fixture_and_a_method_of_the_mixin() -> None:
    from django_tasks.testing import plugin

    functions = {name for name in testing.__all__ if name[0].islower()}
    fixtures = {
        name for name, value in vars(plugin).items() if "fixture" in type(value).__name__.lower()
    }
    methods = {name for name in vars(testing.TaskTestMixin) if not name.startswith("__")}
    assert functions == fixtures == methods


def test_all_names_can_be_imported() -> None:
    assert dir(testing) == testing.__all__ == sorted(testing.__all__)
    for name in testing.__all__:
        assert getattr(testing, name).__name__ in (name, name.removeprefix("a"))
    with pytest.raises(AttributeError, match="has no attribute 'run_tasks'"):
        testing.run_tasks  # noqa: B018


def test_a_settings_file_may_import_it(plain: Path) -> None:
    done = run(plain, "-c", "import django_tasks.testing, sys; assert 'django' not in sys.modules")
    assert done.returncode == 0, done.stderr
