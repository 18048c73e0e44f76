"""The examples of the testing page run as they stand there, with both runners, in a project that
has our app and its own and no other.
"""

import re
from pathlib import Path

import pytest

from tests.testing.page import files_of_page, make, run
from tests.vendor import ON_SQLITE

pytestmark = pytest.mark.each_database


@pytest.fixture
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    make(tmp_path, "pytest" if "pytest" in request.node.name else "manage")
    return tmp_path


def number_of_tests(*names: str) -> int:
    """The number of test functions and methods in these files of the page."""
    files = files_of_page()
    test = re.compile(r"^ *(?:async )?def test_", re.MULTILINE)
    return sum(len(test.findall(files[name])) for name in names)


def test_all_examples_pass_with_pytest(project: Path) -> None:
    names = [name for name in files_of_page() if "test" in name]
    done = run(project, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout + done.stderr
    # One of them has two handlers.
    assert f"{number_of_tests(*names) + 1} passed" in done.stdout


def test_the_examples_of_test_cases_pass_with_manage_py_test(project: Path) -> None:
    # Each of the processes has a database of its own; to copy one, MariaDB needs its programs.
    parallel = ["--parallel", "2"] if ON_SQLITE else []
    done = run(project, "-W", "error", "manage.py", "test", "--noinput", *parallel, "shop")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Ran {number_of_tests('shop/tests.py')} tests" in done.stderr
    assert "\nOK\n" in done.stderr
