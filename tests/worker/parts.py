"""The parts of a worker, put together by hand and driven step by step."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from itertools import chain
from typing import Any, cast

from django.dispatch import Signal

from django_tasks.client.adding import add_task
from django_tasks.handlers.base import TaskHandler
from django_tasks.host import clocks
from django_tasks.host.clocks import ticks, utc_now
from django_tasks.models import Task, WorkerRow
from django_tasks.store.claim import Claimer, claim
from django_tasks.store.finish import Ended
from django_tasks.timezones import for_django
from django_tasks.values.claimed import Claimed
from django_tasks.values.outcomes import GiveBack
from django_tasks.worker.active import Active
from django_tasks.worker.config import WorkerConfig
from django_tasks.worker.coroutines import EventLoop
from django_tasks.worker.execution import Runner
from django_tasks.worker.executor import Executor, Item
from django_tasks.worker.membership import Membership
from django_tasks.worker.timeouts import Timeouts
from django_tasks.worker.worker import Worker, stop_all
from tests.factories import lanes
from tests.waiting import DEADLINE, eventually

USING = "default"
CODE = "job"
ERA = 3600.0

# The time limits of the runners of the present test.
made: list[Timeouts] = []


def config(**wishes: Any) -> WorkerConfig:
    values: dict[str, Any] = {
        "using": USING,
        "threads": 2,
        "batch_size": 100,
        "poll_interval": 0.2,
        "lease": 30.0,
        "shutdown_timeout": 5.0,
    }
    return WorkerConfig(**(values | wishes))


@contextmanager
def starting(**usual: Any) -> Iterator[Callable[..., Worker]]:
    """Start workers in this process, and wait until each has joined; they end with the block."""
    workers: list[Worker] = []

    def start(**wishes: Any) -> Worker:
        workers.append(Worker(config(**(usual | wishes))))
        workers[-1].start()
        eventually(lambda: workers[-1]._heartbeat.joined, "the worker has joined")
        return workers[-1]

    yield start
    assert not stop_all(workers, DEADLINE)


class Ticks:
    """A ticks clock that a test can push forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return clocks.ticks() + self.ahead


class StillTicks:
    """A ticks clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def joined(ticks: Callable[[], float] = clocks.ticks, **wishes: Any) -> Membership:
    """A worker's membership, entered into the table of workers."""
    membership = Membership(config(**wishes), ticks)
    membership.join()
    return membership


class Hands:
    """Stands in for the executor: keeps what is submitted until the test has it run."""

    def __init__(self, run: Callable[[Claimed], Ended], size: int = 2) -> None:
        self._run = run
        self.size = size
        self.items: list[Item] = []
        self.waiting: deque[Claimed] = deque()
        self.at_work: list[Claimed] = []
        self.ended: list[Ended] = []
        self.stale = False

    @property
    def executor(self) -> Executor:
        """Themselves, as the type that a poller asks for."""
        return cast(Executor, self)

    def begin(self, count: int = 1) -> None:
        """Some free thread takes the next task."""
        for _ in range(count):
            self.at_work.append(self.waiting.popleft())

    def work(self) -> None:
        """Everything that was submitted runs to its end."""
        self.begin(len(self.waiting))
        while self.at_work:
            self.ended.append(self._run(self.at_work.pop(0)))

    # What the poller asks of an executor

    def mend(self) -> None:
        """No thread of these dies."""

    def submit(self, items: Sequence[Item], *, first: bool = False) -> None:
        self.items += items
        claims = list(chain.from_iterable(items))
        if first:
            self.waiting.extendleft(reversed(claims))
        else:
            self.waiting.extend(claims)

    def known(self) -> set[tuple[int, ...]]:
        ended = [end.claimed for end in self.ended]
        return {claim[:2] for claim in [*self.waiting, *self.at_work, *ended]}

    def forget(self, count: int) -> None:
        """These hands count nothing."""

    def relieve(self) -> list[Claimed]:
        unstarted = self.take_back()
        self.ended.extend(Ended(claimed, GiveBack()) for claimed in unstarted)
        return unstarted

    def collect(self) -> list[Ended]:
        ended, self.ended = self.ended, []
        return ended

    def take_back(self) -> list[Claimed]:
        unstarted = list(self.waiting)
        self.waiting.clear()
        return unstarted

    def room(self, most: int) -> int:
        return max(0, self.size - len(self.waiting) - len(self.at_work))

    def is_stale(self) -> bool:
        return self.stale and bool(self.waiting)

    def has_waiting(self) -> bool:
        return bool(self.waiting)

    def is_idle(self) -> bool:
        return not (self.waiting or self.at_work or self.ended)

    def running(self) -> list[tuple[Item, float]]:
        return [((claimed,), ticks()) for claimed in self.at_work]


class One:
    """A runner that is given one claim at a time."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner

    def __call__(self, claimed: Claimed) -> Ended:
        (ended,) = self.runner((claimed,))
        return ended


def runner(
    membership: Membership,
    loop: EventLoop | None = None,
    timeouts: Timeouts | None = None,
    may_run: Callable[[Claimed], bool] = lambda claimed: True,
) -> One:
    """Close ``loop`` where handlers use it. ``timeouts`` end with the test."""
    made.append(timeouts or Timeouts())
    return One(Runner(USING, membership, loop or EventLoop(), made[-1], may_run))


def no_terms(membership: Membership) -> Active:
    """That of a worker which is active for no sticky handler."""
    return Active(config(), membership.name, membership.clock)


def worker_row(age: float = 0.0, lease: float = 30.0, **fields: Any) -> WorkerRow:
    """Another worker, whose last heartbeat was ``age`` seconds ago."""
    values = {"name": "other", "threads": 1, "state": "running", "lease": lease} | fields
    moment = for_django(ago(age))
    return WorkerRow.objects.create(started=moment, heartbeat=moment, **values)


def ago(seconds: float = ERA) -> datetime:
    return datetime.now(timezone.utc) - timedelta(seconds=seconds)


def ahead(seconds: float = ERA) -> datetime:
    return ago(-seconds)


def added(biz_num: str = "1", biz_code: str = CODE, **fields: Any) -> Task:
    """A task that is due unless ``when`` says otherwise."""
    return add_task(Task(biz_code=biz_code, biz_num=biz_num, **({"when": ago()} | fields)))


def claimed(worker_id: int, biz_code: str = CODE, limit: int = 1) -> list[Claimed]:
    """Claims of a worker from the lanes of one code."""
    now = utc_now()
    claims: list[Claimed] = []
    for lane in lanes(using=USING):
        if lane.biz_code == biz_code:
            claims += claim(Claimer(worker_id), lane, now, limit - len(claims), using=USING)
    return claims


def row(biz_num: str = "1", biz_code: str = CODE) -> Task | None:
    return Task.objects.filter(biz_code=biz_code, biz_num=biz_num).first()


def stored(biz_num: str = "1", biz_code: str = CODE) -> Task:
    """The row of a key, which must be there."""
    return Task.objects.get(biz_code=biz_code, biz_num=biz_num)


def handler(function: Callable[..., Any], biz_code: str = CODE, **attributes: Any) -> TaskHandler:
    """A handler whose ``handle`` is ``function``; ``on_failure`` may be among the attributes."""
    methods = {
        name: staticmethod(value) if callable(value) and not isinstance(value, type) else value
        for name, value in attributes.items()
        if not hasattr(value, "delay")
    }
    plain = {name: value for name, value in attributes.items() if hasattr(value, "delay")}
    members = {"biz_code": biz_code, "handle": staticmethod(function), **methods, **plain}
    made: TaskHandler = type("Handler", (TaskHandler,), members)()
    return made


@contextmanager
def heard(signal: Signal) -> Iterator[list[dict[str, Any]]]:
    """Messages sent over a signal meanwhile, without the signal itself."""
    messages: list[dict[str, Any]] = []

    def receive(sender: Any, signal: Signal, **facts: Any) -> None:
        messages.append({"sender": sender, **facts})

    signal.connect(receive)
    try:
        yield messages
    finally:
        signal.disconnect(receive)
