"""Requirements of a database, as far as its settings tell: nothing here connects to it.

Each function answers with one sentence that names what is wrong, or with None.
"""

from typing import Any

from django.db import connections

from django_tasks.sentences import sentence as _


def refusal(using: str) -> str | None:
    """The reason for which no worker may start on this database."""
    return driver_problem(using) or autocommit_problem(using)


def driver_problem(using: str) -> str | None:
    """The reason for which the driver of this database cannot be used."""
    connection: Any = connections[using]
    if connection.vendor != "postgresql" or connection.Database.__name__ != "psycopg2":
        return None
    return _(
        "The database %(using)r is PostgreSQL by way of psycopg2; django_tasks "
        "needs psycopg 3: pip install 'psycopg[binary]'.",
        using=using,
    )


def autocommit_problem(using: str) -> str | None:
    """The reason for which nothing that a worker writes would be stored."""
    if connections[using].settings_dict["AUTOCOMMIT"]:
        return None
    return _(
        "AUTOCOMMIT is False for the database %(using)r: nothing that a worker "
        "writes outside of a transaction is ever committed, so every worker runs "
        "every task, and the tasks stay.",
        using=using,
    )


def memory_problem(using: str) -> str | None:
    """The reason for which a worker's threads cannot share this database."""
    connection: Any = connections[using]
    if connection.vendor != "sqlite" or not connection.is_in_memory_db():
        return None
    return _(
        "The SQLite database %(using)r is in memory, where threads that write do "
        'not wait for each other: give it a file, as test database with "TEST": '
        '{"NAME": BASE_DIR / "test.sqlite3"} in its settings.',
        using=using,
    )
