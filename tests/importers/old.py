"""The forerunner's table, as its own scripts make it, and what is in a database."""

from datetime import datetime
from typing import Any

from django.db import connections

from django_tasks.models import Task
from tests.vendor import VENDOR

WHEN = datetime(2030, 5, 17, 9, 30)
MADE = datetime(2026, 1, 2, 3, 4, 5)

# The index names are the worst that there could be: ours.
SHAPES = {
    "mysql": [
        """CREATE TABLE t_task (
            id int NOT NULL AUTO_INCREMENT PRIMARY KEY, biz_num varchar(100) NOT NULL,
            biz_code varchar(50) NOT NULL, `when` datetime NOT NULL, biz_ext varchar(3000) NULL,
            create_time datetime NOT NULL, update_time datetime NOT NULL,
            status tinyint NOT NULL DEFAULT 0, version int NOT NULL DEFAULT 0,
            UNIQUE KEY t_task_key (biz_num, biz_code), KEY t_task_claim (`when`)
        ) DEFAULT CHARACTER SET utf8mb4"""
    ],
    "postgresql": [
        """CREATE TABLE t_task (
            id serial PRIMARY KEY, biz_num varchar(100) NOT NULL, biz_code varchar(50) NOT NULL,
            "when" timestamp NOT NULL, biz_ext varchar(3000) NULL, create_time timestamp NOT NULL,
            update_time timestamp NOT NULL, status smallint NOT NULL DEFAULT 0,
            version int NOT NULL DEFAULT 0, CONSTRAINT t_task_key UNIQUE (biz_num, biz_code))""",
        'CREATE INDEX t_task_claim ON t_task ("when")',
    ],
    "sqlite3": [
        """CREATE TABLE t_task (
            id integer PRIMARY KEY AUTOINCREMENT, biz_num varchar(100) NOT NULL,
            biz_code varchar(50) NOT NULL, "when" datetime NOT NULL, biz_ext varchar(3000) NULL,
            create_time datetime NOT NULL, update_time datetime NOT NULL,
            status tinyint NOT NULL DEFAULT 0, version int NOT NULL DEFAULT 0)""",
        "CREATE UNIQUE INDEX t_task_key ON t_task (biz_num, biz_code)",
        'CREATE INDEX t_task_claim ON t_task ("when")',
    ],
}
COLUMNS = "id, biz_code, biz_num, {}, biz_ext, status, version, create_time, update_time"


class Old:
    """The table in the database of an alias."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.make()

    def make(self) -> None:
        self.execute(*SHAPES[VENDOR])

    def execute(self, *statements: str) -> None:
        with connections[self.alias].cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def add(self, number: str = "1", **fields: Any) -> None:
        values: dict[str, Any] = {
            "biz_code": "order",
            "when": WHEN,
            "biz_ext": None,
            "status": 0,
        } | fields
        values |= {"biz_num": number, "create_time": MADE, "update_time": MADE} | fields
        quote = connections[self.alias].ops.quote_name
        names = ", ".join(map(quote, values))
        marks = ", ".join(["%s"] * len(values))
        statement = f"INSERT INTO t_task ({names}) VALUES ({marks})"  # noqa: S608 - ours
        with connections[self.alias].cursor() as cursor:
            cursor.execute(statement, [*values.values()])

    def rows(self, table: str = "t_task") -> list[tuple[Any, ...]]:
        columns = COLUMNS.format(connections[self.alias].ops.quote_name("when"))
        with connections[self.alias].cursor() as cursor:
            cursor.execute(f"SELECT {columns} FROM {table} ORDER BY id")  # noqa: S608 - ours
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows


def tables(alias: str) -> set[str]:
    return set(connections[alias].introspection.table_names())


def tasks(alias: str) -> list[Task]:
    return list(Task._base_manager.using(alias).order_by("id"))


def numbers(alias: str) -> list[str]:
    return [task.biz_num for task in tasks(alias)]
