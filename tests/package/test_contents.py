"""What is in the wheel and in the source distribution."""

import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from devtools.release.distributions import Distributions
from tests.package.conftest import checked


def test_the_wheel_has_the_package_alone(distributions: Distributions) -> None:
    with ZipFile(distributions.wheel) as wheel:
        places = {name.partition("/")[0] for name in wheel.namelist()}
    information = {place for place in places if place.endswith(".dist-info")}
    assert len(information) == 1
    assert places - information == {"django_tasks"}


@pytest.mark.parametrize(
    "pattern", ["py.typed", "locale/*/*/*.mo", "templates/**/*", "static/**/*"]
)
def test_the_wheel_has_each_file_that_is_no_module(
    pattern: str, distributions: Distributions, unpacked: Path
) -> None:
    ours = [path for path in (unpacked / "django_tasks").glob(pattern) if path.is_file()]
    assert ours
    with ZipFile(distributions.wheel) as wheel:
        assert {str(path.relative_to(unpacked)) for path in ours} <= set(wheel.namelist())


@pytest.mark.parametrize("folder", ["benchmarks", "deploy", "devtools", "docs", "scripts", "tests"])
def test_the_source_distribution_has_more_than_the_package(folder: str, unpacked: Path) -> None:
    assert any((unpacked / folder).iterdir())


def test_the_tests_of_the_source_distribution_can_be_collected_and_run(
    unpacked: Path, tmp_path: Path
) -> None:
    environment = {"DATABASE_URL": f"sqlite:///{tmp_path}/db.sqlite3"}
    pytest_here = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    # The tests of deploy/ need the programs of the dependency group of that name.
    every = ("--collect-only", "--ignore=tests/deploy")
    listed = checked(*pytest_here, *every, cwd=unpacked, **environment)
    assert "tests/store/" in listed
    done = checked(*pytest_here, "tests/test_backoff.py", cwd=unpacked, **environment)
    assert " passed" in done
