"""The manifests of Kubernetes: their schema, their numbers, their probes asked of real workers."""

import re
import signal
from collections.abc import Callable, Iterator

import kubernetes_validate
import pytest

from django_tasks import conf
from django_tasks.supervisor.processes import PATIENCE_SECONDS
from tests.deploy import kubelet
from tests.deploy.image import Instruction, instructions
from tests.deploy.kubelet import Container, Manifest, container, pod
from tests.deploy.shop import DEPLOY, Shop
from tests.waiting import eventually

FILES = ("worker.yaml", "worker-mail.yaml")
WORKERS = [kubelet.manifest(name) for name in FILES]
MIGRATE = kubelet.manifest("migrate.yaml")
ALL = [*WORKERS, MIGRATE]
VARIABLES = {"DJANGO_SETTINGS_MODULE": "mysite.production", "PYTHONDONTWRITEBYTECODE": "1"}

Run = Callable[[Manifest], Container]


def name_of(manifest: Manifest) -> str:
    return str(manifest["metadata"]["name"])


@pytest.fixture
def run(shop: Shop) -> Iterator[Run]:
    """Run the container of a deployment."""
    running: list[Container] = []

    def run(manifest: Manifest) -> Container:
        running.append(Container(manifest, shop, VARIABLES))
        return running[-1]

    yield run
    for each in running:
        each.end()


# The text


@pytest.mark.parametrize("version", ["1.28", "1.32", "1.36"])
@pytest.mark.parametrize("manifest", ALL, ids=name_of)
def test_the_schema_of_kubernetes_knows_every_name(manifest: Manifest, version: str) -> None:
    kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("manifest", ALL, ids=name_of)
def test_no_container_is_root_or_writes_to_its_root(manifest: Manifest) -> None:
    user = pod(manifest)["securityContext"]
    assert user["runAsNonRoot"]
    said = [each.rest for each in dockerfile() if each.name == "USER"]
    assert [f"{user['runAsUser']}:{user['runAsGroup']}"] == said
    rights = container(manifest)["securityContext"]
    assert rights["readOnlyRootFilesystem"]
    assert not rights["allowPrivilegeEscalation"]
    assert rights["capabilities"] == {"drop": ["ALL"]}
    assert container(manifest)["resources"]["requests"].keys() == {"cpu", "memory"}


def test_the_deployments_differ_in_their_names_and_queues_alone() -> None:
    one, other = (
        (kubelet.FOLDER / name).read_text(encoding="utf-8").splitlines() for name in FILES
    )
    differing = {pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]}
    assert {mine.replace("tasks", "tasks-mail") for mine, _ in differing if "tasks" in mine} | {
        mine.replace("default", "mail") for mine, _ in differing if "default" in mine
    } == {theirs for _, theirs in differing}


@pytest.mark.parametrize("manifest", WORKERS, ids=name_of)
def test_times_and_ports_go_with_each_other(manifest: Manifest) -> None:
    spec = container(manifest)
    longest = conf.Options().shutdown_timeout + PATIENCE_SECONDS
    assert pod(manifest)["terminationGracePeriodSeconds"] > longest
    flag = f"--health-port={kubelet.port_of(spec, 'readinessProbe')}"
    assert flag in spec["args"]
    asked = {probe: spec[probe]["httpGet"]["path"] for probe in spec if probe.endswith("Probe")}
    assert asked == {"startupProbe": "/live", "livenessProbe": "/live", "readinessProbe": "/ready"}
    assert manifest["spec"]["selector"]["matchLabels"].items() <= (
        manifest["spec"]["template"]["metadata"]["labels"].items()
    )


def test_each_deployment_selects_pods_of_its_own() -> None:
    selectors = [manifest["spec"]["selector"]["matchLabels"] for manifest in WORKERS]
    assert selectors[0] != selectors[1]


def test_job_and_deployments_are_of_one_image() -> None:
    assert len({container(manifest)["image"] for manifest in ALL}) == 1
    (port,) = [each.rest for each in dockerfile() if each.name == "EXPOSE"]
    assert {kubelet.port_of(container(each), "livenessProbe") for each in WORKERS} == {int(port)}


def dockerfile() -> list[Instruction]:
    return instructions((DEPLOY / "docker" / "Dockerfile").read_text(encoding="utf-8"))


# The containers


def test_the_job_of_migrations_ends_and_may_run_twice(shop: Shop) -> None:
    shop.manage("migrate", "django_tasks", "zero", "--verbosity=0")
    python, manage, *words = container(MIGRATE)["args"]
    assert (python, manage) == ("python", "manage.py")
    assert "Applying django_tasks.0001_initial" in shop.manage(*words)
    assert "No migrations to apply" in shop.manage(*words)


@pytest.mark.parametrize("manifest", WORKERS, ids=name_of)
def test_the_probes_say_yes_while_it_works_and_no_more_when_it_stops(
    manifest: Manifest, run: Run, shop: Shop
) -> None:
    worker = run(manifest)
    worker.starts()
    eventually(lambda: worker.passes("readinessProbe"), "it is ready", log=worker.log)
    queue = re.search(r"--queues=(\w+)", " ".join(worker.spec["args"]))
    assert queue
    shop.add("1", queue=queue[1])
    shop.wait("begun", "1", log=worker.log_file)
    assert worker.passes("livenessProbe")
    assert worker.passes("readinessProbe")
    worker.send(signal.SIGTERM)
    eventually(lambda: not worker.passes("readinessProbe"), "not ready", log=worker.log)
    assert worker.passes("livenessProbe"), worker.log()
    shop.open_the_gate()
    assert worker.wait(pod(manifest)["terminationGracePeriodSeconds"]) == 0, worker.log()
    assert shop.said("ended") == ["1"]
    assert (shop.count("t_task"), shop.count("t_task_worker")) == (0, 0)
