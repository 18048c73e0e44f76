"""The cost of statements: indexes are used, and the number of statements does not grow."""

from collections.abc import Callable

import pytest
from django.db import connection, transaction
from django.db.models import Q

from django_tasks.api import add_tasks, cancel_tasks
from django_tasks.models import Task
from django_tasks.store import backlog, control, workers
from django_tasks.store.claim import Claimer, claim, claim_alone, owned_ids
from django_tasks.store.finish import Ended, finish
from django_tasks.store.lanes import MANY_LANES, has_suspects, next_due
from django_tasks.store.rescue import rescue
from django_tasks.store.upsert import upsert, upsert_one
from django_tasks.values.conflicts import OnConflict
from django_tasks.values.outcomes import Done, Reschedule, Retry
from django_tasks.values.status import Status
from tests.factories import (
    CODE,
    NOW,
    WORKER,
    a_lane,
    a_new,
    a_row,
    a_task,
    lanes,
    later,
    rows,
    table,
)
from tests.plans import analyze, asked, handler_reads, lines_of, steps_of
from tests.vendor import MYSQL, MYSQL_FAMILY, POSTGRESQL, is_on, only_on

pytestmark = pytest.mark.django_db

FUTURE = 3000
LANES = 20
ME = Claimer(WORKER)


@pytest.fixture
def crowd(transactional_db):
    """Thousands of future tasks, and twenty lanes that all have something due."""
    rows(range(FUTURE), when=later(3600))
    for n in range(LANES):
        place = {"queue": f"q{n % 4}", "priority": n % 5, "biz_code": f"code{n}"}
        rows((f"due {i}" for i in range(3)), when=later(-1), **place)
        rows((f"future {i}" for i in range(40)), when=later(60), **place)
    rows((f"due {i}" for i in range(5)), when=later(-1))
    rows((f"done {i}" for i in range(200)), status=Status.FAILED)
    analyze("t_task")


@pytest.fixture
def long_lane(transactional_db):
    """Thousands of tasks of one lane that are all due."""
    rows(range(FUTURE), when=later(-60))
    analyze("t_task")


def statements(captured):
    """The statements about the table, without BEGIN, SAVEPOINT and the like."""
    return [query["sql"] for query in captured.captured_queries if "t_task" in query["sql"]]


def plan_of(sql):
    """The steps of a plan, without those that look at pauses."""
    if is_on(*MYSQL_FAMILY):
        return [step for step in steps_of(sql) if step["table"] not in (None, "t_task_pause")]
    return [line for line in lines_of(sql) if "t_task_pause" not in line]


def check_plan(sql, **allowed):
    plan = plan_of(sql)
    check: dict[str, Callable[..., None]] = {
        "sqlite": check_sqlite,
        "mysql": check_mysql,
        "postgresql": check_postgresql,
    }
    check[connection.vendor](plan, **allowed)


def check_sqlite(plan, **allowed):
    for line in plan:
        assert "TEMP B-TREE FOR ORDER BY" not in line, plan
        if line.startswith("SCAN") and "head" not in line and "CONSTANT" not in line:
            # The first of all lanes is the first entry of the index, whichever it is.
            raise AssertionError(plan)
        if line.startswith("SEARCH"):
            assert "t_task_claim" in line or "INTEGER PRIMARY KEY" in line, plan


def check_mysql(plan, **allowed):
    for step in plan:
        if str(step["table"]).startswith("<"):
            continue  # a derived table of a batch's size
        assert step["type"] != "ALL", plan
        assert step["key"] in ("t_task_claim", "PRIMARY"), plan
        batch = step["key"] == "PRIMARY"  # sorts as many rows as it claims
        assert batch or "filesort" not in (step["Extra"] or ""), plan


def check_postgresql(plan, sort=False):
    text = "\n".join(plan)
    assert "Seq Scan on t_task" not in text, text
    assert sort or "Sort" not in text, text
    assert "t_task_claim" in text or "t_task_pkey" in text, text


def test_looking_for_lanes_seeks_once_a_lane(crowd, queries):
    with queries() as captured:
        assert len(lanes(using="default")) == LANES + 1

    (sql,) = statements(captured)
    plan = plan_of(sql)
    if connection.vendor == "mysql":
        assert [step["key"] for step in plan] == ["t_task_claim"]
        assert "Using index for group-by" in plan[0]["Extra"]
    else:
        check_plan(sql)


@pytest.fixture
def many_lanes(transactional_db):
    """As many as make looks go by several lanes at once, of one row each, and a long one.

    The look before has found none, whatever other tests have left.
    """
    assert not lanes(using="default")
    for n in range(MANY_LANES):
        a_row(f"{n}", when=later(3600), queue=f"q{n}")
    rows((f"due {i}" for i in range(FUTURE)), when=later(-1))
    analyze("t_task")


@only_on(POSTGRESQL, because="the others' looks do not depend on what was found before")
def test_a_look_seeks_for_several_lanes_at_once_where_there_were_many(many_lanes, queries):
    def looked(found):
        with queries() as captured:
            assert len(lanes(using="default")) == found
        return statements(captured)[0]

    first, second = looked(MANY_LANES + 1), looked(MANY_LANES + 1)
    table(queue__startswith="q").delete()
    third, fourth = looked(1), looked(1)

    assert first != second
    assert (third, fourth) == (second, first)
    check_plan(first)
    check_plan(second)


@only_on(POSTGRESQL, because="the others' looks do not depend on what was found before")
def test_a_look_at_many_short_lanes_reads_few_pages(many_lanes):
    first, second = (pages_read(lambda: lanes(using="default")) for _ in range(2))

    assert first > MANY_LANES
    assert second < first / 3


@pytest.mark.parametrize("careful", [False, True], ids=["plain", "careful"])
@pytest.mark.parametrize("workers", [1, 4])
def test_a_claim_among_many_that_are_not_due_uses_the_claim_index(crowd, queries, workers, careful):
    with queries() as captured:
        taken = claim(
            Claimer(WORKER, workers), a_lane(), NOW, 100, using="default", careful=careful
        )

    assert len(taken) == 5 or (workers > 1 and taken)  # a share of them, perhaps
    check_all(statements(captured), sort=True)


@pytest.mark.parametrize("careful", [False, True], ids=["plain", "careful"])
def test_a_claim_from_a_long_backlog_sorts_nothing(long_lane, queries, careful):
    with queries() as captured:
        taken = claim(ME, a_lane(), NOW, 100, using="default", careful=careful)

    assert len(taken) == 100
    check_all(statements(captured))


@pytest.fixture
def unforeseen(transactional_db):
    """The same, where the statistics are those of an empty table."""
    execute("ALTER TABLE t_task STATS_AUTO_RECALC = 0")
    analyze("t_task")
    rows(range(FUTURE), when=later(-60))
    rows((f"future {i}" for i in range(FUTURE)), when=later(3600))
    yield
    execute("ALTER TABLE t_task STATS_AUTO_RECALC = DEFAULT")


def execute(statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)


@only_on(*MYSQL_FAMILY, because="the others' statistics cannot be kept old")
@pytest.mark.parametrize("careful", [False, True], ids=["plain", "careful"])
def test_statistics_of_an_empty_table_lead_no_claim_astray(unforeseen, queries, careful):
    with queries() as captured:
        taken = claim(ME, a_lane(), NOW, 100, using="default", careful=careful)
        assert next_due(a_lane(), NOW, using="default") == later(3600)
        assert not has_suspects(a_lane(), NOW, using="default")

    assert len(taken) == 100
    check_all(statements(captured), sort=True)
    assert rows_read(lambda: claim(ME, a_lane(), NOW, 100, using="default")) <= 1000


def test_a_queue_without_tasks_is_found_empty_at_once(crowd):
    """By its index, which has queues by status, and not by a walk through the table."""
    assert rows_read(lambda: cancel_tasks(queue="of nobody")) <= 100


LOOKS = {
    "has_suspects": lambda: has_suspects(a_lane(), NOW, using="default"),
    "claim_alone": lambda: claim_alone(ME, a_lane(), NOW, using="default"),
}


@pytest.mark.parametrize("look", LOOKS)
def test_looking_for_rows_to_run_alone_uses_the_claim_index(crowd, queries, look):
    with queries() as captured:
        LOOKS[look]()

    check_all(statements(captured), sort=True)


LOOKS_AT_CLAIMS = {
    "held": lambda: backlog.held(100, using="default"),
    "owned_ids": lambda: owned_ids(WORKER, using="default"),
    "orphaning_owners": lambda: workers.orphaning_owners(using="default"),
}


@pytest.mark.parametrize("look", LOOKS_AT_CLAIMS)
def test_looking_at_claims_asks_the_claim_index(crowd, queries, look):
    claim(ME, a_lane(), NOW, 100, using="default")
    with queries() as captured:
        LOOKS_AT_CLAIMS[look]()

    sql = statements(captured)[0]
    if connection.vendor == "mysql":  # where each row costs a search: the index alone
        (step,) = [step for step in plan_of(sql) if step["table"] in ("t_task", "t")]
        assert step["key"] == "t_task_claim"
        assert "Using index" in step["Extra"].replace("Using index condition", "")
    else:
        assert "t_task_claim" in "\n".join(plan_of(sql))


def test_the_claim_index_tells_of_claims_where_a_row_costs_a_search(db):
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, "t_task")
    lane = ["status", "queue", "priority", "biz_code", "when", "id"]
    claims = ["claimed_by", "claim_time"] if connection.vendor == "mysql" else []
    assert found["t_task_claim"]["columns"] == lane + claims


def check_all(found, **allowed):
    """PostgreSQL may sort the few rows that are due, when it knows that they are few."""
    assert "t_task_claim" in str(plan_of(found[0]))
    for sql in found:
        check_plan(sql, **allowed)


# Rows that are really read


def mysql_reads(action):
    """Index entries and rows, as the session counts them."""
    before = handler_reads()
    action()
    return handler_reads() - before


def postgresql_reads(action):
    """Rows of the task table, as this transaction counts them."""

    def total():
        found = "seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables"
        ((count,),) = asked(f"SELECT {found} WHERE relname = 't_task'")
        return count

    return counted(action, total)


def counted(action, total):
    """The growth of what PostgreSQL counts in a transaction of its own."""
    with transaction.atomic():
        before = total()
        action()
        return total() - before


def pages_read(action):
    """Visits to pages of PostgreSQL's claim index, as this transaction counts them."""

    def total():
        visits = "pg_stat_get_xact_blocks_fetched('t_task_claim'::regclass)"
        ((count,),) = asked(f"SELECT {visits}")
        return count

    return counted(action, total)


# How many instructions of SQLite's machine count as one row.
INSTRUCTIONS = 20


def sqlite_reads(action):
    """Rows, by the instructions that its machine has carried out."""
    carried_out = 0

    def count():
        nonlocal carried_out
        carried_out += 1

    connection.connection.set_progress_handler(count, INSTRUCTIONS)
    try:
        action()
    finally:
        connection.connection.set_progress_handler(None, 0)
    return carried_out


def rows_read(action):
    """The number of rows that the database has read for it."""
    reads = {"mysql": mysql_reads, "postgresql": postgresql_reads, "sqlite": sqlite_reads}
    return reads[connection.vendor](action)


def check_cost():
    assert rows_read(lambda: lanes(using="default")) <= 10 * (LANES + 1)
    assert rows_read(lambda: claim(ME, a_lane(), NOW, 100, using="default")) <= 400


def test_a_look_at_a_nearly_empty_table_costs_little():
    rows((f"due {i}" for i in range(5)), when=later(-1))

    check_cost()


def test_a_look_costs_no_more_for_all_that_is_not_due(crowd):
    check_cost()


# The number of statements


def count(queries, action):
    with queries() as captured:
        action()
    return len(statements(captured))


def growth(queries, prepare, action):
    """The number of statements of an action for one row, and for many."""
    found = []
    for amount in (1, 40):
        table().delete()
        prepared = prepare(amount)
        found.append(count(queries, lambda p=prepared: action(p)))
    return tuple(found)


def claimed_rows(amount):
    rows(range(amount))
    return claim(ME, a_lane(), NOW, amount, using="default")


def test_a_claim_is_one_statement_or_a_look_and_a_change(queries):
    few, many = growth(
        queries, lambda n: rows(range(n)), lambda _: claim(ME, a_lane(), NOW, 50, using="default")
    )

    assert few == many == (2 if is_on(*MYSQL_FAMILY) else 1)


def test_looking_for_lanes_is_one_statement(queries):
    few, many = growth(
        queries,
        lambda n: [a_row(str(i), biz_code=f"code{i}") for i in range(n)],
        lambda _: lanes(using="default"),
    )

    assert few == many == 1


@pytest.mark.parametrize("outcome", [Done(), Reschedule(later(60)), Retry(later(60), "oops")])
def test_a_finish_needs_the_same_statements_for_one_as_for_many(queries, outcome):
    few, many = growth(
        queries,
        claimed_rows,
        lambda claims: finish([Ended(item, outcome) for item in claims], NOW, using="default"),
    )

    assert few == many <= 2


def test_a_finish_of_rows_whose_versions_differ_needs_no_more_statements(queries):
    """Tasks that were moved a different number of times end together."""

    def claims(amount):
        for n in range(amount):
            a_row(str(n), version=n)
        return claim(ME, a_lane(), NOW, amount, using="default")

    few, many = growth(
        queries,
        claims,
        lambda claims: finish([Ended(item, Done()) for item in claims], NOW, using="default"),
    )

    assert few == many


def test_a_release_needs_the_same_statements_for_one_as_for_many(queries):
    def moved(amount):
        claims = claimed_rows(amount)
        table().update(version=9)
        return claims

    few, many = growth(
        queries,
        moved,
        lambda claims: finish([Ended(item, Done()) for item in claims], NOW, using="default"),
    )

    assert few == many <= 5


def test_a_rescue_needs_the_same_statements_for_one_as_for_many(queries):
    few, many = growth(
        queries,
        claimed_rows,
        lambda _: rescue([WORKER], lambda code: 3, NOW, using="default"),
    )

    assert few == many <= 4


def test_a_batch_of_adds_is_one_statement(queries, now):
    few, many = growth(
        queries, lambda n: [a_task(str(i)) for i in range(n)], lambda tasks: add_tasks(tasks)
    )

    assert few == many == 1


@pytest.mark.parametrize("mode", list(OnConflict))
def test_a_batch_of_adds_that_looks_at_what_there_is_does_not_go_one_by_one(queries, mode):
    few, many = growth(
        queries,
        lambda n: [a_new(str(i)) for i in range(n)],
        lambda news: upsert(news, mode, NOW, using="default"),
    )

    assert few == many


def test_one_add_is_one_statement_where_the_database_can(queries):
    found = count(queries, lambda: upsert_one(a_new(), OnConflict.REPLACE, NOW, using="default"))

    assert found == (2 if is_on(MYSQL) else 1)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (control.pause, 1),
        (control.resume, 1),
        (control.run_now, 1),
        (control.requeue, 1),
        (control.cancel, 3),
    ],
)
def test_steering_many_needs_the_same_statements_as_one(queries, operation, expected):
    few, many = growth(
        queries,
        lambda n: rows(range(n)),
        lambda _: operation(Q(biz_code=CODE), NOW, using="default"),
    )

    assert few == many == expected


def test_statements_hold_values_and_names_apart(queries):
    """No value is ever part of a statement's text, whatever it looks like."""
    nasty = "x'; DROP TABLE t_task; -- %s {task} {0}"
    with queries():
        upsert_one(
            a_new(nasty, biz_ext='{"%s": "{when}"}', queue=nasty),
            OnConflict.REPLACE,
            NOW,
            using="default",
        )
        (lane,) = lanes(using="default")
        (claimed,) = claim(ME, lane, NOW, 5, using="default")
        finish([Ended(claimed, Retry(NOW, nasty))], NOW, using="default")

    row = Task.objects.get()
    assert (row.biz_num, row.queue, row.last_error) == (nasty, nasty, nasty)
    assert row.biz_ext == {"%s": "{when}"}
