"""The cost of the admin's pages: the number of statements, and what each of them reads.

A page of millions of rows may look at some thousands of them. So no statement reads more here,
where the tables have a few times as many, and none goes through a whole table or index unless a
LIMIT ends it.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, parse_qsl

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern, get_resolver

from benchmarks.pages import crowd
from benchmarks.pages.addresses import PAGES, Page, rows_to_look_at
from django_tasks.admin import lists, runs
from django_tasks.models import Task, TaskRun
from django_tasks.reads import backlog, filters, looks
from tests.doors.conftest import logged_in
from tests.plans import asked, handler_reads, lines_of, steps_of
from tests.vendor import MARIADB, POSTGRESQL, SQLITE, only_on

pytestmark = pytest.mark.django_db

ROWS = 60_000
# The limits of the pages, here: a tenth of theirs, as there are fewer rows.
LIMITS = (
    (lists, "LIST_LIMIT", 1_000),
    (runs, "STRETCH", 10_000),
    (looks, "LOOKED", 500),
    (backlog, "MOST_FAILED", 200),
    (filters, "MOST_SEARCHED", 2_000),
)
# No statement of a page reads more rows and index entries. A full scan reads ROWS at least.
MOST_READ = 25_000
TABLES = ("t_task", "t_task_run")
# The columns that an index begins with.
LEADING = ("id", "status", "biz_code")


@pytest.fixture(scope="module", autouse=True)
def rows(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """A crowd of tasks and runs for all tests of this module; the database has made it."""
    with django_db_blocker.unblock():
        crowd.fill(ROWS)
        crowd.seed_present()
        crowd.settle(Task, TaskRun)
        yield
        crowd.clear()


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in LIMITS:
        monkeypatch.setattr(module, name, value)


@pytest.fixture
def boss_client() -> Client:
    return logged_in(User.objects.create_superuser("anna"))


def statements_of(client: Client, page: Page) -> list[str]:
    url = page.url(rows_to_look_at())
    client.get(url)  # what is asked once in a process, is asked
    with CaptureQueriesContext(connection) as captured:
        response = client.get(url)
    assert response.status_code == 200, url
    return [query["sql"] for query in captured.captured_queries]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
def test_a_page_needs_few_statements_that_read_few_rows(page: Page, boss_client: Client) -> None:
    found = statements_of(boss_client, page)

    assert len(found) <= page.most, "\n".join(sql[:300] for sql in found)
    for sql in found:
        check(sql)


NEXT_PAGES = [page for page in PAGES if "p" in parse_qs(page.query)]


@pytest.mark.parametrize("page", NEXT_PAGES, ids=lambda page: page.title)
def test_a_page_behind_the_first_one_is_none_of_the_first(page: Page, boss_client: Client) -> None:
    path, _, query = page.url(rows_to_look_at()).partition("?")
    others = {name: value for name, value in parse_qsl(query) if name != "p"}
    first = boss_client.get(path, others)
    shown = boss_client.get(path, parse_qs(query)).context["cl"]
    assert shown.result_list
    assert shown.previous_link
    assert shown.next_link
    there = {row.pk for row in first.context["cl"].result_list}
    assert not there & {row.pk for row in shown.result_list}


def test_the_pages_behind_the_first_one_are_in_the_list() -> None:
    walks = [page.query for page in NEXT_PAGES if page.query.startswith("p=")]
    assert {query.partition("-")[0] for query in walks} == {"p=after", "p=before"}


def check(sql: str) -> None:
    """See how a statement goes through the tables of tasks and runs."""
    words = sql.lstrip("\n (").partition(" ")[0].upper()
    if words in ("SELECT", "WITH") and any(names(sql, table) for table in TABLES):
        read = CHECKS[connection.vendor](sql)
        assert read <= MOST_READ, f"{read:,.0f} rows are read by {sql}"
    if words in ("SELECT", "WITH") and names(sql, "t_task_minute"):
        assert re.search(r"\bminute\W+(>=|=|>|BETWEEN)", sql), f"all that was ever counted: {sql}"


def names(sql: str, table: str) -> bool:
    return re.search(rf"\b{table}\b", sql) is not None


# SQLite

# How many instructions of its machine count as one row: a scan that only counts takes three, a
# count up to a limit eight.
INSTRUCTIONS = 5


def sqlite_reads(sql: str) -> float:
    for line in lines_of(sql):
        is_scan = re.match(r"SCAN (t_task|t_task_run)\b", line)
        assert not is_scan or has_limit(sql), f"{line}: {sql}"
    carried_out = 0

    def count() -> None:
        nonlocal carried_out
        carried_out += 1

    raw: Any = connection.connection
    raw.set_progress_handler(count, INSTRUCTIONS)
    try:
        asked(sql)
    finally:
        raw.set_progress_handler(None, 0)
    return carried_out


# MariaDB and MySQL


def mysql_reads(sql: str) -> float:
    for step in steps_of(sql):
        whole = step["table"] in TABLES and step["type"] in ("ALL", "index")
        assert not whole or has_limit(sql), f"{step}: {sql}"
    before = handler_reads()
    asked(sql)
    return handler_reads() - before


# PostgreSQL


def postgresql_reads(sql: str) -> float:
    with transaction.atomic():
        ((found,),) = asked(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {sql}")
    (plan,) = json.loads(found) if isinstance(found, str) else found
    return sum(_node_reads(node, sql) for node in _nodes(plan["Plan"]))


def _nodes(node: dict[str, Any], limited: bool = False) -> Iterator[dict[str, Any]]:
    limited = limited or node["Node Type"] == "Limit"
    yield {**node, "limited": limited}
    for inner in node.get("Plans", ()):
        yield from _nodes(inner, limited)


def _node_reads(node: dict[str, Any], sql: str) -> float:
    if "Scan" not in node["Node Type"]:
        return 0
    condition = node.get("Index Cond", "")
    sought = any(re.search(rf"\b{column}\b", condition) for column in LEADING)
    whole = node.get("Relation Name") in TABLES and not sought
    whole = whole and node["Node Type"] != "Bitmap Heap Scan"
    # A condition on another column is looked at in each entry, and an index does not say how many
    # it has thrown away: with a LIMIT too, it may be all of them.
    assert not whole or (node["limited"] and not condition), f"{node}: {sql}"
    removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return float((node["Actual Rows"] + removed) * node["Actual Loops"])


def has_limit(sql: str) -> bool:
    return " LIMIT " in sql.replace("\n", " ")


CHECKS: dict[str, Callable[[str], float]] = {
    "sqlite": sqlite_reads,
    "mysql": mysql_reads,
    "postgresql": postgresql_reads,
}


# The checks themselves, and the list of pages


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM t_task",
        "SELECT id FROM t_task WHERE attempts = 99",
        "SELECT id FROM t_task WHERE attempts = 99 ORDER BY id DESC LIMIT 100",
        "SELECT biz_num FROM t_task WHERE biz_num LIKE '%no' ORDER BY biz_code, biz_num LIMIT 100",
        pytest.param(
            "SELECT biz_num FROM t_task WHERE biz_num = 'no' ORDER BY biz_code, biz_num LIMIT 100",
            marks=only_on(SQLITE, MARIADB, POSTGRESQL, because="MySQL skips from code to code"),
        ),
        "SELECT id FROM t_task WHERE biz_code = 'order_timeout' ORDER BY attempts, id LIMIT 100",
        "SELECT COUNT(*) FROM t_task_run WHERE outcome = 'nothing'",
        "SELECT SUM(done) FROM t_task_minute",
    ],
)
def test_a_statement_that_reads_a_whole_table_is_found(sql: str) -> None:
    with pytest.raises(AssertionError):
        check(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM t_task ORDER BY id DESC LIMIT 100",
        "SELECT id FROM t_task WHERE status = 2 ORDER BY queue, priority, biz_code LIMIT 100",
        "SELECT error FROM t_task_run WHERE biz_code = 'mail' AND biz_num = '000000001'",
    ],
)
def test_a_statement_that_seeks_is_not(sql: str) -> None:
    check(sql)


# Pages that ask before something small is done: they look up one row, as those do that are here.
STEPS = (
    "run_now",
    "reschedule",
    "pause",
    "resume",
    "requeue",
    "cancel",
    "schedule",
    "ask",
    "limits",
)


def test_every_page_of_ours_is_in_the_list() -> None:
    ours = {name for name in _url_names() if "django_tasks" in name}
    of_rows = ("history", "delete", "change", "add", "autocomplete", *STEPS)
    to_look_at = {name for name in ours if not name.endswith(of_rows)}

    known = {page.name for page in PAGES}
    # By such a name the admin's index finds a page that is no list.
    known |= {f"{name}_changelist" for name in known}
    assert to_look_at - known == set()


def _url_names() -> Iterator[str]:
    (admin,) = [each for each in get_resolver().url_patterns if str(each.pattern) == "admin/"]
    waiting: list[Any] = [admin]
    while waiting:
        here = waiting.pop()
        if isinstance(here, URLPattern):
            yield here.name or ""
        else:
            waiting += here.url_patterns
