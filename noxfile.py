"""The sessions of ``make test``: checks, tests by database and by Python, the site, the
distributions, the admin in a browser, a cluster in simulated time, faults, mutants.

    nox                        the checks
    nox -s "tests(mariadb)"    the tests on one database; further words after -- go to pytest
    nox -s "long(mariadb)"     those of them that take long
    nox -s "admin(mysql)"      the admin's pages on one server
    nox -s "processes(mysql)"  signals, forks and ports of processes, on one database
    nox -s tools               those of them about pages, tools and deployments, on SQLite
    nox -s matrix-3.12         the tests with another Python, and the Django that goes with it
    nox -s browser             the admin in a browser; PICTURES=docs/pictures keeps what it shows
    nox -s docs                the documentation as a site, and it in Chromium; a link that leads to
                               nothing is an error
    nox -s package             the distributions: their contents, metadata, and an installation
    nox -s explore             half a minute of a cluster in simulated time
    nox -s faults              a twelfth of the faults
    nox -s mutants             a hundred changes of the core, which the tests must notice

They run in the environment that ``scripts/setup test`` has made; the matrix and the mutants have
their own. ``make test-all`` runs all but the mutants; of the pairs of a Python and a database, of
long tests on MySQL and MariaDB, of the newest servers, of the admin on servers and of the processes
it runs one each, by turns.
"""

import os
import shutil
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import nox

sys.path.insert(0, str(Path(__file__).parent))  # the command nox does not look here

from devtools import results
from devtools.browser import why_no_browser
from devtools.databases import (
    NEWEST,
    SITES,
    TITLES,
    all_are_required,
    private,
    there,
    why_not,
)
from devtools.servers.places import RUNTIME, exclusive
from devtools.setup.python import path_with

nox.needs_version = ">=2026.10.20"  # the first with sessions side by side
nox.options.sessions = ["checks"]
nox.options.default_venv_backend = "virtualenv"  # pip knows the registries of the machine
nox.options.error_on_missing_interpreters = False

# Beside the main line: Python, and the Django that goes with it.
MATRIX = {"3.10": "5.2", "3.12": "6.0", "3.13": "6.1", "3.14": "6.1"}

# tests/asking.py finds what asks nothing of a database. These ask one, and are about something
# else: words, permissions, pages and the tool that reads them. They run on SQLite.
ABOUT_NO_DATABASE = (
    "tests/importers/test_pages.py",
    "tests/doors/test_admin_security.py",
    "tests/translation",
    "tests/site/test_judges.py",
)

# Minutes of real processes, of waiting for them, and of tools: "long" runs them, with the main
# line's Python.
LONG = (
    "tests/importers/test_adoption.py",
    "tests/importers/test_importing.py",  # not every Django has the packages that it needs
    "tests/importers/test_pages.py",  # reads the pages with the tools of the site
    "tests/importers/test_triggers.py",
    "tests/deploy",
    "tests/doors/test_admin_security.py",
    "tests/doors/test_page_plans.py",  # 60,000 rows
    "tests/simulated_cluster",
    "tests/faults",
    "tests/environments",
    "tests/integration",
    "tests/translation/test_catalogue.py",
    "tests/translation/test_edits.py",  # all ways of languages to write numbers and times
    "tests/site",
    "tests/test_benchmarks.py",
    "tests/test_demo.py",
    "tests/test_servers.py",
    "tests/test_setup.py",
    "tests/test_simulation.py",
)

# Those of them that are about pages, tools and deployments: "tools" runs them on SQLite, beside the
# others. In one session these took as long as all else together.
ABOUT_TOOLS = (
    "tests/importers/test_pages.py",
    "tests/deploy",
    "tests/translation/test_catalogue.py",
    "tests/translation/test_edits.py",
    "tests/site",
    "tests/test_benchmarks.py",
    "tests/test_demo.py",
    "tests/test_servers.py",
    "tests/test_setup.py",
    "tests/test_simulation.py",
)

# What SQLite shows in "tests" of the admin, "admin" shows on these servers. MariaDB is asked the
# same statements as MySQL, and its plans of each page are looked at.
WITH_ADMIN = ("mysql", "postgresql")
PAGES_OF_ADMIN = (
    "tests/doors/test_admin.py",
    "tests/doors/test_admin_bulk.py",
    "tests/doors/test_admin_lists.py",
    "tests/doors/test_dashboard.py",
    "tests/doors/test_recurring_page.py",
    "tests/doors/test_task_page.py",
)

# Signals, forks, ports and logs of processes: what they leave in a table "tests" asks of each
# server, and the faults stop and kill workers on each. "processes" shows them on SQLite and on the
# server that the project begins with.
ABOUT_PROCESSES = (
    "tests/environments/test_isolated.py",
    "tests/integration/test_forks.py",
    "tests/integration/test_json_logs.py",
    "tests/integration/test_metrics_port.py",
    "tests/integration/test_mutex.py",
    "tests/integration/test_probes.py",
    "tests/integration/test_stopping.py",
)
WITH_PROCESSES = ("sqlite", "mysql")

# The newest servers run what says how a server takes statements; each other test of theirs asks
# the same ones, through a worker, a page or a command.
ABOUT_SERVERS = (
    "tests/doors/test_page_plans.py",
    "tests/environments/test_mysql_errors.py",
    "tests/environments/test_sessions.py",
    "tests/reads",
    "tests/statements",
    "tests/store",
    "tests/test_locks.py",
    "tests/worker/test_payloads.py",
)

# Of those, what asks the same statements as others do, by chance and in any order: the tested
# versions show that the order changes nothing.
NOT_ON_NEWEST = ("tests/store/test_model.py", "tests/store/test_parameters.py")

# "docs" makes the site, and looks at it there.
ABOUT_THE_SITE = "tests/browser/test_site.py"
BUILT_SITE = Path("build/site").absolute()

PAGES = (
    *("README.rst", "README.zh-hans.rst", "CHANGES.rst", "CONTRIBUTING.rst", "SECURITY.rst"),
    *("CODE_OF_CONDUCT.rst", "docs"),
)

CHECKS = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
    ("lint-imports",),
    ("typos",),
    ("rstcheck", "--log-level", "ERROR", "--recursive", *PAGES),
    ("python", "manage.py", "makemigrations", "--check", "--dry-run"),
)

# Eight of ten: an address of the authors and one of the project are still placeholders.
PYROMA = "8"

FORGE_CHECKS = (
    ("zizmor", "--offline", "--no-progress", ".github"),
    *(
        ("check-jsonschema", "--builtin-schema", f"vendor.{schema}", *files)
        for schema, files in {
            "github-workflows": (".github/workflows/ci.yml", ".github/workflows/release.yml"),
            "dependabot": (".github/dependabot.yml",),
            "github-issue-forms": (
                ".github/ISSUE_TEMPLATE/defect.yml",
                ".github/ISSUE_TEMPLATE/wish.yml",
            ),
            "github-issue-config": (".github/ISSUE_TEMPLATE/config.yml",),
        }.items()
    ),
)

NO_TESTS = 5  # pytest's answer if none is left
END_SECONDS = 20.0  # for the processes of tests to end after an interruption

os.environ["PATH"] = path_with(MATRIX)
for name in ("DATABASE_URL", "DJANGO_SETTINGS_MODULE", "PYTHONHOME"):
    os.environ.pop(name, None)  # settings of the user's own projects
# Images of containers set it. Each of a thousand processes would compile the package and the tests
# again: 20 seconds and not 8 for pytest to begin, 0.9 and not 0.6 for a command.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@nox.session(venv_backend="none", allow_parallel=True)
def checks(session: nox.Session) -> None:
    """Run the linters, the type checker, and the check for missing migrations."""
    for command in CHECKS:
        session.run(*command)


@nox.session(venv_backend="none", allow_parallel=True)
@nox.parametrize("database", [*TITLES, *NEWEST], ids=[*TITLES, *NEWEST])
def tests(session: nox.Session, database: str) -> None:
    """Run the tests on one database, but the long ones; on the newest, those about a server."""
    newest = [*ABOUT_SERVERS, *_without(NOT_ON_NEWEST)]
    _tests(session, database, database, newest if database in NEWEST else _short(database))


@nox.session(venv_backend="none", allow_parallel=True)
@nox.parametrize("database", list(TITLES), ids=list(TITLES))
def long(session: nox.Session, database: str) -> None:
    """Run the long tests on one database."""
    elsewhere = _elsewhere(database)
    # A place that is named runs, whatever is to be ignored.
    places = [place for place in LONG if not place.startswith(elsewhere)]
    _tests(session, database, f"{database}_long", [*places, *_without(elsewhere)])


@nox.session(venv_backend="none", allow_parallel=True)
@nox.parametrize("database", list(WITH_ADMIN), ids=list(WITH_ADMIN))
def admin(session: nox.Session, database: str) -> None:
    """Show the pages of the admin on one server."""
    _tests(session, database, f"{database}_admin", [*PAGES_OF_ADMIN])


@nox.session(venv_backend="none", allow_parallel=True)
@nox.parametrize("database", list(WITH_PROCESSES), ids=list(WITH_PROCESSES))
def processes(session: nox.Session, database: str) -> None:
    """Show signals, forks and ports of processes on one database."""
    _tests(session, database, f"{database}_processes", [*ABOUT_PROCESSES])


@nox.session(venv_backend="none", allow_parallel=True)
def tools(session: nox.Session) -> None:
    """Run the long tests about pages, tools and deployments, on SQLite."""
    _tests(session, "sqlite", "sqlite_tools", [*ABOUT_TOOLS])


@nox.session(python=list(MATRIX), allow_parallel=True)
def matrix(session: nox.Session) -> None:
    """Run the tests, but the long ones, with another Python and Django."""
    databases = there("MATRIX_DATABASES", there("DATABASES"))
    if not databases:
        (session.error if all_are_required() else session.skip)("its databases are not there")
    version = str(session.python)
    of_mysql = {"mariadb", "mysql"} & {*there("DATABASES")}
    drivers = "mysql,postgres" if of_mysql else "postgres"
    django = f"Django~={MATRIX[version]}.0"
    session.install("--editable", f".[{drivers}]", "--group", "test", django)
    for database in databases:
        name = f"{database}_{version.replace('.', '_')}"
        _pytest(session, database, name, session.posargs or _short(database))


@nox.session(venv_backend="none", allow_parallel=True)
def browser(session: nox.Session) -> None:
    """Use the admin as a person would, in Chromium, on SQLite."""
    if reason := why_no_browser():
        (session.error if all_are_required() else session.skip)(reason)
    whole = ["tests/browser", f"--ignore={ABOUT_THE_SITE}", "--durations=10"]
    _pytest(session, "sqlite", "sqlite_browser", session.posargs or whole)


@nox.session(venv_backend="none", allow_parallel=True)
def docs(session: nox.Session) -> None:
    """Make the site of the documentation, each warning an error, and look at it in Chromium."""
    _run(session, "python", "-m", "devtools.site", *session.posargs)
    if not (reason := why_no_browser()):
        _pytest(session, "sqlite", "sqlite_site", [ABOUT_THE_SITE], SITE=str(BUILT_SITE))
    elif all_are_required():
        session.error(reason)


@nox.session(venv_backend="none", allow_parallel=True)
def package(session: nox.Session) -> None:
    """Build the distributions once, look into them, and install the wheel."""
    folder = Path("dist").absolute()
    shutil.rmtree(folder, ignore_errors=True)
    session.run("python", "-m", "devtools.release", "build", str(folder))
    (source,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    session.run("twine", "check", "--strict", str(source), str(wheel))
    session.run("check-wheel-contents", str(wheel))
    session.run("check-manifest", "--no-build-isolation")
    session.run("pyroma", "--min", PYROMA, str(source))
    for command in FORGE_CHECKS:
        session.run(*command)
    places = session.posargs or ["tests/package"]
    _pytest(session, "sqlite", "sqlite_package", places, DISTRIBUTIONS=str(folder))


@nox.session(venv_backend="none", allow_parallel=True)
def explore(session: nox.Session) -> None:
    """Play a cluster in simulated time: the kept seeds, and new ones for half a minute."""
    arguments = session.posargs or ["--kept", "--seconds", "30", "--jobs", "1"]
    _run(session, "python", "-m", "tests.simulated_cluster", *arguments)


@nox.session(venv_backend="none", allow_parallel=True)
def faults(session: nox.Session) -> None:
    """Kill workers, connections and servers: a twelfth of ``make faults``.

    The number of commits chooses it: twelve in a row have played them all.
    """
    _run(session, "scripts/setup", "part")
    command = ["python", "-m", "tests.faults.run", "--part", "commit"]
    command += ["--broken", str(results.lines("faults"))]
    if all_are_required():
        command.append("--demand")
    sites = [site for database in there("DATABASES") for site in SITES[database]]
    _run(session, *command, "--site", *sites)


@nox.session
def mutants(session: nox.Session) -> None:
    """Change the core in a hundred places, one at a time, and see if the tests notice."""
    session.install("--editable", ".[mysql,postgres]", "--group", "mutants")
    _run(session, "python", "-m", "devtools.mutants", *session.posargs)


def _tests(session: nox.Session, database: str, name: str, places: list[str]) -> None:
    if reason := why_not(database, "DATABASES"):
        (session.error if all_are_required() else session.skip)(reason)
    _pytest(session, database, name, session.posargs or ["--durations=20", *places], FAULTS="1")


def _short(database: str) -> list[str]:
    return _without([*LONG, *_elsewhere(database)])


def _elsewhere(database: str) -> tuple[str, ...]:
    return (
        *(ABOUT_TOOLS if database == "sqlite" else ABOUT_NO_DATABASE),
        *ABOUT_PROCESSES,
        *(() if database == "sqlite" else PAGES_OF_ADMIN),
    )


def _without(places: Iterable[str]) -> list[str]:
    return [f"--ignore={place}" for place in places]


def _pytest(
    session: nox.Session, database: str, name: str, arguments: list[str], **environment: str
) -> None:
    """Run pytest on a database of that name; the test database has its name from it."""
    # A cache of its own: "--lf" means the last failures of this session.
    cache = f"cache_dir=.pytest_cache/{name}"
    with _alone(database), private(database) as url:
        environment["DATABASE_URL"] = url + name.removeprefix(database)
        environment["SERVERS_DIR"] = str(RUNTIME)
        options = ["-o", cache, results.option(name)]
        command = ["python", "-m", "pytest", *options, *arguments]
        # Of the tests that somebody names, all may be of other databases.
        _run(session, *command, good=(0, NO_TESTS) if session.posargs else (0,), **environment)


def _alone(database: str) -> AbstractContextManager[object]:
    """One session at a time on a server: the long tests restart it."""
    if database == "sqlite":
        return nullcontext()
    RUNTIME.mkdir(parents=True, exist_ok=True)
    return exclusive(RUNTIME / f"{database}.session.lock")


def _run(
    session: nox.Session, *command: str, good: tuple[int, ...] = (0,), **environment: str
) -> None:
    session.run(
        *("python", "-m", "devtools.gently", *command),
        env=environment,
        external=True,
        success_codes=good,
        interrupt_timeout=END_SECONDS,
        terminate_timeout=END_SECONDS,
    )
