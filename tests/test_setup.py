"""The tools that make the environment and choose the databases."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from devtools import CHECKOUT, browser, databases
from devtools.messages import Problem
from devtools.servers.catalogue import FETCHED, SINGLE
from devtools.servers.fetched import Fetched
from devtools.setup import cli, debian, python, venv
from devtools.setup.profiles import PROFILES, Profile


@pytest.fixture(autouse=True)
def _everything_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(venv, "LEFT_OUT", tmp_path / "left-out.json")
    for name in ("DATABASES", "REQUIRE_ALL_DATABASES"):
        monkeypatch.delenv(name, raising=False)


def test_all_databases_are_there_unless_somebody_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert databases.there("DATABASES") == ["sqlite", "mariadb", "mysql", "postgresql"]
    monkeypatch.setenv("DATABASES", "mariadb sqlite")
    assert databases.there("DATABASES") == ["sqlite", "mariadb"]
    assert databases.why_not("postgresql", "DATABASES") == "DATABASES does not name it"


def test_a_database_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASES", "sqlite oracle")
    with pytest.raises(Problem, match="DATABASES names oracle, but there are only sqlite, "):
        databases.there("DATABASES")


def test_the_newest_servers_are_chosen_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert databases.there("DATABASES", databases.NEWEST) == ["mariadb-newest", "postgresql-newest"]
    monkeypatch.setenv("DATABASES", "sqlite mysql postgresql-newest")
    assert databases.there("DATABASES") == ["sqlite", "mysql"]
    assert databases.there("DATABASES", databases.NEWEST) == ["postgresql-newest"]
    assert databases.why_not("mariadb-newest", "DATABASES") == "DATABASES does not name it"


def test_every_database_but_sqlite_has_a_server_and_the_profile_of_the_tests_brings_it() -> None:
    names = {*databases.TITLES, *databases.NEWEST} - {"sqlite"}
    assert names == {*SINGLE, *FETCHED}
    assert names == {*PROFILES["test"].servers, *PROFILES["test"].fetched}
    assert databases.SITES.keys() == databases.TITLES.keys()
    for name in ("faults", "part"):
        assert PROFILES[name].fetched == ("mysql",)


def test_a_server_that_cannot_be_fetched_is_left_out_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(server: Fetched) -> None:
        if server.name == "mysql":
            raise Problem("mysql-server-core is not to be had: there is no version 9.7 of it")

    monkeypatch.setattr(Fetched, "provide", fail)
    venv.keep_left_out(cli._fetch(PROFILES["test"]))
    assert databases.there("DATABASES") == ["sqlite", "mariadb", "postgresql"]
    assert databases.there("DATABASES", databases.NEWEST) == [*databases.NEWEST]
    reason = databases.why_not("mysql", "DATABASES")
    assert reason == "mysql-server-core is not to be had: there is no version 9.7 of it"
    assert capfd.readouterr().err == f"{reason}\n"


def test_the_reason_why_a_database_is_left_out_names_the_packages() -> None:
    missing = {
        "mariadb": ["mariadb-server-core"],
        "mysqlclient": ["gcc"],
        "PgBouncer": ["pgbouncer"],
    }
    venv.keep_left_out(cli._reasons(missing))
    assert databases.there("DATABASES") == ["sqlite", "postgresql"]
    assert databases.there("DATABASES", databases.NEWEST) == ["postgresql-newest"]
    assert databases.why_not("mariadb", "DATABASES") == (
        "not installed: mariadb-server-core (for mariadb), gcc (for mysqlclient)"
    )
    assert databases.why_not("mysql", "DATABASES") == "not installed: gcc (for mysqlclient)"
    assert venv.left_out()["PgBouncer"] == "not installed: pgbouncer (for PgBouncer)"


def test_each_missing_package_is_named_once_and_apart_from_what_no_package_brings() -> None:
    missing = {"a": ["gcc", "Python.h for /opt/python"], "b": ["gcc", "libc6-dev"]}
    assert debian.split(missing) == (["gcc", "libc6-dev"], ["Python.h for /opt/python"])


@pytest.mark.parametrize("name", ["test", "browser"])
def test_without_chromium_one_sentence_says_so_and_nothing_that_drives_it_is_installed(
    name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    here = python.describe(sys.executable)
    monkeypatch.setattr(debian, "_as_root", lambda: None)
    monkeypatch.setattr(shutil, "which", lambda *args, **kwargs: None)
    installed: list[str] = []
    monkeypatch.setattr(venv, "install", lambda *args: installed.extend(args[2]))
    profile = Profile(PROFILES[name].groups, programs=("Chromium",))
    missing = cli._provide_packages(profile, here)
    assert missing["Chromium"] == ["chromium"]
    assert "on Debian root can: apt-get install chromium" in capfd.readouterr().err
    cli._install(name, profile, here, missing)
    assert "dev" in installed
    assert "browser" not in installed
    assert browser.why_no_browser() == "not installed: chromium"


def test_what_runs_the_tests_of_all_brings_the_browser_too() -> None:
    for name in ("test", "browser"):
        assert {"Chromium", "Chinese fonts"} <= {*PROFILES[name].programs}
        assert "browser" in PROFILES[name].groups


def test_messages_are_extracted_by_a_package_that_the_profile_of_the_tests_brings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = python.describe(sys.executable)
    assert "gettext" in PROFILES["test"].programs
    monkeypatch.setattr(shutil, "which", lambda *args, **kwargs: None)
    assert debian.missing(Profile((), programs=("gettext",)), here)["gettext"] == ["gettext"]


def test_a_python_is_found_by_its_version_and_runs() -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    program = python.find(version)
    assert program is not None
    assert python.describe(program).version[:2] == sys.version_info[:2]
    assert python.find("2.1") is None


def test_a_python_that_does_not_run_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="set PYTHON to a Python"):
        python.describe(tmp_path / "python3")


@pytest.mark.parametrize(
    ("arguments", "environment", "code", "sentence"),
    [
        (["nonsense"], {}, 2, "usage: scripts/setup [demo|"),
        (["demo"], {"PYTHON": "/no/python3"}, 1, "/no/python3 is not Python 3.10 or newer"),
    ],
)
def test_a_wrong_call_of_setup_is_one_sentence(
    arguments: list[str], environment: dict[str, str], code: int, sentence: str
) -> None:
    done = subprocess.run(
        [CHECKOUT / "scripts" / "setup", *arguments],
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert sentence in done.stderr
