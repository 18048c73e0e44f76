"""The project that the files of ``deploy/`` start."""

from pathlib import Path

import pytest

from tests.deploy.shop import Shop, copied, laid_out


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """The project and its database, once for all tests."""
    return laid_out(tmp_path_factory.mktemp("shop") / "place")


@pytest.fixture
def shop(template: Shop, tmp_path: Path) -> Shop:
    """The project with a database of this test's own."""
    (tmp_path / "place").mkdir()
    return copied(template, tmp_path / "place")
