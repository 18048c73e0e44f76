"""Releases that say different things of a handler's schedule: the newest one has the say."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from io import StringIO
from itertools import permutations, product
from typing import Any

import pytest
from django.core.management import call_command
from django.test import override_settings

from django_tasks import api, signals
from django_tasks.checks.project import check_settings
from django_tasks.handlers import registry
from django_tasks.host.clocks import ticks
from django_tasks.store import search
from django_tasks.values.keys import SCHEDULE_NUM
from django_tasks.values.options import TaskOptions
from django_tasks.values.releases import Release, release_name
from django_tasks.worker import schedule_rows
from tests.factories import table
from tests.worker.conftest import Register
from tests.worker.parts import CODE, ahead, config, heard, row

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_one_transaction")]

MOMENT = datetime(2026, 3, 1, tzinfo=timezone.utc)
HOURS = {"old": 9, "new": 10, "newest": 11}
RELEASES = list(HOURS)


def nothing(task: Any) -> None:
    pass


class Stage:
    """Starts processes of releases, each at a moment of its own; restarts are a child's."""

    def __init__(self, register: Register, monkeypatch: pytest.MonkeyPatch) -> None:
        self.register, self.monkeypatch = register, monkeypatch
        self.clock = MOMENT
        self.began: dict[str, datetime] = {}

    def start(self, release: str, name: str = "", **attributes: Any) -> None:
        """Start the first process of a release, some seconds after whatever was before."""
        self.clock += timedelta(seconds=10)
        self.began[release] = self.clock
        self.replace(release, name, **attributes)

    def replace(self, release: str, name: str = "", **attributes: Any) -> None:
        """Start a child anew, which is of the release that its supervisor is of."""
        self.clock += timedelta(seconds=10)
        since = (self.clock - self.began[release]).total_seconds()
        self.monkeypatch.setattr(schedule_rows, "_LOADED", ticks() - since)
        registry.forget()
        schedule = f"every 1 day at {HOURS[release]}:00 UTC"
        self.register(nothing, **{"schedule": schedule, **attributes})
        with override_settings(DJANGO_TASKS={"RELEASE": name}):
            schedule_rows.keep(self.clock, config())

    def look(self) -> None:
        schedule_rows.look(self.clock, config())


@pytest.fixture
def stage(register: Register, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(register, monkeypatch)


@pytest.fixture(autouse=True)
def told() -> Iterator[None]:
    schedule_rows._TOLD.clear()
    yield
    schedule_rows._TOLD.clear()


def hour() -> int:
    task = row(SCHEDULE_NUM)
    assert task is not None
    assert task.schedule is not None
    return int(task.schedule.split(" at ")[1].partition(":")[0])


@pytest.mark.parametrize("releases", list(permutations(RELEASES, 2)), ids="-".join)
def test_the_release_that_started_last_has_the_say_whoever_starts_again(
    stage: Stage, releases: tuple[str, str]
) -> None:
    first, second = releases
    stage.start(first)
    for restarts in product(releases, repeat=3):
        stage.start(second)
        for each in restarts:
            stage.replace(each)
            assert hour() == HOURS[second]
        stage.start(first)
        assert hour() == HOURS[first]


def test_every_order_of_starts_and_of_replaced_children(stage: Stage) -> None:
    for order in permutations(RELEASES):
        table().delete()
        for number, release in enumerate(order):
            stage.start(release)
            assert hour() == HOURS[release]
            for each in order[: number + 1]:
                stage.replace(each)
                assert hour() == HOURS[release]


@pytest.mark.parametrize("order", list(permutations(RELEASES)), ids="-".join)
def test_a_release_that_has_a_number_is_known_by_it(stage: Stage, order: tuple[str, ...]) -> None:
    names = {"old": "v9", "new": "v10", "newest": "v10.1"}
    newest = -1
    for release in (*order, *order):
        stage.start(release, names[release])
        newest = max(newest, RELEASES.index(release))
        assert hour() == HOURS[RELEASES[newest]]


def test_the_older_one_keeps_queue_and_priority_as_they_are(stage: Stage) -> None:
    stage.start("old", queue="mail")
    stage.start("new", queue="reports", schedule="every 1 day at 9:00 UTC")
    stage.replace("old", queue="mail")
    task = row(SCHEDULE_NUM)
    assert task is not None
    assert task.queue == "reports"


def test_side_by_side_they_do_not_push_the_time_away(stage: Stage) -> None:
    for release in ("old", "new"):
        stage.start(release, schedule="every 1h", priority=RELEASES.index(release))
    before = row(SCHEDULE_NUM)
    for _ in range(5):
        for release in ("old", "new"):
            stage.start(release, schedule="every 1h", priority=RELEASES.index(release))
    after = row(SCHEDULE_NUM)
    assert before is not None
    assert after is not None
    assert after.when == before.when


def test_the_older_one_says_so_once_and_names_both_schedules(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.start("old")
    stage.start("new")
    caplog.clear()
    for _ in range(3):
        stage.replace("old")
        stage.look()
    (line,) = caplog.records
    assert (line.event, line.levelname) == ("release_is_older", "WARNING")  # type: ignore[attr-defined]
    assert line.getMessage() == (
        f"The handler of {CODE} runs by itself on default as a newer release says:"
        " every 1 day at 10:00 UTC. This release is older, says every 1 day at 09:00 UTC and"
        " changes nothing"
    )


def test_of_an_old_one_that_starts_anew_both_sides_tell(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.start("new")
    caplog.clear()
    stage.start("old")
    assert [record.event for record in caplog.records] == ["schedule_replaced"]  # type: ignore[attr-defined]
    schedule_rows._TOLD.clear()
    caplog.clear()
    stage.replace("new")
    stage.look()
    assert [record.event for record in caplog.records] == ["release_is_older"]  # type: ignore[attr-defined]


def test_an_older_one_without_the_schedule_does_not_remove_the_row(stage: Stage) -> None:
    stage.start("old", schedule=None)
    stage.start("new")
    stage.replace("old", schedule=None)
    assert hour() == HOURS["new"]
    stage.start("old", schedule=None)
    assert row(SCHEDULE_NUM) is None


def test_an_older_one_that_ran_on_one_host_does_not_run_beside_one_on_each(stage: Stage) -> None:
    stage.start("old")
    stage.start("new", each_host=True)
    stage.replace("old")
    assert row(SCHEDULE_NUM) is None
    assert table().count() == 1


def test_a_row_of_a_time_before_releases_were_kept_is_anybodys(stage: Stage) -> None:
    stage.start("new")
    table().update(options=None)
    stage.replace("new")
    task = row(SCHEDULE_NUM)
    assert task is not None
    assert isinstance(task.options.release, Release)


def test_the_first_look_of_a_release_leaves_the_time_and_tells_nobody(stage: Stage) -> None:
    stage.start("old")
    table().update(when=ahead(77), attempts=1)
    before = row(SCHEDULE_NUM)
    with heard(signals.task_changed) as changed:
        stage.start("new", schedule=f"every 1 day at {HOURS['old']}:00 UTC")
    after = row(SCHEDULE_NUM)
    assert before is not None
    assert after is not None
    assert (after.when, after.attempts) == (before.when, 1)
    assert after.options != before.options
    assert changed == []


def test_the_newer_one_wins_against_an_older_one_that_made_the_row_meanwhile(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.start("old")
    monkeypatch.setattr(search, "planned", lambda *args, **kwargs: {})  # read before that
    stage.start("new")
    assert hour() == HOURS["new"]
    stage.replace("old")
    assert hour() == HOURS["new"]


def test_a_slow_row_does_not_make_those_behind_it_older(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.start("old")
    real, add = ticks, schedule_rows._add

    def slow(*args: Any, **kwargs: Any) -> bool:
        monkeypatch.setattr(schedule_rows, "ticks", lambda: real() + 60)
        return add(*args, **kwargs)

    monkeypatch.setattr(schedule_rows, "_add", slow)
    table().delete()
    stage.register(nothing, "other", schedule="every 1h")
    schedule_rows.keep(stage.clock, config())
    moments = {task.options.release.started for task in table()}
    assert len(moments) == 1


def test_showtask_says_the_release_of_a_row_as_a_text(stage: Stage) -> None:
    stage.start("new", "v10")
    said = StringIO()
    call_command("showtask", CODE, SCHEDULE_NUM, "--format", "json", stdout=said)
    task = row(SCHEDULE_NUM)
    assert task is not None
    assert json.loads(said.getvalue())["task"]["options"] == {"release": str(task.options.release)}


def test_an_update_of_options_keeps_the_release(stage: Stage) -> None:
    stage.start("new")
    assert api.update_task(CODE, SCHEDULE_NUM, max_attempts=2)
    task = row(SCHEDULE_NUM)
    assert task is not None
    assert isinstance(task.options.release, Release)
    assert task.options.max_attempts == 2


def test_a_caller_gives_no_release() -> None:
    with pytest.raises(api.TaskTypeError, match="release is no argument of add_task"):
        api.add_task(CODE, 1, release="2026-03-01T00:00:00+00:00")  # type: ignore[call-overload]


@pytest.mark.parametrize("value", ["yesterday", "2026-03-01T00:00:00", ""])
def test_what_a_row_has_as_its_release_is_read_or_refused(value: str) -> None:
    with pytest.raises(api.TaskValueError, match="must begin with a time and its offset"):
        TaskOptions(release=value)


NAMES = ["1", "2", "9", "10", "v1.9", "v1.10", "2026.11.27", "2026.11.28"]


@pytest.mark.parametrize("names", [(NAMES[i], NAMES[i + 1]) for i in (0, 1, 2, 4, 6)], ids=str)
def test_names_grow_as_people_count(names: tuple[str, str]) -> None:
    first, second = (Release(MOMENT, name) for name in names)
    assert first.is_older_than(second)
    assert not second.is_older_than(first)


def test_names_that_count_the_same_leave_it_to_the_moments() -> None:
    first, second = Release(MOMENT, "7"), Release(MOMENT + timedelta(hours=1), "007")
    assert first.is_older_than(second)
    assert not second.is_older_than(first)


@pytest.mark.parametrize("value", [7, "7", " 7 "])
def test_a_number_is_a_name(value: Any) -> None:
    assert release_name(value) == "7"


@pytest.mark.parametrize("value", [True, None, 1.5, "7" * 51])
def test_a_setting_that_is_no_release_is_refused(value: Any) -> None:
    with override_settings(DJANGO_TASKS={"RELEASE": value}):
        found = [each for each in check_settings() if "RELEASE" in each.msg]
    assert [each.id for each in found] == ["django_tasks.E003"]
