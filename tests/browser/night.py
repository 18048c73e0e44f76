"""A night on call, as rows: workers, tasks in every state, their runs, and counted minutes.

All times are told from one moment, so that the same moment gives the same pages.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from operator import mod
from random import Random

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils import translation

from django_tasks.admin.display import told
from django_tasks.admin.forms import TaskForm
from django_tasks.admin.lists import note
from django_tasks.admin.task_steps import STEPS
from django_tasks.handlers.base import TaskHandler
from django_tasks.handlers.running_task import RunningTask
from django_tasks.models import Gate, Lock, Pause, Task, TaskMinute, TaskRun, WorkerRow
from django_tasks.timezones import for_django
from django_tasks.values.figures import COLUMNS, Tally
from django_tasks.values.keys import SCHEDULE_NUM
from django_tasks.values.status import Status
from tests.factories import UTC, a_line, a_row, a_worker, table

# A Thursday, seven minutes after three in Berlin.
MOMENT = datetime(2027, 3, 11, 2, 7, 31, 250_000, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
VERSION = "2027.3.1"
# The fields of a task's form.
SAVED = ("name", "when", "schedule", "biz_ext", "queue", "priority")

REFUSED = "ConnectionError"
TRACEBACK = """Traceback (most recent call last):
  File "/srv/shop/mail/gateway.py", line 88, in connect
    self.socket = create_connection((host, port), self.timeout)
  File "/usr/lib/python3.11/socket.py", line 851, in create_connection
    raise exceptions[0]
ConnectionRefusedError: [Errno 111] Connection refused

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/srv/shop/orders/task_handlers.py", line 41, in handle
    send_mail(order.customer, invoice_of(order), message_id=f"invoice-{order}")
  File "/srv/shop/mail/gateway.py", line 92, in connect
    raise ConnectionError(f"{host}:{port} takes no mail at the moment") from error
ConnectionError: mail.example.com:25 takes no mail at the moment"""
SHORT = """Traceback (most recent call last):
  File "/srv/shop/images/task_handlers.py", line 27, in handle
    picture = opened(task.biz_num)
ValueError: product-{number}.png has no pixels: the upload was cut off after 0 bytes"""


class Shop(TaskHandler):
    """A handler of the shop. Nobody runs it here, unless a story says so."""

    def handle(self, task: RunningTask) -> None: ...


class CancelUnpaid(Shop):
    biz_code = "cancel_unpaid"


class SendInvoice(Shop):
    biz_code = "send_invoice"
    queue = "mail"
    max_attempts = 5


class Newsletter(Shop):
    biz_code = "newsletter"
    queue = "mail"
    rate_limit = "100/m"


class ResizeImage(Shop):
    biz_code = "resize_image"
    queue = "bulk"
    max_running = 4


class ImportCatalogue(Shop):
    biz_code = "import_catalogue"
    queue = "bulk"


class DailyReport(Shop):
    biz_code = "daily_report"
    schedule = "cron 0 6 * * 1-5 Europe/Berlin"


class SyncStock(Shop):
    biz_code = "sync_stock"
    schedule = "every 15m"


HANDLERS = (
    CancelUnpaid,
    SendInvoice,
    Newsletter,
    ResizeImage,
    ImportCatalogue,
    DailyReport,
    SyncStock,
)
CODES = sorted(handler.biz_code for handler in HANDLERS)


class Night:
    """The rows. ``now`` is the moment at which somebody looks at them."""

    def __init__(self, now: datetime = MOMENT) -> None:
        self.now = now
        self.chance = Random(42)

    def falls(self) -> "Night":
        """Write everything."""
        self.workers()
        self.waiting()
        self.running()
        self.failed()
        self.recurring()
        self.wholes()
        self.runs()
        self.minutes()
        self.changes()
        return self

    def at(self, *, days: float = 0, minutes: float = 0, seconds: float = 0) -> datetime:
        return self.now + timedelta(days=days, minutes=minutes, seconds=seconds)

    def workers(self) -> None:
        facts = {"version": VERSION, "codes": CODES, "threads": 8, "lease": 30.0}
        common = facts | {"started": self.at(days=-2, minutes=-94)}
        counters = {"done": 47_960, "rescheduled": 20, "retried": 211, "failed": 22}
        self.first = a_worker(
            "web-1",
            **common,
            host="web-1.example.com",
            pid=4711,
            heartbeat=self.at(seconds=-3),
            beats=18_533,
            busy=3,
            memory=221_000_000,
            counters=counters,
        )
        self.silent = a_worker(
            "web-2",
            **common,
            host="web-2.example.com",
            pid=4698,
            heartbeat=self.at(seconds=-48),
            beats=18_518,
            busy=1,
            memory=198_000_000,
            counters=counters,
        )
        self.quiet = a_worker(
            "mail-1",
            **common | {"threads": 2},
            host="mail-1.example.com",
            pid=880,
            heartbeat=self.at(seconds=-7),
            queues=["mail"],
            memory=97_000_000,
            counters={"claimed": 9_004, "done": 8_761},
            wish="quiet",
        )

    def waiting(self) -> None:
        for number in range(4):
            when = self.at(seconds=-70 - 31 * number)
            self._task("cancel_unpaid", f"20270311-{1040 + number}", when=when)
        for number in range(3):
            when = self.at(minutes=-40 - 7 * number)
            self._task("refund", f"20270309-{77 + number}", when=when)
        long = (
            "summer-2027/scandinavia/outdoor-furniture/tables-and-chairs/product-000000018442.png"
        )
        self._task("resize_image", long, queue="bulk", when=self.at(minutes=2))
        self.waiting_one = self._task(
            "cancel_unpaid", "20270311-1057", name="Order of Ms Müller", when=self.at(minutes=9)
        )
        self.paused_one = self._task(
            "newsletter", "spring", queue="mail", when=self.at(days=-2), status=Status.PAUSED
        )
        table().bulk_create(self._coming())

    def _coming(self) -> Iterator[Task]:
        for number in range(30):
            minutes = self.chance.triangular(1, 240, 45)
            code, queue = self.chance.choice(
                (("cancel_unpaid", "default"), ("send_invoice", "mail"), ("resize_image", "bulk"))
            )
            yield self._unsaved(
                code, f"20270311-{2000 + number}", queue=queue, when=self.at(minutes=minutes)
            )

    def running(self) -> None:
        progress = {"done": 41_200, "total": 96_000, "text": "products"}
        self.running_one = self._run_of(
            "import_catalogue", "2027-03-10", self.first, 17, queue="bulk", progress=progress
        )
        self._run_of("resize_image", "product-18440.png", self.first, 0.1, queue="bulk")
        self._run_of("cancel_unpaid", "20270311-1032", self.first, 0.02, status=Status.CANCELLING)
        self._run_of("send_invoice", "20270311-0998", self.silent, 2.5, queue="mail")

    def failed(self) -> None:
        for number in range(9):
            self.invoice = self._failure(
                "send_invoice",
                f"20270310-{42 + number:04}",
                self.at(minutes=-18 * number - 1),
                queue="mail",
                attempts=5,
                last_error=TRACEBACK,
                exception=f"builtins.{REFUSED}",
            )
        for number in range(3):
            self._failure(
                "resize_image",
                f"product-{18_020 + number}.png",
                self.at(minutes=-95 * number - 20),
                queue="bulk",
                attempts=3,
                last_error=SHORT.format(number=18_020 + number),
                exception="builtins.ValueError",
            )

    def recurring(self) -> None:
        plans = (
            ("daily_report", SCHEDULE_NUM, DailyReport.schedule, 172.5, 1),
            ("sync_stock", SCHEDULE_NUM, SyncStock.schedule, 4, 0),  # the history has its runs
            ("newsletter", "weekly", "cron 0 9 * * 5 Europe/Berlin", 1793, 7),
            ("import_catalogue", "nightly", "cron 30 1 * * * Europe/Berlin", 1343, 1),
        )
        for code, number, schedule, minutes, days in plans:
            when = self.at(minutes=minutes).replace(second=0, microsecond=0)
            ended = when - timedelta(days=days, seconds=-2) if days else None
            times = {"when": when, "scheduled_time": when, "last_run": ended}
            self.nightly = self._task(code, number, schedule=schedule, runs=412, **times)

    def wholes(self) -> None:
        """Rows that are about many tasks at once: pauses, limits, locks."""
        since = for_django(self.at(days=-2, minutes=-310))
        self.pause = Pause.objects.create(biz_code="newsletter", since=since, by="anna")
        Gate.objects.create(biz_code="resize_image", max_running=2)
        until = self.at(seconds=24)
        held = {"holder": "web-1", "since": _micros(self.at(minutes=-17)), "until": _micros(until)}
        self.lock = Lock.objects.create(name="catalogue", term=38, **held)
        Lock.objects.create(name="month-end", term=2)

    def runs(self) -> None:
        ended = [self._line(number) for number in range(25)]
        ended += [self._try(number) for number in range(1, 6)]
        ended.sort(key=lambda run: run.ended)
        TaskRun.objects.bulk_create(ended)
        self.last_run = TaskRun.objects.latest("id")  # MySQL does not tell the ids of many

    def _line(self, number: int) -> TaskRun:
        code = self.chance.choice(("cancel_unpaid", "send_invoice", "resize_image", "sync_stock"))
        started = self.at(minutes=-1.7 * (25 - number))
        when = started - timedelta(seconds=self.chance.expovariate(3))
        took = timedelta(seconds=self.chance.expovariate(2))
        biz_num = SCHEDULE_NUM if code == "sync_stock" else f"20270311-{900 + number}"
        worker = self.chance.choice(("web-1", "web-2"))
        outcome = "rescheduled" if code == "sync_stock" else "done"
        return _stored(code, biz_num, when, started, started + took, worker, outcome)

    def _try(self, attempt: int) -> TaskRun:
        """One of the attempts of the invoice that failed first."""
        started = self.at(minutes=-6 * (5 - attempt) - 157.2)
        ended = started + timedelta(seconds=3.1)
        outcome = "failed" if attempt == 5 else "retried"
        return _stored(
            "send_invoice",
            self.invoice.biz_num,
            started - timedelta(seconds=0.4),
            started,
            ended,
            "mail-1",
            outcome,
            attempt=attempt,
            error=TRACEBACK,
            exception=f"builtins.{REFUSED}",
        )

    def minutes(self) -> None:
        last = int((self.now - EPOCH).total_seconds()) // 60 - 1
        counted = [
            minute
            for code, usual in (("cancel_unpaid", 9), ("send_invoice", 6), ("resize_image", 14))
            for minute in self._counted(code, usual, last)
        ]
        TaskMinute.objects.bulk_create(counted, batch_size=200)

    def _counted(self, code: str, usual: int, last: int) -> Iterator[TaskMinute]:
        first = (last - 180) // 60 * 60
        for minute in range(first, last + 1):
            yield from self._minute(code, minute, 1, usual, last)
        for hour in range(first - 7 * 24 * 60, first, 60):
            yield from self._minute(code, hour, 60, usual * 60, last)

    def _minute(
        self, code: str, minute: int, span: int, usual: int, last: int
    ) -> Iterator[TaskMinute]:
        down = code == "send_invoice" and last - 170 < minute
        counts = self.chance.randrange(usual // 2, usual + usual // 2)
        tally, failures = Tally(), Tally()
        for _number in range(min(counts, 40)):
            outcome = "retried" if down and self.chance.random() < 0.3 else "done"
            run = (self.chance.expovariate(4), self.chance.expovariate(2))
            for each in (tally, failures) if outcome == "retried" else (tally,):
                each.count_run(outcome, *run)
        if span > 1:
            tally.values = [value * counts / min(counts, 40) for value in tally.values]
        place = {"worker": 0 if span > 1 else self.first.pk, "biz_code": code}
        place |= {"minute": minute, "span": span}
        yield TaskMinute(**place, **dict(zip(COLUMNS, tally.values, strict=True)))
        if any(failures.values):
            values = dict(zip(COLUMNS, failures.values, strict=True))
            yield TaskMinute(**place, exception=f"builtins.{REFUSED}", **values)

    def changes(self) -> None:
        """The log of the invoice: a save of all fields, and each step."""
        request = HttpRequest()
        request.user, _is_new = User.objects.get_or_create(username="anna")
        with translation.override(None):
            saved = [str(TaskForm.base_fields[name].label) for name in SAVED]
        who, log = str(request.user.pk), LogEntry.objects
        log.log_actions(who, [self.invoice], CHANGE, [{"changed": {"fields": saved}}])
        times = {"before": told(self.at(minutes=-90)), "when": told(self.at(minutes=-60))}
        for step in STEPS:
            note(request, [self.invoice], CHANGE, partial(mod, step.logged, times))
        for number, entry in enumerate(log.order_by("pk")):
            log.filter(pk=entry.pk).update(action_time=for_django(self.at(minutes=number - 80)))

    def _unsaved(self, code: str, number: str, *, when: datetime, **fields: object) -> Task:
        before = for_django(self.at(minutes=-190))
        values: dict[str, object] = {"priority": 0, "queue": "default"}
        values |= {"create_time": before, "update_time": before}
        values |= fields | {"when": for_django(when)}
        return Task(biz_code=code, biz_num=number, **values)

    def _task(self, code: str, number: str, **fields: object) -> Task:
        before = self.at(minutes=-190)
        return a_row(
            number, biz_code=code, **{"create_time": before, "update_time": before} | fields
        )

    def _run_of(
        self, code: str, number: str, worker: WorkerRow, minutes: float, **fields: object
    ) -> Task:
        since = self.at(minutes=-minutes)
        claim = {"claimed_by": worker.pk, "claim_time": since, "update_time": since, "version": 3}
        return self._task(code, number, when=since, **{"status": Status.RUNNING} | claim | fields)

    def _failure(self, code: str, number: str, when: datetime, **fields: object) -> Task:
        return self._task(
            code, number, when=when, status=Status.FAILED, update_time=when, runs=5, **fields
        )


def _stored(
    code: str,
    number: str,
    when: datetime,
    started: datetime,
    ended: datetime,
    worker: str,
    outcome: str,
    **fields: object,
) -> TaskRun:
    times = {"when": when, "started": started, "ended": ended}
    values = a_line(
        biz_code=code, biz_num=number, worker=worker, outcome=outcome, **fields
    )._asdict()
    return TaskRun(**values | {name: for_django(moment) for name, moment in times.items()})


def _micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)
