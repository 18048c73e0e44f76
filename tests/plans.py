"""The way of a database through its tables for a statement, and what it reads on it."""

from typing import Any

from django.db import connection


def steps_of(sql: str) -> list[dict[str, Any]]:
    """The plan of MariaDB or MySQL: its steps in order, each by the names of its columns.

    This form is the one that all versions of both have. What EXPLAIN answers without a word has
    another form in MySQL 9, and JSON has one of its own in each.
    """
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN FORMAT=TRADITIONAL {sql}")
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def lines_of(sql: str) -> list[str]:
    """The plan of any database, a line each step."""
    if connection.vendor == "mysql":
        return [" ".join(map(str, step.values())) for step in steps_of(sql)]
    explain = "EXPLAIN QUERY PLAN" if connection.vendor == "sqlite" else "EXPLAIN"
    return [row[-1] for row in asked(f"{explain} {sql}")]


def asked(statement: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        found: list[Any] = cursor.fetchall()
    return found


def handler_reads() -> int:
    """The rows and index entries that this session of MariaDB or MySQL has read so far."""
    return sum(int(value) for _, value in asked("SHOW SESSION STATUS LIKE 'Handler_read%'"))


def analyze(table: str) -> None:
    """Have the statistics of a table fresh. SQLite's users never ask for any."""
    if connection.vendor != "sqlite":
        asked_for = "ANALYZE TABLE" if connection.vendor == "mysql" else "ANALYZE"
        with connection.cursor() as cursor:
            cursor.execute(f"{asked_for} {table}")
