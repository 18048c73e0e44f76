"""One private server, and what a user can ask of it."""

import shutil
import signal
import subprocess
import time
from contextlib import suppress

from devtools.interruption import undisturbed
from devtools.messages import Problem, say
from devtools.servers.installed import Installed
from devtools.servers.places import make_directory
from devtools.servers.ports import free_port, port_is_free
from devtools.servers.process import started_at
from devtools.servers.users import run_as, unprivileged_user
from devtools.servers.waiting import POLL_SECONDS, START_SECONDS, STOP_SECONDS, wait_until

DATABASE = USER = "tasks"
PASSWORD = "tasks"  # noqa: S105  # of servers that nobody else can reach, and that soon are gone

QUERY_SECONDS = 10  # for one query of ours
RETRY_SECONDS = 5  # for a server that dies when it is started on data that was good before


class Server(Installed):
    """One private server process; a subclass says how its kind is made, started and asked.

    A kind that needs several processes (a cluster, a replica) is several servers with names of
    their own, added to SERVERS; what they must know of each other they read from `note()`.
    """

    users: list[str] = []  # candidates to run it as, if we are root
    stop_signal = signal.SIGTERM

    # Of each kind its own

    def url(self, port: int) -> str:
        raise NotImplementedError

    def initialise(self) -> None:
        """Fill the empty directory with a new data directory."""
        raise NotImplementedError

    def command(self) -> list[str]:
        """The server's own command line; it stays in the foreground and logs to stderr."""
        raise NotImplementedError

    def query(self, sql: str, database: str = DATABASE) -> subprocess.CompletedProcess[str]:
        raise NotImplementedError

    def prepare(self) -> None:
        """Do the rest once a new server answers."""

    def first_database(self) -> str:
        """The database that is there from the first moment on."""
        return DATABASE

    # Starting

    def start(self) -> None:
        if self.process() is not None:
            say(f"{self.title} is already running on port {self.port}.")
            return
        new = not self.note().get("ready")
        try:
            if new:
                self.remove()
                self.create()
            self.launch()
            if new:
                self.prepare()
                self.write_note(ready=True)
        except BaseException:  # also Ctrl-C: nothing half made is left behind
            with undisturbed():
                self.give_up(remove=new)
            raise
        say(f"{self.title} is running on port {self.port}.")

    def give_up(self, remove: bool) -> None:
        process = self.process()
        if process is not None:
            process.kill()
        if remove:
            self.remove()

    def create(self) -> None:
        """Make the data directory; the note comes first, so that nothing is ever lost sight of."""
        self.log_file.write_text("", encoding="utf-8")
        self.bin()
        user = unprivileged_user(self.users)
        directory = make_directory(self.file_name, user)
        self.write_note(directory=str(directory), user=user, port=free_port())
        self.initialise()

    def launch(self) -> None:
        """Start the process and wait until it answers a query."""
        deadline = time.monotonic() + START_SECONDS
        retry_until = time.monotonic() + RETRY_SECONDS
        while time.monotonic() < deadline:
            if self.comes_up(self.spawn(), deadline):
                return
            if not self.may_try_again(retry_until):
                break
            time.sleep(POLL_SECONDS)
        raise Problem(f"{self.title} died at its start: {self.end_of_log()}")

    def spawn(self) -> subprocess.Popen[bytes]:
        with open(self.log_file, "ab") as log, undisturbed():
            child = subprocess.Popen(
                self.command(),
                env=self.environment(),
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # it outlives us, and Ctrl-C in our terminal
                **run_as(self.note()["user"]),
            )
            self.write_note(pid=child.pid, started=started_at(child.pid))
        return child

    def comes_up(self, child: subprocess.Popen[bytes], deadline: float) -> bool:
        """Wait until it answers; False if it died instead."""

        def settled() -> bool:
            return child.poll() is not None or self.answers()

        if not wait_until(settled, deadline - time.monotonic()):
            raise Problem(
                f"{self.title} did not answer in {START_SECONDS} seconds: {self.end_of_log()}"
            )
        return child.poll() is None

    def answers(self) -> bool:
        try:
            return self.query("SELECT 1", self.first_database()).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def may_try_again(self, retry_until: float) -> bool:
        """Tell if it may have died of something that passes; a new server tries another port.

        Somebody may have the port for a moment, and when a test has killed PostgreSQL its
        children may still have the data.  Whatever else it died of, it would die of again.
        """
        ready = self.note().get("ready")
        if port_is_free(self.port) and not (ready and time.monotonic() < retry_until):
            return False
        if not ready:
            self.write_note(port=free_port())
        return True

    # Stopping

    def stop(self, keep: bool = False) -> None:
        process = self.process()
        if process is not None:
            process.signal(self.stop_signal)
            if not wait_until(lambda: not process.runs(), STOP_SECONDS):
                say(f"{self.title} did not stop in {STOP_SECONDS} seconds and is killed.")
                process.kill()
        say(f"{self.title} was not running." if process is None else f"{self.title} is stopped.")
        if not keep:
            self.remove()

    def kill(self) -> None:
        process = self.process()
        if process is None:
            raise Problem(f"{self.title} is not running.")
        process.kill()
        say(f"{self.title} is killed.")

    def restart(self, kill: bool = False) -> None:
        if not self.note().get("ready"):
            raise Problem(f"{self.title} was never started.")
        if self.process() is not None:
            if kill:
                self.kill()
            else:
                self.stop(keep=True)
        self.start()

    def remove(self) -> None:
        self.remove_directory()
        self.forget()

    def remove_directory(self) -> None:
        note = self.note()
        if "directory" in note:
            with suppress(FileNotFoundError):
                shutil.rmtree(note["directory"])

    # Telling

    def was_started(self) -> bool:
        return bool(self.note())

    def status(self) -> bool:
        process = self.process()
        if process is not None:
            print(f"{self.name}: running, pid {process.pid}, port {self.port}")
        elif "directory" in self.note():
            print(f"{self.name}: stopped, data kept in {self.directory}")
        else:
            print(f"{self.name}: not started")
        return process is not None

    def missing_packages(self) -> list[str]:
        """The packages to install; none if the server is installed."""
        return self.packages.split() if self.installed_in() is None else []

    def print_url(self) -> None:
        if self.process() is not None:
            print(f"{self.url_key}={self.url(self.port)}", flush=True)

    @property
    def url_key(self) -> str:
        return f"{self.file_name.upper().replace('-', '_')}_URL"
