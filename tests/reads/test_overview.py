"""The one bounded look at everything: what it counts, and how many statements it takes."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from django_tasks import api
from django_tasks.handlers.base import task_handler
from django_tasks.models import Gate, TaskMinute
from django_tasks.reads import backlog
from django_tasks.reads.overview import Overview, overview
from django_tasks.reads.words import Amount
from django_tasks.reads.workers import WorkerState
from django_tasks.values.hosts import queue_of
from django_tasks.values.status import Status
from tests.factories import NOW, a_row, a_worker, later, rows, table

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def look(**kwargs: Any) -> Overview:
    return overview(using="default", **kwargs)


def kinds(found: Overview) -> list[str]:
    return [problem.kind for problem in found.problems]


def sentences(found: Overview, kind: str) -> list[str]:
    return [problem.sentence for problem in found.problems if problem.kind == kind]


def at_work(name: str = "w1", **fields: Any) -> Any:
    """A worker that describes itself as those of this release do."""
    return a_worker(name, **({"version": "1.0", "codes": ["order"], "host": "web-1"} | fields))


def a_minute(code: str = "order", seconds_ago: float = 60, **counts: int) -> TaskMinute:
    minute = int((later(-seconds_ago)).timestamp()) // 60
    return TaskMinute.objects.create(biz_code=code, minute=minute, worker=1, **counts)


def test_an_empty_database_has_nothing_but_the_advice_to_start_a_worker(handlers: Any) -> None:
    found = look()
    assert (found.workers, found.codes, found.pauses, found.stuck) == ((), (), (), ())
    assert (found.due, found.late.count, found.failed.count) == (Amount(0),) * 3
    assert found.late.oldest is None
    assert kinds(found) == ["no_worker"]
    assert found.problems[0].level == "info"
    assert "starttask" in found.problems[0].sentence
    assert sum(bucket.count.number for bucket in found.coming.buckets) == 0
    assert [speed.runs_a_minute for speed in found.speed] == [0, 0, 0]
    json.dumps(found.as_json())


def test_nobody_is_alive_since_the_last_heartbeat() -> None:
    a_row(when=later(-5))
    at_work(heartbeat=later(-100))
    found = look()
    assert found.alive == []
    assert [worker.name for worker in found.silent] == ["w1"]
    assert kinds(found)[:2] == ["no_worker", "silent"]
    assert found.problems[0].level == "error"
    assert found.last_seen == later(-100)
    # NOW is 20:30:15 in the time zone of the project.
    assert sentences(found, "no_worker") == ["No worker has been alive since 20:28:35 CST."]
    (silent,) = sentences(found, "silent")
    assert silent == "Worker w1 is 1 min 30 s late with its heartbeat."


def test_the_last_run_was_about_when_it_was_counted() -> None:
    a_minute(seconds_ago=600, done=1)
    found = look()
    assert found.last_seen == later(-600).replace(second=30, microsecond=0)
    sentence = "No worker is alive, and the last run was at about 20:20 CST."
    assert sentences(found, "no_worker") == [sentence]


def test_of_runs_that_are_counted_by_the_hour_the_last_was_about_its_middle() -> None:
    minute = int(NOW.timestamp()) // 3600 * 60 - 24 * 60
    TaskMinute.objects.create(biz_code="order", minute=minute, span=60, worker=0, done=1)
    (sentence,) = sentences(look(), "no_worker")
    assert sentence.endswith(f"at about {later(-86_400):%Y-%m-%d} 20:30 CST.")


def test_runs_of_all_time_do_not_tell_when_the_last_one_was() -> None:
    TaskMinute.objects.create(biz_code="order", minute=0, span=0, worker=0, done=1)
    (sentence,) = sentences(look(), "no_worker")
    assert sentence.startswith("No worker has run yet")


def test_late_is_what_is_due_for_more_than_a_minute_and_not_paused() -> None:
    at_work(codes=["order", "mail"])
    rows(range(3), when=later(-200))
    rows(range(3, 5), when=later(-30))
    rows(range(2), when=later(-9000), biz_code="mail")
    rows(range(5, 9), when=later(500))
    api.pause_tasks(biz_code="mail")
    found = look()
    assert found.due == Amount(7)
    assert found.late.count == Amount(3)
    assert found.late.oldest == later(-200)
    assert [code.code for code in found.late.by_code] == ["order"]
    assert sentences(found, "late") == ["3 tasks of “order” are late, the oldest by 3 min 20 s."]
    (paused,) = sentences(found, "paused")
    assert paused.startswith("Code mail has been paused since")
    assert paused.endswith("2 due tasks wait.")


def test_what_is_due_is_counted_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch, handlers: Any
) -> None:
    monkeypatch.setattr(backlog, "COUNTED", 3)
    rows(range(5), when=later(-200))
    rows(range(2), when=later(-200), biz_code="mail")
    found = look()
    assert found.late.count == Amount(5, True)
    assert str(found.late.count) == "more than 5"
    assert {code.code: code.late for code in found.codes} == {
        "mail": Amount(2),
        "order": Amount(3, True),
    }


def test_many_lanes_share_what_is_counted(monkeypatch: pytest.MonkeyPatch, handlers: Any) -> None:
    monkeypatch.setattr(backlog, "MOST_COUNTED", 8)
    for number in range(4):
        rows(range(3), when=later(-200), biz_code=f"code{number}")
        rows(range(3, 6), status=Status.FAILED, biz_code=f"code{number}")
    found = look()
    assert found.late.count == found.due == found.failed.count == Amount(8, True)


def test_of_lanes_beyond_the_limit_it_is_only_said_that_there_are_some(
    monkeypatch: pytest.MonkeyPatch, handlers: Any
) -> None:
    monkeypatch.setattr(backlog, "MOST_LANES", 1)
    a_row("1", when=later(-300))
    a_row("1", when=later(-200), biz_code="mail")
    a_row("1", when=later(200), biz_code="push")
    found = look()
    assert {code.code: code.due for code in found.codes} == {
        "mail": Amount(0, True),
        "order": Amount(1),
        "push": Amount(0),
    }
    assert found.coming.total().is_more


def test_failures_are_grouped_by_code_and_exception() -> None:
    at_work()
    failed = {"status": Status.FAILED, "exception": "builtins.ConnectionError"}
    rows(range(3), update_time=later(-60), **failed)
    rows(range(3, 5), update_time=later(-600), **failed)
    a_row("1", biz_code="mail", status=Status.FAILED, exception="a.b.Oops", update_time=later(-5))
    found = look()
    assert found.failed.count == Amount(6)
    groups = [(g.biz_code, g.exception, g.count, g.first, g.last) for g in found.failed.groups]
    assert groups == [
        ("mail", "a.b.Oops", Amount(1), later(-5), later(-5)),
        ("order", "builtins.ConnectionError", Amount(5), later(-600), later(-60)),
    ]
    first, second = sentences(found, "failed")
    assert first.startswith("1 task of “mail” has failed with Oops at ")
    assert second.startswith("5 tasks of “order” have failed with ConnectionError since ")
    cures = [each.cure_params for each in found.problems if each.kind == "failed"]
    assert cures[1] == {
        "status": "failed",
        "code": "order",
        "exception": "builtins.ConnectionError",
    }


def test_each_lane_has_its_share_of_the_failures_that_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backlog, "MOST_FAILED", 20)
    rows(range(40), status=Status.FAILED, exception="A")
    rows(range(2), status=Status.FAILED, exception="B", biz_code="mail")
    found = look().failed
    assert found.count == Amount(42)
    assert {(g.biz_code, g.count) for g in found.groups} == {
        ("order", Amount(10, True)),
        ("mail", Amount(2)),
    }


def test_what_comes_is_counted_step_by_step() -> None:
    start = NOW.replace(second=0, microsecond=0)
    rows(range(3), when=start + timedelta(minutes=7))
    rows(range(3, 5), when=start + timedelta(minutes=14))
    a_row("late", when=later(-100))
    a_row("far", when=later(9 * 3600))
    found = look(hours_ahead=3).coming
    assert found.step == timedelta(minutes=5)
    assert len(found.buckets) == 36
    assert [bucket.count for bucket in found.buckets[:4]] == list(map(Amount, (0, 3, 2, 0)))
    assert found.total() == Amount(5)
    assert len(look(hours_ahead=1).coming.buckets) == 60
    assert len(look(hours_ahead=6).coming.buckets) == 36


def test_where_more_comes_than_is_read_the_counts_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "MOST_COMING", 4)
    start = NOW.replace(second=0, microsecond=0)
    for number in range(8):
        a_row(str(number), when=start + timedelta(minutes=7 + 5 * number))
    buckets = look().coming.buckets
    assert [bucket.count.number for bucket in buckets[:6]] == [0, 1, 1, 1, 1, 0]
    assert [bucket.count.is_more for bucket in buckets[:6]] == [False] * 4 + [True] * 2


def test_codes_that_are_paused_do_not_come() -> None:
    a_row("1", when=later(600))
    api.pause_tasks(biz_code="order")
    assert look().coming.total() == Amount(0)


def test_claims_of_workers_that_are_gone_or_silent_are_stuck() -> None:
    alive, silent = at_work("w1"), at_work("w2", heartbeat=later(-40))
    a_row("1", status=Status.RUNNING, claimed_by=alive.pk)
    a_row("2", status=Status.RUNNING, claimed_by=silent.pk)
    a_row("3", status=Status.CANCELLING, claimed_by=silent.pk + 100)
    found = look()
    assert found.running == Amount(3)
    assert {claim.biz_num for claim in found.stuck} == {"2", "3"}
    assert sentences(found, "stuck") == ["2 tasks are held by workers that are gone or silent."]


def test_a_code_that_no_running_worker_knows_is_told() -> None:
    at_work(codes=["order"])
    rows(range(3), when=later(-5), biz_code="refund")
    a_row("1", when=later(900), biz_code="push")
    a_row("1", when=later(-5))
    told = sentences(look(), "no_handler")
    assert told == [
        "3 due tasks of “refund” have no handler in any running worker.",
        "Tasks of “push” wait, and no running worker has a handler of it.",
    ]


def test_a_worker_of_an_older_release_may_know_every_code() -> None:
    at_work(version="", codes=[])
    a_row("1", when=later(-5))
    assert "no_handler" not in kinds(look())


def test_a_queue_that_nobody_serves_is_told() -> None:
    at_work(queues=["mail"])
    a_row("1", when=later(-5), queue="slow")
    a_row("2", when=later(-5), queue="mail")
    assert sentences(look(), "no_queue") == [
        "No running worker serves the queue “slow”, in which 1 task is due."
    ]


def test_the_queue_of_a_host_is_served_by_its_workers_that_serve_that_of_the_handler(
    handlers: Any,
) -> None:
    @task_handler("order", queue="mail")
    def handle(task: Any) -> None: ...

    handlers(handle)
    at_work(host="web-1", queues=["mail"])
    at_work(host="web-3", queues=["slow"])
    for host in ("web-1", "web-2", "web-3"):
        a_row(host, when=later(-5), queue=queue_of(host))
    assert sentences(look(), "no_queue") == [
        f"No running worker serves the queue “@host:{host}”, in which 1 task is due."
        for host in ("web-2", "web-3")
    ]


def test_workers_that_are_quiet_take_nothing() -> None:
    at_work("w1", wish="quiet")
    at_work("w2", state="stopping")
    a_row(when=later(-5))
    found = look()
    assert found.working == []
    assert kinds(found)[0] == "nobody_works"
    assert sentences(found, "quiet") == [
        "Worker w1 claims nothing: it was asked to be quiet.",
        "Worker w2 claims nothing: it stops.",
    ]


def test_where_the_server_rejects_a_statement_nothing_else_is_told_of_the_workers() -> None:
    at_work("w1", state="rejected")
    a_row(when=later(-5))
    found = look()
    assert found.working == []
    assert kinds(found)[0] == "rejected"
    assert "nobody_works" not in kinds(found)


def test_a_limit_that_holds_late_tasks_back_is_told(handlers: Any) -> None:
    @task_handler("order", max_running=2)
    def handle(task: Any) -> None: ...

    handlers(handle)
    worker = at_work()
    rows(range(2), status=Status.RUNNING, claimed_by=worker.pk)
    a_row("late", when=later(-100))
    assert sentences(look(), "limit") == [
        "The limit of “order” holds tasks back: 2 of 2 runs at once."
    ]
    Gate.objects.create(biz_code="order", max_running=5)
    found = look()
    assert "limit" not in kinds(found)
    (code,) = found.codes
    assert (code.limits.own.max_running, code.limits.in_force.max_running) == (2, 5)
    table(status=Status.RUNNING).delete()
    Gate.objects.update(rate_limit="1/h", full_until=F("full_until") + 4_000_000_000_000_000)
    assert sentences(look(), "limit") == ["The limit of “order” holds tasks back: 1/h starts."]


def test_busy_workers_and_versions_are_told() -> None:
    at_work("w1", threads=4, busy=4)
    at_work("w2", threads=2, busy=2, version="1.1")
    a_row(when=later(-100))
    found = look()
    assert sentences(found, "all_busy") == [
        "Tasks are late and all 6 threads of the workers are busy."
    ]
    assert sentences(found, "versions") == ["Workers of different versions are alive: 1.0, 1.1."]


def test_failures_that_rise_are_told() -> None:
    at_work()
    a_minute(seconds_ago=20_000, done=1000, failed=10)
    a_minute(done=80, failed=5)
    assert "rising" not in kinds(look())
    a_minute(failed=15)
    assert sentences(look(), "rising") == [
        "Failures rise: 20 % of the runs in the last hour, 1 % in the day before."
    ]


def test_failures_do_not_rise_where_nothing_ran_before() -> None:
    at_work()
    a_minute(done=80, failed=20)
    assert "rising" not in kinds(look())


def test_the_codes_that_are_late_by_most_are_told_first() -> None:
    codes = [f"code{number:02}" for number in range(20)]
    at_work(codes=codes)
    for number, code in enumerate(codes):
        a_row("1", biz_code=code, when=later(-100 - number))
    first, *_others = sentences(look(), "late")
    assert first == "1 task of “code19” is late, by 1 min 59 s."


def test_of_many_problems_of_a_kind_some_are_told_and_the_others_counted() -> None:
    codes = [f"code{number:02}" for number in range(20)]
    at_work(codes=codes)
    for code in codes:
        a_row("1", biz_code=code, when=later(-100))
    late = sentences(look(), "late")
    assert len(late) == 6
    assert late[-1] == "15 more of this kind."


def test_a_pause_says_who_has_paused_it() -> None:
    at_work()
    api.pause_tasks()
    (pause,) = api.paused()
    type(pause)._base_manager.update(by="anna")
    (told,) = sentences(look(), "paused")
    assert told.startswith("Everything has been paused since ")
    assert told.endswith(" by anna.")
    (paused,) = look().pauses
    assert (paused.biz_code, paused.queue, paused.by, paused.since) == ("", "", "anna", NOW)


def test_speed_is_of_an_hour_a_day_and_a_week() -> None:
    a_minute(seconds_ago=120, done=120, late_2=120, took_1=120)
    a_minute(seconds_ago=10 * 3600, done=240)
    hour, day, week = look().speed
    assert (hour.runs_a_minute, day.runs_a_minute) == (2.0, 0.25)
    assert week.figures.runs == 360
    quantile = hour.figures.late.quantile(0.5)
    assert quantile is not None
    assert 0.25 < quantile < 1


def test_the_number_of_statements_is_the_same_for_many_tasks_codes_and_workers(
    queries: Any,
) -> None:
    at_work()
    a_row("1", when=later(-100))
    a_row("1", when=later(100), biz_code="mail")
    a_row("1", status=Status.FAILED, biz_code="push")
    with queries() as few:
        look()
    for number in range(30):
        at_work(f"more {number}")
        code = f"code{number}"
        rows(range(10), biz_code=code, when=later(-100))
        rows(range(10, 20), biz_code=code, when=later(100))
        rows(range(20, 30), biz_code=code, status=Status.FAILED)
        a_minute(code, done=4)
    with queries() as many:
        look()
    assert len(many) == len(few) <= 20


def test_what_was_seen_is_not_looked_through_for_each_code(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counting(name: str) -> property:
        read = getattr(WorkerState, name).fget

        def ask(worker: WorkerState) -> bool:
            asked.append(name)
            return bool(read(worker))

        return property(ask)

    for number in range(30):
        a_row(biz_code=f"code{number}", queue=f"q{number}", when=later(-300))
    for number in range(30):
        at_work(f"w{number}", queues=["default"])
    monkeypatch.setattr(WorkerState, "is_working", counting("is_working"))
    found = look()
    assert len(found.codes) >= 30
    assert len(asked) < 30 * 30


def test_names_that_are_markup_or_formats_stay_as_they_are() -> None:
    name = "<b>%s{0}</b>"
    at_work(name, heartbeat=later(-25), codes=[name])
    a_row("1", biz_code=name, when=later(-100))
    found = look()
    assert sentences(found, "late") == [f"1 task of “{name}” is late, by 1 min 40 s."]
    assert sentences(found, "silent") == [f"Worker {name} is 15 s late with its heartbeat."]
    assert found.as_json()["codes"][0]["code"] == name
