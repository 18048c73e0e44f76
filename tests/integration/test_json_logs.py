"""The recipe for JSON, as its page has it, in a real ``starttask``."""

import json
from typing import Any

from django.db import connections

from tests.integration.conftest import Start, url_of
from tests.integration.process import StartTask
from tests.integration.tasks import add, needs_a_server
from tests.proxy import Proxy
from tests.waiting import eventually

SETTINGS = {"DJANGO_SETTINGS_MODULE": "tests.integration.json_logging"}


def lines_of(worker: StartTask) -> list[dict[str, Any]]:
    """All that it has printed so far: whole lines, each of them JSON."""
    return [json.loads(line) for line in worker.log().splitlines(keepends=True) if line[-1] == "\n"]


def of_event(worker: StartTask, event: str) -> list[dict[str, Any]]:
    return [line for line in lines_of(worker) if line.get("event") == event]


def heard(worker: StartTask, event: str) -> dict[str, Any]:
    return eventually(lambda: of_event(worker, event), f"the event {event}", log=worker.log)[0]


def test_all_that_starttask_prints_is_json_with_events_and_tasks(start: Start) -> None:
    add("talk", "good", "bad")
    worker = start(**SETTINGS)
    failed = heard(worker, "task_failed")
    done, retried = heard(worker, "task_done"), heard(worker, "task_retried")
    assert worker.stop() == 0
    assert lines_of(worker)[0]["event"] == "introduced"
    assert lines_of(worker)[0]["databases"] == ["default"]
    for line, key, level in [
        (done, "talk/good", "INFO"),
        (retried, "talk/bad", "WARNING"),
        (failed, "talk/bad", "ERROR"),
    ]:
        assert (line["task"], line["level"], line["logger"]) == (key, level, "django_tasks")
        assert (line["biz_code"], line["queue"], line["database"]) == ("talk", "default", "default")
        assert line["worker"]
        assert line["task_id"] > 0
        assert line["duration"] >= 0
        assert line["batch"] is None
    assert [line["attempt"] for line in (done, retried, failed)] == [1, 1, 2]
    assert failed["error"] == "ConnectionError: the bank does not answer"
    assert "Traceback" in failed["exc_info"]
    own = [line for line in lines_of(worker) if line["logger"] == "shop.orders"]
    assert sorted((line["task"], line["attempt"]) for line in own) == [
        ("talk/bad", 1),
        ("talk/bad", 2),
        ("talk/good", 1),
    ]
    assert {line["message"] for line in own} == {"asking the bank 招商银行"}
    assert '"asking the bank 招商银行"' in worker.log()  # people read it, too
    stopped = heard(worker, "worker_stopped")
    assert stopped["task"] == ""
    assert stopped["worker"] == heard(worker, "worker_started")["worker"]


@needs_a_server
def test_so_are_an_outage_and_its_end(start: Start) -> None:
    with Proxy.before(connections["default"].settings_dict) as proxy:
        worker = start(DATABASE_URL=url_of(port=proxy.port), **SETTINGS)
        heard(worker, "worker_started")
        proxy.close()
        down = heard(worker, "database_down")
        proxy.open()
        back = heard(worker, "database_back")
        assert worker.stop() == 0
    assert (down["level"], back["level"]) == ("ERROR", "WARNING")
    assert (down["database"], down["kept"]) == ("default", 0)
    assert down["error"]
    assert back["duration"] >= 0
