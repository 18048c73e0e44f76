"""The table of workers and the database's clock."""

from datetime import datetime, timedelta, timezone

import pytest
from django.db import connection

from django_tasks.models import WorkerRow
from django_tasks.store import clock, workers
from django_tasks.store.workers import Peer, Registration, Signs
from django_tasks.values.status import OWNED, Status
from tests.factories import NOW, UTC, a_row, a_worker, in_utc, later

pytestmark = pytest.mark.django_db


def register(name="host-1"):
    worker = Registration(name, lease=30.0, threads=8, queues=("a", "b"))
    return workers.register(worker, NOW, using="default")


def test_a_worker_is_entered_with_what_it_says_of_itself():
    worker_id = register()

    row = WorkerRow.objects.get()
    assert row.pk == worker_id
    assert (row.name, row.lease, row.threads, row.queues) == ("host-1", 30.0, 8, ["a", "b"])
    assert (row.state, row.counters) == ("running", {})
    assert in_utc(row.started) == in_utc(row.heartbeat) == NOW


def test_the_id_of_a_worker_is_never_used_again():
    first = register()
    assert workers.remove(first, using="default")

    assert register() > first


def test_a_heartbeat_renews_the_lease_and_tells_the_counters():
    worker_id = register()

    assert workers.beat(worker_id, later(10), Signs("stopping", {"done": 3}), using="default")
    row = WorkerRow.objects.get()
    assert (in_utc(row.heartbeat), row.state, row.counters) == (later(10), "stopping", {"done": 3})


def test_a_heartbeat_that_changes_nothing_still_finds_its_row():
    worker_id = register()

    for _ in range(2):
        assert workers.beat(worker_id, NOW, Signs("running", {}), using="default")


def test_a_worker_that_was_removed_learns_it_from_its_heartbeat():
    worker_id = register()
    workers.remove(worker_id, using="default")

    assert not workers.beat(worker_id, later(1), Signs("running", {}), using="default")
    assert not workers.remove(worker_id, using="default")


@pytest.mark.parametrize(
    ("silent", "alive"), [(29.9, True), (30, True), (30.000001, False), (99, False)]
)
def test_a_worker_looks_alive_until_it_was_silent_for_longer_than_its_lease(silent, alive):
    row = a_worker(heartbeat=later(-silent))

    _, (peer,) = workers.roll_call(using="default")

    assert peer == Peer(row.pk, 0, later(-silent), 30.0)
    assert peer.looks_alive(NOW) == alive


def test_every_heartbeat_is_counted():
    worker_id = register()

    for _ in range(3):
        workers.beat(worker_id, NOW, Signs("running", {}), using="default")

    _, (peer,) = workers.roll_call(using="default")
    assert peer.beats == 3


def test_a_worker_that_has_not_beaten_since_it_was_seen_is_fenced():
    worker_id = register()
    other = register("host-2")
    workers.beat(worker_id, NOW, Signs("running", {}), using="default")
    _, (peer, _) = workers.roll_call(using="default")

    assert workers.fence(peer, using="default")
    assert not workers.fence(peer, using="default")
    assert not workers.beat(worker_id, NOW, Signs("running", {}), using="default")
    assert [row.pk for row in WorkerRow.objects.all()] == [other]


def test_a_worker_that_has_beaten_since_is_not_fenced():
    """Even if its clock shows what it showed before."""
    worker_id = register()
    _, (peer,) = workers.roll_call(using="default")
    workers.beat(worker_id, NOW, Signs("running", {}), using="default")

    assert not workers.fence(peer, using="default")
    assert workers.beat(worker_id, NOW, Signs("running", {}), using="default")


def test_the_roll_call_lists_all_workers_by_age():
    ids = [a_worker(f"host-{n}").pk for n in range(3)]

    _, peers = workers.roll_call(using="default")

    assert [peer.id for peer in peers] == ids


def test_owners_that_are_no_workers_are_orphaning():
    alive = a_worker().pk
    for number, status in enumerate(OWNED):
        a_row(f"dead {number}", status=status, claimed_by=alive + 10 + number)
    a_row("alive", status=Status.RUNNING, claimed_by=alive)
    a_row("free")

    found = workers.orphaning_owners(using="default")

    assert found == [alive + 10, alive + 11, alive + 12]


def test_without_owned_rows_nobody_is_orphaning():
    a_worker()
    a_row()

    assert workers.orphaning_owners(using="default") == []


# The clock


def close_to_now(moment):
    return abs(moment - datetime.now(timezone.utc)) < timedelta(seconds=30)


@pytest.mark.parametrize("use_tz", [True, False])
@pytest.mark.parametrize("zone", ["Asia/Shanghai", "America/Los_Angeles"])
@pytest.mark.parametrize("somebody_there", [True, False])
def test_the_databases_clock_is_utc_whatever_django_and_the_session_think(
    settings, use_tz, zone, somebody_there
):
    settings.USE_TZ, settings.TIME_ZONE = use_tz, zone
    if somebody_there:
        a_worker()

    reading, _ = workers.roll_call(using="default")

    assert reading.utc.utcoffset() == timedelta(0)
    assert close_to_now(reading.utc)
    assert close_to_now(clock.read_clock(using="default").utc)


def test_the_sessions_time_zone_does_not_move_the_clock():
    if connection.vendor != "sqlite":  # whose clock is the host's
        statement = {
            "mysql": "SET SESSION time_zone = '-07:00'",
            "postgresql": "SET LOCAL TIME ZONE 'America/Los_Angeles'",
        }
        with connection.cursor() as cursor:
            if connection.vendor == "mysql":
                cursor.execute("SELECT @@SESSION.time_zone")
                (before,) = cursor.fetchone()
            cursor.execute(statement[connection.vendor])
            try:
                assert close_to_now(clock.read_clock(using="default").utc)
            finally:
                if connection.vendor == "mysql":
                    cursor.execute("SET SESSION time_zone = %s", [before])
    assert close_to_now(clock.read_clock(using="default").utc)


@pytest.mark.parametrize("use_tz", [True, False])
def test_stored_times_are_what_django_reads_and_what_the_store_reads(settings, use_tz):
    from django_tasks.store.upsert import upsert_one
    from django_tasks.values.conflicts import OnConflict
    from tests.factories import a_new, lanes, the_row

    settings.USE_TZ = use_tz
    moment = datetime(2031, 7, 1, 23, 59, 59, 999999, tzinfo=UTC)
    stored, _ = upsert_one(a_new(when=moment), OnConflict.REPLACE, NOW, using="default")

    assert (stored.when.tzinfo is not None) == use_tz
    assert the_row().when == stored.when
    assert in_utc(stored.when) == moment
    assert [lane.first for lane in lanes(using="default")] == [moment]
