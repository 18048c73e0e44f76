"""Each system check, by its id: what makes it speak, and what keeps it silent."""

import json
import re
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin import AdminSite
from django.contrib.auth.models import User
from django.core.checks import CheckMessage, Tags, run_checks
from django.core.checks import registry as django_checks
from django.db import connections
from django.db.models import CharField, JSONField, TextField
from django.db.utils import ConnectionHandler
from django.http import HttpResponse
from django.urls import URLResolver, include, path
from django.urls.resolvers import RoutePattern

from devtools import CHECKOUT
from django_tasks import checks, installation
from django_tasks.admin import register
from django_tasks.fields import KeyField
from django_tasks.handlers import registry
from django_tasks.handlers.base import TaskHandler, task_handler
from django_tasks.handover import checks as handing_checks
from django_tasks.models import Lock
from django_tasks.store.dialects import Dialect, dialect_of
from tests.vendor import MARIADB, MYSQL_FAMILY, SERVERS, is_on, only_on

pytestmark = pytest.mark.each_database

SQLITE = {"ENGINE": "django.db.backends.sqlite3", "NAME": "tasks.sqlite3"}
MYSQL = {"ENGINE": "django.db.backends.mysql", "NAME": "tasks", "HOST": "db.invalid"}
POSTGRESQL = {"ENGINE": "django.db.backends.postgresql", "NAME": "tasks", "HOST": "db.invalid"}
WAL = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"

Databases = Callable[..., ConnectionHandler]


def heard(*databases: str, deploy: bool = False) -> list[CheckMessage]:
    """Messages of our checks, those of these databases among them."""
    tags = [checks.TAG, Tags.database] if databases else [checks.TAG]
    said = run_checks(
        tags=tags, databases=list(databases) or None, include_deployment_checks=deploy
    )
    return [message for message in said if str(message.id).startswith("django_tasks.")]


def found(number: str, *databases: str, deploy: bool = False) -> list[CheckMessage]:
    """Messages of the check with this id."""
    said = heard(*databases, deploy=deploy)
    return [message for message in said if message.id == f"django_tasks.{number}"]


def hint(message: CheckMessage) -> str:
    assert message.hint is not None
    return message.hint


class Pusher(TaskHandler):
    biz_code = "push"

    def handle(self, task: Any) -> None: ...


class AtomicPusher(Pusher):
    atomic = True


# All of them


def test_a_default_project_hears_nothing(databases: Databases) -> None:
    databases()
    assert heard() == []


def test_the_test_project_hears_nothing() -> None:
    assert heard() == []


@pytest.mark.django_db
def test_the_test_project_hears_nothing_from_its_database() -> None:
    assert heard("default") == []


def test_every_check_without_a_database_runs_without_a_connection(databases: Databases) -> None:
    databases(one=SQLITE, two=MYSQL, three=POSTGRESQL)
    heard()


def test_every_id_stands_in_the_table_and_every_id_of_the_table_is_used() -> None:
    page = (CHECKOUT / "docs" / "reference" / "checks.rst").read_text(encoding="utf-8")
    documented = re.findall(r"^``django_tasks\.(\w\d{3})``", page, re.MULTILINE)
    files = [
        *Path(checks.__file__).parent.glob("*.py"),
        Path(checks.__file__).parent.parent / "backend.py",
        Path(checks.__file__).parent.parent / "functions" / "checks.py",
        Path(handing_checks.__file__),
    ]
    source = "".join(file.read_text() for file in files)
    used = set(re.findall(r'"(?:django_tasks\.)?([EW]\d{3})"', source))
    used.add(installation.CHECK_ID[-4:])
    assert documented == sorted(used)


def test_registering_twice_says_nothing_twice() -> None:
    before = len(django_checks.registry.get_checks(include_deployment_checks=True))
    checks.register()
    after = len(django_checks.registry.get_checks(include_deployment_checks=True))
    assert after == before


def test_what_needs_a_connection_has_the_tag_of_database_checks_and_no_other() -> None:
    assert checks.check_connections.tags == (Tags.database,)  # type: ignore[attr-defined]


# E001: the import name


def test_e001_names_the_stranger_in_this_package_and_the_cure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(installation, "strangers", lambda: ["django-tasks"])
    (error,) = found("E001")
    assert "django-tasks" in error.msg
    assert error.hint == installation.CURE
    assert error.is_serious()


# E002: handlers


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        (["no.such.module"], "No module named 'no'"),
        (["django_tasks.models.Task"], "is not a TaskHandler"),
        ([7], "a dotted path is wanted"),
        ([f"{__name__}.Pusher", f"{__name__}.AtomicPusher"], "has two handlers"),
    ],
)
def test_e002_names_each_handler_that_cannot_be_used(
    paths: list[Any], words: str, settings: Any, handlers: Any
) -> None:
    settings.TASK_HANDLERS = paths
    registry.load()
    (error,) = found("E002")
    assert words in error.msg
    assert repr(paths[-1]) in error.msg
    assert error.is_serious()


# E003, W001: settings


def test_e003_names_each_value_that_cannot_be_used(settings: Any) -> None:
    settings.DJANGO_TASKS = {"THREADS": 0, "LEASE": "long", "BATCH_SIZE": 10}
    assert [error.msg for error in found("E003")] == [
        "DJANGO_TASKS['LEASE'] must be a timedelta or a number of seconds, not 'long'.",
        "DJANGO_TASKS['THREADS'] must be a whole number from 1 to 1000, not 0.",
    ]


def test_e003_wants_a_dict_and_still_looks_at_everything_else(
    settings: Any, databases: Databases
) -> None:
    databases(tasks=POSTGRESQL | {"OPTIONS": {"pool": True}}, other=SQLITE)
    settings.DJANGO_TASKS = [("THREADS", 4)]
    (error,) = found("E003")
    assert error.msg.startswith("DJANGO_TASKS must be a dict, not [")
    assert found("W003")


def test_e003_wants_a_list_of_handlers_and_says_so_once(settings: Any, handlers: Any) -> None:
    settings.TASK_HANDLERS = "shop.handlers.Push"
    registry.load()
    (error,) = found("E003")
    assert error.msg.startswith("TASK_HANDLERS must be a list")
    assert found("E002") == []


def test_good_settings_are_silent(settings: Any) -> None:
    settings.DJANGO_TASKS = {"THREADS": 4, "LEASE": timedelta(minutes=1)}
    assert heard() == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("THREAD", "Did you mean 'THREADS'?"),
        ("poll_interval", "Did you mean 'POLL_INTERVAL'?"),
        ("COLOUR", "There are: "),
        (42, "There are: "),
    ],
)
def test_w001_names_a_key_that_means_nothing_and_the_nearest(
    name: Any, words: str, settings: Any
) -> None:
    settings.DJANGO_TASKS = {name: 1}
    (warning,) = found("W001")
    assert str(name) in warning.msg
    assert words in hint(warning)


# SQLite: E004, W003, W006


def test_e004_tells_that_sqlite_is_too_old(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    databases(tasks=SQLITE)
    library = checks.messages.connections["tasks"].Database  # type: ignore[attr-defined]
    monkeypatch.setattr(library, "sqlite_version_info", (3, 34, 1))
    monkeypatch.setattr(library, "sqlite_version", "3.34.1")
    (error,) = found("E004")
    assert "SQLite 3.34.1, of the database 'tasks'" in error.msg
    monkeypatch.setattr(library, "sqlite_version_info", (3, 35, 0))
    assert found("E004") == []


LACKING = ["do not begin with the write lock", "write-ahead logging"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"init_command": WAL}, ["do not begin with the write lock"]),
        (
            {"init_command": WAL, "transaction_mode": "DEFERRED"},
            ["do not begin with the write lock"],
        ),
        ({"transaction_mode": "IMMEDIATE"}, ["write-ahead logging"]),
        (
            {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=DELETE"},
            ["write-ahead logging"],
        ),
        ({}, ["do not begin with the write lock", "write-ahead logging"]),
    ],
)
def test_w003_says_what_sqlite_lacks_and_the_options_to_copy(
    options: dict[str, Any], words: list[str], databases: Databases
) -> None:
    databases(tasks=SQLITE | {"OPTIONS": options})
    (warning,) = found("W003")
    assert [said for said in LACKING if said in warning.msg] == words
    assert "'tasks'" in warning.msg
    assert checks.SQLITE_OPTIONS in hint(warning)


def test_w003_is_content_with_its_own_advice(databases: Databases) -> None:
    advice = json.loads("{" + checks.SQLITE_OPTIONS + "}")
    databases(tasks=SQLITE | advice)
    assert found("W003") == []


@pytest.mark.parametrize("command", ["pragma journal_mode = wal", "PRAGMA journal_mode('WAL')"])
def test_w003_knows_write_ahead_logging_in_any_spelling(command: str, databases: Databases) -> None:
    options = {"transaction_mode": "immediate", "init_command": command}
    databases(tasks=SQLITE | {"OPTIONS": options})
    assert found("W003") == []


@pytest.mark.parametrize("name", [":memory:", "file:memorydb_x?mode=memory&cache=shared"])
def test_w003_leaves_databases_in_memory_alone(name: str, databases: Databases) -> None:
    databases(tasks=SQLITE | {"NAME": name})
    assert found("W003") == []


@pytest.fixture
def sqlite_file(
    tmp_path: Path, another_database: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """Add a real SQLite database "file" with these OPTIONS to the project."""
    # Django lets a test open no second connection to a database that it has not named.
    monkeypatch.setattr(checks.database_answers, "session_rejection", lambda alias: None)
    monkeypatch.setattr(checks.database_answers, "_missing", lambda *_: [])
    name = str(tmp_path / "tasks.sqlite3")
    return lambda **options: another_database("file", **SQLITE | {"NAME": name}, OPTIONS=options)


def test_w003_asks_the_database_whether_it_does_what_its_settings_want(sqlite_file: Any) -> None:
    # As on a file system that cannot do it: the mode stays what it was.
    command = "PRAGMA journal_mode=WAL; PRAGMA journal_mode=TRUNCATE"
    sqlite_file(transaction_mode="IMMEDIATE", init_command=command)
    assert found("W003") == []
    (warning,) = found("W003", "file")
    assert "its journal mode is 'truncate'" in warning.msg


def test_w003_is_silent_when_the_database_has_write_ahead_logging(sqlite_file: Any) -> None:
    sqlite_file(transaction_mode="IMMEDIATE", init_command=WAL)
    assert found("W003", "file") == []


def test_w003_does_not_say_twice_what_the_settings_lack(sqlite_file: Any) -> None:
    sqlite_file(transaction_mode="IMMEDIATE")
    assert len(found("W003", "file")) == 1


def test_w006_names_each_atomic_handler_on_sqlite(
    databases: Databases, handlers: Callable[..., None]
) -> None:
    databases(tasks=SQLITE)
    handlers(AtomicPusher, task_handler("plain")(lambda task: None))
    (warning,) = found("W006", deploy=True)
    assert "'push'" in warning.msg
    assert "AtomicPusher" in warning.msg
    assert "lease" in hint(warning)
    assert found("W006") == []  # nothing is wrong with it


@pytest.mark.parametrize("database", [POSTGRESQL, MYSQL, SQLITE | {"NAME": ":memory:"}])
def test_w006_is_silent_where_others_can_write_meanwhile(
    database: dict[str, Any], databases: Databases, handlers: Callable[..., None]
) -> None:
    databases(tasks=database)
    handlers(AtomicPusher)
    assert found("W006", deploy=True) == []


# Any database: E005


@pytest.mark.parametrize("engine", [SQLITE, MYSQL, POSTGRESQL])
def test_e005_names_a_database_that_commits_nothing(
    engine: dict[str, Any], databases: Databases
) -> None:
    databases(tasks=engine | {"AUTOCOMMIT": False}, other=engine)
    (error,) = found("E005")
    assert "AUTOCOMMIT is False for the database 'tasks'" in error.msg
    assert error.is_serious()


# W004: isolation


@pytest.mark.parametrize("level", ["repeatable read", "SERIALIZABLE", "read uncommitted", None])
def test_w004_warns_of_other_isolation_levels(level: str | None, databases: Databases) -> None:
    databases(tasks=MYSQL | {"OPTIONS": {"isolation_level": level}})
    (warning,) = found("W004")
    assert repr(level) in warning.msg
    assert "read committed" in hint(warning)


@pytest.mark.parametrize("options", [{}, {"isolation_level": "READ COMMITTED"}])
def test_w004_is_silent_with_read_committed(options: Any, databases: Databases) -> None:
    databases(tasks=MYSQL | {"OPTIONS": options})
    assert found("W004") == []


@pytest.mark.parametrize(
    ("options", "level"),
    [
        ({"isolation_level": 3}, "REPEATABLE READ"),
        ({"isolation_level": 4}, "SERIALIZABLE"),
        ({"options": "-c default_transaction_isolation=serializable"}, "SERIALIZABLE"),
        (
            {"options": "-c a=b -c default_transaction_isolation=repeatable\\ read -c c=d"},
            "REPEATABLE READ",
        ),
    ],
)
def test_w004_says_what_another_level_means_on_postgresql(
    options: dict[str, Any], level: str, databases: Databases
) -> None:
    databases(tasks=POSTGRESQL | {"OPTIONS": options})
    (warning,) = found("W004")
    assert f"of the database 'tasks' is {level}." in warning.msg
    assert "rolled back" in warning.msg
    assert "gaps" not in warning.msg
    assert "READ COMMITTED" in hint(warning)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"isolation_level": 2},
        {"isolation_level": 1},  # as the second one, on PostgreSQL
        {"isolation_level": "nonsense"},  # which Django refuses itself
        {"options": "-c default_transaction_isolation=read\\ committed -c lock_timeout=3s"},
        {"isolation_level": 2, "options": "-c default_transaction_isolation=serializable"},
    ],
)
def test_w004_is_silent_with_read_committed_on_postgresql(
    options: dict[str, Any], databases: Databases
) -> None:
    databases(tasks=POSTGRESQL | {"OPTIONS": options})
    assert found("W004") == []


# E010, E011: a database that no worker can work with


@pytest.mark.django_db
def test_e010_tries_out_a_session_as_workers_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found("E010", "default") == []

    def bound(self: Dialect, bounds: Any) -> None:
        self.fetch("SELECT nosuch FROM {task}")

    monkeypatch.setattr(type(dialect_of("default")), "bound", bound)
    (error,) = found("E010", "default")
    assert error.msg.startswith(
        "The database default rejects a statement by which django_tasks sets up a session: "
    )
    assert error.is_serious()


@pytest.mark.django_db
def test_e011_names_missing_tables_to_who_asks_and_keeps_nobody_from_making_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Lock._meta, "db_table", "not_yet")
    monkeypatch.setattr(sys, "argv", ["manage.py", "check", "--database", "default"])
    (error,) = found("E011", "default")
    assert "(not_yet missing): run manage.py migrate --database default" in error.msg
    assert error.is_serious()
    for command in (["manage.py", "migrate"], ["release.py"], ["manage.py", "deploy"]):
        monkeypatch.setattr(sys, "argv", command)
        assert found("E011", "default") == []


@only_on(*SERVERS, because="a file has no users")
@pytest.mark.django_db
def test_e011_says_that_a_database_does_not_let_us_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections["default"].settings_dict, "PASSWORD", "another one")
    (error,) = found("E011", "default")
    assert error.is_serious()


# MySQL, MariaDB: W002

on_mysql = only_on(*MYSQL_FAMILY, because="only these have collations to mend")


def run(statement: str) -> None:
    with connections["default"].cursor() as cursor:
        cursor.execute(statement)


def mended(statement: str) -> CheckMessage:
    """The warning of W002 after this statement. The statement that it advises must end it."""
    run(statement)
    (warning,) = found("W002", "default")
    run(hint(warning).removeprefix("Run: "))
    assert found("W002", "default") == []
    return warning


MODELS = list(apps.get_app_config("django_tasks").get_models())


@on_mysql
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("table", "column"), [("t_task", "biz_num"), ("t_task_lock", "name"), ("t_task_pause", "queue")]
)
def test_w002_names_the_column_that_folds_keys_and_the_statement_that_mends_it(
    table: str, column: str
) -> None:
    warning = mended(
        f"ALTER TABLE {table} MODIFY {column} varchar(100) COLLATE utf8mb4_general_ci NOT NULL"
    )
    assert f"In the table {table!r} of the database 'default', {column!r} has" in warning.msg
    assert "'utf8mb4_general_ci', which may take two keys for one" in warning.msg


@on_mysql
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.db_table)
def test_w002_names_all_columns_of_a_table_that_lack_characters(model: Any) -> None:
    table, before = model._meta.db_table, columns_of(model)
    warning = mended(f"ALTER TABLE {table} CONVERT TO CHARACTER SET latin1")
    # MySQL's JSON is no text.
    texts = (CharField, TextField, *([JSONField] if is_on(MARIADB) else ()))
    for field in model._meta.concrete_fields:
        if isinstance(field, texts):
            said = "collation 'latin1_" if isinstance(field, KeyField) else "character set 'latin1'"
            assert f"'{field.column}' has the {said}" in warning.msg
    assert columns_of(model) == before


def columns_of(model: Any) -> list[Any]:
    """Name, type, collation and nullability of each."""
    with connections["default"].cursor() as cursor:
        cursor.execute(f"SHOW FULL COLUMNS FROM {model._meta.db_table}")
        return [row[:4] for row in cursor.fetchall()]


@pytest.mark.django_db
def test_w002_is_content_with_what_migrate_makes() -> None:
    assert found("W002", "default") == []


@pytest.mark.django_db
def test_w002_is_silent_before_the_first_migration(monkeypatch: pytest.MonkeyPatch) -> None:
    for model in MODELS:
        monkeypatch.setattr(model._meta, "db_table", f"not_yet_{model._meta.db_table}")
    assert found("W002", "default") == []


# PostgreSQL: E006, W005


def test_e006_refuses_psycopg2_in_one_sentence(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = databases(tasks=POSTGRESQL)
    assert found("E006") == []
    monkeypatch.setattr(seen["tasks"], "Database", ModuleType("psycopg2"))
    (error,) = found("E006")
    assert error.msg == (
        "The database 'tasks' is PostgreSQL by way of psycopg2; django_tasks needs psycopg 3: pip "
        "install 'psycopg[binary]'."
    )
    assert error.is_serious()


@pytest.mark.parametrize(
    ("pool", "threads", "size"),
    [
        (True, 5, 4),
        ({"min_size": 2}, 8, 2),
        ({"min_size": 2, "max_size": 7}, 8, 7),
        ({"max_size": None}, 8, 4),
    ],
)
def test_w005_warns_of_a_pool_smaller_than_a_worker(
    pool: Any, threads: int, size: int, databases: Databases, settings: Any
) -> None:
    databases(tasks=POSTGRESQL | {"OPTIONS": {"pool": pool}})
    settings.DJANGO_TASKS = {"THREADS": threads}
    (warning,) = found("W005")
    assert f"at most {size};" in warning.msg
    assert f'"max_size": {threads}}}' in hint(warning)


def test_w005_counts_the_thread_of_sticky_handlers(databases: Databases, handlers: Any) -> None:
    class Steady(TaskHandler):
        biz_code = "steady"
        schedule = "every 1h"
        sticky = True

        def handle(self, task: Any) -> None: ...

        def on_passive(self, task: Any) -> None: ...

    databases(tasks=POSTGRESQL | {"OPTIONS": {"pool": {"max_size": 8}}})
    assert found("W005") == []
    handlers(Steady)
    (warning,) = found("W005")
    assert "a worker has 9 threads" in warning.msg


@pytest.mark.parametrize("pool", [None, False, {"max_size": 8}, {"min_size": 8}])
def test_w005_is_silent_when_the_pool_is_large_enough(pool: Any, databases: Databases) -> None:
    databases(tasks=POSTGRESQL | {"OPTIONS": {"pool": pool}})
    assert found("W005") == []


# W007: kept connections


@pytest.mark.parametrize("engine", [POSTGRESQL, MYSQL])
@pytest.mark.parametrize("age", [60, None])
def test_w007_warns_of_kept_connections_that_nobody_tests(
    engine: dict[str, Any], age: int | None, databases: Databases
) -> None:
    databases(tasks=engine | {"CONN_MAX_AGE": age})
    (warning,) = found("W007")
    assert f"CONN_MAX_AGE is {age}" in warning.msg
    assert '"CONN_HEALTH_CHECKS": True' in hint(warning)


@pytest.mark.parametrize(
    "database",
    [
        POSTGRESQL,
        MYSQL | {"CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True},
        SQLITE | {"CONN_MAX_AGE": 60},
    ],
)
def test_w007_is_silent_otherwise(database: dict[str, Any], databases: Databases) -> None:
    databases(tasks=database)
    assert found("W007") == []


# Which databases


class NotElsewhere:
    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return False if db == "elsewhere" and app_label == "django_tasks" else None


def a_site(name: str = "shop", *, is_whole: bool) -> AdminSite:
    site = AdminSite(name=name)
    site.register(User)
    if is_whole:
        register(site)
    return site


EMPTY, WHOLE = a_site(is_whole=False), a_site("office", is_whole=True)


def test_w013_warns_of_pages_that_no_site_shows(settings: Any) -> None:
    settings.ROOT_URLCONF = (path("a/", include([path("b/", EMPTY.urls)])),)
    (message,) = [each for each in heard() if each.id == "django_tasks.W013"]
    assert "(there are: 'shop')" in message.msg
    assert "register(site)" in str(message.hint)


@pytest.mark.parametrize(
    "urls",
    [
        (path("admin/", admin.site.urls),),
        (path("shop/", EMPTY.urls), path("staff/", include([path("office/", WHOLE.urls)]))),
        (path("nothing/", HttpResponse, name="nothing"),),
        (),
        (URLResolver(RoutePattern("bad/"), "no.such.module"),),
        "no.such.module",
        None,
    ],
    ids=["default", "one of two", "no site", "empty", "a broken part", "broken", "none"],
)
def test_w013_is_silent_otherwise(urls: Any, settings: Any) -> None:
    settings.ROOT_URLCONF = urls
    assert "django_tasks.W013" not in {each.id for each in checks.project.check_pages()}


def test_w013_asks_nothing_of_a_project_without_urls(settings: Any) -> None:
    del settings.ROOT_URLCONF
    assert checks.project.check_pages() == []


def test_databases_that_cannot_hold_tasks_are_left_alone(
    databases: Databases, settings: Any
) -> None:
    settings.DATABASE_ROUTERS = [f"{__name__}.NotElsewhere"]
    databases(elsewhere=SQLITE, tasks=SQLITE)
    assert {"'tasks'" in warning.msg for warning in found("W003")} == {True}


@pytest.mark.django_db
def test_databases_that_were_not_asked_for_are_not_connected_to(databases: Databases) -> None:
    databases(tasks=MYSQL)
    assert heard("default") == []
