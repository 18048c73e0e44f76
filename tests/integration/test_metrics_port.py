"""Figures for Prometheus from ``starttask --metrics-port``."""

import http.client
import sys

import pytest
from django.core.management import ManagementUtility
from django.db import connections
from prometheus_client.parser import text_string_to_metric_families

from devtools.servers.ports import free_port
from tests.integration.conftest import Start, url_of
from tests.integration.process import Journal
from tests.integration.tasks import add, needs_a_server
from tests.proxy import Proxy
from tests.waiting import DEADLINE, eventually


def ask(port: int, path: str) -> tuple[int, str]:
    """The status and the body; status 0 where nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    except (OSError, http.client.HTTPException):
        return 0, ""
    finally:
        connection.close()


def figures(port: int) -> dict[str, float]:
    """The figures without labels but that of the database; empty where there are none."""
    status, text = ask(port, "/metrics")
    if status != 200:
        return {}
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if set(sample.labels) <= {"database"}
    }


def test_figures_have_an_address_of_their_own(start: Start, journal: Journal) -> None:
    port = free_port()
    add("run", "future", seconds=600)
    worker = start("--metrics-port", f"127.0.0.1:{port}", "--processes", "1")
    up = {"django_tasks_up": 1.0}
    eventually(lambda: up.items() <= figures(port).items(), "figures", log=worker.log)
    assert ask(port, "/live")[0] == 404
    assert worker.stop() == 0
    assert "Traceback" not in worker.log()


def test_figures_may_have_that_of_the_probes(start: Start) -> None:
    address = f"127.0.0.1:{(port := free_port())}"
    worker = start("--health-port", address, "--metrics-port", address)
    eventually(lambda: ask(port, "/ready")[0] == 200, "it is ready", log=worker.log)
    for _ in range(3):
        assert figures(port)["django_tasks_up"] == 1.0
    assert worker.stop() == 0


@needs_a_server
def test_figures_of_an_outage_are_told_and_hold_up_no_probe(start: Start) -> None:
    address = f"127.0.0.1:{(port := free_port())}"
    with Proxy.before(connections["default"].settings_dict) as proxy:
        flags = ("--health-port", address, "--metrics-port", address, "--lease", "1")
        worker = start(*flags, DATABASE_URL=url_of(port=proxy.port))
        eventually(lambda: figures(port).get("django_tasks_up") == 1.0, "figures", log=worker.log)
        proxy.close()
        eventually(lambda: figures(port).get("django_tasks_up") == 0.0, "an outage", log=worker.log)
        assert ask(port, "/live")[0] == 200
        proxy.open()
        eventually(lambda: figures(port).get("django_tasks_up") == 1.0, "its end", log=worker.log)
        assert worker.stop() == 0
    assert "Traceback" not in worker.log()


@pytest.mark.each_database
def test_without_the_extra_one_sentence_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [*sys.modules]:
        if name.startswith(("django_tasks.metrics", "prometheus_client")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(SystemExit) as ended:
        ManagementUtility(["manage.py", "starttask", "--metrics-port", "9100"]).execute()
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "django-delayed-tasks[prometheus]" in line
