"""The poller and the heartbeats run no code of a project, whatever happens to its tasks."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from threading import Event, current_thread
from typing import Any

import pytest
from django import db
from django.db import OperationalError
from django.db.models import signals as model_signals
from django.dispatch import Signal
from django.test import override_settings
from django.views import debug

from django_tasks import redaction, signals
from django_tasks.client.adding import add_task
from django_tasks.client.control import cancel_task, delete_tasks, reschedule_task
from django_tasks.client.many import cancel_tasks
from django_tasks.client.pauses import pause_tasks, resume_tasks
from django_tasks.conf import host_name
from django_tasks.handlers.base import FUNCTION_ATTRIBUTES, TaskHandler
from django_tasks.locks import rows as rows_of_locks
from django_tasks.locks.rows import Hold
from django_tasks.models import Task, WorkerRow
from django_tasks.schedules.foreign import Foreign
from django_tasks.store import claim as claims
from django_tasks.timezones import for_django
from django_tasks.values.hosts import number_of
from django_tasks.values.keys import SCHEDULE_NUM, lock_of
from django_tasks.values.status import Status
from django_tasks.worker import lanes
from tests.environments.workers import ACTIVE, HEARTBEAT, POLLER, Start, ident, wait_for_beats
from tests.factories import a_row, a_worker, table
from tests.waiting import DEADLINE, eventually
from tests.worker.parts import added, ago, row, stored

pytestmark = pytest.mark.django_db(transaction=True)

HOOKS = {"on_failure", "on_stuck", "merge"}
STICKY_HOOK = "on_passive"
ATTRIBUTES = FUNCTION_ATTRIBUTES - HOOKS - {STICKY_HOOK}
OUR_SIGNALS = {name: signal for name, signal in vars(signals).items() if isinstance(signal, Signal)}
OF_MODELS = ("pre_init", "post_init", "pre_save", "post_save", "pre_delete", "post_delete")


class Notes:
    """The code of the project that has run, and the threads that ran it."""

    def __init__(self) -> None:
        self.threads: dict[str, set[str]] = defaultdict(set)

    def __call__(self, code: str) -> None:
        self.threads[code].add(current_thread().name)

    def receiver(self, code: str) -> Callable[..., None]:
        def receive(**_: Any) -> None:
            self(code)

        return receive

    def of(self, *threads: str) -> set[str]:
        """The code that has run in these threads."""
        return {code for code, found in self.threads.items() if found & set(threads)}


# One of each kind, as a project may write it


class Nosy(Exception):
    """An exception with methods of its own."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def __str__(self) -> str:
        self._notes("exception")
        return "strange"

    __repr__ = __str__


class Backoff:
    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def delay(self, attempt: int) -> timedelta:
        self._notes("backoff")
        return timedelta(0)


class Trigger:
    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def get_next_fire_time(self, previous: Any, now: datetime) -> datetime:
        self._notes("trigger")
        return now + timedelta(days=1)


class Lines(logging.Handler):
    """A log handler that is also a filter, and formats what it gets."""

    def __init__(self, notes: Notes) -> None:
        super().__init__(logging.DEBUG)
        self._notes = notes

    def filter(self, record: logging.LogRecord) -> bool:
        if hasattr(self, "_notes"):
            self._notes("log filter")
        return True

    def emit(self, record: logging.LogRecord) -> None:
        self._notes("log handler")
        self.format(record)


class Router:
    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def db_for_read(self, model: Any, **hints: Any) -> None:
        self._notes("router")

    db_for_write = db_for_read


class Filter(debug.SafeExceptionReporterFilter):
    """A filter of the facts that a project hides in the reports of its errors."""

    notes = Notes()

    def __init__(self) -> None:
        self.notes("filter of reports")


def a_handler(notes: Notes, biz_code: str, handle: Any, **values: Any) -> TaskHandler:
    """A handler whose attributes are properties, and which has all hooks."""

    def attribute(name: str) -> property:
        def read(_: TaskHandler) -> Any:
            notes(f"attribute {name}")
            return values.get(name, getattr(TaskHandler, name))

        return property(read)

    def hook(name: str) -> Any:
        def call(_: TaskHandler, *args: Any) -> Any:
            notes(name)
            if name == "merge":
                return args[1]
            return values[name].set() if name in values else None

        return call

    members: dict[str, Any] = {name: attribute(name) for name in ATTRIBUTES}
    hooks = HOOKS | {STICKY_HOOK} if "sticky" in values else HOOKS
    members |= {name: hook(name) for name in hooks}
    members |= {"get_biz_code": lambda _: biz_code, "handle": lambda _, task: handle(task)}
    nosy: TaskHandler = type("Nosy", (TaskHandler,), members)()
    return nosy


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Notes]:
    """A project whose code is called wherever one may write some."""
    notes = Filter.notes = Notes()
    receivers = {name: notes.receiver(f"signal {name}") for name in (*OUR_SIGNALS, *OF_MODELS)}
    told = OUR_SIGNALS | {name: getattr(model_signals, name) for name in OF_MODELS}
    lines, logger, factory = Lines(notes), logging.getLogger("django_tasks"), logging.LogRecord

    def make_record(*args: Any, **kwargs: Any) -> logging.LogRecord:
        notes("factory of records")
        return factory(*args, **kwargs)

    for name, signal in told.items():
        signal.connect(receivers[name])
    logger.addHandler(lines)
    logger.addFilter(lines)
    logger.setLevel(logging.DEBUG)
    logging.setLogRecordFactory(make_record)
    monkeypatch.setattr(db.router, "routers", [Router(notes)])
    forget_filter()
    with override_settings(DEFAULT_EXCEPTION_REPORTER_FILTER=f"{__name__}.Filter"):
        yield notes
    forget_filter()
    logging.setLogRecordFactory(factory)
    logger.setLevel(logging.NOTSET)
    logger.removeFilter(lines)
    logger.removeHandler(lines)
    for name, signal in told.items():
        signal.disconnect(receivers[name])


@pytest.fixture
def let_go() -> Iterator[Event]:
    let_go = Event()
    yield let_go
    let_go.set()


def test_no_code_of_a_project_runs_in_the_threads_that_a_lease_depends_on(
    start_worker: Start,
    handlers: Any,
    notes: Notes,
    let_go: Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stuck, entered = Event(), Event()
    look_along_at_times(monkeypatch)

    def fail(task: Any) -> None:
        raise Nosy(notes)

    def wait(task: Any) -> None:
        entered.set()
        assert let_go.wait(DEADLINE)

    handlers(
        a_handler(notes, "good", lambda task: None, max_running=4, rate_limit="100/s"),
        a_handler(notes, "again", lambda task: timedelta(days=1), history="all"),
        a_handler(notes, "bad", fail, max_attempts=2, backoff=Backoff(notes)),
        a_handler(notes, "late", lambda task: None, misfire_grace_time=1, on_misfire="run"),
        a_handler(notes, "daily", lambda task: None, schedule=Foreign(Trigger(notes))),
        a_handler(notes, "steady", lambda task: None, schedule="every 1d", sticky=True),
        a_handler(notes, "tidy", lambda task: None, schedule="every 1d", each_host=True),
        a_handler(notes, "killer", lambda task: None, max_attempts=1),
        a_handler(notes, "slow", wait, timeout=0.1, on_stuck=stuck),
        a_handler(notes, "effect", lambda task: None, atomic=True, history="all"),
    )
    term = rows_of_locks.take(lock_of("steady"), "somebody else", 60, using="default")
    worker = start_worker(lease=0.9)
    added("1", "slow")
    assert entered.wait(DEADLINE)
    for code in ("good", "again", "bad", "late", "effect"):
        added("1", code)
    meddle()
    assert stuck.wait(DEADLINE)
    table(biz_code="slow").delete()
    let_go.set()
    hand_over(notes, term)
    die_with_tasks()
    fail_for_once(monkeypatch)
    eventually(is_done, "all has come to its end", log=lambda: str(rows()))
    WorkerRow.objects.filter(pk=ident(worker)).delete()  # taken for dead
    eventually(lambda: WorkerRow.objects.filter(pk=ident(worker)), "it goes on as another one")
    wait_for_beats(2, worker)
    worker.stop()
    assert worker.join(DEADLINE)
    assert notes.of(POLLER, HEARTBEAT, ACTIVE) == set()
    assert {f"signal {name}" for name in OUR_SIGNALS} <= notes.threads.keys()
    assert {f"attribute {name}" for name in ATTRIBUTES} <= notes.threads.keys()
    assert notes.threads.keys() >= HOOKS | {
        STICKY_HOOK,
        *("exception", "backoff", "trigger", "router", "log filter", "log handler"),
        *("factory of records", "filter of reports"),
    }


def meddle() -> None:
    """Do each thing that a client may do."""
    for number in range(2):
        add_task(
            Task(biz_code="good", biz_num="debounced", biz_ext=number),
            on_conflict="debounce",
            wait=3600,
        )
    pause_tasks(queue="elsewhere")
    added("1", "good", queue="elsewhere")
    reschedule_task("good", "debounced", ago(-3600))
    cancel_task("good", "debounced")
    added("x-1", "good", when=ago(-3600))
    delete_tasks("good", "x-", match="prefix")
    added("y", "good", when=ago(-3600))
    cancel_tasks(biz_code="good", biz_num="y")
    resume_tasks(queue="elsewhere")


def hand_over(notes: Notes, term: Hold | None) -> None:
    """The active worker of a sticky handler goes, when this one has heard of it."""
    eventually(lambda: row(SCHEDULE_NUM, "steady"), "its row is made")
    table(biz_code="steady").update(when=for_django(ago()))
    eventually(lambda: "on_passive" in notes.threads, "it hears of it")
    assert term is not None
    assert rows_of_locks.free(term, using="default")
    eventually(lambda: stored(SCHEDULE_NUM, "steady").when > for_django(ago(0)), "it runs here")


def die_with_tasks() -> None:
    """A worker was there, and has died with two tasks; one had killed others before."""
    dead = a_worker("dead", lease=0.1, started=ago(100), heartbeat=ago(100))
    owned = {"claimed_by": dead.pk, "status": Status.RUNNING, "when": ago(), "claim_time": ago()}
    a_row("orphan", biz_code="good", **owned)
    a_row("1", biz_code="killer", rescues=2, **owned)


def fail_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database is away for a moment, and a lane has an error of its own."""
    errors = [OperationalError("gone away"), ValueError("a lane's own")]
    claim = claims.claim

    def fail(*args: Any, **kwargs: Any) -> Any:
        if errors:
            forget_what_is_hidden()
            raise errors.pop()
        return claim(*args, **kwargs)

    monkeypatch.setattr(claims, "claim", fail)


def look_along_at_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks for lanes are taken for dear: most of them go along the marks."""
    monkeypatch.setattr(lanes, "DEAR_SECONDS", -1.0)
    monkeypatch.setattr(lanes, "ALONG_SHARE", 1e9)
    monkeypatch.setattr(lanes, "LONGEST_FULL_SECONDS", 0.1)


def forget_filter() -> None:
    """Django keeps the filter that it has once made."""
    cached: Any = debug.get_default_exception_reporter_filter
    cached.cache_clear()


def forget_what_is_hidden() -> None:
    """As a process that has not formatted an error yet."""
    redaction._secrets.cache_clear()
    forget_filter()


def rows() -> set[tuple[str, str, int]]:
    return set(Task.objects.values_list("biz_code", "biz_num", "status"))


def is_done() -> bool:
    ended = {("bad", "1", Status.FAILED), ("killer", "1", Status.FAILED)}
    waiting = {
        ("again", "1", Status.PENDING),
        *((code, SCHEDULE_NUM, Status.PENDING) for code in ("daily", "steady")),
    }
    waiting.add(("tidy", number_of(host_name()), Status.PENDING))
    return rows() == ended | waiting
