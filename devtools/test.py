"""Run the checks and the tests, but the long ones, on each database; with ALL=1 the rest as well.

    make test [ARGS="PYTEST ARGUMENT..."]
    make test-all

The rest: the long tests, the tests with the newest Python and Django and, by turns, with one of the
others, the admin in a browser, the site of the documentation, the distributions, a cluster in
simulated time, and a seventh of the faults. Private servers are started where none run, and stopped
again. The last lines say what ran, what failed and what was left out.

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
# The longest first, so that none is left alone at the end; before them the one that waits for a
# turn at each server, which the long tests keep to themselves.
FIRST = ("matrix-3.13", "long", "tools", "faults", "browser", "docs")
LAST = ("matrix-3.14", *(f"tests({name})" for name in NEWEST), "explore", "package")
# A commit is tried with one of these, the next one with the other: what only an older one lacks is
# seldom, and "make test-matrix" and the workflow run both.
BY_TURNS = ("matrix-3.10", "matrix-3.12")
END_SECONDS = 60.0


def main() -> int:
    leave_by_cleaning_up()
    try:
        with _alone(), ExitStack() as servers:
            for database in there("DATABASES", [*TITLES, *NEWEST] if _is_whole() else TITLES):
                servers.enter_context(private(database))
            return _tests(sys.argv[1:])
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


def _tests(arguments: list[str]) -> int:
    results.forget()
    code = _nox(arguments)
    results.tell_failures()
    return code


def whole() -> Sequence[str]:
    """The sessions of all that is run of one commit."""
    number, reason = turns.of_commit(len(BY_TURNS))
    say(f"Of {' and '.join(BY_TURNS)} it is the turn of {BY_TURNS[number]}, by {reason}.")
    return (*SHORT, *FIRST, BY_TURNS[number], *LAST)


def _nox(arguments: list[str]) -> int:
    """Run the sessions; with arguments for pytest, the short ones."""
    sessions = SHORT if arguments or not _is_whole() else whole()
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
