"""Probes of ``starttask``: at its start, at work, in an outage, at its stop, and what hangs."""

import http.client
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import connections, transaction

from devtools.servers.ports import free_port, port_is_free
from django_tasks.models import WorkerRow
from tests.integration.conftest import Start, url_of
from tests.integration.process import ROOT, Journal, StartTask
from tests.integration.tasks import add, needs_a_server, workers
from tests.integration.test_starting import copied
from tests.leader import is_alive
from tests.proxy import Proxy
from tests.waiting import DEADLINE, eventually, never

LEASE = ("--lease", "1")


class Probe:
    """Asks at one port, and reads one file."""

    def __init__(self, port: int, file: Path) -> None:
        self.port = port
        self.path = file

    @property
    def flags(self) -> tuple[str, ...]:
        return "--health-port", f"127.0.0.1:{self.port}", "--health-file", str(self.path)

    def ask(self, question: str) -> tuple[int, dict[str, Any]]:
        """The status and the document; status 0 where nobody answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        try:
            connection.request("GET", f"/{question}")
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        except (OSError, http.client.HTTPException):
            return 0, {}
        finally:
            connection.close()

    def state(self) -> tuple[int, int, str]:
        """Both answers, and the state; "" between two states."""
        (live, before), (ready, after) = self.ask("live"), self.ask("ready")
        same = before.get("state") == after.get("state")
        return live, ready, after.get("state", "") if same else ""

    def file(self) -> dict[str, Any]:
        """The content of the file; empty if there is none."""
        with suppress(FileNotFoundError):
            document: dict[str, Any] = json.loads(self.path.read_text("utf-8"))
            return document
        return {}

    def shows(self, live: int, ready: int, state: str, worker: StartTask) -> None:
        """Wait until port and file say so."""
        eventually(
            lambda: self.state() == (live, ready, state), f"{state} at the port", log=worker.log
        )
        said = {"live": live == 200, "ready": ready == 200, "state": state}
        eventually(
            lambda: said.items() <= self.file().items(), f"{said} in the file", log=worker.log
        )


@pytest.fixture
def probe(tmp_path: Path) -> Probe:
    return Probe(free_port(), tmp_path / "health")


# Start, outage, stop


@contextmanager
def workers_locked() -> Iterator[None]:
    """Let nobody write into the table of workers meanwhile: it can be read, and nobody can join."""
    connection, table = connections["default"], WorkerRow._meta.db_table
    with connection.cursor() as cursor:
        if connection.vendor == "mysql":
            cursor.execute(f"LOCK TABLES {table} READ")
            try:
                yield
            finally:
                cursor.execute("UNLOCK TABLES")
            return
        with transaction.atomic():  # on SQLite it has the lock of all that write
            if connection.vendor == "postgresql":
                cursor.execute(f"LOCK TABLE {table} IN SHARE MODE")
            yield


@pytest.mark.parametrize("processes", ["1", "2"])
def test_it_starts_before_it_works(start: Start, probe: Probe, processes: str) -> None:
    with workers_locked():
        worker = start(*probe.flags, "--processes", processes)
        probe.shows(200, 503, "starting", worker)
        assert probe.ask("ready")[1]["reason"] == "The workers on default are starting."
        assert workers() == 0
    probe.shows(200, 200, "working", worker)
    assert worker.stop() == 0


def test_without_its_database_it_is_live_and_ready_when_that_is_there(
    start: Start, journal: Journal, probe: Probe, tmp_path: Path
) -> None:
    if connections["default"].vendor == "sqlite":
        name = tmp_path / "later" / "db.sqlite3"
        worker = start(*probe.flags, DATABASE_URL=f"sqlite:///{name}")
        probe.shows(200, 503, "without_database", worker)
        name.parent.mkdir()
        copied(Path(connections["default"].settings_dict["NAME"]), name)
        probe.shows(200, 200, "working", worker)
        assert worker.stop() == 0
        return
    with Proxy.before(connections["default"].settings_dict) as proxy:
        proxy.close()
        worker = start(*probe.flags, DATABASE_URL=url_of(port=proxy.port))
        probe.shows(200, 503, "without_database", worker)
        proxy.open()
        probe.shows(200, 200, "working", worker)
        assert worker.stop() == 0


@needs_a_server
@pytest.mark.parametrize("processes", ["1", "2"])
def test_an_outage_is_live_and_not_ready(start: Start, probe: Probe, processes: str) -> None:
    with Proxy.before(connections["default"].settings_dict) as proxy:
        url = url_of(port=proxy.port)
        worker = start(*probe.flags, *LEASE, "--processes", processes, DATABASE_URL=url)
        probe.shows(200, 200, "working", worker)
        for _ in range(2):
            proxy.close()
            probe.shows(200, 503, "without_database", worker)
            assert "Database default does not answer" in probe.ask("ready")[1]["reason"]
            never(lambda: probe.ask("live")[0] != 200, "it is dead", seconds=1.5)
            proxy.open()
            probe.shows(200, 200, "working", worker)
        assert worker.stop() == 0


@needs_a_server
def test_a_database_that_says_nothing_at_the_start_holds_up_no_probe(
    start: Start, probe: Probe
) -> None:
    with Proxy.before(connections["default"].settings_dict) as proxy:
        proxy.stall()
        worker = start(*probe.flags, *LEASE, DATABASE_URL=url_of(port=proxy.port))
        probe.shows(200, 503, "without_database", worker)
        proxy.heal()
        probe.shows(200, 200, "working", worker)
        assert worker.stop() == 0


@needs_a_server
def test_a_database_that_says_nothing_any_more_is_an_outage_too(start: Start, probe: Probe) -> None:
    with Proxy.before(connections["default"].settings_dict) as proxy:
        worker = start(*probe.flags, *LEASE, DATABASE_URL=url_of(port=proxy.port))
        probe.shows(200, 200, "working", worker)
        proxy.stall()
        probe.shows(200, 503, "without_database", worker)
        never(lambda: probe.ask("live")[0] != 200, "it is dead", seconds=3)
        proxy.heal()
        probe.shows(200, 200, "working", worker)
        assert worker.stop() == 0


@needs_a_server
def test_connections_that_fall_silent_are_replaced_within_a_lease_or_two(
    start: Start, probe: Probe, journal: Journal
) -> None:
    """The host behind them answers each packet, and new connections work."""
    with Proxy.before(connections["default"].settings_dict) as proxy:
        worker = start(*probe.flags, *LEASE, DATABASE_URL=url_of(port=proxy.port))
        probe.shows(200, 200, "working", worker)
        for number in range(2):
            proxy.silence()
            add("run", number)
            eventually(lambda: len(journal.keys("end")) > number, "it has run")  # noqa: B023
        assert "Database default does not answer" in worker.log()
        proxy.reset_silent()  # MySQL lets a session that is gone hold its locks for four minutes
        assert worker.stop() == 0, worker.log()


@pytest.fixture
def busy(start: Start, journal: Journal, gate: Path, probe: Probe) -> StartTask:
    """A ``starttask`` of two processes with a run that goes on until the gate opens."""
    add("gated", 1, biz_ext={"gate": str(gate)})
    worker = start(*probe.flags, "--processes", "2")
    journal.wait("start")
    probe.shows(200, 200, "working", worker)
    return worker


def test_while_it_stops_it_is_live_and_not_ready_and_leaves_nothing_behind(
    busy: StartTask, gate: Path, probe: Probe
) -> None:
    # To the whole group, as some service managers do.
    busy.send_all(signal.SIGTERM)
    probe.shows(200, 503, "stopping", busy)
    never(lambda: probe.ask("live")[0] != 200, "it is dead", seconds=1)
    gate.touch()
    assert busy.ended() == 0
    assert busy.children() == []
    assert not probe.path.exists()
    assert list(probe.path.parent.glob(".health*")) == []
    assert port_is_free(probe.port)


def test_an_end_at_the_deadline_takes_the_file_away_too(
    start: Start, journal: Journal, gate: Path, probe: Probe
) -> None:
    add("gated", 1, biz_ext={"gate": str(gate)})
    file = ("--health-file", str(probe.path))
    worker = start(*file, "--processes", "1", "--shutdown-timeout", "0.3")
    journal.wait("start")
    eventually(lambda: probe.file().get("ready"), "it is ready", log=worker.log)
    worker.send(signal.SIGTERM)
    assert worker.ended() == 1
    assert not probe.path.exists()


def test_workers_that_end_by_themselves_end_it_all(
    start: Start, journal: Journal, probe: Probe
) -> None:
    add("run", *range(5))
    assert start(*probe.flags, "--until-empty").ended() == 0
    assert len(journal.keys("end")) == 5
    assert not probe.path.exists()
    assert port_is_free(probe.port)


# What hangs


def test_a_child_that_hangs_needs_a_restart(start: Start, probe: Probe) -> None:
    worker = start(*probe.flags, *LEASE, "--processes", "1")
    probe.shows(200, 200, "working", worker)
    (pid,) = WorkerRow.objects.values_list("pid", flat=True)
    os.kill(pid, signal.SIGSTOP)
    probe.shows(503, 503, "hanging", worker)
    assert (
        "Process 1 has given no sign of life for more than 5 seconds."
        in probe.ask("live")[1]["reason"]
    )
    os.kill(pid, signal.SIGCONT)
    probe.shows(200, 200, "working", worker)
    assert worker.stop() == 0


def test_a_poller_that_hangs_beside_healthy_heartbeats_needs_a_restart(
    start: Start, probe: Probe
) -> None:
    handlers = "tests.integration.hanging_poller.Run"
    worker = start(*probe.flags, *LEASE, "--shutdown-timeout", "0.3", TEST_HANDLERS=handlers)
    probe.shows(503, 503, "hanging", worker)
    assert probe.ask("live")[1]["reason"] == "The poller of process 1 on default hangs."
    assert workers() == 1
    worker.send(signal.SIGTERM)
    assert worker.ended() == 1


# What is killed


def pids_of_workers() -> set[int]:
    return set(WorkerRow.objects.values_list("pid", flat=True))


def test_a_killed_child_is_no_reason_for_a_restart(start: Start, probe: Probe) -> None:
    worker = start(*probe.flags, *LEASE, "--processes", "1")
    probe.shows(200, 200, "working", worker)
    (victim,) = pids_of_workers()
    os.kill(victim, signal.SIGKILL)
    never(lambda: probe.ask("live")[0] != 200, "it is dead", seconds=0.5)
    eventually(lambda: pids_of_workers() not in (set(), {victim}), "another one", log=worker.log)
    probe.shows(200, 200, "working", worker)
    assert worker.stop() == 0


def test_a_killed_http_process_is_replaced(start: Start, probe: Probe) -> None:
    worker = start(*probe.flags, "--processes", "2")
    eventually(lambda: workers() == 2, "both have joined", log=worker.log)
    before = pids_of_workers()
    (victim,) = set(worker.children()) - before
    os.kill(victim, signal.SIGKILL)
    worker.says(f"The process that answers probes (pid {victim}) ended with code -9; starting")
    probe.shows(200, 200, "working", worker)
    assert pids_of_workers() == before
    assert worker.stop() == 0


def test_nobody_listens_any_more_when_the_supervisor_is_killed(
    busy: StartTask, start: Start, journal: Journal, gate: Path, probe: Probe
) -> None:
    children = busy.children()
    busy.kill()
    # At once: it waits for the port, which the run that still goes on does not hold.
    other = start(*probe.flags)
    probe.shows(200, 200, "working", other)
    assert is_alive(journal.lines("start")[0]["pid"])
    gate.touch()
    eventually(lambda: not any(map(is_alive, children)), "the children ended", log=busy.log)
    assert other.stop() == 0


# Refusals


def test_a_busy_port_is_one_sentence(start: Start, probe: Probe) -> None:
    with socket.create_server(("127.0.0.1", probe.port)):
        worker = start(*probe.flags)
        assert worker.ended() == 2
    (line,) = worker.log().strip().splitlines()
    assert f"--health-port 127.0.0.1:{probe.port}: Address already in use" in line
    assert not probe.path.exists()


def test_a_file_that_cannot_be_is_one_sentence(start: Start, tmp_path: Path) -> None:
    place = tmp_path / "nowhere" / "health"
    worker = start("--health-file", str(place))
    assert worker.ended() == 2
    (line,) = worker.log().strip().splitlines()
    assert f"--health-file {place}: No such file or directory" in line


# The file alone

ONE_LINE = """test -n "$(find {path} -mmin -1 -exec grep -l '"{word}": true' {{}} \\;)\""""


def passes(path: Path, word: str) -> bool:
    """Tell if the one line of the documentation finds it so."""
    command = ONE_LINE.format(path=path, word=word)
    return not subprocess.run(["sh", "-c", command], stderr=subprocess.DEVNULL).returncode


def test_one_line_of_shell_reads_the_file(
    start: Start, journal: Journal, gate: Path, probe: Probe
) -> None:
    add("gated", 1, biz_ext={"gate": str(gate)})
    worker = start("--health-file", str(probe.path), "--processes", "1")
    journal.wait("start")
    assert worker.children() == []
    eventually(lambda: passes(probe.path, "ready"), "it is ready", log=worker.log)
    assert passes(probe.path, "live")
    document = probe.file()
    assert document["databases"] == {"default": "working"}
    assert document["processes"] == [{"default": "working"}]
    assert document["since"].endswith("+00:00")
    worker.send(signal.SIGTERM)
    eventually(lambda: not passes(probe.path, "ready"), "it is not ready", log=worker.log)
    assert passes(probe.path, "live")
    gate.touch()
    assert worker.ended() == 0
    assert not passes(probe.path, "live")


def test_the_documentation_has_that_line() -> None:
    page = (ROOT / "docs" / "how-to" / "probes.rst").read_text("utf-8")
    for word, times in {"ready": 1, "live": 1}.items():
        line = ONE_LINE.format(path="/run/django-tasks/health", word=word)
        assert page.count(line) == times


def test_a_killed_process_leaves_an_old_file(start: Start, probe: Probe) -> None:
    worker = start("--health-file", str(probe.path), "--processes", "1")
    eventually(lambda: passes(probe.path, "ready"), "it is ready", log=worker.log)
    worker.kill()
    assert probe.file()["ready"]
    minutes_ago = probe.path.stat().st_mtime - 120
    os.utime(probe.path, (minutes_ago, minutes_ago))
    assert not passes(probe.path, "ready")
    assert not passes(probe.path, "live")


# systemd


@pytest.fixture
def notify(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(tmp_path / "notify"))
        notify.settimeout(DEADLINE)
        yield notify


def hears(notify: socket.socket, word: str) -> list[str]:
    """Wait for a datagram with this line; returns its lines."""
    while word not in (lines := notify.recv(4096).decode().splitlines()):
        pass
    return lines


@pytest.mark.parametrize("processes", ["1", "2"])
def test_systemd_hears_of_start_life_and_stop(
    start: Start,
    journal: Journal,
    gate: Path,
    notify: socket.socket,
    processes: str,
) -> None:
    add("gated", 1, biz_ext={"gate": str(gate)})
    environment = {"NOTIFY_SOCKET": str(notify.getsockname()), "WATCHDOG_USEC": "1000000"}
    worker = start("--processes", processes, **environment)
    assert any(line.startswith("STATUS=") for line in hears(notify, "READY=1"))
    for _ in range(2):
        hears(notify, "WATCHDOG=1")
    journal.wait("start")
    worker.send(signal.SIGTERM)
    assert "STATUS=Stopping: nothing more is claimed, and what runs may end." in hears(
        notify, "STOPPING=1"
    )
    hears(notify, "WATCHDOG=1")
    gate.touch()
    assert worker.ended() == 0


def test_systemd_hears_nothing_of_a_child_that_hangs(start: Start, notify: socket.socket) -> None:
    environment = {"NOTIFY_SOCKET": str(notify.getsockname()), "WATCHDOG_USEC": "1000000"}
    worker = start(*LEASE, "--processes", "2", **environment)
    hears(notify, "READY=1")
    eventually(lambda: workers() == 2, "both have joined", log=worker.log)
    victim = min(pids_of_workers())
    os.kill(victim, signal.SIGSTOP)
    eventually(lambda: "no sign of life" in notify.recv(4096).decode(), "it is noticed")
    notify.settimeout(2)
    with pytest.raises(TimeoutError):
        notify.recv(4096)
    os.kill(victim, signal.SIGCONT)
    assert worker.stop() == 0
