"""The units of systemd: read by its own checker, and run by a manager that plays its part."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from django_tasks import conf
from django_tasks.supervisor.processes import PATIENCE_SECONDS
from tests.deploy import units
from tests.deploy.shop import DEPLOY, Shop
from tests.deploy.systemd import Service, keep_environment
from tests.leader import group, is_alive
from tests.waiting import eventually, never

FILES = {"django-tasks.service": "", "django-tasks@.service": "mail"}
FOLDER = DEPLOY / "systemd"
WATCHDOG_SECONDS = 4.0

Start = Callable[..., Service]


def unit(name: str) -> units.Unit:
    return units.read((FOLDER / name).read_text(encoding="utf-8"), FILES[name])


@pytest.fixture
def start(shop: Shop) -> Iterator[Start]:
    """Start the service of a unit; ``watchdog`` is another time than the unit's."""
    keep_environment(shop, (FOLDER / "environment").read_text(encoding="utf-8"))
    services: list[Service] = []

    def start(
        name: str = "django-tasks.service", *flags: str, watchdog: float | None = None
    ) -> Service:
        services.append(Service(unit(name), shop, *flags, watchdog=watchdog))
        return services[-1]

    yield start
    for service in services:
        service.close()


# The text


@pytest.mark.parametrize("name", FILES)
def test_systemds_own_checker_has_nothing_to_say(name: str, tmp_path: Path) -> None:
    checker = shutil.which("systemd-analyze")
    assert checker, "no systemd-analyze: run scripts/setup test, which installs systemd"
    copy = tmp_path / name
    text = (FOLDER / name).read_text(encoding="utf-8")
    # The checker looks for the program, and only there.
    copy.write_text(text.replace("/srv/shop/venv/bin/python", sys.executable), encoding="utf-8")
    done = subprocess.run(
        [checker, "verify", "--man=no", str(copy).replace("@.", "@mail.")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if "django-tasks" in line]
    assert (ours, done.returncode) == ([], 0), done.stderr


@pytest.mark.parametrize("name", FILES)
def test_a_stop_has_more_time_than_the_shutdown_takes(name: str) -> None:
    longest = conf.Options().shutdown_timeout + PATIENCE_SECONDS
    assert unit(name).seconds("TimeoutStopSec") > longest


def test_the_unit_of_a_queue_differs_in_nothing_but_the_queue() -> None:
    alone, queue = (unit(name).values for name in FILES)
    assert {name for name in alone if alone[name] != queue[name]} == {
        ("Unit", "Description"),
        ("Service", "RuntimeDirectory"),
        ("Service", "ExecStart"),
    }
    assert alone.keys() == queue.keys()
    assert "--queues mail" in queue["Service", "ExecStart"][0]


# The service


def test_the_service_says_that_it_is_ready_and_stops_in_order(start: Start, shop: Shop) -> None:
    service = start("django-tasks.service", "--processes", "2")
    service.becomes_ready()
    shop.add("1")
    shop.wait("begun", "1", log=service.log)
    service.main.send(signal.SIGTERM)
    eventually(lambda: service.accepted("STOPPING=1"), "STOPPING=1 has come", log=service.text)
    assert service.main.is_running()
    shop.open_the_gate()
    assert service.stop() == 0
    assert shop.said("ended") == ["1"]
    assert (shop.count("t_task"), shop.count("t_task_worker")) == (0, 0)
    assert service.notify.messages() == service.accepted("")
    assert not service.restarts_after(0)


def test_the_service_of_a_queue_leaves_the_tasks_of_others(start: Start, shop: Shop) -> None:
    service = start("django-tasks@.service")
    service.becomes_ready()
    shop.open_the_gate()
    shop.add("default")
    shop.add("mail", queue="mail")
    shop.wait("ended", "mail", log=service.log)
    assert service.stop() == 0
    assert shop.said("begun") == ["mail"]
    assert (shop.place / "run" / "django-tasks-mail").is_dir()


def test_the_watchdog_hears_from_it_in_time_while_tasks_run(start: Start, shop: Shop) -> None:
    service = start(watchdog=WATCHDOG_SECONDS)
    service.becomes_ready()
    shop.add("1")
    shop.wait("begun", "1", log=service.log)
    eventually(lambda: len(service.accepted("WATCHDOG=1")) >= 4, "four signs", log=service.text)
    times = [each.at for each in service.accepted("WATCHDOG=1")]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert max(gaps) < WATCHDOG_SECONDS, gaps
    shop.open_the_gate()
    assert service.stop() == 0


def test_a_service_that_stands_still_is_found_and_its_tasks_run_again(
    start: Start, shop: Shop
) -> None:
    service = start("django-tasks.service", "--processes", "1", watchdog=WATCHDOG_SECONDS)
    service.becomes_ready()
    shop.add("1")
    shop.wait("begun", "1", log=service.log)
    service.main.send(signal.SIGSTOP)
    eventually(service.is_late, "the watchdog has waited in vain", log=service.text)
    service.abort()
    shop.open_the_gate()
    successor = start("django-tasks.service", watchdog=WATCHDOG_SECONDS)
    shop.wait("ended", "1", log=successor.log)
    assert successor.stop() == 0
    assert shop.said("begun") == ["1", "1"]


def test_a_child_that_dies_is_no_matter_for_systemd(start: Start, shop: Shop) -> None:
    service = start("django-tasks.service", "--processes", "2")
    service.becomes_ready()
    eventually(lambda: shop.count("t_task_worker") == 2, "both have joined", log=service.text)
    victim = _children(service)[0]
    subprocess.run(["kill", "-9", str(victim)], check=True)
    eventually(lambda: not is_alive(victim), "it is dead")
    eventually(lambda: len(_children(service)) == 2, "another has come", log=service.text)
    assert service.main.is_running()
    assert service.unit.one("Service", "OOMPolicy") == "continue"
    assert service.stop() == 0


def test_wrong_usage_ends_with_a_code_after_which_systemd_starts_nothing(start: Start) -> None:
    service = start("django-tasks.service", "--threads", "0")
    eventually(lambda: not service.main.is_running(), "it has ended", log=service.text)
    code = service.main.code
    assert code == 2
    assert not service.restarts_after(code)
    assert service.restarts_after(1)
    assert service.accepted("READY=1") == []


def test_without_its_tables_it_ends_with_a_code_after_which_systemd_starts_it_again(
    start: Start, shop: Shop
) -> None:
    shop.manage("migrate", "django_tasks", "zero", "--verbosity=0")
    service = start()
    eventually(lambda: not service.main.is_running(), "it has ended", log=service.text)
    assert service.main.code == 1
    assert "run manage.py migrate" in service.text()
    shop.manage("migrate", "--verbosity=0")
    successor = start()
    successor.becomes_ready()
    never(lambda: not successor.main.is_running(), "it ends", seconds=0.5)
    assert successor.stop() == 0


def _children(service: Service) -> list[int]:

    return sorted(set(group(service.main.pid)) - {service.main.pid})
