"""Sentry's own SDK, and a transport that keeps what it would send."""

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport

from django_tasks.handlers import companions
from django_tasks.handlers.base import TaskHandler
from django_tasks.sentry import DjangoTasksIntegration
from django_tasks.worker.coroutines import EventLoop
from django_tasks.worker.worker import Worker
from tests.waiting import DEADLINE, eventually
from tests.worker.parts import CODE, added, claimed, config, joined, runner

pytestmark = pytest.mark.django_db(transaction=True)


class Kept(Transport):
    """Sends nothing, keeps all."""

    def __init__(self, options: dict[str, Any] | None = None) -> None:
        super().__init__(options)
        self.items: list[dict[str, Any]] = []
        self.threads: set[str] = set()
        self.flushes = 0

    def capture_envelope(self, envelope: Envelope) -> None:
        self.threads.add(threading.current_thread().name)
        for item in envelope.items:
            if item.payload.json is not None:
                self.items.append(item.payload.json)

    def flush(self, timeout: float, callback: Any = None) -> None:
        self.flushes += 1

    @property
    def events(self) -> list[dict[str, Any]]:
        return [item for item in self.items if item.get("exception") or item.get("logentry")]

    @property
    def transactions(self) -> list[dict[str, Any]]:
        return [item for item in self.items if item.get("type") == "transaction"]


Init = Callable[..., Kept]


# The way of a line to its handlers: Python's own, and that which the SDK puts in its place, once a
# process. Other tests want the first one again.
ways = [logging.Logger.callHandlers]


@pytest.fixture
def init(monkeypatch: pytest.MonkeyPatch) -> Iterator[Init]:
    """Initialise the SDK; it is as it was afterwards."""
    before = list(companions.COMPANIONS)
    monkeypatch.setattr(logging.Logger, "callHandlers", ways[-1])

    def init(*integrations: Any, **options: Any) -> Kept:
        kept = Kept()
        sentry_sdk.init(
            dsn="https://key@sentry.example/1",
            integrations=list(integrations) or [DjangoTasksIntegration()],
            transport=kept,
            auto_enabling_integrations=False,
            **{"traces_sample_rate": 1.0, **options},
        )
        ways.append(logging.Logger.callHandlers)
        return kept

    yield init
    sentry_sdk.get_client().close(timeout=0)
    sentry_sdk.get_global_scope().set_client(None)
    assert len(companions.COMPANIONS) <= len(before) + 1  # it is set up once a process


def run(code: str = CODE, loop: EventLoop | None = None) -> None:
    membership = joined()
    claims = claimed(membership.worker_id, code, limit=100)
    assert claims
    one = runner(membership, loop)
    for claim in claims:
        one(claim)


def crumbs(event: dict[str, Any]) -> list[str]:
    found = event.get("breadcrumbs", {}).get("values", [])
    return [each["message"] for each in found if each.get("category") == "test"]


def fail(task: Any) -> None:
    sentry_sdk.add_breadcrumb(category="test", message=f"begun {task}")
    raise ValueError(f"no {task}")


def test_a_run_that_fails_for_good_is_one_event_with_its_task(register: Any, init: Init) -> None:
    kept = init()
    register(fail, max_attempts=1)
    task = added()
    run()
    (event,) = kept.events
    assert event["transaction"] == "job"
    assert event["level"] == "error"
    tags = event["tags"]
    assert tags.pop("worker")
    assert {name: str(value) for name, value in tags.items()} == {
        "biz_code": "job",
        "biz_num": "1",
        "attempt": "1",
        "queue": "default",
        "database": "default",
    }
    (raised,) = event["exception"]["values"]
    assert (raised["type"], raised["value"]) == ("ValueError", "no job/1")
    assert raised["mechanism"]["type"] == "django_tasks"
    assert raised["mechanism"]["handled"] is False
    (transaction,) = kept.transactions
    trace = transaction["contexts"]["trace"]
    assert (transaction["transaction"], trace["op"]) == ("job", "queue.task.django_tasks")
    assert transaction["transaction_info"] == {"source": "task"}
    assert trace["status"] == "internal_error"
    assert trace["trace_id"] == event["contexts"]["trace"]["trace_id"]
    assert trace["data"]["messaging.destination.name"] == "default"
    assert trace["data"]["messaging.message.id"] == str(task)


def test_each_of_two_runs_has_its_own_breadcrumbs_and_tags(register: Any, init: Init) -> None:
    kept = init()
    sentry_sdk.add_breadcrumb(category="test", message="of the start")
    register(fail, max_attempts=1)
    added("1")
    added("2")
    run()
    found = {event["tags"]["biz_num"]: crumbs(event) for event in kept.events}
    assert found == {"1": ["begun job/1"], "2": ["begun job/2"]}
    traces = {event["contexts"]["trace"]["trace_id"] for event in kept.events}
    assert len(traces) == 2


def test_two_at_once_do_not_mix(register: Any, init: Init) -> None:
    kept = init()
    both = threading.Barrier(2)

    def handle(task: Any) -> None:
        sentry_sdk.add_breadcrumb(category="test", message=f"first {task}")
        both.wait(DEADLINE)
        sentry_sdk.add_breadcrumb(category="test", message=f"second {task}")
        both.wait(DEADLINE)
        raise ValueError(f"no {task}")

    register(handle, max_attempts=1)
    added("1")
    added("2")
    worker = Worker(config(threads=2, poll_interval=0.05))
    worker.start()
    try:
        eventually(lambda: len(kept.events) == 2 and len(kept.transactions) == 2, "both are told")
    finally:
        worker.stop()
        assert worker.join(DEADLINE)
    found = {event["tags"]["biz_num"]: crumbs(event) for event in kept.events}
    assert found == {
        number: [f"first job/{number}", f"second job/{number}"] for number in ("1", "2")
    }
    assert kept.threads <= {"django_tasks-1", "django_tasks-2"}


def test_a_coroutine_is_in_the_scope_of_its_run(
    register: Any, init: Init, event_loop_thread: EventLoop
) -> None:
    kept = init()

    async def handle(task: Any) -> None:
        sentry_sdk.add_breadcrumb(category="test", message=f"begun {task}")
        await asyncio.to_thread(
            sentry_sdk.add_breadcrumb, category="test", message=f"in a thread {task}"
        )
        sentry_sdk.capture_message(f"from {task}")
        raise ValueError(f"no {task}")

    register(handle, max_attempts=1)
    added("1")
    added("2")
    run(loop=event_loop_thread)
    failures = [item for item in kept.events if item.get("exception")]
    assert [crumbs(event) for event in failures] == [
        [f"begun job/{number}", f"in a thread job/{number}"] for number in (1, 2)
    ]
    messages = [item for item in kept.items if item.get("message")]
    assert [(each["message"], each["tags"]["biz_num"]) for each in messages] == [
        ("from job/1", "1"),
        ("from job/2", "2"),
    ]


@pytest.mark.parametrize("reported", [False, True])
def test_a_retry_is_an_event_for_who_wants_it(register: Any, init: Init, reported: bool) -> None:
    kept = init(DjangoTasksIntegration(report_retries=reported))
    register(fail)
    added()
    run()
    assert [event["level"] for event in kept.events] == ["warning"] * reported
    (transaction,) = kept.transactions
    assert transaction["contexts"]["trace"]["status"] == "internal_error"


def test_a_run_that_is_done_is_a_transaction_alone(register: Any, init: Init) -> None:
    kept = init()
    register(lambda task: None)
    added()
    run()
    assert kept.events == []
    (transaction,) = kept.transactions
    assert transaction["contexts"]["trace"]["status"] == "ok"
    assert transaction["tags"]["biz_num"] == "1"


def test_what_a_hook_raises_is_an_event_of_the_run(register: Any, init: Init) -> None:
    """By the SDK's integration with logging."""
    kept = init()

    def on_failure(task: Any, exc: BaseException) -> None:
        raise KeyError("hook")

    register(fail, max_attempts=1, on_failure=on_failure)
    added()
    run()
    assert sorted(event["exception"]["values"][-1]["type"] for event in kept.events) == [
        "KeyError",
        "ValueError",
    ]
    assert {event["tags"]["biz_num"] for event in kept.events} == {"1"}


@pytest.mark.parametrize(
    ("options", "count"), [({"traces_sample_rate": 0.0}, 0), ({"traces_sample_rate": None}, 0)]
)
def test_transactions_are_sampled_and_events_are_not(
    register: Any, init: Init, options: dict[str, Any], count: int
) -> None:
    kept = init(**options)
    register(fail, max_attempts=1)
    added()
    run()
    assert len(kept.transactions) == count
    (event,) = kept.events
    assert event["transaction"] == "job"


def test_a_sampler_knows_the_task(register: Any, init: Init) -> None:
    asked: list[Any] = []

    def sampler(context: dict[str, Any]) -> float:
        asked.append(context["django_tasks"])
        return 0.0

    init(traces_sampler=sampler)
    register(lambda task: None)
    added()
    run()
    assert asked == [{"biz_code": "job", "queue": "default", "database": "default"}]


def test_no_transactions_for_who_wants_none(register: Any, init: Init) -> None:
    kept = init(DjangoTasksIntegration(transactions=False))
    register(fail, max_attempts=1)
    added()
    run()
    assert kept.transactions == []
    assert [event["transaction"] for event in kept.events] == ["job"]


def test_a_batch_is_one_transaction_and_each_failure_an_event(handlers: Any, init: Init) -> None:
    kept = init()

    class Batch(TaskHandler):
        biz_code = CODE
        batch = 10
        max_attempts = 1

        def handle_batch(self, tasks: list[Any]) -> Any:
            return {task: ValueError(str(task)) for task in tasks if task.biz_num != "2"}

    handlers(Batch)
    for number in ("1", "2", "3"):
        added(number)
    membership = joined()
    runner(membership).runner(tuple(claimed(membership.worker_id, limit=10)))
    assert sorted(event["tags"]["biz_num"] for event in kept.events) == ["1", "3"]
    (transaction,) = kept.transactions
    assert transaction["tags"]["batch"] in (3, "3")
    assert "biz_num" not in transaction["tags"]
    assert transaction["contexts"]["trace"]["status"] == "internal_error"


def test_one_of_a_batch_that_is_tried_alone_has_a_scope_of_its_own(
    handlers: Any, init: Init
) -> None:
    kept = init()

    class Batch(TaskHandler):
        biz_code = CODE
        batch = 10
        max_attempts = 1

        def handle_batch(self, tasks: list[Any]) -> Any:
            sentry_sdk.add_breadcrumb(category="test", message=", ".join(map(str, tasks)))
            if any(task.biz_num == "2" for task in tasks):
                raise ValueError("2")

    handlers(Batch)
    for number in ("1", "2"):
        added(number)
    membership = joined()
    runner(membership).runner(tuple(claimed(membership.worker_id, limit=10)))
    (event,) = kept.events
    assert crumbs(event) == ["job/2"]
    assert event["tags"]["biz_num"] == "2"


def test_a_process_that_ends_has_its_events_sent(init: Init) -> None:
    kept = init()
    companions.take_leave()
    assert kept.flushes == 1


def test_nothing_happens_where_the_sdk_is_not_initialised(register: Any) -> None:
    assert not sentry_sdk.get_client().is_active()
    register(fail, max_attempts=1)
    added()
    run()


def test_a_settings_file_may_import_it() -> None:
    program = (
        "import sentry_sdk; from django_tasks.sentry import DjangoTasksIntegration;"
        " sentry_sdk.init(integrations=[DjangoTasksIntegration()]); print('fine')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=DEADLINE
    )
    assert done.stdout == "fine\n", done.stderr


def test_without_the_sdk_one_sentence_says_what_to_install() -> None:
    program = "import sys; sys.modules['sentry_sdk'] = None; import django_tasks.sentry"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=DEADLINE
    )
    assert done.stderr.splitlines()[-1] == (
        "ImportError: django_tasks.sentry needs sentry-sdk: pip install"
        " 'django-delayed-tasks[sentry]'"
    )
