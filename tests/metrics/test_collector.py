"""The metrics, as the real parsers of Prometheus' client read them."""

import threading
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from django_tasks.api import add_task, pause_tasks, task_handler
from django_tasks.metrics import TaskCollector, families, state
from django_tasks.metrics.catalogue import ENTRIES
from django_tasks.models import TaskMinute
from django_tasks.reads import workers as monitored
from django_tasks.values.figures import LATE_BOUNDS, TOOK_BOUNDS
from django_tasks.values.hosts import queue_of
from django_tasks.values.status import Status
from tests.factories import NOW, a_row, a_worker, later, rows
from tests.metrics.reading import Scrape, scrape, scrape_openmetrics
from tests.waiting import eventually

MINUTE = int(NOW.timestamp()) // 60


def at_work(name: str = "w1", **fields: Any) -> Any:
    """A worker that describes itself as those of this release do."""
    return a_worker(name, **({"version": "1.0", "codes": ["order"], "host": "web-1"} | fields))


def counted(code: str = "order", minute: int = MINUTE, **counts: float) -> TaskMinute:
    return TaskMinute.objects.create(biz_code=code, minute=minute, worker=1, **counts)


# Real runs


def test_real_runs_are_counted_and_timed(start_worker: Any, handlers: Any) -> None:
    opened = threading.Event()

    def good(task: Any) -> None: ...

    def bad(task: Any) -> None:
        raise ValueError("no")

    def held(task: Any) -> None:
        assert opened.wait(20)

    handlers(
        task_handler("good")(good),
        task_handler("bad", max_attempts=1)(bad),
        task_handler("held")(held),
    )
    worker = start_worker(threads=2)
    for number in range(3):
        add_task("good", number)
    add_task("bad", 1)
    add_task("held", 1)

    def runs_one() -> Scrape | None:
        found = scrape()
        is_seen = found.get("failed", code="bad") == found.get("running", code="held") == 1
        return found if is_seen and found.get("due", code="good") == 0 else None

    found = eventually(runs_one, "one has failed and one runs")
    assert found is not None
    assert found.get("up") == 1
    assert found.get("workers", state="working") == 1
    assert found.get("threads") == 2
    assert found.get("code_workers", code="held") == 1
    assert found.get("stuck", code="held") == 0
    opened.set()
    eventually(lambda: scrape().get("running", code="held") == 0, "it has ended")
    worker.stop()
    worker.join(20)

    for found in (scrape(), scrape_openmetrics()):
        assert found.get("runs_total", code="good", outcome="done") == 3
        assert found.get("runs_total", code="bad", outcome="failed") == 1
        assert found.get("runs_total", code="bad", outcome="done") == 0
        for code, number in {"good": 3, "bad": 1, "held": 1}.items():
            for name in ("lateness", "duration"):
                assert found.get(f"{name}_seconds_count", code=code) == number
                assert found.get(f"{name}_seconds_bucket", code=code, le="+Inf") == number
                assert 0 <= (found.get(f"{name}_seconds_sum", code=code) or 0) < 60
        assert found.get("workers", state="working") == 0


# Each metric

pytest_now = pytest.mark.usefixtures("now")


@pytest.mark.django_db
@pytest_now
def test_an_empty_database_gives_every_metric_that_has_no_label_of_its_own(handlers: Any) -> None:
    found = scrape()
    bare = {
        *("up", "scrape_duration_seconds", "other_codes", "threads", "busy_threads", "pauses"),
        *("workers", "capped_codes"),
    }
    assert found.of("default") == {f"django_tasks_{name}" for name in bare}
    assert found.get("up") == 1
    assert {found.get("workers", state=name) for name in ("working", "quiet", "silent")} == {0}


@pytest.mark.django_db
@pytest_now
def test_a_code_of_a_handler_has_its_zeros_before_anything_has_run(handlers: Any) -> None:
    handlers(task_handler("order")(lambda task: None))
    found = scrape()
    assert found.get("runs_total", code="order", outcome="failed") == 0
    assert found.get("due", code="order") == found.get("failed", code="order") == 0
    assert found.get("duration_seconds_count", code="order") == 0


@pytest.mark.django_db
@pytest_now
def test_histograms_are_cumulative_with_the_fixed_bounds(handlers: Any) -> None:
    counted(done=3, late_0=1, late_1=1, late_9=1, took_2=3, late_sum=9000.5, took_sum=0.25)
    counted(done=1, minute=0, span=0, late_0=1, took_0=1)
    for found in (scrape(), scrape_openmetrics()):
        family = found.families["django_tasks_lateness_seconds"]
        assert family.type == "histogram"
        buckets = [
            (float(sample.labels["le"]), sample.value)
            for sample in family.samples
            if sample.name.endswith("_bucket")
        ]
        assert [bound for bound, _ in buckets] == list(LATE_BOUNDS)
        assert [count for _, count in buckets] == [2, 3, 3, 3, 3, 3, 3, 3, 3, 4]
        assert found.get("lateness_seconds_count", code="order") == 4
        assert found.get("lateness_seconds_sum", code="order") == 9000.5
        assert found.get("duration_seconds_count", code="order") == 4
        assert found.get("duration_seconds_bucket", code="order", le="0.025") == 1
        assert len(found.labels("duration_seconds_bucket", "le")) == len(TOOK_BOUNDS)


@pytest.mark.django_db
@pytest_now
def test_times_that_were_skipped_are_no_runs(handlers: Any) -> None:
    counted(skipped=4, done=2, lost=1)
    found = scrape()
    assert found.get("skipped_total", code="order") == 4
    assert found.get("runs_total", code="order", outcome="lost") == 1
    assert "skipped" not in found.labels("runs_total", "outcome")


@pytest.mark.django_db
@pytest_now
def test_what_is_due_late_and_oldest_is_told_by_code_and_queue(handlers: Any) -> None:
    rows(range(3), when=later(-10))
    rows(range(3, 5), when=later(-90))
    rows(range(5, 9), when=later(90))
    rows(range(2), when=later(-400), biz_code="mail", queue="slow", priority=2)
    rows(range(2, 4), when=later(-30), biz_code="mail", queue="fast")
    at_work(queues=["slow", "idle"])
    found = scrape()
    by_code = {
        name: (found.get(name, code="order"), found.get(name, code="mail"))
        for name in ("due", "late", "oldest_due_seconds", "code_workers")
    }
    assert by_code == {
        "due": (5, 4),
        "late": (2, 2),
        "oldest_due_seconds": (90, 400),
        "code_workers": (1, 0),
    }
    by_queue = {
        queue: tuple(
            found.get(f"queue_{name}", queue=queue)
            for name in ("due", "oldest_due_seconds", "workers")
        )
        for queue in found.labels("queue_due", "queue")
    }
    assert by_queue == {
        "default": (5, 90, 0),
        "slow": (2, 400, 1),
        "fast": (2, 30, 0),
        "idle": (0, 0, 1),
    }


@pytest.mark.django_db
@pytest_now
def test_what_is_paused_as_a_whole_is_not_due(handlers: Any) -> None:
    rows(range(3), when=later(-100))
    rows(range(3), when=later(-50), biz_code="mail")
    pause_tasks(biz_code="order")
    found = scrape()
    assert found.get("pauses") == 1
    assert found.get("due", code="order") == found.get("oldest_due_seconds", code="order") == 0
    assert found.get("queue_due", queue="default") == 3
    assert found.get("queue_oldest_due_seconds", queue="default") == 50


@pytest.mark.django_db
@pytest_now
def test_claims_are_told_with_the_oldest_and_those_whose_worker_is_gone(handlers: Any) -> None:
    alive, silent = at_work(), at_work("w2", heartbeat=later(-40))
    a_row("1", status=Status.RUNNING, claimed_by=alive.pk, claim_time=later(-7))
    a_row("2", status=Status.CANCELLING, claimed_by=silent.pk, claim_time=later(-70))
    a_row("3", status=Status.RUNNING, claimed_by=12345, claim_time=later(-30), biz_code="mail")
    found = scrape()
    assert found.get("running", code="order") == 2
    assert found.get("oldest_claim_seconds", code="order") == 70
    assert (found.get("stuck", code="order"), found.get("stuck", code="mail")) == (1, 1)


@pytest.mark.django_db
@pytest_now
def test_each_worker_is_in_one_state(handlers: Any) -> None:
    at_work(threads=4, busy=3)
    at_work("w2", threads=8, busy=1, wish="quiet")
    at_work("w3", threads=16, busy=16, heartbeat=later(-31))
    at_work("w4", threads=1, state="stopping", heartbeat=later(-29))
    found = scrape()
    states = {name: found.get("workers", state=name) for name in ("working", "quiet", "silent")}
    assert states == {"working": 1, "quiet": 2, "silent": 1}
    assert (found.get("threads"), found.get("busy_threads")) == (13, 4)
    assert found.get("last_heartbeat_timestamp_seconds") == NOW.timestamp()
    assert found.get("code_workers", code="order") == 1


@pytest.mark.django_db
@pytest_now
def test_the_queue_of_a_host_is_served_by_the_workers_on_it(handlers: Any) -> None:
    a_row(queue=queue_of("web-1"), when=later(-1))
    a_row("2", queue=queue_of("web-2"), when=later(-1))
    at_work(queues=["mail"])
    found = scrape()
    assert found.get("queue_workers", queue=queue_of("web-1")) == 1
    assert found.get("queue_workers", queue=queue_of("web-2")) == 0


# Bounds


@pytest.mark.django_db
@pytest_now
def test_a_count_that_stops_at_its_limit_is_told(
    handlers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "MOST_COUNTED", 10)
    monkeypatch.setattr(monitored, "MOST_CLAIMED", 2)
    rows(range(30), when=later(-100))
    rows(range(30, 60), status=Status.FAILED)
    rows(range(60, 63), status=Status.RUNNING)
    found = scrape()
    names = ("due", "late", "failed", "running")
    assert [found.get(name, code="order") for name in names] == [10, 10, 10, 2]
    assert [found.get("capped_codes", count=name) for name in names] == [1, 1, 1, 1]


@pytest.mark.django_db
@pytest_now
def test_codes_beyond_the_limit_are_together(
    handlers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_tasks.metrics.collector.MOST_CODES", 2)
    at_work(codes=["a", "b", "c"])
    for place, code in enumerate(("a", "b", "c", "d")):
        counted(code, done=place + 1, late_0=place + 1, took_sum=1.5)
        a_row(biz_code=code, when=later(-10 * place))
    found = scrape()
    assert found.labels("runs_total", "code") == {"a", "b", families.OTHER}
    assert found.get("other_codes") == 2
    assert found.get("runs_total", code="other", outcome="done") == 7
    assert found.get("lateness_seconds_count", code="other") == 7
    assert found.get("duration_seconds_sum", code="other") == 3
    assert found.get("due", code="other") == 2
    assert found.get("oldest_due_seconds", code="other") == 30
    assert found.get("code_workers", code="other") == 0
    assert found.get("code_workers", code="a") == 1


@pytest.mark.django_db
@pytest_now
def test_a_code_that_is_named_other_is_one_with_them(
    handlers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_tasks.metrics.collector.MOST_CODES", 2)
    for code in ("a", "other", "z"):
        counted(code, done=1)
    assert scrape().get("runs_total", code="other", outcome="done") == 2


@pytest.mark.django_db
@pytest_now
def test_names_are_escaped(handlers: Any) -> None:
    name = 'a "quoted"\\n{odd} 名,x="1'
    counted(name, done=1)
    a_row(biz_code=name, queue=name, when=later(-1))
    for found in (scrape(), scrape_openmetrics()):
        assert found.get("runs_total", code=name, outcome="done") == 1
        assert found.get("queue_due", queue=name) == 1


# Registries


@pytest.mark.django_db
@pytest_now
def test_the_collector_fits_into_a_registry_of_the_project(handlers: Any) -> None:
    registry = CollectorRegistry()
    registry.register(TaskCollector())
    assert b'django_tasks_up{database="default"} 1.0' in generate_latest(registry)
    with pytest.raises(ValueError, match="Duplicated"):
        registry.register(TaskCollector())


def test_to_register_asks_no_database() -> None:
    """It has no mark for the database: pytest-django refuses each look at it."""
    registry = CollectorRegistry()
    registry.register(TaskCollector())
    described = {family.name for family in TaskCollector().describe()}
    assert described == {entry.name for entry in ENTRIES}


@pytest.mark.django_db
@pytest_now
def test_all_that_is_given_is_described(handlers: Any) -> None:
    at_work()
    counted(done=1)
    given = {family.name: family for family in TaskCollector().collect() if family.samples}
    described = {family.name: family for family in TaskCollector().describe()}
    assert set(given) == set(described) - {
        *("django_tasks_queue_due", "django_tasks_queue_oldest_due_seconds"),
        "django_tasks_queue_workers",
    }
    for name, family in given.items():
        assert (family.type, family.documentation) == (
            described[name].type,
            described[name].documentation,
        )


# Two databases


def test_two_databases_stand_beside_each_other(second: str, handlers: Any) -> None:
    counted(done=2)
    found = scrape(["default", second, "default"])
    for database in ("default", second):
        assert found.get("up", database=database) == 1
        assert found.get("runs_total", database=database, code="order", outcome="done") == 2
