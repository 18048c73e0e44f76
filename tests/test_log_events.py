"""Events of the log: each line has a name and its facts by name, as the reference lists them."""

import ast
import io
import json
import logging
import re
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from pythonjsonlogger.json import JsonFormatter

from django_tasks import logs
from django_tasks.clock import ClockReading, Tick
from django_tasks.handlers.running_task import PassiveTask, RunningTask
from django_tasks.logs import runs, worker
from django_tasks.sentences import sentence
from django_tasks.store import claimed_rows
from tests.factories import NOW, a_claim_of

PAGES = Path(__file__).resolve().parent.parent / "docs" / "reference"
REFERENCE = [PAGES / "log-events.rst", PAGES / "more-log-events.rst"]
THE_TASK = ["task", "task_id", "biz_code", "biz_num", "attempt", "queue", "database", "worker"]
GROUPS = {"*task*": THE_TASK, "*run*": [*THE_TASK, "duration", "lateness"]}

CLAIMED = a_claim_of()
RUN = RunningTask(CLAIMED, "default", Tick(ClockReading(NOW, 0.0), 0.0), claimed_rows, "host:1:abc")
ERROR = ConnectionError("the bank does not answer")
KEYS = ["job/1", "job/2"]
WHEN = datetime(2026, 11, 22, 12, tzinfo=timezone.utc)
PASSIVE = PassiveTask("job", "1", WHEN, None, "host:2:def", WHEN, 3, "default")

SAY: dict[str, Callable[[], None]] = {
    "asked_to_rest": lambda: logs.asked_to_rest("default", 7),
    "asked_to_stop": lambda: logs.asked_to_stop("default", 7),
    "asked_to_work": lambda: logs.asked_to_work("default", 7),
    "backoff_failed": lambda: logs.backoff_failed(RUN),
    "batch_failed": lambda: logs.batch_failed(RUN, 3, ERROR),
    "batch_not_confirmed": lambda: logs.batch_not_settled(RUN, 3, ERROR),
    "became_active": lambda: logs.became_active("job", 3, "default"),
    "child_ended": lambda: logs.child_ended(1, 99, -9, 0.5),
    "child_not_replaced": lambda: logs.not_replaced(1, 99),
    "claim_refused": lambda: logs.lane_failed("default", "job", "mail", ERROR, 5.0),
    "claims_missing": lambda: logs.claims_missing("default", KEYS),
    "commit_hook_failed": lambda: logs.commit_hook_failed(RUN),
    "companion_failed": logs.companion_failed,
    "counts_refused": lambda: logs.counts_not_written("default", ERROR),
    "database_back": lambda: logs.database_back("default", 7.5),
    "database_down": lambda: logs.database_down("default", "silent", "", ERROR, 2, 60.0),
    "database_unfit": lambda: logs.unfit_database("default", "It is old."),
    "died_after_its_end": lambda: logs.died_after_its_end(RUN, ERROR),
    "end_not_confirmed": lambda: logs.not_settled(RUN, ERROR),
    "end_not_written": lambda: logs.end_not_written(CLAIMED, ERROR, "default"),
    "ends_refused": lambda: logs.ends_refused("default", 2, ERROR),
    "fork_failed": lambda: logs_of_forks()(ERROR),
    "functions_not_imported": lambda: logs.not_imported("shop.tasks", ERROR),
    "handler_not_imported": lambda: logs.search_failed("default", "job", ERROR),
    "heartbeat_failed": lambda: logs.heartbeat_failed("default"),
    "heartbeat_late": lambda: logs.heartbeat_late("default", ERROR),
    "hints_back": lambda: logs.hints_back("default"),
    "hints_lost": lambda: logs.hints_lost("default", ERROR),
    "health_file_not_written": lambda: logs.health_file_not_written(Path("/run/x"), ERROR),
    "history_refused": lambda: logs.lines_not_written("default", ERROR),
    "hook_failed": lambda: logs.hook_failed("on_failure", RUN),
    "host_forgotten": lambda: logs.host_forgotten("job", "1", "default"),
    "introduced": lambda: logs.introduced(
        "Here I am.",
        version="1",
        databases=["default"],
        processes=1,
        threads=8,
        queues=[],
        biz_codes=["job"],
    ),
    "lock_lost": lambda: logs.lock_lost("nightly", 3, "default"),
    "lock_not_freed": lambda: logs.lock_not_freed("nightly", ERROR, "default"),
    "lock_not_renewed": lambda: logs.lock_not_renewed("nightly", ERROR, "default"),
    "loop_interrupted": lambda: logs.loop_interrupted(SystemExit(1)),
    "metrics_failed": logs.metrics_failed,
    "metrics_readable": lambda: logs.metrics_readable("default"),
    "metrics_unreadable": lambda: logs.metrics_unreadable("default", ERROR),
    "messages_dropped": lambda: logs.messages_dropped("default", 3),
    "no_doorbell": lambda: logs.no_doorbell("10.0.0.1", ERROR),
    "names_doubted": lambda: logs.names_doubted([sentence("No handler has it.")], "jbo"),
    "no_handler_here": lambda: logs.no_handler_here("jbo", "job"),
    "no_longer_active": lambda: logs.no_longer_active("job", 3, "default"),
    "not_isolated": lambda: logs.not_isolated(RUN, ERROR),
    "not_signed_off": lambda: logs.abandoned("default", []),
    "nothing_is_killed": lambda: logs.nothing_is_killed(["job"]),
    "one_thread_shared": lambda: logs.shares_one_thread("default"),
    "paused": lambda: logs.paused("default", "mail", ""),
    "poller_died": lambda: logs.poller_died("default"),
    "poller_failed": lambda: logs.poller_failed("default"),
    "poller_hangs": lambda: logs.poller_hangs("default", 31.0),
    "process_retiring": lambda: logs.retiring("10 tasks"),
    "probes_answered": lambda: logs.probes_answered("--health-port 8080"),
    "probes_ended": lambda: logs.probes_ended(99, -9, 0.5),
    "process_not_started": lambda: logs.process_not_started("starttask-1", ERROR, 0.5),
    "receiver_failed": lambda: receiver_failed(),
    "receivers_unheard": lambda: logs.receivers_unheard("default"),
    "rescue_failed": lambda: logs.not_rescued("default", 7, ERROR),
    "resumed": lambda: logs.resumed("default", "", "job"),
    "row_not_read": lambda: logs.not_passive("job", "default"),
    "run_broken": lambda: logs.run_failed(RUN),
    "release_is_older": lambda: logs.release_is_older("job", "every 5m", "every 1h", "default"),
    "schedule_kept": lambda: logs.schedule_kept("job", "every 5 min", "default"),
    "schedule_not_here": lambda: logs.schedule_not_here(RUN, ERROR),
    "schedule_replaced": lambda: logs.schedule_replaced("job", "every 5m", "every 1h", "default"),
    "schedule_over": lambda: logs.schedule_over("job", ERROR, "default"),
    "schedule_removed": lambda: logs.schedule_kept("job", None, "default"),
    "schedules_not_kept": lambda: logs.schedules_not_kept("default", ERROR),
    "zone_changed": lambda: logs.zone_changed("job", "1", NOW, "default"),
    "second_signal": lambda: logs.second_signal(KEYS),
    "statement_rejected": lambda: logs.statement_rejected("default", "It rejects.", ERROR, 30.0),
    "stop_not_told": lambda: logs.not_forgiven("default", ERROR),
    "stopping": lambda: logs.stopping("default", KEYS, 30.0),
    "strange_attribute": lambda: logs.strange_attribute(
        "shop.tasks.Push", "retries", "max_attempts"
    ),
    "strange_queue": lambda: logs.strange_queue("mial"),
    "supervisor_gone": logs.supervisor_died,
    "surroundings_changed": lambda: logs.surroundings_changed(CLAIMED, ("/", "C"), ("", "de")),
    "tally": lambda: logs.tally("default", {"done": 12, "retried": 0}, 60.0),
    "task_done": lambda: logs.succeeded(RUN, 0.25),
    "task_failed": lambda: runs._failed(task=RUN, seconds=0.25, exception=ERROR),
    "task_killed": lambda: logs.killing(RUN, ERROR, 2),
    "task_lost": lambda: runs._lost(task=CLAIMED, using="default"),
    "task_missed": lambda: logs.missed(RUN, 7.0, "coalesce"),
    "task_rescheduled": lambda: logs.rescheduled(RUN, 0.25, WHEN),
    "task_retried": lambda: runs._retried(task=RUN, seconds=0.25, when=WHEN, exception=ERROR),
    "task_still_running": lambda: logs.still_running(CLAIMED, 7.0, 5.0, 2, "default"),
    "task_took_too_long": lambda: logs.took_too_long(RUN, 7.0, 5.0),
    "tasks_abandoned": lambda: logs.abandoned("default", KEYS),
    "tasks_rescued": lambda: worker._rescued(worker_id=7, count=2, using="default", tasks=KEYS),
    "terms_failed": lambda: logs.terms_failed("default"),
    "thread_died": lambda: logs.thread_died("django_tasks-1"),
    "total": lambda: logs.total("default", 12, 45.0),
    "transaction_left": lambda: logs.transaction_left(CLAIMED, ["default"]),
    "trigger_unknown": lambda: logs.unknown_trigger(RUN),
    "unknown_code": lambda: logs.unknown_code("default", "job", "3"),
    "worker_failed": lambda: logs.worker_failed("default"),
    "worker_replaced": lambda: logs.worker_replaced("default", 7, 8),
    "worker_started": lambda: worker._worker_started(worker_id=7, name="host", using="default"),
    "worker_stopped": lambda: worker._worker_stopped(worker_id=7, name="host", using="default"),
}


def logs_of_forks() -> Callable[[BaseException], None]:
    from django_tasks.logs.processes import fork_failed

    return fork_failed


def receiver_failed() -> None:
    from django_tasks.logs.threads import receiver_failed

    receiver_failed()


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have something said, and read its line as a program reads it."""
    monkeypatch.setattr(runs, "_successes", runs.Successes())
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter("%(levelname)s %(name)s %(message)s"))
    level = logs.logger.level
    logs.logger.addHandler(handler)
    logs.logger.setLevel(logging.DEBUG)

    def say(something: Callable[[], None]) -> dict[str, Any]:
        something()
        (line,) = stream.getvalue().splitlines()
        fields: dict[str, Any] = json.loads(line)
        return fields

    yield say
    logs.logger.removeHandler(handler)
    logs.logger.setLevel(level)


def documented() -> dict[str, tuple[set[str], set[str]]]:
    """The levels and the fields of each event, as the reference has them."""
    rows = re.findall(
        r"   \* - ``(\w+)``\n       ([A-Z, ]+)\n(.*?)(?=\n   \* |\n\n\S|\s*\Z)",
        "\n\n".join(page.read_text() for page in REFERENCE),
        re.S,
    )
    found: dict[str, tuple[set[str], set[str]]] = {}
    for event, levels, cells in rows:
        assert event not in found, f"{event} stands there twice"
        _, _, cell = cells.rpartition("\n     - ")
        fields: set[str] = set()
        for word in re.split(r",\s*", " ".join(cell.split())):
            fields |= {*GROUPS.get(word, [word.strip("`")])} - {"none"}
        found[event] = set(levels.split(", ")), fields
    return found


def in_source() -> dict[str, set[str]]:
    """The functions in which each event is said, by the source."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in Path(logs.__file__).parent.glob("*.py"):
        for function in ast.walk(ast.parse(file.read_text())):
            if isinstance(function, ast.FunctionDef):
                for call in ast.walk(function):
                    if isinstance(call, ast.Call) and _name(call) in ("say", "_good"):
                        event = call.args[0]
                        if isinstance(event, ast.Constant):
                            found[str(event.value)].add(f"{file.name}:{function.name}")
                        else:
                            assert function.name == "_good", f"{function.name}: an event has a name"
    return found


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def test_each_sentence_has_an_event_of_its_own() -> None:
    said = in_source()
    assert said.keys() == SAY.keys()
    assert [event for event, functions in said.items() if len(functions) > 1] == []
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", event) for event in said)


def test_the_reference_lists_each_event() -> None:
    assert documented().keys() == SAY.keys()


@pytest.mark.parametrize("event", SAY)
def test_a_line_is_what_the_reference_says_and_a_program_can_read_it(event: str, said: Any) -> None:
    line = said(SAY[event])
    levels, fields = documented()[event]
    assert line.pop("event") == event
    assert line.pop("levelname") in levels
    assert line.pop("name") == "django_tasks"
    assert line.pop("message")
    line.pop("exc_info", None)
    assert line.keys() == fields
    if "error" in line:
        assert line["error"].startswith(("ConnectionError: the bank", "SystemExit: 1"))


def test_the_line_of_a_rescuer_is_about_a_failed_task_too(said: Any) -> None:
    line = said(lambda: runs._failed(task=CLAIMED, error="It died.", using="default"))
    assert (line["event"], line["task"], line["database"]) == ("task_failed", "job/1", "default")
    assert line["error"] == "It died."
    assert line["task_id"] == CLAIMED.id


def test_a_hook_of_a_passive_worker_has_its_key(said: Any) -> None:
    line = said(lambda: logs.hook_failed("on_passive", PASSIVE))
    assert (line["task"], line["task_id"], line["hook"]) == ("job/1", None, "on_passive")


def test_fields_are_plain_values(caplog: pytest.LogCaptureFixture) -> None:
    """A formatter that knows nothing but JSON can write each of them."""
    caplog.set_level(logging.DEBUG, "django_tasks")
    common = vars(logging.makeLogRecord({})).keys() | {"message", "asctime"}
    for say in SAY.values():
        say()
    assert len(caplog.records) >= len(SAY) - 2  # a success may be one of too many
    for record in caplog.records:
        own = {name: value for name, value in vars(record).items() if name not in common}
        json.dumps(own)
