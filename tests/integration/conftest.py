"""A worker's surroundings: the test database, a journal, gates, and processes that end in time."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from django.db import connections

from devtools.servers.command import servers
from tests.integration.process import Journal, StartTask
from tests.vendor import fail_for_want
from tests.waiting import DEADLINE

Start = Callable[..., StartTask]


def url_of(alias: str = "default", port: int | None = None) -> str:
    """A database of this test run as DATABASE_URL."""
    values = connections[alias].settings_dict
    if values["ENGINE"].endswith("sqlite3"):
        return f"sqlite:///{values['NAME']}"
    scheme = "mysql" if values["ENGINE"].endswith("mysql") else "postgres"
    user, password = quote(values["USER"]), quote(values["PASSWORD"])
    place = f"{values['HOST']}:{port or values['PORT']}"
    return f"{scheme}://{user}:{password}@{place}/{values['NAME']}"


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


@pytest.fixture
def start(tmp_path: Path, journal: Journal, transactional_db: None) -> Iterator[Start]:
    """Start ``starttask`` with flags; keywords are added to its environment."""
    processes: list[StartTask] = []

    def start(*flags: str, **environment: str) -> StartTask:
        values = {
            "DATABASE_URL": url_of(),
            "DJANGO_SETTINGS_MODULE": "tests.integration.settings",
            "TEST_JOURNAL": str(journal.path),
        } | environment
        log = tmp_path / f"starttask-{len(processes)}.log"
        processes.append(StartTask(*flags, log=log, environment=values))
        return processes[-1]

    yield start
    for process in processes:
        process.end()


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """``touch`` it to let the handlers go on that wait at it."""
    return tmp_path / "gate"


@pytest.fixture
def restart_server() -> Callable[..., None]:
    """Restart the server of the test database: only one of our own, that is, in SERVERS_DIR."""
    name = our_server()
    if not name:
        fail_for_want(
            "nobody else's server may be restarted: the test database is on none of SERVERS_DIR"
        )

    def restart(*flags: str) -> None:
        servers("restart", *flags, name, timeout=4 * DEADLINE)

    return restart


def our_server() -> str:
    """The name of the server in SERVERS_DIR that has the test database; empty if none has."""
    if not os.environ.get("SERVERS_DIR"):
        return ""
    place = f":{connections['default'].settings_dict['PORT']}/"
    keys = [key for key, url in servers("env").items() if place in url]
    return keys[0].removesuffix("_URL").lower().replace("_", "-") if keys else ""
