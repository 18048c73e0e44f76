"""Tasks, rows and claims for tests, with one default for everything that a test does not name."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from django_tasks.models import Task, TaskRun, WorkerRow
from django_tasks.store.claim import Claimer, claim
from django_tasks.store.lanes import Lane, look
from django_tasks.store.upsert import NewTask
from django_tasks.timezones import for_django
from django_tasks.values.claimed import Claimed
from django_tasks.values.runs import HistoryLine
from django_tasks.values.status import OWNED, Status

UTC = timezone.utc
NOW = datetime(2030, 5, 17, 12, 30, 15, 123456, tzinfo=UTC)
CODE = "order"
WORKER = 7
FEW, AT_ONCE = 20, 200
COPIES = (
    "INSERT INTO t_task (biz_num, {columns}) SELECT new.number, {values}"
    " FROM t_task AS t CROSS JOIN ({new}) AS new"
    " WHERE t.biz_code = %s AND t.biz_num = %s ORDER BY new.place"
)


def later(seconds: float) -> datetime:
    """So many seconds after NOW; negative ones are before it."""
    return NOW + timedelta(seconds=seconds)


def in_utc(moment: datetime | None) -> datetime | None:
    """The value of a model's field as aware UTC, with USE_TZ or without."""
    if moment is None or moment.tzinfo is not None:
        return moment and moment.astimezone(UTC)
    from django.utils import timezone as django_timezone

    return django_timezone.make_aware(moment, django_timezone.get_default_timezone()).astimezone(
        UTC
    )


def a_task(biz_num: str = "1", **fields: Any) -> Task:
    """A task that was never stored, as one hands it to ``add_task``."""
    values: dict[str, Any] = {"biz_code": CODE, "when": NOW, "biz_ext": None} | fields
    return Task(biz_num=biz_num, **values)


def a_new(biz_num: str = "1", **fields: Any) -> NewTask:
    """A new task, as the store's upsert takes it."""
    values: dict[str, Any] = {
        "biz_code": CODE,
        "when": NOW,
        "biz_ext": None,
        "queue": "default",
        "priority": 0,
        "schedule": None,
    }
    return NewTask(biz_num=biz_num, **(values | fields))


def _row(biz_num: str, fields: dict[str, Any]) -> Task:
    values: dict[str, Any] = {
        "biz_code": CODE,
        "when": NOW,
        "queue": "default",
        "priority": 0,
        "create_time": NOW,
        "update_time": NOW,
    }
    values |= fields
    if values.get("status") in OWNED:
        values = {"claimed_by": WORKER, "claim_time": NOW} | values
    for name in ("when", "create_time", "update_time", "claim_time"):
        if values.get(name) is not None:
            values[name] = for_django(values[name])
    return Task(biz_num=biz_num, **values)


def a_row(biz_num: str = "1", **fields: Any) -> Task:
    """A stored row in any state. An owned one belongs to WORKER unless the test says otherwise."""
    row = _row(biz_num, fields)
    row.save_base(force_insert=True)
    return row


def rows(biz_nums: Iterable[object], **fields: Any) -> None:
    """Many stored rows that differ in their numbers; of more than a few, copies of the first one.

    Django takes five times as long to prepare the values of thousands, mostly the same ones.
    """
    numbers = [str(num) for num in biz_nums]
    table().bulk_create([_row(num, fields) for num in numbers[:FEW]])
    for first in range(FEW, len(numbers), AT_ONCE):
        _copy(numbers[0], fields.get("biz_code", CODE), numbers[first : first + AT_ONCE])


def _copy(biz_num: str, biz_code: str, numbers: Sequence[str]) -> None:
    quote = connection.ops.quote_name
    fields = [field for field in Task._meta.concrete_fields if field.name not in ("id", "biz_num")]
    columns = [quote(str(field.column)) for field in fields]
    copies = COPIES.format(
        columns=", ".join(columns),
        values=", ".join(f"t.{column}" for column in columns),
        new=" UNION ALL ".join(["SELECT %s AS number, %s AS place"] * len(numbers)),
    )
    places = [value for place, number in enumerate(numbers) for value in (number, place)]
    with connection.cursor() as cursor:
        cursor.execute(copies, [*places, biz_code, biz_num])


def table(**which: Any) -> QuerySet[Task]:
    """Rows to be changed or deleted behind the package's back, as nobody else should."""
    return Task._base_manager.filter(**which)


def a_lane(**fields: Any) -> Lane:
    """The lane in which the tasks of these factories wait."""
    values: dict[str, Any] = {"queue": "default", "priority": 0, "biz_code": CODE, "first": NOW}
    return Lane(**(values | fields))


def a_claim(biz_num: str = "1", *, worker: int = WORKER, **fields: Any) -> Claimed:
    """A stored row that ``worker`` has just claimed, the only due one of its code."""
    code = fields.setdefault("biz_code", CODE)
    a_row(biz_num, **fields)
    (claimed,) = claim(Claimer(worker), a_lane(biz_code=code), NOW, 2, using="default")
    assert claimed.biz_num == biz_num
    return claimed


def a_claim_of(number: int = 1, when: datetime = NOW) -> Claimed:
    """A claim of a row that is nowhere."""
    values: dict[str, Any] = dict.fromkeys(Claimed._fields)
    values |= {"id": number, "version": 1, "biz_code": "job", "biz_num": str(number)}
    values |= {"queue": "default", "priority": 0, "attempts": 0, "rescues": 0, "runs": 0}
    values |= {"last_error": "", "worker_id": WORKER}
    values |= dict.fromkeys(("when", "create_time", "claim_time"), when)
    return Claimed(**values)


def a_line(**fields: Any) -> HistoryLine:
    """The line that the history keeps of a run that went well, three seconds ago."""
    values: dict[str, Any] = {
        "biz_code": CODE,
        "biz_num": "1",
        "when": later(-5),
        "scheduled_time": None,
        "started": later(-3),
        "ended": later(-2),
        "outcome": "done",
        "missed": "",
        "attempt": 1,
        "worker": "host-1",
        "error": "",
    }
    return HistoryLine(**(values | fields))


def a_run(**fields: Any) -> TaskRun:
    """A stored line of the history."""
    values = a_line(**fields)._asdict()
    for name in ("when", "scheduled_time", "started", "ended"):
        if values[name] is not None:
            values[name] = for_django(values[name])
    return TaskRun.objects.create(**values)


def a_worker(name: str = "host-1", **fields: Any) -> WorkerRow:
    """A row of the table of workers."""
    values: dict[str, Any] = {"started": NOW, "heartbeat": NOW, "lease": 30.0, "threads": 8}
    values |= {"state": "running"} | fields
    for field in ("started", "heartbeat"):
        values[field] = for_django(values[field])
    return WorkerRow.objects.create(name=name, **values)


def the_row(biz_num: str = "1", biz_code: str = CODE) -> Task:
    """The row of a key as it stands in the database now."""
    return Task.objects.get(biz_code=biz_code, biz_num=biz_num)


def there_is(biz_num: str = "1", biz_code: str = CODE) -> bool:
    return Task.objects.filter(biz_code=biz_code, biz_num=biz_num).exists()


def state(biz_num: str = "1", biz_code: str = CODE) -> tuple[Status, int, int | None]:
    """Status, version and owner of a row."""
    row = the_row(biz_num, biz_code)
    return Status(row.status), row.version, row.claimed_by


def lanes(*, using: str = "default") -> list[Lane]:
    """The lanes that a worker would find."""
    return look(using=using).lanes
