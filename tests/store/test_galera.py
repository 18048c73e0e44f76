"""Differences on a node of a Galera cluster. No cluster is needed: the node is played."""

from collections.abc import Callable

import pytest
from django.db import connection, connections

from django_tasks.models import Task
from django_tasks.store.claimed_rows import await_claim, is_cancelled
from django_tasks.store.connection import keep_connection, take_connection
from django_tasks.store.dialects import Bounds, Dialect, choice, dialect_of
from django_tasks.store.finish import Ended, finish_inside
from django_tasks.store.upsert import upsert_one
from django_tasks.store.workers import Registration, register
from django_tasks.values.conflicts import OnConflict
from django_tasks.values.outcomes import Done
from django_tasks.values.status import Status
from tests.factories import NOW, a_claim, a_new, table
from tests.vendor import MARIADB, is_on

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(params=["OFF", "ON"])
def is_node(request, monkeypatch):
    """The server says whether it is a node; one that stands alone has the variable too.

    Only MariaDB is asked: for all others it is no node whatever it would say.
    """
    asked = Dialect.fetch

    def fetch(self, template, params=()):
        if "LIKE 'wsrep_on'" in template:
            assert is_on(MARIADB)
            assert tuple(asked(self, template)) == (("wsrep_on", "OFF"),)
            return (("wsrep_on", request.param),)
        return asked(self, template, params)

    monkeypatch.setattr(Dialect, "fetch", fetch)
    forget_dialect()
    yield request.param == "ON" and is_on(MARIADB)
    forget_dialect()


def forget_dialect():
    """Have this thread's connection asked again what it leads to."""
    vars(connections["default"]).pop(choice.KEPT, None)


@pytest.mark.parametrize(
    "write",
    [
        lambda: upsert_one(a_new(), OnConflict.REPLACE, NOW, using="default"),
        lambda: register(Registration("vm", 30, 8), NOW, using="default"),
    ],
    ids=["add", "register"],
)
def test_no_statement_that_commits_by_itself_asks_a_node_for_rows(is_node, write):
    in_transaction = []

    def look(execute, sql, params, many, context):
        if "RETURNING" in sql:
            in_transaction.append(connection.in_atomic_block)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(look):
        write()

    assert not is_node or all(in_transaction)


def test_a_node_is_told_to_catch_up_by_a_statement_that_mariadb_understands(is_node):
    asked = []

    def look(execute, sql, params, many, context):
        asked.append(sql)
        return execute(sql, params, many, context)

    dialect_of("default").is_galera  # noqa: B018 - asks, and remembers
    with connection.execute_wrapper(look):
        dialect_of("default").catch_up()

    assert ["wsrep_sync_wait = 1" in sql for sql in asked] == ([True] if is_node else [])


@pytest.fixture
def catching_up(monkeypatch):
    """A node, and what arrives when it catches up: append functions."""
    forget_dialect()  # it keeps its own answer, which counts before that of the class
    arriving: list[Callable[[], object]] = []
    node = type(dialect_of("default"))
    monkeypatch.setattr(node, "is_galera", True)
    monkeypatch.setattr(node, "catch_up", lambda self: [arrive() for arrive in arriving])
    return arriving


def late_claim(catching_up):
    """A claim of which this node does not know yet: to it, the row is free."""
    claimed = a_claim()
    owned = Task.objects.values("status", "version", "claimed_by", "claim_time").get()
    free = {"status": Status.PENDING, "version": 0, "claimed_by": None, "claim_time": None}
    table().update(**free)
    catching_up.append(lambda: table().update(**owned))
    return claimed


def test_a_claim_made_through_another_node_is_waited_for(catching_up):
    claimed = late_claim(catching_up)

    await_claim(claimed, using="default")

    assert not finish_inside([Ended(claimed, Done())], NOW, using="default")


def test_nothing_is_waited_for_when_the_claim_is_there(catching_up):
    claimed = a_claim()
    catching_up.append(pytest.fail)

    await_claim(claimed, using="default")

    assert not is_cancelled(claimed, using="default")


def test_a_claim_that_has_not_arrived_yet_is_not_a_cancelled_one(catching_up):
    claimed = late_claim(catching_up)

    assert not is_cancelled(claimed, using="default")


def test_a_cancelled_claim_is_one_on_a_node_too(catching_up):
    claimed = a_claim()
    table().update(status=Status.CANCELLING, version=2)

    assert is_cancelled(claimed, using="default")


def test_a_worker_that_connects_to_a_node_waits_for_what_it_wrote_through_another(
    catching_up, elsewhere
):
    connected = []
    catching_up.append(lambda: connected.append(True))

    def worker():
        take_connection("default", Bounds(1, 30))
        keep_connection("default")
        keep_connection("default")
        connections["default"].close()  # as a failed health check does, inside cursor()
        with connections["default"].cursor():
            pass

    elsewhere(worker).result()
    assert connected == [True, True]
