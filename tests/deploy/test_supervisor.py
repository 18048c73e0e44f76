"""The files of supervisord, run by a real supervisord."""

import configparser
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any
from xmlrpc.client import Fault, ServerProxy

import pytest
from supervisor.xmlrpc import SupervisorTransport

from django_tasks import conf
from django_tasks.supervisor.processes import PATIENCE_SECONDS
from tests.deploy.shop import DEPLOY, Shop, secret_files
from tests.environments.web import free_port
from tests.leader import Leader, group
from tests.waiting import DEADLINE, eventually

FOLDER = DEPLOY / "supervisor"
FILES = ("django-tasks.conf", "django-tasks-queues.conf")
MAIN = """\
[supervisord]
nodaemon=true
logfile={place}/log/supervisord.log
pidfile={place}/run/supervisord.pid
childlogdir={place}/log

[unix_http_server]
file={place}/run/supervisor.sock

[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface

[include]
files={place}/etc/*.conf
"""


class Supervisord(Leader):
    """A supervisord with one file of ours, in a session of its own."""

    def __init__(self, file: str, shop: Shop) -> None:
        self._shop = shop
        self.ports: dict[str, int] = {}
        secret_files(shop)
        place = shop.place
        (place / "etc" / "supervisord.conf.main").write_text(MAIN.format(place=place))
        (place / "etc" / file).write_text(self._at_home(file), encoding="utf-8")
        with open(place / "log" / "out", "wb") as output:
            super().__init__(
                [
                    *(sys.executable, "-W", "ignore", "-m", "supervisor.supervisord"),
                    *("-c", str(place / "etc" / "supervisord.conf.main")),
                ],
                env=shop.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def _at_home(self, file: str) -> str:
        text = self._shop.at_home((FOLDER / file).read_text(encoding="utf-8"))
        text = text.replace("user=shop\n", "")  # there is no such user here
        for port in ("8080", "8081"):
            self.ports[port] = free_port()
            text = text.replace(f":{port}", f":{self.ports[port]}")
        return text

    def ask(self, method: str, *arguments: object) -> Any:
        """The answer to a call, over a connection of its own, as ``supervisorctl`` makes one."""
        socket = f"unix://{self._shop.place}/run/supervisor.sock"
        transport = SupervisorTransport("", "", socket)
        with ServerProxy("http://127.0.0.1", transport=transport) as proxy:
            return getattr(proxy.supervisor, method)(*arguments)

    def log(self) -> str:
        paths = sorted((self._shop.place / "log").glob("*.log"))
        return "\n".join(path.read_text(errors="replace") for path in paths)

    def state(self, name: str) -> tuple[str, int]:
        """The state of a program, and its process id; an empty one if supervisord is not up yet."""
        try:
            answer = self.ask("getProcessInfo", name)
        except (OSError, Fault):
            return "", 0
        return str(answer["statename"]), int(answer["pid"])

    def runs(self, name: str) -> int:
        """Wait until the program has run for its ``startsecs``; returns its process id."""
        eventually(lambda: self.state(name)[0] == "RUNNING", f"{name} runs", log=self.log)
        return self.state(name)[1]

    def stop_program(self, name: str, *, wait: bool = True) -> None:
        """``supervisorctl stop``: returns when the program has ended, if told to wait."""
        self.ask("stopProcess", name, wait)

    def exit_code(self, name: str) -> int:
        return int(self.ask("getProcessInfo", name)["exitstatus"])

    def close(self) -> None:
        """End it and its programs, which have groups of their own, in whatever state they are."""
        self._shop.open_the_gate()
        programs = [pid for pid in self._programs() if pid]
        self.send(signal.SIGTERM)
        ended = self.wait(DEADLINE)
        for pid in programs:
            for each in group(pid):
                os.kill(each, signal.SIGKILL)
        self.end()
        assert ended == 0, self.log()

    def _programs(self) -> list[int]:
        try:
            return [int(each["pid"]) for each in self.ask("getAllProcessInfo")]
        except (OSError, Fault):
            return []


Start = Callable[[str], Supervisord]


@pytest.fixture
def start(shop: Shop) -> Iterator[Start]:
    running: list[Supervisord] = []

    def start(file: str) -> Supervisord:
        running.append(Supervisord(file, shop))
        return running[-1]

    yield start
    for each in running:
        each.close()


@pytest.mark.parametrize("file", FILES)
def test_a_stop_has_more_time_than_the_shutdown_takes(file: str) -> None:
    parser = configparser.RawConfigParser()
    parser.read(FOLDER / file)
    assert parser.sections()
    for name in parser.sections():
        assert parser.getint(name, "stopwaitsecs") > conf.Options().shutdown_timeout + (
            PATIENCE_SECONDS
        )
        assert (parser[name]["stopasgroup"], parser[name]["killasgroup"]) == ("false", "true")


def test_a_program_that_is_killed_is_started_again_and_what_ran_is_not_disturbed(
    start: Start, shop: Shop
) -> None:
    supervisord = start("django-tasks.conf")
    first = supervisord.runs("django-tasks")
    shop.add("1")
    shop.wait("begun", "1")
    os.kill(first, signal.SIGKILL)
    eventually(
        lambda: supervisord.state("django-tasks")[1] not in (0, first),
        "another has been started",
        log=supervisord.log,
    )
    eventually(
        lambda: supervisord.log().count(" polls ") == 2, "another works", log=supervisord.log
    )
    shop.open_the_gate()
    shop.wait("ended", "1")
    shop.add("2")
    shop.wait("ended", "2")
    assert shop.said("begun") == ["1", "2"]
    supervisord.stop_program("django-tasks")
    assert supervisord.exit_code("django-tasks") == 0
    assert (shop.count("t_task"), shop.count("t_task_worker")) == (0, 0)


def test_a_worker_that_is_killed_has_its_task_run_again(start: Start, shop: Shop) -> None:
    supervisord = start("django-tasks.conf")
    pid = supervisord.runs("django-tasks")
    shop.add("1")
    shop.wait("begun", "1")
    for each in set(group(pid)) - {pid}:
        os.kill(each, signal.SIGKILL)
    shop.wait("begun", "1", times=2)
    assert supervisord.state("django-tasks") == ("RUNNING", pid)
    shop.open_the_gate()
    shop.wait("ended", "1")
    supervisord.stop_program("django-tasks")
    assert supervisord.exit_code("django-tasks") == 0


def test_a_stop_waits_for_the_task_that_runs(start: Start, shop: Shop) -> None:
    supervisord = start("django-tasks.conf")
    pid = supervisord.runs("django-tasks")
    shop.add("1")
    shop.wait("begun", "1")
    supervisord.stop_program("django-tasks", wait=False)
    eventually(lambda: "1 task still runs" in supervisord.log(), "it stops", log=supervisord.log)
    assert supervisord.state("django-tasks") == ("STOPPING", pid)
    shop.open_the_gate()
    eventually(
        lambda: supervisord.state("django-tasks")[0] == "STOPPED",
        "it has stopped",
        log=supervisord.log,
    )
    assert shop.said("ended") == ["1"]
    assert supervisord.exit_code("django-tasks") == 0
    assert group(pid) == []
    assert (shop.count("t_task"), shop.count("t_task_worker")) == (0, 0)


def test_two_programs_serve_a_queue_each(start: Start, shop: Shop) -> None:
    supervisord = start("django-tasks-queues.conf")
    programs = ("django-tasks-default", "django-tasks-mail")
    for name in programs:
        supervisord.runs(name)
    eventually(lambda: shop.count("t_task_worker") == 2, "both work", log=supervisord.log)
    shop.open_the_gate()
    supervisord.stop_program("django-tasks-default")
    shop.add("default")
    shop.add("mail", queue="mail")
    shop.wait("ended", "mail")
    assert shop.said("begun") == ["mail"]
    supervisord.stop_program("django-tasks-mail")
    assert [supervisord.exit_code(name) for name in programs] == [0, 0]
    assert shop.count("t_task_worker") == 0
