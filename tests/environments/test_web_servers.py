"""``start()`` under the web servers that Django projects use."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from django_tasks.models import WorkerRow
from tests.environments.web import Site, served
from tests.integration.conftest import url_of
from tests.integration.process import ROOT
from tests.vendor import ON_SQLITE
from tests.waiting import DEADLINE, eventually

# On SQLite the site has a database of its own.
pytestmark = [] if ON_SQLITE else [pytest.mark.django_db(transaction=True)]

REQUESTS = 8
TICKS = 1

WSGI = "tests.environments.site.wsgi:application"
ASGI = "tests.environments.site.asgi:application"
UWSGI = [
    *("uwsgi", "--http-socket", "127.0.0.1:PORT", "--virtualenv", sys.prefix),
    *("--module", WSGI, "--processes", "2", "--master", "--die-on-term"),
]
GUNICORN = [
    *("gunicorn", "--bind", "127.0.0.1:PORT", "--workers", "2", WSGI),
    *("--config", str(ROOT / "tests" / "environments" / "site" / "gunicorn_conf.py")),
]

SERVERS = {
    "uwsgi, at import": (UWSGI, "at import"),
    "uwsgi, among hooks": ([*UWSGI, "--enable-threads"], "at import, among hooks"),
    "uwsgi, in a hook": ([*UWSGI, "--enable-threads"], "after the fork"),
    "uwsgi, lazy": ([*UWSGI, "--enable-threads", "--lazy-apps"], "at import"),
    "gunicorn, at import": (GUNICORN, "at import"),
    "gunicorn, threads": ([*GUNICORN, "--worker-class", "gthread"], "in hooks"),
    "gunicorn, gevent": ([*GUNICORN, "--worker-class", "gevent"], "in hooks"),
    "gunicorn, preloaded": ([*GUNICORN, "--preload"], "in hooks"),
    "uvicorn": (["uvicorn", "--host", "127.0.0.1", "--port", "PORT", ASGI], "in lifespan"),
    "hypercorn": (["hypercorn", "--workers", "0", "--bind", "127.0.0.1:PORT", ASGI], "in lifespan"),
}
# Web servers do not depend on the database: beside MariaDB and PostgreSQL two of them are enough.
ON_A_SERVER = ["uwsgi, at import", "gunicorn, threads"]


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite database with the tables of the site."""
    path = tmp_path_factory.mktemp("site") / "db.sqlite3"
    subprocess.run(
        [sys.executable, "-m", "django", "migrate", "--verbosity", "0"],
        cwd=ROOT,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.environments.site.settings",
            "DATABASE_URL": f"sqlite:///{path}",
        },
        check=True,
        timeout=DEADLINE,
    )
    return path


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Callable[[], int]]:
    """The URL of a database for the site, and what counts its workers."""
    if not ON_SQLITE:
        return url_of(), WorkerRow.objects.count
    path = tmp_path / "db.sqlite3"
    shutil.copy(request.getfixturevalue("template"), path)

    def count() -> int:
        connection = sqlite3.connect(path)
        try:
            return int(connection.execute("SELECT count(*) FROM t_task_worker").fetchone()[0])
        finally:
            connection.close()

    return f"sqlite:///{path}", count


def has_ticked(site: Site, before: int) -> bool:
    return len(site.notes("tick")) > before


def check(site: Site, workers: Callable[[], int]) -> None:
    """Requests are answered, the clock ticks, and nothing is left after the stop."""
    site.wait_until_it_listens()
    with ThreadPoolExecutor(4) as pool:
        for ticks in (0, TICKS):
            answers = list(pool.map(lambda _: site.get(), range(REQUESTS)))
            assert answers == [200] * REQUESTS, site.log()
            # The last request is over before the stop: of a process that is in one uWSGI runs no
            # atexit callbacks.
            eventually(partial(has_ticked, site, ticks), "ticks", log=site.log)
    site.stop()
    notes = site.notes("tick")
    assert set(notes.values()) == {1}, notes
    assert workers() == 0, site.log()
    assert "Traceback" not in site.log(), site.log()


@pytest.mark.parametrize("name", SERVERS if ON_SQLITE else ON_A_SERVER)
def test_a_worker_inside_a_web_server_hinders_no_request_and_leaves_nothing(
    name: str, database: tuple[str, Callable[[], int]], tmp_path: Path
) -> None:
    command, start = SERVERS[name]
    url, workers = database
    with served(command, tmp_path, DATABASE_URL=url, SITE_START=start) as site:
        check(site, workers)
    if "among hooks" in name:
        assert site.notes("hook by hand") == {"hook by hand": 2}
        assert site.notes("decorated") == {"decorated hook": 2}
    assert ("gevent has replaced" in site.log()) == ("gevent" in name)


def test_a_start_in_gunicorns_master_is_refused_with_its_cure(
    database: tuple[str, Callable[[], int]], tmp_path: Path
) -> None:
    url, workers = database
    command = [*GUNICORN, "--preload"]
    with served(command, tmp_path, DATABASE_URL=url, SITE_START="at import") as site:
        assert site.ended() != 0
    assert "call it in post_worker_init() in gunicorn.conf.py." in site.log()
    assert workers() == 0
