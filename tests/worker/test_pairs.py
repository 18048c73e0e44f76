"""Pairs of features: what a client does during a run, how its handler is called, how it ends.

All cells of one ending at once: each has a code of its own, whose handler steps on command, on real
workers. What is left in the table, how often each task was called, and what ``atomic`` calls have
committed, is what the model says.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from threading import Event, Lock
from time import monotonic
from typing import Any, NamedTuple

import pytest
from django.contrib.auth.models import Group
from django.db import OperationalError

from django_tasks import api
from django_tasks.api import Task, TaskHandler
from django_tasks.handlers import registry
from django_tasks.handlers.base import task_handler
from django_tasks.timezones import aware
from django_tasks.values.status import Status
from django_tasks.worker.condition import Condition
from django_tasks.worker.worker import Worker
from tests.vendor import ON_SQLITE
from tests.waiting import DEADLINE, eventually
from tests.worker.parts import ago, config

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = timedelta(hours=1)
SOON = timedelta(milliseconds=1)
# Longer than the steps of all clients take.
TIMEOUT = 8.0
# Of a worker that is lost; the others are not to be, on a slow machine either.
LEASE, LONG_LEASE = 2.0, 60.0
# The task that a client touches, and the other one of its batch.
TOUCHED, OTHER = "2", "1"

STEPS: dict[str, Callable[[str], Any]] = {
    "nothing": lambda code: None,
    "added": lambda code: api.add_task(
        Task(biz_code=code, biz_num=TOUCHED, when=ago(-3 * 3600), biz_ext="new")
    ),
    "cancelled": lambda code: api.cancel_task(code, TOUCHED),
    "paused": lambda code: api.pause_task(code, TOUCHED),
    "moved": lambda code: api.reschedule_task(code, TOUCHED, 2 * HOUR),
    "updated": lambda code: api.update_task(code, TOUCHED, biz_ext="new"),
    "requeued": lambda code: api.requeue_task(code, TOUCHED),
    "run-now": lambda code: api.run_task_now(code, TOUCHED),
    "expired": lambda code: api.update_task(code, TOUCHED, expires=SOON),
    "limited": lambda code: api.set_limits(code, max_running=1),
}
# A batch that goes on in parts leaves these out.
CHANGED = {"added", "cancelled", "paused", "moved", "updated", "run-now"}
BATCHES = {"batch", "atomic-batch", "halves"}
MODES = ["single", "function", "sticky", "scheduled", "atomic", *sorted(BATCHES)]
# Of these, the run comes to no end of its own.
LOST = {"killed", "stopped", "frozen"}
ENDINGS = ["succeeds", "fails", "times out", *sorted(LOST)]
# A transaction that is open on SQLite keeps clients from writing, and that is no race.
PLAYED = [mode for mode in MODES if not (ON_SQLITE and mode.startswith("atomic"))]


class Trouble(Exception):
    """The failure of a run, as told."""


class Cell(NamedTuple):
    """A step during a run, the mode of the handler, and the end of the run."""

    step: str
    mode: str
    end: str

    @property
    def code(self) -> str:
        return f"{self.mode}.{self.step}"


# The model


class Left(NamedTuple):
    """A row at the end: its status, failed attempts and payload; it is due in so many hours."""

    status: str
    attempts: int
    payload: str
    hours: int


class Found(NamedTuple):
    """The row that is left, the number of calls with it, and that of effects which are committed:
    of ``atomic`` calls, each of which leaves one. Others leave theirs whatever comes of them.
    """

    left: Left | None
    calls: int
    effects: int


def expected(cell: Cell, biz_num: str) -> Found:
    """Facts that are found at the end."""
    left, first, later = _lives(cell, biz_num)
    is_atomic = cell.mode.startswith("atomic")
    # Of the first calls of a task, which are of one claim, one is committed, if any.
    effects = (cell.end == "succeeds") + later if is_atomic else 0
    return Found(left, first + later, effects)


def _lives(cell: Cell, biz_num: str) -> tuple[Left | None, int, int]:
    """The row that is left, the number of calls of its first claim, and that of further runs."""
    step = cell.step if biz_num == TOUCHED else "nothing"
    in_parts = cell.mode == "halves" or (cell.mode in BATCHES and cell.end == "fails")
    calls = 2 if in_parts and not (cell.mode == "halves" and cell.end in LOST) else 1
    if cell.mode == "halves" and cell.end in LOST and biz_num == OTHER:
        calls = 2  # with both, and then by itself, which does not end
    if in_parts and cell.end not in LOST and step in CHANGED:
        left, later = _by_itself(cell, step, "comes back")
        return left, 1, later
    # What has taken too long together is tried one by one.
    together = cell.mode in BATCHES and cell.mode != "halves" and cell.end == "times out"
    comes_back = together or cell.end in LOST
    left, later = _by_itself(cell, step, "comes back" if comes_back else cell.end)
    return left, calls, later


def _by_itself(cell: Cell, step: str, end: str) -> tuple[Left | None, int]:
    """The row that is left of a run that ends so, and the number of further runs.

    "comes back": the row is as before the run, and due. Each further run ends well.
    """
    payload = "new" if step in ("added", "updated") else "old"
    is_scheduled = cell.mode == "scheduled"
    # What a run leaves that ends well, and what one that is to be tried again.
    good = Left("PENDING", 0, payload, hours=1) if is_scheduled else None
    bad = Left("PENDING", 1, payload, hours=1)
    runs_again = end == "comes back"
    if step == "cancelled":
        return None, 0
    if step in ("added", "moved"):
        return Left("PENDING", 0, payload, hours=3 if step == "added" else 2), 0
    if step == "run-now":
        return good, 1
    if step == "paused":
        if runs_again:
            return Left("PAUSED", 0, payload, hours=0), 0
        left = good if end == "succeeds" else bad
        return left and left._replace(status="PAUSED"), 0
    if step == "expired" and runs_again:
        return None if is_scheduled else Left("FAILED", 1, payload, hours=0), 0
    if runs_again:
        return good, 1
    return (good if end == "succeeds" else bad), 0


# The stage


class Play:
    """The handlers of all cells of one ending, and the calls that they get."""

    def __init__(self, end: str) -> None:
        self.cells = [Cell(step, mode, end) for mode in PLAYED for step in STEPS]
        self.end = end
        self.go = Event()
        self._lock = Lock()
        self._calls: dict[tuple[str, str], int] = defaultdict(int)
        self._waiting: set[str] = set()
        # The version of each task at its first call.
        self._first: dict[tuple[str, str], int] = {}

    def set_the_table(self) -> None:
        """Register the handlers, and add their tasks, due now."""
        for cell in self.cells:
            registry.register_task_handler(self._handler(cell))
            for biz_num in (OTHER, TOUCHED) if cell.mode in BATCHES else (TOUCHED,):
                schedule = "every 1h" if cell.mode == "scheduled" else None
                api.add_task(
                    Task(
                        biz_code=cell.code,
                        biz_num=biz_num,
                        when=ago(1),
                        biz_ext="old",
                        schedule=schedule,
                    )
                )

    def _handler(self, cell: Cell) -> Any:
        attributes: dict[str, Any] = {"biz_code": cell.code, "max_attempts": 3, "backoff": 3600}
        if self.end == "times out":
            attributes["timeout"] = TIMEOUT
        if cell.mode == "function":
            del attributes["biz_code"]
            return task_handler(cell.code, **attributes)(lambda task: self._call(cell, [task]))
        attributes["atomic"] = cell.mode.startswith("atomic")
        if cell.mode in BATCHES:
            attributes["batch"] = 2
            attributes["handle_batch"] = lambda self_, tasks: self._call(cell, tasks)
        else:
            if cell.mode == "sticky":  # which goes with a schedule, of a row of its own
                attributes |= {"sticky": True, "schedule": "every 5000h"}
            attributes["handle"] = lambda self_, task: self._call(cell, [task])
        return type("Stepping", (TaskHandler,), attributes)

    def _call(self, cell: Cell, tasks: Sequence[Any]) -> None:
        with self._lock:
            for task in tasks:
                self._calls[cell.code, task.biz_num] += 1
            keys = [(cell.code, task.biz_num) for task in tasks]
            names = [f"{code}/{num}/{self._calls[code, num]}" for code, num in keys]
            first = [self._first.setdefault((cell.code, t.biz_num), t.version) for t in tasks]
        if cell.mode.startswith("atomic"):
            Group.objects.bulk_create([Group(name=name) for name in names])
        if all(task.version > version for task, version in zip(tasks, first, strict=True)):
            return  # a further run
        if cell.mode == "halves" and len(tasks) > 1:
            raise Trouble("both of them")
        with self._lock:
            self._waiting.add(cell.code)
        _wait_for(self.go)
        if self.end == "times out":
            _wait_for(Event())
        if self.end == "fails":
            raise Trouble("as told")

    def all_wait(self) -> bool:
        return len(self._waiting) == len(self.cells)

    def let_go(self) -> None:
        self.go.set()

    def found(self) -> dict[tuple[str, str], Found]:
        rows = {(row.biz_code, row.biz_num): row for row in Task.objects.all()}
        names = Group.objects.values_list("name", flat=True)
        effects = Counter((code, num) for code, num, _ in (name.split("/") for name in names))
        known = [
            (cell.code, biz_num)
            for cell in self.cells
            for biz_num in ((OTHER, TOUCHED) if cell.mode in BATCHES else (TOUCHED,))
        ]
        return {key: Found(_left(rows.get(key)), self._calls[key], effects[key]) for key in known}

    def differences(self) -> list[str]:
        """The cells in which the row, the calls, or the effects are not as the model has them."""
        wanted = {
            (cell.code, biz_num): expected(cell, biz_num)
            for cell in self.cells
            for biz_num in (OTHER, TOUCHED)
        }
        return [
            f"{key}: {found}, and not {wanted[key]}"
            for key, found in self.found().items()
            if found != wanted[key]
        ]


def _wait_for(event: Event) -> None:
    """Wait in steps, between two of which an interrupt comes; eighty threads do, so not short ones.
    Each at an Event of its own, whose lock an interrupt may leave locked.
    """
    end = monotonic() + DEADLINE
    while not event.is_set() and monotonic() < end:
        Event().wait(0.1)


def _left(row: Task | None) -> Left | None:
    if row is None:
        return None
    hours = round((aware("when", row.when) - ago(0)) / HOUR)
    return Left(Status(row.status).name, row.attempts, row.biz_ext, hours)


@pytest.fixture
def start(transactional_db: None, handlers: Any) -> Iterator[Callable[[float], Worker]]:
    workers: list[Worker] = []

    def start(lease: float) -> Worker:
        threads = len(PLAYED) * len(STEPS) + 5
        wishes = {"lease": lease, "poll_interval": 0.1, "shutdown_timeout": 0.1}
        workers.append(Worker(config(threads=threads, **wishes)))
        workers[-1].start()
        return workers[-1]

    yield start
    for worker in workers:
        worker.stop()
    for worker in workers:
        assert worker.join(DEADLINE)
        worker._executor.join()


def freeze(worker: Worker, patch: pytest.MonkeyPatch) -> None:
    """Have a worker send nothing, as one whose process has stopped."""

    def gone(*args: Any) -> None:
        raise OperationalError("it does not get that far")

    patch.setattr(worker._membership, "beat", gone)
    patch.setattr(worker._poller, "run_once", gone)
    patch.setattr(worker._active, "_guardedly", lambda: LEASE)


def stop(worker: Worker) -> None:
    """Stop a worker whose process ends while its runs go on."""
    worker.stop()
    eventually(lambda: worker.condition() is Condition.STOPPING, "it stops")
    worker.abandon()


@pytest.mark.parametrize("end", ENDINGS)
def test_the_row_and_the_calls_are_those_of_the_model(
    end: str, start: Callable[[float], Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Play(end)
    play.set_the_table()
    first = start(LEASE if end in LOST else LONG_LEASE)
    try:
        eventually(play.all_wait, "all runs are under way")
        for cell in play.cells:
            STEPS[cell.step](cell.code)
        with monkeypatch.context() as patch:
            if end == "stopped":
                stop(first)
            if end in LOST:
                freeze(first, patch)
                start(LEASE)
            else:
                play.let_go()
            eventually(
                lambda: not play.differences(),
                "all is as in the model",
                log=lambda: "\n".join(play.differences()),
            )
            if end == "killed":
                first.stop()
        play.let_go()
        eventually(lambda: not first.running(), "its runs have ended as well")
    finally:
        play.let_go()
    assert not play.differences()
