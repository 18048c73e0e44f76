"""The outlets of a teller: the health file and the service manager."""

import json
import os
import socket
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from django_tasks.probes import reporter
from django_tasks.probes.health import Health
from django_tasks.probes.reporter import EVERY_SECONDS, HealthFile, ServiceManager
from django_tasks.worker.condition import Condition as C
from tests.worker.parts import StillTicks

STARTING = Health(True, False, C.STARTING, "It is starting.")
WORKING = Health(True, True, C.WORKING, "It works.")
DOWN = Health(True, False, C.WITHOUT_DATABASE, "There is no database.")
HANGING = Health(False, False, C.HANGING, "It hangs.")
STOPPING = Health(True, False, C.STOPPING, "It stops.")


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> StillTicks:
    still = StillTicks()
    monkeypatch.setattr(reporter, "ticks", still)
    return still


# The file


def test_the_file_has_one_line_and_goes_at_the_end(tmp_path: Path, now: StillTicks) -> None:
    path = tmp_path / "health"
    file = HealthFile(path)
    file.tell({"live": True, "reason": "Größe"})
    assert path.read_text("utf-8") == '{"live": true, "reason": "Größe"}\n'
    file.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("act", [HealthFile.try_out, partial(HealthFile.tell, document={})])
def test_a_link_that_somebody_has_laid_there_is_not_followed(
    tmp_path: Path, now: StillTicks, act: Callable[[HealthFile], None]
) -> None:
    victim, path = tmp_path / "victim", tmp_path / "health"
    victim.write_text("precious")
    for name in ("health", f".health.{os.getpid()}"):
        (tmp_path / name).symlink_to(victim)
    act(HealthFile(path))
    assert victim.read_text() == "precious"
    assert not path.is_symlink()


def test_the_file_is_written_when_something_is_new_and_as_a_heartbeat(
    tmp_path: Path, now: StillTicks
) -> None:
    path = tmp_path / "health"
    file = HealthFile(path)
    file.tell({"live": True})
    path.unlink()
    now.now += EVERY_SECONDS - 0.1
    file.tell({"live": True})
    assert not path.exists()
    file.tell({"live": False})
    assert json.loads(path.read_text()) == {"live": False}
    path.unlink()
    now.now += EVERY_SECONDS
    file.tell({"live": False})
    assert path.exists()


def test_a_file_that_cannot_be_written_is_said_once_and_tried_again(
    tmp_path: Path, now: StillTicks, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "later" / "health"
    file = HealthFile(path)
    for number in range(3):
        file.tell({"number": number})
    (line,) = caplog.messages
    assert line.startswith(f"The health file {path} cannot be written (FileNotFoundError")
    path.parent.mkdir()
    file.tell({"number": 3})
    assert json.loads(path.read_text()) == {"number": 3}


def test_a_place_where_no_file_can_be_is_told_before_the_start(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        HealthFile(tmp_path / "nowhere" / "health").try_out()
    old = tmp_path / "health"
    old.write_text("of a process that was killed")
    HealthFile(old).try_out()
    assert list(tmp_path.iterdir()) == []


# The service manager

Manager = Callable[..., ServiceManager]


class Systemd:
    """The socket of a service manager."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.socket.bind("\0" + place[1:] if place.startswith("@") else place)

    def heard(self) -> list[str]:
        """The datagrams that have come."""
        heard = []
        try:
            while True:
                heard.append(self.socket.recv(4096).decode())
        except BlockingIOError:
            return heard


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Systemd]:
    place = str(tmp_path / "notify") if request.param == "path" else f"@tasks-{os.getpid()}"
    made = Systemd(place)
    yield made
    made.socket.close()


@pytest.fixture
def telling(manager: Systemd) -> Iterator[Manager]:
    made = []

    def telling(**environment: str) -> ServiceManager:
        made.append(ServiceManager({"NOTIFY_SOCKET": manager.place} | environment))
        return made[-1]

    yield telling
    for each in made:
        each.close()


def test_what_is_new_is_said_once(manager: Systemd, telling: Manager, now: StillTicks) -> None:
    to = telling()
    for health in (STARTING, STARTING, WORKING, WORKING, DOWN, WORKING):
        to.tell(health, is_stopping=False)
    for _ in range(2):
        to.tell(STOPPING, is_stopping=True)
    assert manager.heard() == [
        "STATUS=It is starting.",
        "READY=1\nSTATUS=It works.",
        "STATUS=There is no database.",
        "STATUS=It works.",
        "STOPPING=1\nSTATUS=It stops.",
    ]


def test_it_has_started_if_only_its_database_is_missing(
    manager: Systemd, telling: Manager, now: StillTicks
) -> None:
    telling().tell(DOWN, is_stopping=False)
    assert manager.heard() == ["READY=1\nSTATUS=There is no database."]


def test_workers_that_retire_are_no_stop_of_the_service(
    manager: Systemd, telling: Manager, now: StillTicks
) -> None:
    telling().tell(STOPPING, is_stopping=False)
    assert manager.heard() == ["STATUS=It stops."]


def test_the_watchdog_is_fed_at_half_of_its_time_and_by_the_living_only(
    manager: Systemd, telling: Manager, now: StillTicks
) -> None:
    to = telling(WATCHDOG_USEC="30000000", WATCHDOG_PID=str(os.getpid()))
    fed = []
    for second in range(61):
        health = HANGING if 20 <= second < 50 else WORKING
        to.tell(health, is_stopping=False)
        fed += [second for text in manager.heard() if "WATCHDOG=1" in text.splitlines()]
        now.now += 1
    assert fed == [0, 15, 50]


@pytest.mark.parametrize(
    "environment",
    [{}, {"WATCHDOG_USEC": "many"}, {"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}],
)
def test_no_watchdog_is_fed_that_is_not_for_this_process(
    manager: Systemd, telling: Manager, now: StillTicks, environment: dict[str, str]
) -> None:
    to = telling(**environment)
    for _ in range(3):
        to.tell(WORKING, is_stopping=False)
        now.now += 100
    assert manager.heard() == ["READY=1\nSTATUS=It works."]


def test_what_nobody_has_taken_is_said_again(tmp_path: Path, now: StillTicks) -> None:
    place = str(tmp_path / "later")
    to = ServiceManager({"NOTIFY_SOCKET": place})
    to.tell(WORKING, is_stopping=False)
    later = Systemd(place)
    to.tell(WORKING, is_stopping=False)
    assert later.heard() == ["READY=1\nSTATUS=It works."]
    later.socket.close()
    to.close()


def test_a_full_socket_holds_nobody_up(manager: Systemd, telling: Manager) -> None:
    to = telling()
    for number in range(5000):
        reason = f"{number} " * 100
        to.tell(Health(True, True, C.WORKING, reason), is_stopping=False)
    assert 0 < len(manager.heard()) < 5000


def test_without_a_service_manager_nothing_is_said() -> None:
    for environment in ({}, {"NOTIFY_SOCKET": "vsock:2:1234"}):
        to = ServiceManager(environment)
        to.tell(WORKING, is_stopping=False)
        to.close()


def test_others_may_read_the_file(tmp_path: Path, now: StillTicks) -> None:
    """A probe may run as another user."""
    file = HealthFile(tmp_path / "health")
    before = os.umask(0o022)
    try:
        file.tell({})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "health").stat().st_mode) == 0o644
