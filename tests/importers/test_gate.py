"""``migrate`` on a database whose ``t_task`` is the forerunner's, and on others."""

import os
import subprocess
import sys
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import override_settings

from django_tasks.models import Task
from django_tasks.store import forerunner
from tests.importers.old import Old, tables
from tests.integration.conftest import url_of
from tests.integration.process import ROOT
from tests.waiting import DEADLINE

THEIRS = ("id", "biz_code", "biz_num", "when", "biz_ext", "create_time", "update_time")
OURS = sorted(
    {str(field.column) for field in Task._meta.concrete_fields} - {*THEIRS, "status", "version"}
)


class Elsewhere:
    """A router that keeps our tables out of the database."""

    def allow_migrate(self, db: str, app_label: str, **_: object) -> bool:
        return app_label != "django_tasks"


@pytest.mark.parametrize("option", [{}, {"fake_initial": True}, {"fake": True}], ids=str)
def test_migrate_stops_and_names_the_command_and_has_changed_nothing(
    old: Old, option: dict[str, bool]
) -> None:
    old.add()
    with pytest.raises(CommandError, match=r"run manage.py adopttasks .*--database fresh"):
        call_command("migrate", database=old.alias, verbosity=0, **option)
    assert tables(old.alias) <= {"t_task", "django_migrations"}
    assert len(old.rows()) == 1


def test_a_user_sees_one_sentence_and_no_traceback(old: Old) -> None:
    connections[old.alias].close()
    done = subprocess.run(
        [sys.executable, "manage.py", "migrate"],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url_of(old.alias)},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if "W003" not in line]
    assert said[-1].startswith("CommandError: The table t_task in database default is the fore")
    assert "Traceback" not in done.stderr


def test_plans_and_statements_are_shown_as_always(old: Old) -> None:
    out = StringIO()
    call_command("migrate", database=old.alias, plan=True, stdout=out)
    call_command("sqlmigrate", "django_tasks", "0001", database=old.alias, stdout=out)
    assert "CREATE TABLE" in out.getvalue()


def test_the_migrations_of_others_go_through(old: Old) -> None:
    call_command("migrate", "contenttypes", database=old.alias, verbosity=0)
    assert "django_content_type" in tables(old.alias)


@override_settings(DATABASE_ROUTERS=[f"{__name__}.Elsewhere"])
def test_a_database_that_is_not_for_our_tables_is_migrated(old: Old) -> None:
    call_command("migrate", "django_tasks", database=old.alias, verbosity=0)
    assert len(old.rows()) == 0


def test_our_own_table_is_not_taken_for_the_forerunners(fresh: str) -> None:
    call_command("migrate", "django_tasks", database=fresh, verbosity=0)
    assert forerunner.under_our_name(using=fresh) is None
    call_command("migrate", "django_tasks", "zero", database=fresh, verbosity=0)
    call_command("migrate", "django_tasks", database=fresh, verbosity=0)
    assert forerunner.under_our_name(using=fresh) is None


@pytest.mark.parametrize("column", OURS)
def test_a_table_with_any_column_of_ours_is_not_the_forerunners(old: Old, column: str) -> None:
    assert forerunner.under_our_name(using=old.alias)
    old.execute(f"ALTER TABLE t_task ADD COLUMN {column} int NULL")
    assert forerunner.under_our_name(using=old.alias) is None


@pytest.mark.parametrize("column", ["biz_ext", "version", "update_time"])
def test_a_table_that_lacks_a_column_is_not_the_forerunners(old: Old, column: str) -> None:
    old.execute(f"ALTER TABLE t_task DROP COLUMN {column}")
    assert forerunner.under_our_name(using=old.alias) is None


def test_a_column_of_the_users_own_is_no_matter(old: Old) -> None:
    old.execute("ALTER TABLE t_task ADD COLUMN note varchar(20) NULL")
    assert forerunner.under_our_name(using=old.alias)
