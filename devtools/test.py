"""Run the checks and the tests, but the long ones, on each database; with ALL=1 the rest as well.

    make test [ARGS="PYTEST ARGUMENT..."]
    make test-all

The rest: the long tests, the admin in a browser, the site of the documentation, the distributions,
a cluster in simulated time, and a twelfth of the faults. By turns, one commit after the other: the
tests on one of the databases are run with another Python and Django (each second time the newest),
and there are the long tests on MySQL or MariaDB, one of the newest servers, the admin on one of two
servers, and processes on one of two databases. Private servers are started where none run, and
stopped again. The last lines say what ran, what failed and what was left out.

Environment:
    DATABASES="sqlite mariadb"  only these
    NOX_PARALLEL=2              so many sessions at once, in place of 6; their output is shown when
                                they are done
    REQUIRE_ALL_DATABASES=1     a database that was left out is a failure
    MATRIX_DATABASES="sqlite"   the databases of the other versions, in place of the one by turns
"""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from devtools import CHECKOUT, results, turns
from devtools.databases import NEWEST, TITLES, private, there
from devtools.interruption import heed_ctrl_c, leave_by_cleaning_up
from devtools.messages import Problem, say
from devtools.progress import Progress
from devtools.servers.places import RUNTIME

# Much of a test is waiting: two cores have work enough for so many sessions.
SIDE_BY_SIDE = "6"

SHORT = ("checks", *(f"tests({name})" for name in TITLES))
# With each commit one of the databases is asked by one of these in place of the main line. What
# only one pair of them lacks is seldom, all have had their turn in sixteen commits, and the
# workflow and "make test-matrix" run them all. The newest of the main Pythons has each second turn:
# with its Django come the changes.
PYTHONS = ("matrix-3.13", "matrix-3.12", "matrix-3.13", "matrix-3.10")
TURNS = len(PYTHONS) * len(TITLES)
LONG = ("long(mysql)", "long(mariadb)")
BY_TURNS = (
    ("tests(postgresql-newest)", "tests(mariadb-newest)"),
    ("admin(postgresql)", "admin(mysql)"),
    ("processes(sqlite)", "processes(mysql)"),
)
# The longest first, so that none is left alone at the end. Two sessions do not share a server: what
# needs none comes first, while the short ones have them.
FIRST = ("long(sqlite)", "tools", "faults")
NEXT = ("long(postgresql)", "browser", "docs")
LAST = ("matrix-3.14", "explore", "package")
END_SECONDS = 60.0


def main() -> int:
    leave_by_cleaning_up()
    try:
        with _alone(), ExitStack() as servers:
            arguments = sys.argv[1:]
            # With arguments for pytest, the short ones.
            mine = None if arguments or not _is_whole() else turn_of_this_commit()
            for database in there("DATABASES", mine.databases if mine else TITLES):
                servers.enter_context(private(database))
            return _tests(mine, arguments)
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


@dataclass(frozen=True)
class Turn:
    """Sessions of one commit: those of each, and those of its turn."""

    python: str
    database: str  # which is asked by that Python
    long: str
    others: tuple[str, ...]

    @property
    def sessions(self) -> Sequence[str]:
        short = [session for session in SHORT if session != f"tests({self.database})"]
        return (*short, self.python, *FIRST, self.long, *NEXT, *self.others, *LAST)

    @property
    def databases(self) -> Sequence[str]:
        return [*TITLES, *(name for name in NEWEST if f"tests({name})" in self.others)]


def turn(number: int) -> Turn:
    """One of ``TURNS`` turns."""
    lap, column = divmod(number, len(PYTHONS))
    database = [*TITLES][(lap + column) % len(TITLES)]
    long, *others = (group[number % len(group)] for group in (LONG, *BY_TURNS))
    return Turn(PYTHONS[column], database, long, tuple(others))


def turn_of_this_commit() -> Turn:
    number, reason = turns.of_commit(TURNS)
    mine = turn(number)
    say(
        f"It is the turn of {mine.python} on {mine.database}, {mine.long}, "
        f"{' and '.join(mine.others)}, by {reason}."
    )
    return mine


def _tests(mine: Turn | None, arguments: list[str]) -> int:
    results.forget()
    code = _nox(mine.sessions if mine else SHORT, arguments, mine.database if mine else "")
    results.tell_failures()
    return code


def _nox(sessions: Sequence[str], arguments: list[str], database: str) -> int:
    command = [sys.executable, "-m", "nox", "--sessions", *sessions, "--", *arguments]
    process = subprocess.Popen(
        command,
        cwd=CHECKOUT,
        env={"NOX_PARALLEL": SIDE_BY_SIDE, "MATRIX_DATABASES": database, **os.environ},
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
