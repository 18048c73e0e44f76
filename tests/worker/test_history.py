"""The lines that a worker leaves in the history of its runs, and their end."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.test import override_settings

from django_tasks import signals
from django_tasks.client.queries import get_runs
from django_tasks.models import EndedPause, Task, TaskMinute, TaskRun
from django_tasks.store import minutes, runs
from django_tasks.store.finish import finish
from django_tasks.store.minutes import Counted, minute_of
from django_tasks.values.figures import COLUMNS
from django_tasks.values.status import RunOutcome
from django_tasks.worker import finisher
from django_tasks.worker.heartbeat import Report
from django_tasks.worker.membership import Membership
from django_tasks.worker.poller import Poller
from django_tasks.worker.pruner import INTERVAL, PAUSE, WORKERS_INTERVAL, Pruner
from tests.factories import a_run, table
from tests.worker.conftest import Register
from tests.worker.parts import (
    CODE,
    USING,
    Hands,
    Ticks,
    added,
    ago,
    config,
    joined,
    runner,
    worker_row,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_one_transaction")]

keeping_all = override_settings(DJANGO_TASKS={"HISTORY": "all"})


class World:
    """A worker that does what is due; made at the first look."""

    def __init__(self) -> None:
        self.ticks = Ticks()
        self.membership = joined(self.ticks)
        self.hands = Hands(runner(self.membership), 4)
        self.poller = Poller(config(), self.membership, self.hands.executor)

    def work(self) -> None:
        """Claim, run, write the ends."""
        self.poller.run_once()
        self.hands.work()
        self.poller.run_once()


def fine(task: Any) -> None:
    pass


def bad(task: Any) -> None:
    raise ValueError("oh")


def outcomes(number: str = "1") -> list[str]:
    return [run.outcome for run in get_runs(CODE, number)]


def test_by_default_a_run_that_went_well_leaves_nothing(register: Register) -> None:
    register(fine)
    added()
    World().work()
    assert not Task.objects.exists()
    assert outcomes() == []


@pytest.mark.parametrize("use_tz", [True, False])
def test_the_history_says_when_how_late_and_where(register: Register, use_tz: bool) -> None:
    with override_settings(
        USE_TZ=use_tz, TIME_ZONE="Asia/Shanghai", DJANGO_TASKS={"HISTORY": "all"}
    ):
        register(fine)
        added(when=ago(100))
        world = World()
        world.work()
        (run,) = get_runs(CODE, "1")
        assert 99 < run.lateness < 110
        assert 0 <= run.duration < 10
    assert (run.outcome, run.attempt, run.error, run.missed) == ("done", 1, "", "")
    assert run.worker == world.membership.name
    assert run.scheduled_time is None


@pytest.mark.parametrize(
    ("handle", "attributes", "outcome"),
    [
        (fine, {}, "done"),
        (lambda task: timedelta(hours=1), {}, "rescheduled"),
        (bad, {}, "retried"),
        (bad, {"max_attempts": 1}, "failed"),
        (fine, {"misfire_grace_time": 1, "on_misfire": "skip"}, "skipped"),
    ],
)
@pytest.mark.parametrize("atomic", [False, True])
def test_each_end_has_its_word(
    register: Register,
    handle: Callable[..., Any],
    attributes: dict[str, Any],
    outcome: str,
    atomic: bool,
) -> None:
    register(handle, atomic=atomic, history="all", **attributes)
    added()
    World().work()
    (run,) = get_runs(CODE, "1")
    assert run.outcome == outcome
    assert ("ValueError: oh" in run.error) is (handle is bad)


def test_one_line_a_run_the_last_one_first(register: Register) -> None:
    register(bad, max_attempts=3, backoff=0)
    added()
    world = World()
    for _ in range(3):
        world.work()
    assert outcomes() == ["failed", "retried", "retried"]
    assert [run.attempt for run in get_runs(CODE, "1")] == [3, 2, 1]
    assert [run.attempt for run in get_runs(CODE, "1", limit=1)] == [3]


@keeping_all
def test_a_handler_has_its_own_say(register: Register) -> None:
    register(bad, history="none", max_attempts=1)
    added()
    World().work()
    assert outcomes() == []


def test_a_misfire_is_in_the_line_of_its_run(register: Register) -> None:
    register(fine, misfire_grace_time=60, on_misfire="run")
    added(when=ago(3 * 3600), schedule="every 1h")
    world = World()
    world.work()
    (run,) = get_runs(CODE, "1")
    assert (run.outcome, run.missed) == ("rescheduled", "coalesce")
    assert run.scheduled_time is not None
    assert world.poller._finisher.counters["missed"] == 1
    assert world.poller.runs() == 1


def test_all_that_was_done_about_missed_times_is_in_the_line(register: Register) -> None:
    """The last of several times is the one to run for, and comes too late as well."""
    register(fine, misfire_grace_time=60)
    added(when=ago(3.5 * 3600), schedule="every 1h")
    World().work()
    (run,) = get_runs(CODE, "1")
    assert (run.outcome, run.missed) == ("skipped", "coalesce, skip")


def test_what_was_missed_counts_also_where_no_line_is_kept(register: Register) -> None:
    register(fine, misfire_grace_time=60, on_misfire="run", history="none")
    added(when=ago(3 * 3600), schedule="every 1h")
    world = World()
    world.work()
    assert outcomes() == []
    assert world.poller._finisher.counters == {"rescheduled": 1, "missed": 1}


def test_a_skipped_run_is_told_and_counted_as_missed(register: Register) -> None:
    register(fine, misfire_grace_time=0.001)
    added(when=ago(1), schedule="every 1h")
    world = World()
    world.work()
    (run,) = get_runs(CODE, "1")
    assert (run.outcome, run.missed) == ("skipped", "skip")
    assert world.poller._finisher.counters == {"skipped": 1, "missed": 1}


@pytest.mark.parametrize("atomic", [False, True])
def test_a_run_that_lost_its_claim_is_told(register: Register, atomic: bool) -> None:
    other = worker_row().pk

    def overtaken(task: Any) -> None:
        table().update(claimed_by=other)

    register(overtaken, atomic=atomic)
    added()
    World().work()
    (run,) = get_runs(CODE, "1")
    assert (run.outcome, run.duration >= 0) == ("lost", True)


def test_of_an_end_whose_answer_was_lost_there_is_one_line(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:

    def unanswered(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(finisher, "finish", finish)
        finish(*args, **kwargs)
        raise OperationalError("gone away")

    register(bad, max_attempts=1)
    added()
    world = World()
    world.poller.run_once()
    world.hands.work()
    monkeypatch.setattr(finisher, "finish", unanswered)
    with pytest.raises(OperationalError):
        world.poller.run_once()
    world.poller.run_once()
    assert outcomes() == ["failed"]


def test_the_line_of_a_lost_run_waits_for_the_database(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = runs.record

    def down(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("gone away")

    register(lambda task: table().update(claimed_by=10**9))
    added()
    world = World()
    world.poller.run_once()
    world.hands.work()
    monkeypatch.setattr(runs, "record", down)
    with pytest.raises(OperationalError):
        world.poller.run_once()
    monkeypatch.setattr(runs, "record", recorded)
    assert not world.poller._finisher.is_empty()
    world.poller.run_once()
    assert outcomes() == ["lost"]


def test_what_the_history_tells_is_what_was_signalled(register: Register) -> None:
    """The words are the same as those of the signals."""
    names = {name.removeprefix("task_") for name in vars(signals) if name.startswith("task_")}
    assert {"rescheduled", "retried", "failed", "lost"} <= names
    assert set(RunOutcome.values) - names == {"done", "skipped"}


# What is forgotten


def old_and_young() -> None:
    a_run(biz_num="old", ended=ago(31 * 86_400))
    a_run(biz_num="young", ended=ago(29 * 86_400))


def kept() -> list[str]:
    return [run.biz_num for run in TaskRun.objects.order_by("id")]


def test_a_worker_forgets_what_is_older_than_the_history_goes_back(register: Register) -> None:
    register(fine)
    old_and_young()
    World().poller.run_once()
    assert kept() == ["young"]


def test_how_far_it_goes_back_can_be_set(register: Register) -> None:
    register(fine)
    old_and_young()
    with override_settings(DJANGO_TASKS={"HISTORY_AGE": timedelta(days=1)}):
        World().poller.run_once()
    assert kept() == []


def test_it_looks_every_ten_minutes(register: Register) -> None:
    register(fine)
    world = World()
    world.poller.run_once()
    old_and_young()
    world.poller.run_once()
    assert kept() == ["old", "young"]
    world.ticks.ahead += INTERVAL
    world.poller.run_once()
    assert kept() == ["young"]


def test_its_time_has_come_at_the_very_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[datetime] = []
    monkeypatch.setattr(runs, "prune", lambda before, using: looks.append(before))
    ticks, membership = [0.0], joined()
    pruner = Pruner(USING, membership)
    monkeypatch.setattr(membership.clock, "monotonic", lambda: ticks[0])
    for moment, expected in ((0.0, 1), (INTERVAL - 0.001, 1), (INTERVAL, 2)):
        ticks[0] = moment
        for _ in range(4):  # one chore a cycle
            pruner.prune_if_due()
        assert len(looks) == expected


def test_ends_of_pauses_are_forgotten_after_a_month(world: Ticks) -> None:
    oldest = joined(world)
    for days in (30, 32):
        ended = ago(days * 24 * 3600)
        EndedPause.objects.create(biz_code=str(days), since=ended, ended=ended)
    pruner = Pruner(USING, oldest)
    for _ in range(6):  # one chore a cycle
        pruner.prune_if_due()
    assert list(EndedPause.objects.values_list("biz_code", flat=True)) == ["30"]


@pytest.mark.parametrize(
    ("merge", "interval"),
    [
        ("merge_workers", WORKERS_INTERVAL),
        ("merge_hours", INTERVAL),
        ("merge_old", INTERVAL),
    ],
)
def test_each_merge_has_its_own_pace(
    merge: str, interval: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    monkeypatch.setattr(minutes, merge, lambda before, using: looks.append(before))
    ticks, membership = [0.0], joined()
    pruner = Pruner(USING, membership)
    monkeypatch.setattr(membership.clock, "monotonic", lambda: ticks[0])
    monkeypatch.setattr(membership, "rank", lambda: 0)
    monkeypatch.setattr(membership, "living", lambda: [1, 2])  # else there is nothing to merge
    for moment, expected in ((0.0, 1), (interval - 0.001, 1), (interval, 2)):
        ticks[0] = moment
        for _ in range(5):  # one chore a cycle
            pruner.prune_if_due()
        assert len(looks) == expected


def test_minutes_of_several_workers_are_merged_by_the_oldest_and_those_of_one_are_left(
    world: Ticks,
) -> None:
    oldest = joined(world)
    then = minute_of(oldest.clock.now()) - 10
    for worker in (1, 2):
        minutes.add(worker, [Counted(then, CODE, "", [1] * len(COLUMNS))], using=USING)

    def rows_after(member: Membership) -> int:
        pruner = Pruner(USING, member)
        for _ in range(4):
            pruner.prune_if_due()
        return TaskMinute.objects.count()

    oldest.beat(*Report("running", {}))
    assert rows_after(oldest) == 2
    younger = joined(world)
    for member in (oldest, younger):
        member.beat(*Report("running", {}))
    assert rows_after(younger) == 2
    assert rows_after(oldest) == 1


def test_minutes_are_merged_and_those_of_a_week_are_kept_however_short_the_history_is(
    settings: Any, world: Ticks
) -> None:
    settings.DJANGO_TASKS = {"HISTORY_AGE": 60}
    membership = joined(world)
    now = minute_of(membership.clock.now())
    hours = [now - now % 60 - 60 * ago for ago in (1, 4, 100, 24 * 9)]
    values = [1] * len(COLUMNS)
    minutes.add(1, [Counted(hour, CODE, "", values) for hour in hours], using=USING)
    pruner = Pruner(USING, membership)
    for _ in range(20):
        pruner.prune_if_due()
        world.ahead += PAUSE
    spans = TaskMinute.objects.order_by("-minute").values_list("minute", "span")
    # That of four days ago was left by the minute when no worker was there.
    assert list(spans) == [(hours[0], 1), (hours[1], 60), (hours[2], 1), (0, 0)]


def test_a_failure_to_forget_fails_one_cycle_and_not_all_that_follow(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look through a bloated table that takes longer than a statement may, each time."""

    def takes_too_long(*args: Any) -> int:
        raise OperationalError("canceling statement due to statement timeout")

    register(fine)
    old_and_young()
    world = World()
    with monkeypatch.context() as patch:
        patch.setattr(runs, "_prune", takes_too_long)
        with pytest.raises(OperationalError):
            world.poller.run_once()
        world.poller.run_once()
    assert kept() == ["old", "young"]
    world.ticks.ahead += INTERVAL
    world.poller.run_once()
    assert kept() == ["young"]


def test_where_there_is_more_it_goes_on_soon(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "AT_ONCE", 1)
    register(fine)
    a_run(biz_num="older", ended=ago(31 * 86_400))
    old_and_young()
    world = World()
    for expected in (["old", "young"], ["young"], ["young"]):
        world.poller.run_once()
        assert kept() == expected
        world.ticks.ahead += 1


def test_of_several_workers_the_oldest_one_forgets(register: Register) -> None:
    register(fine)
    oldest = worker_row(age=0)
    old_and_young()
    world = World()
    world.membership.beat("running", {})
    assert world.membership.rank() == 1
    world.poller.run_once()
    assert kept() == ["old", "young"]
    oldest.delete()
    world.ticks.ahead += INTERVAL
    world.poller.run_once()
    assert kept() == ["young"]
