"""Make the virtual environment, and install what the machine lacks where that is allowed.

    scripts/setup demo       the app and the test project; no database servers
    scripts/setup lint       the same with the tools that check and test the code
    scripts/setup test       the same with MariaDB, MySQL, PostgreSQL, the newest of them, their
                             drivers, and web servers
    scripts/setup docs       the app, and what makes a site of the documentation
    scripts/setup package    the app, the tools, and what builds and checks the distributions
    scripts/setup browser    the app, the tools, and what drives the admin in a browser
    scripts/setup faults     the same with what a Galera cluster and false clocks need
    scripts/setup benchmark  the app and the databases
    scripts/setup simulate   the app, and what the simulation of many workers needs

Debian packages are installed only as root or with a sudo that asks for no password. Elsewhere
this says what is missing, and the tests do without it. MySQL and the newest servers need nobody's
leave: they are fetched into a folder of ours, which scripts/servers --help names.

Environment: PYTHON (python3) makes the environment VENV (.venv).
"""

import sys
from concurrent.futures import ThreadPoolExecutor

from devtools.interruption import leave_by_cleaning_up
from devtools.messages import Problem, say
from devtools.servers.catalogue import FETCHED
from devtools.setup import debian, venv
from devtools.setup.debian import Missing
from devtools.setup.profiles import PROFILES, Profile
from devtools.setup.python import Python, chosen, describe

# Groups of Python packages that are of no use without a program.
_NEEDS = {"uwsgi": "uWSGI", "browser": "Chromium"}

_OF_MYSQLCLIENT = ("mariadb", "mysql", "mariadb-newest")

USAGE = f"usage: scripts/setup [{'|'.join(PROFILES)}]"


def main() -> int:
    name = sys.argv[1] if len(sys.argv) > 1 else "test"
    if name in ("-h", "--help"):
        print((__doc__ or "").strip())
        return 0
    if len(sys.argv) > 2 or name not in PROFILES:
        say(USAGE)
        return 2
    leave_by_cleaning_up()
    try:
        set_up(name, PROFILES[name])
    except Problem as problem:
        say(str(problem))
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def set_up(name: str, profile: Profile) -> None:
    python = describe(chosen(profile.pythons))
    missing = _provide_packages(profile, python)
    if "venv" in missing:
        raise Problem(f"Without {' '.join(missing['venv'])} there can be no environment.")
    venv.make(python)
    with ThreadPoolExecutor(1) as beside:  # pip keeps one core busy for a minute
        fetching = beside.submit(_fetch, profile)
        missing = _install(name, profile, python, missing)
    unfetched = fetching.result()
    if name == "test":
        venv.keep_left_out(unfetched | _reasons(missing))


def _provide_packages(profile: Profile, python: Python) -> Missing:
    """Install what is missing, and return what is missing still."""
    missing = debian.missing(profile, python)
    if missing:
        debian.install(missing)
        missing = debian.missing(profile, describe(python.program))
        debian.name_all(missing)
    return missing


def _install(name: str, profile: Profile, python: Python, missing: Missing) -> Missing:
    """Install what can be; return what is missing, uWSGI too if it cannot be built."""
    extras = [extra for extra in profile.extras if extra != "mysql" or "mysqlclient" not in missing]
    groups = [group for group in profile.groups if _NEEDS.get(group) not in missing]
    try:
        venv.install(name, python, groups, extras)
    except Problem:
        if "uwsgi" not in groups:
            raise
        say("Trying again without uWSGI.")
        groups.remove("uwsgi")
        venv.install(name, python, groups, extras)
        return {**missing, "uWSGI": ["what pip needs to build it"]}
    return missing


def _fetch(profile: Profile) -> dict[str, str]:
    """Fetch the servers that no package of the machine brings; the reasons why one is not there."""
    reasons: dict[str, str] = {}
    for name in profile.fetched:
        try:
            FETCHED[name].provide()
        except Problem as problem:
            say(str(problem))
            reasons[name] = str(problem)
    return reasons


def _reasons(missing: Missing) -> dict[str, str]:
    """The reason why a database, or a program beside it, is left out."""
    reasons: dict[str, str] = {}
    for purpose, packages in missing.items():
        for name in _OF_MYSQLCLIENT if purpose == "mysqlclient" else [purpose]:
            begin = f"{reasons[name]}, " if name in reasons else "not installed: "
            reasons[name] = f"{begin}{' '.join(packages)} (for {purpose})"
    return reasons
