"""Run the checks and the tests, but the long ones, on each database; with ALL=1 the rest as well.

    make test [ARGS="PYTEST ARGUMENT..."]
    make test-all

The rest: the long tests, the admin in a browser, the site of the documentation, the distributions,
a cluster in simulated time, and a seventh of the faults; by turns, one commit after the other,
another Python and Django (each second time the newest), one of the newest servers, and the admin on
one of two servers. Private servers are started where none run, and stopped again. The last lines
say what ran, what failed and what was left out.

Environment:
    DATABASES="sqlite mariadb"  only these
    NOX_PARALLEL=2              so many sessions at once, in place of 6; their output is shown when
                                they are done
    REQUIRE_ALL_DATABASES=1     a database that was left out is a failure
    MATRIX_DATABASES="sqlite"   the databases of the other versions, in place of SQLite
"""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from devtools import CHECKOUT, results, turns
from devtools.databases import NEWEST, TITLES, private, there
from devtools.interruption import heed_ctrl_c, leave_by_cleaning_up
from devtools.messages import Problem, say
from devtools.progress import Progress
from devtools.servers.places import RUNTIME

# Much of a test is waiting: two cores have work enough for so many sessions.
SIDE_BY_SIDE = "6"

SHORT = ("checks", *(f"tests({name})" for name in TITLES))
# A commit is tried with one of each of these, the next one with the one after it. What only one of
# them lacks is seldom, all are tried in four commits, and the workflow and "make test-matrix" run
# them all. The newest of the main Pythons has each second turn: with its Django come the changes.
PYTHONS = ("matrix-3.13", "matrix-3.12", "matrix-3.13", "matrix-3.10")
BY_TURNS = (
    ("tests(postgresql-newest)", "tests(mariadb-newest)"),
    ("admin(mysql)", "admin(postgresql)"),
)
# The longest first, so that none is left alone at the end.
FIRST = ("long", "tools", "faults", "browser", "docs")
LAST = ("matrix-3.14", "explore", "package")
END_SECONDS = 60.0


def main() -> int:
    leave_by_cleaning_up()
    try:
        with _alone(), ExitStack() as servers:
            arguments = sys.argv[1:]
            # With arguments for pytest, the short ones.
            sessions = SHORT if arguments or not _is_whole() else whole()
            for database in there("DATABASES", [*TITLES, *NEWEST]):
                if f"tests({database})" in sessions:
                    servers.enter_context(private(database))
            return _tests(sessions, arguments)
    except (Problem, RuntimeError) as problem:  # the latter: a server that did not start
        say(str(problem))
        return 1
    except KeyboardInterrupt:
        return 130


def _is_whole() -> bool:
    return os.environ.get("ALL", "0") not in ("", "0")


@contextmanager
def _alone() -> Iterator[None]:
    """Two runs in one checkout would drop each other's test databases."""
    RUNTIME.mkdir(parents=True, exist_ok=True)
    with open(RUNTIME / "test.lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Problem("Another make test is running in this checkout.") from None
        yield


def _tests(sessions: Sequence[str], arguments: list[str]) -> int:
    results.forget()
    code = _nox(sessions, arguments)
    results.tell_failures()
    return code


def whole() -> Sequence[str]:
    """The sessions of all that is run of one commit."""
    number, reason = turns.of_commit(len(PYTHONS))
    python, others = _turn(number)
    say(f"It is the turn of {python}, {' and '.join(others)}, by {reason}.")
    return of_turn(number)


def of_turn(number: int) -> Sequence[str]:
    """All sessions of one of ``len(PYTHONS)`` turns."""
    python, others = _turn(number)
    # First the one that waits for its time at each server, which the long tests keep to themselves.
    return (*SHORT, python, *FIRST, *others, *LAST)


def _turn(number: int) -> tuple[str, list[str]]:
    return PYTHONS[number], [group[number % len(group)] for group in BY_TURNS]


def _nox(sessions: Sequence[str], arguments: list[str]) -> int:
    command = [sys.executable, "-m", "nox", "--sessions", *sessions, "--", *arguments]
    process = subprocess.Popen(
        command,
        cwd=CHECKOUT,
        env={"NOX_PARALLEL": SIDE_BY_SIDE, "MATRIX_DATABASES": "sqlite", **os.environ},
        stdout=None if sys.stdout.isatty() else subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heed_ctrl_c,  # nox knows no other interruption
    )
    try:
        return Progress(process).wait()
    except KeyboardInterrupt:
        # To the whole group, as a terminal sends it: pytest then ends what its tests have started.
        os.killpg(process.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
        raise


if __name__ == "__main__":
    sys.exit(main())
