"""A database of its own for the scenarios of one session."""

import os
from collections.abc import Iterator

import pytest

from tests.faults import databases
from tests.faults.databases import Site

# Real processes under real faults take minutes: "make faults", or FAULTS=1 with pytest.
collect_ignore = [] if os.environ.get("FAULTS") == "1" else ["test_guards.py"]


@pytest.fixture(scope="session")
def faults_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The address of a database beside the one at hand: its tables are the workers' alone."""
    url = os.environ.get("DATABASE_URL", "sqlite:///db.sqlite3")
    with databases.scratch(url, tmp_path_factory.mktemp("database")) as scratch:
        yield Site("", (scratch,))
