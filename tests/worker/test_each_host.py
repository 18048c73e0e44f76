"""Handlers that run on every host: a row each, which only the workers of that host claim."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings

from django_tasks import signals
from django_tasks.client.adding import add_task
from django_tasks.client.control import cancel_task, pause_task, update_task
from django_tasks.clock import Clock, ClockReading
from django_tasks.exceptions import HandlerError, TaskValueError
from django_tasks.handlers import registry
from django_tasks.schedules import Every
from django_tasks.store import control
from django_tasks.timezones import for_django
from django_tasks.values.hosts import is_of_a_host, is_schedule_num, number_of, queue_of
from django_tasks.values.keys import SCHEDULE_NUM
from django_tasks.values.status import Status
from django_tasks.worker import lanes as lanes_module
from django_tasks.worker import recurring, schedule_rows
from django_tasks.worker import recurring as recurring_module
from django_tasks.worker.lanes import Lanes
from django_tasks.worker.marks import Marks
from django_tasks.worker.recurring import RETRY_SECONDS, TOUCH_SECONDS, Recurring
from tests.factories import table
from tests.worker.conftest import Register
from tests.worker.parts import CODE, Ticks, ago, ahead, config, heard, joined, stored

pytestmark = pytest.mark.django_db

HERE, THERE = "@schedule:web-1", "@schedule:web-2"
DAY = timedelta(days=1)


@contextmanager
def on(host: str) -> Iterator[None]:
    with override_settings(DJANGO_TASKS={"WORKER_NAME": host}):
        yield


@pytest.fixture(autouse=True)
def _here() -> Iterator[None]:
    with on("web-1"):
        yield


def nothing(task: Any) -> None:
    pass


def kept(register: Register, schedule: Any = "every 30m", **attributes: Any) -> list[str]:
    """The numbers of the rows after a start with this handler."""
    registry.forget()
    register(nothing, schedule=schedule, **{"each_host": True, **attributes})
    schedule_rows.keep(ago(0), config())
    return numbers()


def numbers() -> list[str]:
    return list(table(biz_code=CODE).order_by("biz_num").values_list("biz_num", flat=True))


def untouched_for(age: timedelta, number: str = THERE) -> None:
    table(biz_num=number).update(update_time=for_django(ago(age.total_seconds())))


# Names


@pytest.mark.parametrize("host", ["web-1", "w" * 44])
def test_a_row_and_its_queue_have_the_name_of_their_host(host: str) -> None:
    assert (number_of(host), queue_of(host)) == (f"@schedule:{host}", f"@host:{host}")
    assert is_of_a_host(queue_of(host))
    assert is_schedule_num(number_of(host))


def test_long_names_are_shortened_and_stay_different() -> None:
    names = ["w" * 44 + end for end in ("1", "2")]
    queues = {queue_of(name) for name in names}
    assert len(queues) == 2
    assert {len(queue) for queue in queues} == {50}
    assert all(number_of(name)[10:] == queue_of(name)[6:] for name in names)


@pytest.mark.parametrize("number", [HERE, SCHEDULE_NUM])
def test_nobody_else_adds_or_plans_such_a_row(register: Register, number: str) -> None:
    register(nothing)
    with pytest.raises(TaskValueError, match="belongs to the schedule of its handler"):
        add_task(CODE, number)
    with pytest.raises(TaskValueError, match="is planned by its handler"):
        update_task(CODE, number, queue="mail")


def test_it_needs_a_schedule(register: Register) -> None:
    with pytest.raises(HandlerError, match="each_host goes with a schedule"):
        register(nothing, each_host=True)


# Rows


def test_each_host_has_a_row(register: Register) -> None:
    assert kept(register, queue="mail", priority=3) == [HERE]
    with on("web-2"):
        assert kept(register, queue="mail", priority=3) == [HERE, THERE]
    here = stored(HERE)
    assert (here.schedule, here.queue, here.priority) == ("every 30m", "@host:web-1", 3)
    assert timedelta(minutes=29) < stored(THERE).when - ago(0) <= timedelta(minutes=30)


def test_another_schedule_moves_the_row_of_this_host_alone(register: Register) -> None:
    with on("web-2"):
        kept(register)
    kept(register)
    assert kept(register, "every 2h") == [HERE, THERE]
    assert [stored(number).schedule for number in (HERE, THERE)] == ["every 2h", "every 30m"]


def test_a_handler_becomes_one_for_each_host_and_one_for_all_again(register: Register) -> None:
    assert kept(register, each_host=False) == [SCHEDULE_NUM]
    assert kept(register) == [HERE]
    assert kept(register, each_host=False) == [SCHEDULE_NUM]


def test_without_its_schedule_the_row_goes(register: Register) -> None:
    kept(register)
    assert kept(register, None, each_host=False) == []


def test_a_row_goes_when_no_worker_of_its_host_was_seen_for_a_day(register: Register) -> None:
    with on("web-2"):
        kept(register)
    kept(register)
    untouched_for(DAY - timedelta(minutes=1))
    recurring.attend_hosts(ago(0), config())
    assert numbers() == [HERE, THERE]
    untouched_for(DAY + timedelta(minutes=1))
    with heard(signals.task_cancelled) as messages:
        recurring.attend_hosts(ago(0), config())
    assert numbers() == [HERE]
    assert [message["biz_num"] for message in messages] == [THERE]


def test_one_that_runs_stays(register: Register) -> None:
    with on("web-2"):
        kept(register)
    table(biz_num=THERE).update(status=Status.RUNNING)
    untouched_for(2 * DAY)
    recurring.attend_hosts(ago(0), config())
    assert numbers() == [THERE]


def test_rows_of_other_hosts_stay_when_a_worker_starts(register: Register) -> None:
    """After a long maintenance all hosts start, and none has touched its row yet."""
    with on("web-2"):
        kept(register)
    untouched_for(9 * DAY)
    assert kept(register) == [HERE, THERE]


def test_a_host_that_has_gone_leaves_no_row_of_a_handler_that_was_for_each_host(
    register: Register,
) -> None:
    with on("web-2"):
        kept(register)
    kept(register, each_host=False)
    untouched_for(2 * DAY)
    recurring.attend_hosts(ago(0), config())
    assert numbers() == [SCHEDULE_NUM]


def test_what_was_cancelled_stays_away_until_a_worker_starts(register: Register) -> None:
    kept(register)
    assert cancel_task(CODE, HERE)
    recurring.attend_hosts(ago(0), config())
    assert numbers() == []
    assert kept(register) == [HERE]


def test_a_touch_leaves_the_plan_of_another_release(register: Register) -> None:
    kept(register, "every 3h")
    before = stored(HERE)
    registry.forget()
    register(nothing, schedule="every 2h", each_host=True)
    recurring.attend_hosts(ago(0), config())
    after = stored(HERE)
    assert (after.schedule, after.when) == (before.schedule, before.when)


@pytest.mark.parametrize("wishes", [{"queues": ("gpu",)}, {"codes": ("other",)}])
def test_a_worker_that_would_not_run_it_keeps_no_row(
    register: Register, wishes: dict[str, Any]
) -> None:
    register(nothing, schedule="every 30m", each_host=True)
    schedule_rows.keep(ago(0), config(**wishes))
    assert numbers() == []
    kept(register)
    untouched_for(DAY, HERE)
    before = stored(HERE)
    schedule_rows.keep(ago(0), config(**wishes))
    recurring.attend_hosts(ago(0), config(**wishes))
    assert stored(HERE).update_time == before.update_time


def test_a_host_that_comes_back_just_now_keeps_its_row(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    with on("web-2"):
        kept(register)
    untouched_for(2 * DAY)
    discard = control.discard

    def discarded(*args: Any, **options: Any) -> int:
        table(biz_num=THERE).update(update_time=for_django(ago(0)))
        return discard(*args, **options)

    monkeypatch.setattr(control, "discard", discarded)
    recurring.attend_hosts(ago(0), config())
    assert numbers() == [THERE]


def test_a_row_that_goes_just_now_is_made_again_by_its_host(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(register)
    alter = control.alter

    def altered(*args: Any, **options: Any) -> int:
        table(biz_num=HERE).delete()
        return alter(*args, **options)

    monkeypatch.setattr(control, "alter", altered)
    assert kept(register) == [HERE]


def test_rows_of_other_kinds_stay_however_old(register: Register) -> None:
    kept(register)
    for number in ("@SCHEDULE:x", "1"):
        add_task(CODE, number, when=ahead())
        untouched_for(9 * DAY, number)
    add_task("other", "1", when=ahead())
    recurring.attend_hosts(ago(0), config())
    assert numbers() == sorted(["1", "@SCHEDULE:x", HERE])


def test_a_host_touches_its_row_and_changes_nothing_else(register: Register) -> None:
    kept(register)
    pause_task(CODE, HERE)
    untouched_for(DAY, HERE)
    before = stored(HERE)
    recurring.attend_hosts(ago(0), config())
    after = stored(HERE)
    assert after.update_time - before.update_time > DAY - timedelta(minutes=1)
    assert (after.when, after.status) == (before.when, Status.PAUSED)


class Looks:
    """The keeper of a worker's rows, and a time that the test pushes forward."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.later = Ticks()
        monkeypatch.setattr(recurring_module, "ticks", self.later)
        monkeypatch.setattr(Recurring, "_start", Recurring._keep_once)
        self.rows = Recurring(
            config(),
            Clock(ClockReading(ago(0), self.later()), self.later),
            lambda now, config: self.calls.append("all"),
            lambda now, config: self.calls.append("hosts"),
        )

    def after(self, seconds: float) -> list[str]:
        self.later.ahead += seconds
        self.calls.clear()
        self.rows.keep_up()
        self.rows.keep_up()
        return self.calls


def test_rows_are_looked_at_again_and_again(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Looks(monkeypatch)
    register(nothing, "plain")
    assert worker.after(0) == ["all"]
    assert worker.after(2 * TOUCH_SECONDS) == []  # no handler here has a schedule
    register(nothing, schedule=Every(hours=1), each_host=True)
    assert worker.after(RETRY_SECONDS) == ["all"]
    assert worker.after(TOUCH_SECONDS - 1) == []
    assert worker.after(2) == ["hosts"]
    assert worker.after(TOUCH_SECONDS + 1) == ["hosts"]


def test_a_host_that_was_away_for_a_day_makes_its_rows_again(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Looks(monkeypatch)
    register(nothing, schedule=Every(hours=1), each_host=True)
    assert worker.after(0) == ["all"]
    assert worker.after(DAY.total_seconds() + 1) == ["all"]
    assert worker.after(TOUCH_SECONDS + 1) == ["hosts"]


# Workers


def served(**wishes: Any) -> list[tuple[str, str]]:
    """Queue and code of the lanes that a worker here finds."""
    membership = joined(**wishes)
    found = Lanes(config(**wishes), membership.clock, Marks())
    return [(lane.queue, lane.biz_code) for lane in found.recent(membership.clock.now())]


@pytest.mark.parametrize("dear", [False, True])
def test_a_worker_serves_the_rows_of_its_host(
    register: Register, monkeypatch: pytest.MonkeyPatch, dear: bool
) -> None:
    with on("web-2"):
        kept(register, queue="mail")
    kept(register, queue="mail")
    monkeypatch.setattr(lanes_module, "DEAR_SECONDS", -1.0 if dear else 9.0)
    monkeypatch.setattr(lanes_module, "ALONG_SHARE", 1e9)
    membership, found = joined(), []
    lanes = Lanes(config(), membership.clock, Marks())
    for _ in range(3):
        lanes.use_up()
        found = [lane.queue for lane in lanes.recent(membership.clock.now())]
    assert found == ["@host:web-1"]


def test_a_worker_of_some_queues_serves_the_handlers_of_these(register: Register) -> None:
    kept(register, queue="mail")
    assert served(queues=("mail",)) == [("@host:web-1", CODE)]
    assert served(queues=("default",)) == []
    assert served(codes=("other",)) == []
    assert served(queues=("@host:web-1",)) == [("@host:web-1", CODE)]


def test_a_worker_has_the_name_of_its_host_from_its_start(register: Register) -> None:
    settings = config()
    register(nothing, schedule="every 30m", each_host=True)
    with on("later"):
        schedule_rows.keep(ago(0), settings)
    assert numbers() == [HERE]
