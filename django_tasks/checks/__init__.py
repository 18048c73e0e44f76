"""System checks of this package: ``manage.py check`` and the start of every command run them.

``django_tasks.E001``     the PyPI distribution ``django-tasks`` has files in this package
``django_tasks.E002``     a handler cannot be imported, cannot be used, or has a code that is taken
``django_tasks.E003``     a setting that cannot be used: ``DJANGO_TASKS`` or ``TASK_HANDLERS``
``django_tasks.E004``     SQLite older than 3.35, which has no RETURNING
``django_tasks.E005``     ``AUTOCOMMIT`` is False: nothing that a worker writes is committed
``django_tasks.E006``     PostgreSQL with psycopg2
``django_tasks.E007``     ``TASKS``: OPTIONS of a backend of ours that cannot be used, or it is
                          not installed
``django_tasks.E008``     two ``@task`` functions have one code, by their names or options
``django_tasks.E009``     a ``HandOver`` that cannot hand over: its target is missing or no target
``django_tasks.E010``     the server rejects a statement that sets up a worker's session
``django_tasks.E011``     no worker can work with the database: it does not let us in, or tables are
                          missing (``migrate`` itself does not say so)
``django_tasks.E012``     a ``tasks.py``, or a module of MODULES, cannot be imported
``django_tasks.W001``     ``DJANGO_TASKS`` has a key that means nothing
``django_tasks.W002``     MySQL, MariaDB: a column that takes 'A' and 'a' for one key, or that
                          lacks characters
``django_tasks.W003``     SQLite without IMMEDIATE transactions or without write-ahead logging
``django_tasks.W004``     MySQL, MariaDB, PostgreSQL: an isolation level other than READ COMMITTED
``django_tasks.W005``     PostgreSQL: a connection pool smaller than a worker's threads
``django_tasks.W006``     an ``atomic`` handler on SQLite: nobody else can write while it runs
                          (``check --deploy``)
``django_tasks.W007``     connections that are kept but never tested
``django_tasks.W008``     a handler has an attribute whose name is nearly one that means something,
                          or one of another library
``django_tasks.W009``     ``TASKS`` names a backend of the PyPI distribution ``django-tasks``
``django_tasks.W010``     a ``HandOver`` or an ``OutboxBackend`` is atomic, and its calls are not a
                          part of the transaction
``django_tasks.W011``     a ``HandOver`` sends to an AMQP broker without publisher confirms
``django_tasks.W012``     ``TASKS``: calls in another database than that of the tasks
``django_tasks.W013``     no admin site in the project's URLs shows the pages of the tasks
``django_tasks.W014``     a function with a schedule in a module that no worker imports
========================  ==========================================================================
=======
What each tells: docs/reference/checks.rst.

E010, E011, W002, and W003 for what the database itself says, need a connection: they run with
``migrate`` and ``check --database ALIAS``. The others never connect; ``check --tag django_tasks``
runs them alone. Only databases that may hold tasks, as the routers say, are looked at.
"""

from django.core.checks import Tags
from django.core.checks import register as register_check

from django_tasks.checks.database_answers import check_connections
from django_tasks.checks.database_settings import SQLITE_OPTIONS, check_databases
from django_tasks.checks.project import (
    check_atomic_handlers,
    check_backports_name,
    check_handlers,
    check_installation,
    check_names,
    check_pages,
    check_settings,
)

__all__ = ["SQLITE_OPTIONS", "TAG", "check_connections", "register"]

TAG = "django_tasks"


def register() -> None:
    """Tell Django about the checks. Twice is nothing."""
    for check in (check_installation, check_handlers, check_settings, check_databases):
        register_check(check, TAG)
    for check in (check_backports_name, check_pages, check_names):
        register_check(check, TAG)
    register_check(check_atomic_handlers, TAG, deploy=True)
    # Without our tag: Django 6.1's ``--tag`` gives every database to the checks that have it.
    register_check(check_connections, Tags.database)
