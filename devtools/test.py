"""Run the checks, the tests on SQLite, MariaDB and PostgreSQL, the site of the documentation, the
distributions, the admin in a browser, a cluster in simulated time, and a third of the faults.

    make test [ARGS="PYTEST ARGUMENT..."]

Private servers are started where none run, and stopped again. The last lines say what ran, what
failed and what was left out.

Environment:
    DATABASES="sqlite mariadb"  only these
    NOX_PARALLEL=3              run the tests on three databases at once; their output is shown when
                                they are done
    REQUIRE_ALL_DATABASES=1     a database that was left out is a failure
    MATRIX=1                    also the tests with other versions of Python and Django
                                (1 if CI=true); MATRIX_DATABASES="sqlite" narrows it
"""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from devtools import CHECKOUT, results
from devtools.databases import private, there
from devtools.interruption import heed_ctrl_c, leave_by_cleaning_up
from devtools.messages import Problem, say
from devtools.servers.places import RUNTIME

# Of all, and of these alone if pytest is given arguments.
OF_TESTS = ("checks", "tests", "matrix")
SESSIONS = (*OF_TESTS, "docs", "package", "browser", "explore", "faults")
END_SECONDS = 60.0


def main() -> int:
    leave_by_cleaning_up()
    try:
        with _alone(), ExitStack() as servers:
            for database in there("DATABASES"):
                servers.enter_context(private(database))
            return _tests(sys.argv[1:])
    except (Problem, RuntimeError) as problem:  # the latter: a server that did not start
        say(str(problem))
        return 1
    except KeyboardInterrupt:
        return 130


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


def _nox(arguments: list[str]) -> int:
    """Run the sessions; with arguments for pytest, the tests alone after the checks."""
    wanted = OF_TESTS if arguments else SESSIONS
    sessions = [name for name in wanted if name != "matrix" or _matrix_is_wanted()]
    command = [sys.executable, "-m", "nox", "--sessions", *sessions, "--", *arguments]
    process = subprocess.Popen(
        command,
        cwd=CHECKOUT,
        start_new_session=True,
        preexec_fn=heed_ctrl_c,  # nox knows no other interruption
    )
    try:
        return process.wait()
    except KeyboardInterrupt:
        # To the whole group, as a terminal sends it: pytest then ends what its tests have started.
        os.killpg(process.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
        raise


def _matrix_is_wanted() -> bool:
    default = "1" if os.environ.get("CI") == "true" else "0"
    return os.environ.get("MATRIX", default) not in ("", "0")


if __name__ == "__main__":
    sys.exit(main())
