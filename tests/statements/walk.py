"""A walk through all that speaks to a database. Each station asks what its part can ask.

Most of it is called as callers call it. What only a race, a cluster, an old server or a very large
table would meet is brought about here, or called by its private name.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, connections
from django.db.models import F
from django.test import override_settings

from django_tasks import api
from django_tasks.clock import ClockReading, Tick
from django_tasks.handlers import finders, registry
from django_tasks.handlers.base import Stop
from django_tasks.handlers.running_task import RunningTask
from django_tasks.store import claim, claimed_rows, forerunner, gates, lanes, runs, search, timeouts
from django_tasks.store import connection as sessions
from django_tasks.store.clock import read_clock
from django_tasks.store.dialects import Bounds, choice, dialect_of
from django_tasks.store.dialects.mysql import MariaDB
from django_tasks.store.finish import Ended, finish
from django_tasks.timezones import for_django
from django_tasks.values.outcomes import Again, Done
from django_tasks.values.status import Status
from django_tasks.wakeup import postgres
from django_tasks.worker import recurring, schedule_rows
from tests.factories import NOW, WORKER, a_claim, a_lane, a_line, a_row, later, rows, table
from tests.importers import jobs, stores
from tests.importers.conftest import FRESH
from tests.importers.old import Old
from tests.importers.test_adoption import ASIDE, adopted
from tests.importers.test_importing import from_beat, from_file, imported, periodic
from tests.store.test_parameters import ME, Texts, everything
from tests.waiting import DEADLINE, eventually
from tests.worker.parts import config, starting
from tests.worker.test_history import World

USING = "default"
BOUNDS = Bounds(lock_wait=2.0, statement=2.0)
Patch = pytest.MonkeyPatch


# The store


def store() -> None:
    vars(connections[USING]).pop(search._SORTS, None)  # it was asked by a test before, perhaps
    everything(Texts.all("x"))


def races() -> None:
    """Ask what is asked when somebody was quicker, and of many rows at once."""
    dialect = dialect_of(USING)
    claim._still_ours(dialect, ME, [1])
    gates._settle(dialect, gates._State(0, 0, 0, None, None), 1)
    dialect.has_many_lanes = True
    lanes.every_lane(using=USING)
    table().delete()
    rows(range(60), when=later(-9), rescues=2)
    a_row("behind")
    (one,) = claim.claim(ME, a_lane(), NOW, 9, using=USING, careful=True)
    assert one.biz_num == "behind"
    wanted = [claim.Wanted(a_lane(queue=queue), 9, claim.UNKNOWN) for queue in ("default", "a")]
    assert claim.claim_together(ME, wanted, NOW, 9, using=USING) == [[], []]
    table().delete()
    claims = [a_claim(str(number), version=number) for number in range(4)]
    ends = [Ended(one, Done() if one.id % 2 else Again(later(60))) for one in claims]
    assert not finish(ends, NOW, using=USING).lost


def long_history(patch: Patch) -> None:
    patch.setattr(runs, "AT_ONCE", 2)
    runs.record([a_line(ended=later(9))] * 4 + [a_line(ended=later(-9))] * 9, using=USING)
    assert runs.delete_old(NOW, using=USING)


def forget_dialect() -> None:
    vars(connections[USING]).pop(choice.KEPT, None)


def old_server(patch: Patch) -> None:
    """MariaDB before 10.6 has no SKIP LOCKED."""
    patch.setattr(connection.features, "has_select_for_update_skip_locked", False)
    forget_dialect()
    store()
    forget_dialect()


def node_of_a_cluster(patch: Patch) -> None:
    """A server that is none takes what is asked of one."""
    patch.setattr(MariaDB, "is_galera", True)
    forget_dialect()
    table().delete()
    claimed = a_claim()
    table().delete()
    claimed_rows.await_claim(claimed, using=USING)
    assert claimed_rows.is_cancelled(claimed, using=USING)
    forget_dialect()


# Workers


def sessions_of_ours() -> None:
    """Set them up as workers' threads, probes, and pages that keep connections do."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(_set_up).result(DEADLINE)


def _set_up() -> None:
    kept = sessions.KeptConnections(BOUNDS)
    for apart in (sessions.separate_connection(USING, BOUNDS), kept.separate(USING)):
        with apart:
            read_clock(using=USING)
    for own in kept._idle.values():
        own.close()
    sessions.take_connection(USING, BOUNDS)
    sessions.keep_connection(USING)
    with timeouts.bounded_transaction(USING, 2.0):
        read_clock(using=USING)
    sessions.close_connections()


def worker(handlers: Callable[..., None], patch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    asked = Event()
    ask = postgres.Listener._ask

    def noted(listener: postgres.Listener, connection: Any) -> None:
        ask(listener, connection)
        asked.set()

    patch.setattr(postgres.Listener, "ask_seconds", 0.05)
    patch.setattr(postgres.Listener, "_ask", noted)
    handlers(api.task_handler("good")(lambda task: seen.append(task.biz_num)))
    with starting(poll_interval=0.05, lease=5.0) as start:
        start(threads=2)
        api.add_task("good", 1)
        eventually(lambda: seen, "it runs")
        assert not postgres.are_sent(USING) or asked.wait(DEADLINE)


def schedules_of_handlers(handlers: Callable[..., None]) -> None:
    here = config(host="web-1")
    for schedule in ("every 1h", "every 2h", "every 2h"):
        registry.forget()
        handlers(api.task_handler("often", schedule=schedule, each_host=True)(print))
        schedule_rows.keep(NOW, here)
        recurring.attend_hosts(NOW, here)
    registry.forget()
    handlers(api.task_handler("nightly", schedule="every 1d at 03:00 Europe/Berlin")(print))
    schedule_rows.keep(NOW, here)
    table().filter(biz_code="nightly").update(when=F("when") + timedelta(hours=1))
    schedule_rows.keep(NOW, here)  # as under other rules of its zone


# Clients


def clients() -> None:
    rows(["c1", "c2"], biz_code="client")
    key = ("client", "c1")
    for ask in (api.get_task, api.get_runs, api.pause_task, api.resume_task, api.run_task_now):
        ask(*key)
    api.requeue_task(*key)
    assert api.update_task(*key, name="n", biz_ext={"a": 1})
    assert api.reschedule_task(*key, later(9))
    assert list(api.get_tasks_by_code("client", "C", later(9)))
    assert list(api.get_tasks_by_code("client", when=NOW))
    found = api.find_tasks(*key, when=later(9), status="pending", queue="default")
    assert found.exists()
    task = api.get_task(*key)
    assert task is not None
    api.add_task(task)
    assert api.find_tasks(queue="default").exists()
    assert api.move_tasks(later(60), biz_code="client") == 2
    assert api.pause(biz_code="client") == api.resume(biz_code="client") == 2
    api.requeue_tasks(biz_code="client")
    assert api.delete_tasks("client", "", match="all", dry_run=True) == 2
    assert api.cancel_tasks(biz_code="client") == 2
    assert api.get_active("client") is None
    with api.lock("one") as held:
        held.save({"a": 1})
        assert api.get_lock("one")


def calls(patch: Patch) -> None:
    """Functions of Django's tasks framework."""
    from django_tasks.functions import results
    from django_tasks.functions.handler import FormerHandler
    from tests.functions.conftest import BACKENDS

    patch.setattr(results, "AT_ONCE", 1)
    with override_settings(TASKS=BACKENDS):
        from tests.functions.functions import echo

        result = echo.enqueue(1)
        table().update(status=Status.RUNNING, claimed_by=WORKER, claim_time=for_django(NOW))
        result.refresh()
        table().update(status=Status.PENDING, claimed_by=None)
        World().work()
        result.refresh()
        assert result.return_value == 1
        assert not finders.find("nowhere", using=USING)
        code = "tests.functions.functions.echo"
        today: Any = registry.handler_for(code)
        a_row("@schedule", biz_code=code)
        claimed = a_claim("@schedule", biz_code="former")
        moment = Tick(ClockReading(NOW, 0.0), 0.0)
        beat = RunningTask(claimed, USING, moment, claimed_rows)
        assert FormerHandler("former", today).handle(beat) is Stop


# What comes over


def adoption(old: Old, patch: Patch) -> None:
    """Once, and again after it was undone: then the table has its marks already."""
    patch.setattr(forerunner, "BATCH", 2)
    for number in range(3):
        old.add(str(number))
    adopted(old.alias)
    call_command("migrate", "django_tasks", "zero", database=old.alias, verbosity=0)
    old.execute(f"ALTER TABLE {ASIDE} RENAME TO t_task")
    adopted(old.alias)


def imports(path: Path) -> None:
    """From each of the stores; theirs are in the database FRESH, or in a file."""
    with stores.jobs_in_a_file(path) as apscheduler:
        apscheduler.add_job(jobs.push, "interval", id="often", hours=1)
    assert "1 added" in from_file(path)
    with stores.installed("django_apscheduler", "apscheduler"):
        from_django = ("django-apscheduler", "--trust-pickles", "--from-database", FRESH)
        assert "0 added" in imported(*from_django, "--database", FRESH)
    with stores.installed("django_celery_beat", "celery"):
        from django_celery_beat import models

        periodic(models, "hourly")
        assert "1 added" in from_beat()
