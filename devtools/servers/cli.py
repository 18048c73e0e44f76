"""Private database servers for the tests: MariaDB and PostgreSQL, alone and in clusters.

    scripts/servers start [NAME...]           start them; prints one KEY=URL line each
    scripts/servers env [NAME...]             the same lines for the servers that run
    scripts/servers status [NAME...]          exit status 0 if all of them run, 1 if not
    scripts/servers restart [--kill] NAME...  stop and start on the same port and data
    scripts/servers kill NAME...              SIGKILL, as a crash would; "start" recovers the data
    scripts/servers stop [--keep] [NAME...]   stop and remove the data (--keep: leave the data)
    scripts/servers missing [NAME...]         those not installed, with their Debian packages

Without a NAME, mariadb and postgresql are meant; status, env and stop also mean the clusters that
were started.  Those are started by name only:

    scripts/servers start galera              three nodes; GALERA_URLS has their URLs, with commas
    scripts/servers kill galera:2             one node; "start" has it join again.  restart and
                                              stop likewise (stop without --keep: it will need a
                                              whole copy of the data when it is started)
    scripts/servers cut galera:3              a node that is alive, and sees no other node
    scripts/servers heal galera:3             it sees them again
    scripts/servers start [--sync] replica    a PostgreSQL primary and its hot standby; --sync: a
                                              commit waits until the standby has it on disk
    scripts/servers promote replica           SIGKILL the primary, make the standby the primary
    scripts/servers kill replica:standby      one of the two, also replica:primary

Each server has its own data directory, listens on a port of its own on 127.0.0.1 only, and runs
as an unprivileged user.  Its durability is the default one: these tests kill servers and then ask
what was lost.  Everything is kept in .servers in the checkout, or in the directory SERVERS_DIR.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import glob
import json
import locale
import os
import pwd
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from devtools import CHECKOUT

RUNTIME = Path(os.environ.get("SERVERS_DIR") or CHECKOUT / ".servers").absolute()

START_SECONDS = 60  # until the first answered query
STOP_SECONDS = 30  # until SIGKILL
QUERY_SECONDS = 10  # for one query of ours
RETRY_SECONDS = 5  # for a server that dies when it is started on data that was good before
POLL_SECONDS = 0.05

SOCKET_PATH_BYTES = 107  # the kernel's limit for the path of a unix socket

DATABASE = USER = "tasks"
PASSWORD = "tasks"  # noqa: S105  # of servers that nobody else can reach, and that soon are gone


class Problem(Exception):
    """Something the user must read; the text is the whole message."""


def say(text: str) -> None:
    """Tell the user; standard output is kept for the KEY=URL lines."""
    print(text, file=sys.stderr, flush=True)


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Put Ctrl-C and the like off until the end of the block.

    By handlers and not by a mask or SIG_IGN: those two a server started meanwhile would inherit.
    """
    came: list[int] = []
    former = {
        number: signal.signal(number, lambda number, frame: came.append(number))
        for number in heeded_signals()
    }
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt


def heeded_signals() -> list[signal.Signals]:
    """Those that ask us to end, unless our caller has us ignore them (as nohup does)."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]


# Processes ---------------------------------------------------------------------------------------


def process_stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third (the state) on; None if there is no process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in parentheses, and may itself contain some.
    return text.rpartition(")")[2].split()


def started_at(pid: int) -> str | None:
    """When the process started, in the kernel's ticks; None if it does not run (any more).

    A pid together with this number names one process for ever: a recycled pid has another one.
    """
    stat = process_stat(pid)
    # A zombie has ended; its parent (in a container perhaps one that never reaps) did not look.
    if stat is None or stat[0] in "ZX":
        return None
    return stat[19]


class Process:
    """One process, known by its pid and its start time."""

    def __init__(self, pid: int, started: str) -> None:
        self.pid = pid
        self.started = started

    def runs(self) -> bool:
        return started_at(self.pid) == self.started

    def signal(self, number: signal.Signals) -> None:
        if self.runs():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def children(self) -> list[Process]:
        found = []
        for entry in os.listdir("/proc"):
            stat = process_stat(int(entry)) if entry.isdigit() else None
            if stat is not None and stat[1] == str(self.pid) and stat[0] not in "ZX":
                found.append(Process(int(entry), stat[19]))
        return found

    def kill(self) -> None:
        """SIGKILL the process and its children, and wait until they have gone.

        PostgreSQL's children outlive their parent for a moment, and as long as one of them is
        there the data cannot be opened again.  The parent is stopped first, so that no child
        is born between the listing and the killing.
        """
        self.signal(signal.SIGSTOP)
        family = [self, *self.children()]
        for process in family:
            process.signal(signal.SIGKILL)
        if not wait_until(lambda: not any(process.runs() for process in family), STOP_SECONDS):
            raise Problem(f"Process {self.pid} did not end after SIGKILL.")


# Users, directories, ports -----------------------------------------------------------------------


def run_as(user: str) -> dict[str, Any]:
    """The arguments that make subprocess run a program as this user."""
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam(user)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def unprivileged_user(candidates: list[str]) -> str:
    """The user to run a server as: ourselves, but never root (PostgreSQL refuses to)."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid()).pw_name
    for name in [*candidates, "nobody"]:
        with contextlib.suppress(KeyError):
            if pwd.getpwnam(name).pw_uid != 0:
                return name
    raise Problem(f"There is none of the users {', '.join(candidates)}, nobody to run a server as.")


def is_reachable(directory: Path, user: str) -> bool:
    """Whether the user may pass through the directory and all above it."""
    command = ["test", "-x", str(directory)]
    return subprocess.run(command, cwd="/", **run_as(user)).returncode == 0


def make_directory(name: str, user: str) -> Path:
    """An empty directory for one server, in the runtime directory where the user can reach it."""
    directory = RUNTIME / name
    longest = len(os.fsencode(directory / "socket"))
    if is_reachable(RUNTIME, user) and longest <= SOCKET_PATH_BYTES:
        if directory.exists():
            shutil.rmtree(directory)  # left by a start that was killed before it took a note
        directory.mkdir(mode=0o700)
    else:
        # /var/tmp and not /tmp, which may be in memory, where a sync to disk costs nothing.
        directory = Path(tempfile.mkdtemp(prefix=f"{name}-", dir="/var/tmp"))
    if os.geteuid() == 0:
        entry = pwd.getpwnam(user)
        os.chown(directory, entry.pw_uid, entry.pw_gid)
    return directory


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the servers do: connections of a former server that linger do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            # Binding alone succeeds beside another listener that is not listening yet.
            probe.listen(1)
        except OSError:
            return False
    return True


def free_port() -> int:
    """A port that the operating system says is free, below those it gives to outgoing connections.

    A server is stopped and started again on its port while clients try to connect all the time.
    From the range of outgoing ports, one of these connections could take the port meanwhile; it
    could even connect to itself.
    """
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
        outgoing = int(text.split()[0])
    except OSError:
        outgoing = 32768
    candidates = range(10240, outgoing) if outgoing > 12000 else range(10240, 65536)
    for port in random.sample(candidates, 100):
        if port_is_free(port):
            return port
    raise Problem("There is no free port on 127.0.0.1.")


def find_directory(programs: list[str], patterns: list[str]) -> Path | None:
    """The directory that has the first program, if the others are there or on PATH too."""
    found = shutil.which(programs[0])
    directories = [Path(found).resolve().parent] if found else []
    for pattern in patterns:
        matches = [Path(match) for match in glob.glob(pattern)]
        directories += sorted(matches, key=version_in, reverse=True)
    for directory in directories:
        has_server = os.access(directory / programs[0], os.X_OK)
        if has_server and all(program_path(program, directory) for program in programs):
            return directory
    return None


def version_in(directory: Path) -> float:
    """15.0 for /usr/lib/postgresql/15/bin, so that 9.6 sorts before 15."""
    try:
        return float(directory.parent.name)
    except ValueError:
        return 0.0


def program_path(program: str, directory: Path) -> str | None:
    return shutil.which(program, path=str(directory)) or shutil.which(program)


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    (RUNTIME / "logs").mkdir(parents=True, exist_ok=True)
    with open(RUNTIME / f"{name}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# Servers -----------------------------------------------------------------------------------------


class Server:
    """One private server process; a subclass says how its kind is made, started and asked.

    A kind that needs several processes (a cluster, a replica) is several servers with names of
    their own, added to SERVERS; what they must know of each other they read from `note()`.
    """

    name: str
    title: str
    packages: str  # what Debian calls what is needed
    programs: list[str]  # the server itself comes first
    places: list[str] = []  # where to look besides PATH
    users: list[str] = []  # whom to run it as, if we are root
    stop_signal = signal.SIGTERM

    @property
    def url_key(self) -> str:
        return f"{self.file_name.upper().replace('-', '_')}_URL"

    @property
    def file_name(self) -> str:
        """A colon would make rsync take a path for that of another host."""
        return self.name.replace(":", "-")

    @property
    def lock_name(self) -> str:
        """The servers of a cluster know of each other, so a cluster has one lock."""
        return self.name.partition(":")[0]

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
        """What remains to be done once a new server answers."""

    # What is written down about it

    @property
    def note_file(self) -> Path:
        return RUNTIME / f"{self.file_name}.json"

    @property
    def log_file(self) -> Path:
        return RUNTIME / "logs" / f"{self.file_name}.log"

    def note(self) -> dict[str, Any]:
        """directory, user, port, and once they are known: pid, started, ready (data is whole)."""
        try:
            note: dict[str, Any] = json.loads(self.note_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return note

    def write_note(self, **changes: Any) -> None:
        text = json.dumps({**self.note(), **changes}, indent=2) + "\n"
        new = self.note_file.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.replace(self.note_file)  # a reader sees the old note or the new one, never half of it

    @property
    def directory(self) -> Path:
        return Path(self.note()["directory"])

    @property
    def port(self) -> int:
        return int(self.note()["port"])

    def process(self) -> Process | None:
        """The running server, None if it does not run."""
        note = self.note()
        if "pid" not in note:
            return None
        process = Process(note["pid"], note["started"])
        return process if process.runs() else None

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """One command at a time for each server."""
        with locked(self.lock_name):
            yield

    # Programs

    def installed_in(self) -> Path | None:
        return find_directory(self.programs, self.places)

    def bin(self) -> Path:
        directory = self.installed_in()
        if directory is None:
            raise Problem(f"{self.title} is not installed (Debian packages: {self.packages}).")
        return directory

    def program(self, name: str) -> str:
        return program_path(name, self.bin()) or name

    def run(self, command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a program that ends by itself, as the server's user."""
        user = self.note()["user"]
        environment = {**self.environment(), **options.pop("env", {})}
        return subprocess.run(
            command,
            env=environment,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            **run_as(user),
            **options,
        )

    def environment(self) -> dict[str, str]:
        """Nothing of ours but PATH: PGPORT, MYSQL_HOST or TZ must not reach the servers."""
        return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": utf8_locale()}

    def run_logged(self, command: list[str]) -> None:
        """For what makes the data directory; it takes a second and has children of its own."""
        with open(self.log_file, "a", encoding="utf-8") as log, undisturbed():
            if self.run(command, stdout=log, stderr=log).returncode != 0:
                raise Problem(f"{Path(command[0]).name} failed: {self.end_of_log()}")

    def end_of_log(self) -> str:
        lines = self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n    ".join([f"the end of {self.log_file}:", *lines[-30:]])

    # What a user can ask for

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
            child = self.spawn()

            def settled(child: subprocess.Popen[bytes] = child) -> bool:
                return child.poll() is not None or self.answers()

            if not wait_until(settled, deadline - time.monotonic()):
                raise Problem(
                    f"{self.title} did not answer in {START_SECONDS} seconds: {self.end_of_log()}"
                )
            if child.poll() is None:
                return
            # Somebody may have the port for a moment, and when a test has killed PostgreSQL its
            # children may still have the data.  Whatever else it died of, it would die of again.
            ready = self.note().get("ready")
            if port_is_free(self.port) and not (ready and time.monotonic() < retry_until):
                break
            if not ready:
                self.write_note(port=free_port())
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

    def answers(self) -> bool:
        try:
            return self.query("SELECT 1", self.first_database()).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def first_database(self) -> str:
        """The database that is there from the first moment on."""
        return DATABASE

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
        note = self.note()
        if "directory" in note:
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(note["directory"])
        self.forget()

    def forget(self) -> None:
        self.note_file.unlink(missing_ok=True)

    def status(self) -> bool:
        process = self.process()
        if process is not None:
            print(f"{self.name}: running, pid {process.pid}, port {self.port}")
        elif "directory" in self.note():
            print(f"{self.name}: stopped, data kept in {self.directory}")
        else:
            print(f"{self.name}: not started")
        return process is not None

    def print_if_missing(self) -> None:
        if self.installed_in() is None:
            print(self.name, self.packages)

    def print_url(self) -> None:
        if self.process() is not None:
            print(f"{self.url_key}={self.url(self.port)}", flush=True)


class MariaDB(Server):
    name = "mariadb"
    title = "MariaDB"
    packages = "mariadb-server-core mariadb-client-core"
    programs = ["mariadbd", "mariadb-install-db", "mariadb"]
    places = ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/usr/libexec"]
    users = ["mysql"]

    def url(self, port: int) -> str:
        return f"mysql://{USER}:{PASSWORD}@127.0.0.1:{port}/{DATABASE}"

    def initialise(self) -> None:
        (self.directory / "init.sql").write_text(self.first_sql(), encoding="utf-8")
        make = self.program("mariadb-install-db")
        self.run_logged(
            [
                make,
                "--no-defaults",  # must come first; /etc/my.cnf is for other servers
                f"--datadir={self.directory / 'data'}",
                "--auth-root-authentication-method=socket",
                "--skip-test-db",
            ]
        )

    def first_sql(self) -> str:
        lines = [f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4;"]
        # MariaDB knows the same client as "localhost" or by its address, and as two users.
        for host in ("localhost", "127.0.0.1"):
            lines += [
                f"CREATE USER '{USER}'@'{host}' IDENTIFIED BY '{PASSWORD}';",
                f"GRANT ALL ON *.* TO '{USER}'@'{host}' WITH GRANT OPTION;",
            ]
        return "\n".join(lines) + "\n"

    def command(self) -> list[str]:
        directory = self.directory
        command = [
            self.program("mariadbd"),
            "--no-defaults",
            f"--datadir={directory / 'data'}",
            f"--tmpdir={directory}",
            f"--socket={directory / 'socket'}",
            f"--pid-file={directory / 'pid'}",
            "--bind-address=127.0.0.1",
            f"--port={self.port}",
            "--max-connections=300",
            "--character-set-server=utf8mb4",
            # On purpose: nothing may depend on the time zone of the server.
            "--default-time-zone=+08:00",
        ]
        if not self.note().get("ready"):
            command.append(f"--init-file={directory / 'init.sql'}")
        return command

    def query(self, sql: str, database: str = DATABASE) -> subprocess.CompletedProcess[str]:
        return self.run(
            [
                self.program("mariadb"),
                "--no-defaults",
                "--protocol=tcp",
                "--host=127.0.0.1",
                f"--port={self.port}",
                f"--user={USER}",
                f"--database={database}",
                f"--execute={sql}",
            ],
            env={"MYSQL_PWD": PASSWORD},
            capture_output=True,
            timeout=QUERY_SECONDS,
        )


class PostgreSQL(Server):
    name = "postgresql"
    title = "PostgreSQL"
    packages = "postgresql"
    programs = ["postgres", "initdb", "psql"]
    # Debian keeps the servers of all versions there, and off PATH.
    places = ["/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"]
    users = ["postgres"]
    stop_signal = signal.SIGINT  # the "fast" stop: does not wait for the clients to leave

    def url(self, port: int) -> str:
        return f"postgres://{USER}:{PASSWORD}@127.0.0.1:{port}/{DATABASE}"

    def initialise(self) -> None:
        password_file = self.directory / "password"
        password_file.write_text(PASSWORD + "\n", encoding="utf-8")
        self.run_logged(
            [
                self.program("initdb"),
                f"--pgdata={self.directory / 'data'}",
                f"--username={USER}",  # the superuser: the tests terminate backends
                # Readable for the server's user, who owns the directory above.
                f"--pwfile={password_file}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                f"--locale={utf8_locale()}",
            ]
        )

    def command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",  # none: nobody needs one
            "max_connections": 300,
            # On purpose: nothing may depend on the time zone of the server.
            "timezone": "Asia/Shanghai",
        }
        command = [self.program("postgres"), "-D", str(self.directory / "data")]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        return command

    def query(self, sql: str, database: str = DATABASE) -> subprocess.CompletedProcess[str]:
        return self.run(
            [
                self.program("psql"),
                "--no-psqlrc",
                "--tuples-only",
                "--no-align",
                "--host=127.0.0.1",
                f"--port={self.port}",
                f"--username={USER}",
                f"--dbname={database}",
                f"--command={sql}",
            ],
            env={"PGPASSWORD": PASSWORD},
            capture_output=True,
            timeout=QUERY_SECONDS,
        )

    def value(self, sql: str) -> str:
        """The answer to a query for one value; "" if there is none."""
        return self.query(sql).stdout.strip()

    def first_database(self) -> str:
        return DATABASE if self.note().get("ready") else "postgres"

    def prepare(self) -> None:
        answer = self.query(f"CREATE DATABASE {DATABASE}", "postgres")
        if answer.returncode != 0:
            raise Problem(f"PostgreSQL could not make the database: {answer.stderr.strip()}")


def utf8_locale() -> str:
    """C.UTF-8 knows that É is the upper case of é; not every system has it."""
    try:
        locale.setlocale(locale.LC_CTYPE, "C.UTF-8")
    except locale.Error:
        return "C"
    return "C.UTF-8"


# Clusters ----------------------------------------------------------------------------------------


class Cluster:
    """Several servers that are started together, and one by one by names like ``galera:2``."""

    name: str
    title: str
    members: Sequence[Server]

    def start(self, sync: bool = False) -> None:
        raise NotImplementedError

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        with locked(self.name):
            yield

    def was_started(self) -> bool:
        return any(member.note() for member in self.members)

    def stop(self, keep: bool = False) -> None:
        """The last started first: whoever stops last knows everything and can start alone."""
        for member in reversed(self.members):
            member.stop(keep=keep)
        if not keep:
            for member in self.members:
                member.forget()

    def kill(self) -> None:
        for member in self.members:
            if member.process() is not None:
                member.kill()

    def restart(self, kill: bool = False) -> None:
        if not self.was_started():
            raise Problem(f"{self.title} was never started.")
        if kill:
            self.kill()
        else:
            self.stop(keep=True)
        self.start()

    def status(self) -> bool:
        statuses = [member.status() for member in self.members]  # each of them prints
        return all(statuses)

    def print_if_missing(self) -> None:
        missing = [member for member in self.members if member.installed_in() is None]
        if missing:
            print(self.name, missing[0].packages)

    def print_url(self) -> None:
        for member in self.members:
            member.print_url()


class GaleraNode(MariaDB):
    """A node of a Galera cluster, in which every node takes writes.

    Its note keeps the ports until the cluster is forgotten, because the other nodes know them.
    """

    packages = "mariadb-server-core mariadb-client-core galera-4 rsync lsof"
    programs = [*MariaDB.programs, "rsync"]
    LIBRARIES = ["/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera*/libgalera_smm.so"]
    # The programs of the full transfer of a node's data. In Debian they are in mariadb-server,
    # with a service that nobody wants here: see unpack_transfer.
    TRANSFER = ["wsrep_sst_rsync", "wsrep_sst_common"]

    def __init__(self, number: int, cluster: Galera) -> None:
        self.number = number
        self.cluster = cluster
        self.name = f"galera:{number}"
        self.title = f"Galera node {number}"

    # Programs

    def installed_in(self) -> Path | None:
        return super().installed_in() if self.library() else None

    def library(self) -> str | None:
        return next((path for pattern in self.LIBRARIES for path in glob.glob(pattern)), None)

    def environment(self) -> dict[str, str]:
        """MariaDB looks for the transfer's programs on PATH, and they for each other."""
        environment = super().environment()
        transfer = self.note().get("directory", "") + "/transfer"
        environment["PATH"] += f":{transfer}:/usr/sbin:/sbin"
        return environment

    def unpack_transfer(self) -> None:
        """Take the transfer's programs out of Debian's package without installing it."""
        directory = self.directory / "transfer"
        directory.mkdir()
        if all(shutil.which(program) for program in self.TRANSFER):
            return
        package = self.transfer_package()
        paths = [f"./usr/bin/{program}" for program in self.TRANSFER]
        with subprocess.Popen(
            ["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE
        ) as tar:
            command = ["tar", "-x", "--strip-components=3", "-C", str(directory), *paths]
            if subprocess.run(command, stdin=tar.stdout).returncode != 0:
                raise Problem(f"There is no {' and '.join(self.TRANSFER)} in {package.name}.")
        directory.chmod(0o755)

    def transfer_package(self) -> Path:
        """Debian's mariadb-server as a file, fetched once."""
        kept = RUNTIME / "packages"
        kept.mkdir(exist_ok=True)
        if not list(kept.glob("mariadb-server_*.deb")):
            command = ["apt-get", "-qq", "download", "mariadb-server"]
            done = subprocess.run(command, cwd=kept, capture_output=True, text=True)
            if done.returncode != 0:
                raise Problem(f"{self.title} needs {self.TRANSFER[0]}: {done.stderr.strip()}")
        return next(kept.glob("mariadb-server_*.deb"))

    # Its data and its command line

    def claim_ports(self) -> None:
        """Before any node starts: each of them is told where all the others are."""
        names = ("port", "group_port", "transfer_port", "increment_port")
        if not self.note():
            self.write_note(**{name: free_port() for name in names})

    def create(self) -> None:
        self.log_file.write_text("", encoding="utf-8")
        self.bin()
        user = unprivileged_user(self.users)
        self.write_note(directory=str(make_directory(self.file_name, user)), user=user)
        self.unpack_transfer()
        self.initialise()

    def initialise(self) -> None:
        """Only the first node makes data; the others get it from a node that has it."""
        if self.cluster.others_running(self):
            self.run_logged(["mkdir", str(self.directory / "data")])
        else:
            super().initialise()

    def remove(self) -> None:
        """Without its data a node is a new one, at the old place."""
        note = self.note()
        if "directory" in note:
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(note["directory"])
            self.write_note(directory=None, ready=False, position=None)

    def note(self) -> dict[str, Any]:
        note = super().note()
        return {name: value for name, value in note.items() if value is not None}

    def settings(self) -> dict[str, Any]:
        note = self.note()
        local = "127.0.0.1"
        group = f"gmcast.listen_addr=tcp://{local}:{note['group_port']}"
        increment = f"ist.recv_addr=tcp://{local}:{note['increment_port']}"
        return {
            "wsrep-on": "ON",
            "wsrep-provider": self.library(),
            "wsrep-provider-options": f"{group};{increment}",
            "wsrep-cluster-name": "tasks",
            "wsrep-cluster-address": f"gcomm://{self.cluster.addresses()}",
            "wsrep-node-name": self.file_name,
            "wsrep-node-address": f"{local}:{note['group_port']}",
            "wsrep-node-incoming-address": f"{local}:{note['port']}",
            "wsrep-sst-method": "rsync",
            "wsrep-sst-receive-address": f"{local}:{note['transfer_port']}",
            "binlog-format": "ROW",
            "innodb-autoinc-lock-mode": 2,
        }

    def server_command(self) -> list[str]:
        return super().command() + [f"--{key}={value}" for key, value in self.settings().items()]

    def command(self) -> list[str]:
        command = self.server_command()
        position = self.note().get("position")
        if position is not None:
            command.append(f"--wsrep-start-position={position}")
        if not self.cluster.others_running(self):
            return [*command, "--wsrep-new-cluster"]
        # The others' node has made the users already.
        return [option for option in command if not option.startswith("--init-file=")]

    # Starting

    def start(self) -> None:
        self.claim_ports()
        if not (self.cluster.may_begin(self) or self.cluster.others_running(self)):
            raise Problem('No other node runs: "start galera" knows which of them has to begin.')
        if self.process() is None and self.note().get("ready"):
            self.recover()
        super().start()

    def recover(self) -> None:
        """Ask the data how far it has come, so that a killed node needs only what it missed."""
        log = self.directory / "recovery.log"
        log.unlink(missing_ok=True)
        self.run_logged([*self.server_command(), "--wsrep-recover", f"--log-error={log}"])
        text = log.read_text(encoding="utf-8", errors="replace")
        found = re.findall(r"Recovered position:? *(\S+:-?\d+)", text)
        self.write_note(position=found[-1] if found else None)

    def sequence_number(self) -> int:
        return int(self.note().get("position", ":-1").rpartition(":")[2])

    def allow_to_begin(self) -> None:
        """After all nodes have gone, Galera lets only the one that knows itself the last begin."""
        state = self.directory / "data" / "grastate.dat"
        text = state.read_text(encoding="utf-8")
        state.write_text(
            text.replace("safe_to_bootstrap: 0", "safe_to_bootstrap: 1"), encoding="utf-8"
        )

    def answers(self) -> bool:
        return self.state() == "Synced" and super().answers()

    # What it says of itself

    def variable(self, name: str) -> str:
        """One of its status variables; "" if it does not answer. Works on a cut-off node too."""
        try:
            answer = self.query(f"SHOW STATUS LIKE '{name}'", database="")
        except subprocess.TimeoutExpired:
            return ""
        words = answer.stdout.split("\n")[1:2]  # below the headings
        return words[0].partition("\t")[2] if answer.returncode == 0 and words else ""

    def state(self) -> str:
        return self.variable("wsrep_local_state_comment")

    def is_in_cluster(self) -> bool:
        return self.variable("wsrep_cluster_status") == "Primary"

    def status(self) -> bool:
        if not super().status():
            return False
        size, state = self.variable("wsrep_cluster_size"), self.state()
        print(f"    {self.variable('wsrep_cluster_status')}, {state}, {size} nodes seen")
        return state == "Synced"

    # Cutting it off

    def isolate(self, cut: bool) -> None:
        if self.process() is None:
            raise Problem(f"{self.title} is not running.")
        options = f"gmcast.isolate={int(cut)}"
        answer = self.query(f"SET GLOBAL wsrep_provider_options='{options}'", database="")
        if answer.returncode != 0:
            raise Problem(f"{self.title}: {answer.stderr.strip()}")

    def cut(self) -> None:
        """Let it hear no other node any more, and wait until all of them have noticed."""
        others = self.cluster.others_running(self)
        self.isolate(True)
        if not wait_until(lambda: not self.is_in_cluster(), START_SECONDS):
            raise Problem(f"{self.title} still believes that it is not alone.")
        self.cluster.wait_for(others)
        say(f"{self.title} is cut off.")

    def heal(self) -> None:
        self.isolate(False)
        if not wait_until(lambda: self.state() == "Synced", START_SECONDS):
            raise Problem(f"{self.title} did not come back: {self.end_of_log()}")
        self.cluster.wait_for([self, *self.cluster.others_running(self)])
        say(f"{self.title} sees the others again.")


class Galera(Cluster):
    name = "galera"
    title = "Galera"

    def __init__(self) -> None:
        self.nodes = [GaleraNode(number, self) for number in (1, 2, 3)]
        self.members = self.nodes
        self.beginner: GaleraNode | None = None

    def addresses(self) -> str:
        return ",".join(f"127.0.0.1:{node.note()['group_port']}" for node in self.nodes)

    def others_running(self, node: GaleraNode) -> list[GaleraNode]:
        return [other for other in self.nodes if other is not node and other.process() is not None]

    def start(self, sync: bool = False) -> None:
        for node in self.nodes:
            node.claim_ports()
        order = self.order()
        self.beginner = order[0]
        for node in order:
            node.start()
        self.wait_for(self.nodes)

    def may_begin(self, node: GaleraNode) -> bool:
        """A second cluster beside the data of a stopped one would be two truths."""
        others = [other for other in self.nodes if other is not node]
        return node is self.beginner or not any(other.note().get("ready") for other in others)

    def order(self) -> list[GaleraNode]:
        """If none runs, whoever has the most of the data begins, and the others follow it."""
        ready = [node for node in self.nodes if node.note().get("ready")]
        if not ready or any(node.process() for node in self.nodes):
            return self.nodes
        for node in ready:
            node.recover()
        first = max(ready, key=GaleraNode.sequence_number)
        first.allow_to_begin()
        return [first, *(node for node in self.nodes if node is not first)]

    def wait_for(self, nodes: Sequence[GaleraNode]) -> None:
        """Until these nodes, and no others, are one cluster."""

        def are_one() -> bool:
            return all(
                node.variable("wsrep_cluster_size") == str(len(nodes)) and node.state() == "Synced"
                for node in nodes
            )

        if not wait_until(are_one, START_SECONDS):
            raise Problem(f"The nodes did not become a cluster of {len(nodes)}.")

    def print_url(self) -> None:
        urls = [node.url(node.port) for node in self.nodes if node.process() is not None]
        if urls:
            print(f"GALERA_URLS={','.join(urls)}")
            print(f"GALERA_URL={urls[0]}", flush=True)


class Primary(PostgreSQL):
    name = "replica:primary"
    title = "PostgreSQL's primary"

    def start(self) -> None:
        if self.note().get("replaced"):
            raise Problem('The standby was promoted; for a new pair "stop replica" first.')
        super().start()

    def prepare(self) -> None:
        super().prepare()
        # The slot keeps what the standby has not got yet, however long it is away.
        self.query("SELECT pg_create_physical_replication_slot('standby')")

    def demand_standby(self, sync: bool) -> None:
        """Whether a commit waits for the standby. Only here: the standby must not wait for one."""
        names = "'standby'" if sync else "''"
        for sql in (f"ALTER SYSTEM SET synchronous_standby_names = {names}", RELOAD):
            answer = self.query(sql)
            if answer.returncode != 0:
                raise Problem(f"{self.title}: {answer.stderr.strip()}")

    def sync_state(self) -> str:
        return self.value("SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'")


class Standby(PostgreSQL):
    name = "replica:standby"
    title = "PostgreSQL's standby"
    programs = [*PostgreSQL.programs, "pg_basebackup"]

    def __init__(self, primary: Primary) -> None:
        self.primary = primary

    def initialise(self) -> None:
        """A copy of the primary, with a file that says whom to follow."""
        source = (
            f"host=127.0.0.1 port={self.primary.port} user={USER} password={PASSWORD}"
            " application_name=standby"
        )
        self.run_logged(
            [
                self.program("pg_basebackup"),
                f"--dbname={source}",
                f"--pgdata={self.directory / 'data'}",
                "--slot=standby",
                "--write-recovery-conf",
                "--checkpoint=fast",
            ]
        )

    def first_database(self) -> str:
        return DATABASE

    def prepare(self) -> None:
        """It has the database of the primary."""

    def promote(self) -> None:
        answer = self.query(f"SELECT pg_promote(true, {START_SECONDS})")
        if answer.returncode != 0 or self.value("SELECT pg_is_in_recovery()") != "f":
            raise Problem(f"{self.title} was not promoted: {self.end_of_log()}")
        self.write_note(promoted=True)
        say(f"{self.title} is the primary now.")


RELOAD = "SELECT pg_reload_conf()"


class Replica(Cluster):
    name = "replica"
    title = "The replica"

    def __init__(self) -> None:
        self.primary = Primary()
        self.standby = Standby(self.primary)
        self.members = [self.primary, self.standby]

    def start(self, sync: bool = False) -> None:
        self.primary.start()
        self.standby.start()
        self.primary.demand_standby(sync)
        wanted = "sync" if sync else "async"
        if not wait_until(lambda: self.primary.sync_state() == wanted, START_SECONDS):
            raise Problem(f"The standby does not follow: {self.standby.end_of_log()}")

    def promote(self) -> None:
        if self.standby.process() is None:
            raise Problem(f"{self.standby.title} is not running.")
        if self.primary.process() is not None:
            self.primary.kill()
        # Two primaries would be two truths: from here on the old one cannot be started.
        self.primary.write_note(replaced=True)
        if self.primary_now() is not self.standby:
            self.standby.promote()

    def primary_now(self) -> PostgreSQL:
        return self.standby if self.standby.note().get("promoted") else self.primary

    def print_url(self) -> None:
        super().print_url()
        now = self.primary_now()
        if now.process() is not None:
            print(f"REPLICA_URL={now.url(now.port)}", flush=True)


SINGLE: dict[str, Server] = {server.name: server for server in (MariaDB(), PostgreSQL())}
CLUSTERS: dict[str, Cluster] = {cluster.name: cluster for cluster in (Galera(), Replica())}
MEMBERS = {member.name: member for cluster in CLUSTERS.values() for member in cluster.members}
SERVERS: dict[str, Server | Cluster] = {**SINGLE, **CLUSTERS, **MEMBERS}


# The command line --------------------------------------------------------------------------------

COMMANDS = ["start", "env", "status", "restart", "kill", "stop", "missing"]
COMMANDS += ["cut", "heal", "promote"]  # for clusters only


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        sub = commands.add_parser(command)
        some = "+" if command in ("restart", "kill", "cut", "heal", "promote") else "*"
        known = names_for(command)
        sub.add_argument("names", nargs=some, metavar="NAME", help=", ".join(known))
        if command == "start":
            sub.add_argument("--sync", action="store_true", help="commits wait for the replica")
        if command == "restart":
            sub.add_argument("--kill", action="store_true", help="SIGKILL instead of a clean stop")
        if command == "stop":
            sub.add_argument("--keep", action="store_true", help="do not remove the data")
    options = parser.parse_args(arguments)
    known = names_for(options.command)
    for name in options.names:
        if name not in known:
            parser.error(f"{options.command}: there is no {name}, only {', '.join(known)}")
    return options


def names_for(command: str) -> list[str]:
    if command in ("cut", "heal"):
        return [name for name, server in MEMBERS.items() if isinstance(server, GaleraNode)]
    if command == "promote":
        return [name for name, cluster in CLUSTERS.items() if isinstance(cluster, Replica)]
    return list(SERVERS)


def meant_by_none(command: str) -> list[str]:
    """Whom a command without names is for."""
    if command not in ("env", "status", "stop"):
        return list(SINGLE)
    return [*SINGLE, *(name for name, cluster in CLUSTERS.items() if cluster.was_started())]


def carry_out(options: argparse.Namespace, server: Server | Cluster) -> bool:
    """Do what was asked for with one server; False only for a status that is not "running"."""
    if options.command == "status":
        return server.status()
    if options.command == "env":
        server.print_url()
        return True
    if options.command == "missing":
        server.print_if_missing()
        return True
    with server.locked():
        change(options, server)
    return True


def change(options: argparse.Namespace, server: Server | Cluster) -> None:
    if options.command == "start":
        if isinstance(server, Cluster):
            server.start(sync=options.sync)
        else:
            server.start()
    elif options.command == "restart":
        server.restart(kill=options.kill)
    elif options.command == "kill":
        server.kill()
    elif options.command == "stop":
        server.stop(keep=options.keep)
    elif isinstance(server, GaleraNode):
        server.cut() if options.command == "cut" else server.heal()
    elif isinstance(server, Replica):
        server.promote()
    if options.command in ("start", "restart", "promote"):
        server.print_url()


def leave(number: int, frame: FrameType | None) -> None:
    """All of them end us as Ctrl-C does: by way of the cleaning up."""
    raise KeyboardInterrupt


def main() -> int:
    options = parse(sys.argv[1:])
    if not os.path.exists("/proc/self/stat"):
        say("scripts/servers needs Linux: it knows its processes by /proc.")
        return 1
    for number in heeded_signals():
        signal.signal(number, leave)
    good = True
    for name in options.names or meant_by_none(options.command):
        try:
            good = carry_out(options, SERVERS[name]) and good
        except Problem as problem:
            say(str(problem))
            good = False
        except KeyboardInterrupt:
            return 130
    return 0 if good else 1
