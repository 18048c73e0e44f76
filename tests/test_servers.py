"""The command that starts private database servers, as far as it goes without one."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from devtools import CHECKOUT
from devtools.servers.catalogue import BROKERS, SERVERS, SINGLE
from devtools.servers.process import Process, started_at
from devtools.servers.rabbitmq import GREETING, RabbitMQ


def run(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """As on a system without any package, and from anywhere."""
    command = [sys.executable, "-I", "-S", str(CHECKOUT / "scripts" / "servers"), *arguments]
    environment = os.environ | {"SERVERS_DIR": str(place / "servers")}
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)


def test_it_needs_nothing_but_python(tmp_path: Path) -> None:
    shown = run(tmp_path, "status")
    assert shown.returncode == 1, shown.stderr
    assert shown.stdout == "mariadb: not started\nmysql: not started\npostgresql: not started\n"
    assert not list(tmp_path.iterdir())


def test_an_unknown_name_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    refused = run(tmp_path, "start", "oracle")
    assert refused.returncode == 2
    assert f"there is no oracle, only {', '.join(SERVERS)}" in refused.stderr


def test_a_problem_is_one_line_and_an_exit_code(tmp_path: Path) -> None:
    problem = run(tmp_path, "restart", "mariadb")
    assert (problem.returncode, problem.stderr) == (1, "MariaDB was never started.\n")


def test_a_process_is_its_pid_and_its_start() -> None:
    started = started_at(os.getpid())
    assert started
    assert Process(os.getpid(), started).runs()
    assert not Process(os.getpid(), "0").runs()


def test_a_server_that_died_before_its_start_was_read_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("devtools.servers.record.RUNTIME", tmp_path)
    server = SINGLE["mariadb"]
    server.write_note(pid=2**22 + 1, started=None)  # above all that Linux gives
    assert server.process() is None


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RabbitMQ:
    """A broker that has been written down, and not started."""
    monkeypatch.setattr("devtools.servers.record.RUNTIME", tmp_path)
    made = RabbitMQ()
    made.write_note(directory=str(tmp_path), port=10000, node_port=10001)
    return made


def test_a_broker_is_started_by_name_only(tmp_path: Path) -> None:
    assert not BROKERS.keys() & SINGLE.keys()
    assert run(tmp_path, "status", "rabbitmq").stdout == "rabbitmq: not started\n"
    assert "rabbitmq" not in run(tmp_path, "status").stdout


def test_a_broker_leaves_nothing_that_outlives_it(broker: RabbitMQ) -> None:
    assert broker.environment()["ERL_FLAGS"] == "-start_epmd false -erl_epmd_port 10001"


def test_a_broker_is_none_of_the_machines_own(broker: RabbitMQ, tmp_path: Path) -> None:
    environment = broker.environment()
    assert environment["RABBITMQ_CONF_ENV_FILE"] == os.devnull
    places = [name for name, value in environment.items() if value.startswith(str(tmp_path))]
    assert sorted(places) == [
        "HOME",
        "RABBITMQ_CONFIG_FILE",
        "RABBITMQ_ENABLED_PLUGINS_FILE",
        "RABBITMQ_LOG_BASE",
        "RABBITMQ_MNESIA_BASE",
    ]


@pytest.mark.parametrize(
    ("answer", "expected"), [(b"\x01\x00", True), (b"AMQP\x00\x00\x09\x01", False), (b"", False)]
)
def test_a_broker_answers_once_it_speaks_the_protocol(
    broker: RabbitMQ, answer: bytes, expected: bool
) -> None:
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        broker.write_note(port=server.getsockname()[1])

        def speak() -> None:
            connection, _ = server.accept()
            with connection:
                heard.append(connection.recv(len(GREETING)))
                connection.sendall(answer)

        speaker = Thread(target=speak)
        speaker.start()
        assert broker.answers() is expected
        speaker.join()
    assert heard == [GREETING]


def test_a_broker_that_is_not_there_does_not_answer(broker: RabbitMQ) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        broker.write_note(port=bound.getsockname()[1])
        assert not broker.answers()
