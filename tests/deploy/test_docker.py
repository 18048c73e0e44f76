"""The Dockerfile and the Compose file: linted, followed step by step, and their commands run."""

import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import yaml

from devtools import CHECKOUT
from devtools.release.distributions import build
from django_tasks import conf
from django_tasks.supervisor.processes import PATIENCE_SECONDS
from tests.deploy.image import Image, bare_environment
from tests.deploy.shop import DEPLOY, Shop
from tests.deploy.units import seconds
from tests.environments.web import free_port
from tests.leader import Leader
from tests.waiting import eventually

FOLDER = DEPLOY / "docker"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
WORKERS = ("tasks", "tasks-mail")


def program(name: str) -> str:
    path = Path(sys.prefix) / "bin" / name
    assert path.exists(), f"There is no {path}: run scripts/setup test"
    return str(path)


def checked(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution of this checkout, and the wheel that is built of it."""
    return build(tmp_path_factory.mktemp("dist")).folder


@pytest.fixture(scope="session")
def image(template: Shop, distributions: Path, tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The image of the project, as its Dockerfile says."""
    context = tmp_path_factory.mktemp("context")
    shutil.copytree(template.folder, context, dirs_exist_ok=True)
    shutil.copytree(FOLDER, context, dirs_exist_ok=True)
    (context / ".env").write_text("SECRET_KEY=nobody's business\n")
    (context / "old.sqlite3").touch()
    (context / "shop" / "__pycache__").mkdir(exist_ok=True)
    root = tmp_path_factory.mktemp("root")
    environment = bare_environment(tmp_path_factory.mktemp("base"), distributions)
    text = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    return Image(root, context, environment).build(text)


class Run(Leader):
    """A command in the image, with the variables of its service."""

    def __init__(self, image: Image, command: list[str], variables: dict[str, str], log: Path):
        self._log = log
        with open(log, "wb") as output:
            super().__init__(
                ["/usr/bin/env", *command],  # it looks for the program in the PATH of the image
                cwd=image.path(image.folder),
                env={**image.environment, **variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")


@pytest.fixture
def running() -> Iterator[list[Run]]:
    """Commands that are ended with the test."""
    running: list[Run] = []
    yield running
    for each in running:
        each.end()


# The text


def test_hadolint_has_nothing_to_say() -> None:
    checked(program("hadolint"), "--failure-threshold", "style", str(FOLDER / "Dockerfile"))


def test_the_compose_file_goes_with_its_specification() -> None:
    schema = ("--builtin-schema", "vendor.compose-spec")
    checked(program("check-jsonschema"), *schema, str(FOLDER / "compose.yaml"))


@pytest.mark.parametrize("name", WORKERS)
def test_a_stop_has_more_time_than_the_shutdown_takes(name: str) -> None:
    service = SERVICES[name]
    longest = conf.Options().shutdown_timeout + PATIENCE_SECONDS
    assert seconds(service["stop_grace_period"]) > longest
    assert service["stop_signal"] == "SIGTERM"


def test_tables_come_first_then_workers_then_the_site() -> None:
    after = {name: service.get("depends_on", {}) for name, service in SERVICES.items()}
    assert after["migrate"] == {"database": {"condition": "service_healthy"}}
    for name in WORKERS:
        assert after[name] == {"migrate": {"condition": "service_completed_successfully"}}
    assert after["web"] == {name: {"condition": "service_healthy"} for name in WORKERS}


def test_the_source_distribution_has_the_files(distributions: Path) -> None:
    (archive,) = distributions.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    ours = [path for path in DEPLOY.rglob("*") if path.is_file()]
    assert FOLDER / ".dockerignore" in ours
    assert {str(path.relative_to(CHECKOUT)) for path in ours} <= names


# The image


def test_the_image_holds_the_project_and_no_secrets(image: Image) -> None:
    files = {
        str(path.relative_to(image.path("/srv/shop"))) for path in image.root.rglob("srv/shop/**/*")
    }
    assert {"manage.py", "mysite/production.py", "static/admin/css/base.css"} <= files
    assert not [name for name in files if ".env" in name or "sqlite3" in name]
    assert not [name for name in files if "__pycache__" in name]
    assert image.signal == "SIGTERM"
    assert image.user == "10001:10001"


def test_the_command_of_the_image_is_that_of_the_workers(image: Image) -> None:
    for name in WORKERS:
        command = SERVICES[name]["command"]
        queue = command.index("--queues")
        assert command[:queue] + command[queue + 2 :] == image.command
        assert f"127.0.0.1:{image.port}/ready" in SERVICES[name]["healthcheck"]["test"][-1]


def test_the_worker_of_the_image_is_healthy_and_stops_in_order(
    image: Image, shop: Shop, running: list[Run]
) -> None:
    port = str(free_port())
    command = [port if word == str(image.port) else word for word in image.command]
    worker = Run(image, command, shop.secrets, shop.place / "log" / "worker")
    running.append(worker)
    kind, *ask = SERVICES["tasks"]["healthcheck"]["test"]
    assert kind == "CMD"
    ask = [word.replace(str(image.port), port) for word in ask]

    def is_healthy() -> bool:
        assert worker.is_running(), worker.log()
        done = subprocess.run(
            ["/usr/bin/env", *ask],
            env=image.environment,
            stderr=subprocess.DEVNULL,
            timeout=30,
            check=False,
        )
        return done.returncode == 0

    eventually(is_healthy, "it is healthy", log=worker.log)
    shop.add("1")
    shop.wait("begun", "1")
    worker.send(signal.SIGTERM)
    eventually(lambda: "1 task still runs" in worker.log(), "it stops", log=worker.log)
    shop.open_the_gate()
    assert worker.wait(seconds(SERVICES["tasks"]["stop_grace_period"])) == 0, worker.log()
    assert shop.said("ended") == ["1"]
    assert shop.count("t_task_worker") == 0


def test_the_site_of_the_image_answers(image: Image, shop: Shop, running: list[Run]) -> None:
    port = free_port()
    command = [
        word.replace("0.0.0.0:8000", f"127.0.0.1:{port}") for word in SERVICES["web"]["command"]
    ]
    web = Run(image, command, shop.secrets, shop.place / "log" / "web")
    running.append(web)

    def status() -> int:
        assert web.is_running(), web.log()
        line = HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            line.request("GET", "/admin/login/")
            return line.getresponse().status
        except OSError:
            return 0
        finally:
            line.close()

    assert eventually(status, "the site answers", log=web.log) == 200
    web.send(signal.SIGTERM)
    assert web.wait(30) == 0


def test_the_migrations_of_the_image_run(image: Image, shop: Shop, running: list[Run]) -> None:
    migrate = Run(
        image, SERVICES["migrate"]["command"], shop.secrets, shop.place / "log" / "migrate"
    )
    running.append(migrate)
    assert migrate.wait(60) == 0, migrate.log()
    assert "No migrations to apply" in migrate.log()
