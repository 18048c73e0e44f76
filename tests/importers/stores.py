"""Stores of other schedulers, filled by their own packages; their apps, installed for a test."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.contrib import admin
from django.core.management import call_command
from django.db import connections
from django.test import modify_settings, override_settings

from tests.importers.conftest import FRESH
from tests.vendor import fail_for_want

THEIR_APPS = ("django_apscheduler", "django_celery_beat")


class ToFresh:
    """A router that keeps the tables of others in the fresh database."""

    def db_for_read(self, model: Any, **_: Any) -> str | None:
        return FRESH if model._meta.app_label in THEIR_APPS else None

    db_for_write = db_for_read


def need(*packages: str) -> None:
    """Leave the test out where a package that writes the store is not installed."""
    for package in packages:
        if find_spec(package) is None:
            fail_for_want(f"{package} is not installed")


@contextmanager
def scheduler(store: Any) -> Iterator[Any]:
    """A scheduler of APScheduler that writes to ``store`` and has nothing to run jobs in."""
    from apscheduler.schedulers.base import BaseScheduler

    class Still(BaseScheduler):  # type: ignore[misc, unused-ignore]
        def wakeup(self) -> None: ...

        def shutdown(self) -> None:
            super().shutdown()

    still = Still(jobstores={"default": store}, timezone="UTC")
    still.start(paused=True)
    try:
        yield still
    finally:
        still.shutdown()


@contextmanager
def jobs_in_a_file(path: Path, table: str = "apscheduler_jobs") -> Iterator[Any]:
    """A scheduler whose jobs stand in a SQLite file."""
    need("apscheduler", "sqlalchemy")
    from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore

    with scheduler(SQLAlchemyJobStore(f"sqlite:///{path}", tablename=table)) as still:
        yield still


@contextmanager
def installed(app: str, *needed: str) -> Iterator[None]:
    """An app of others with its tables, and ours, in the fresh database."""
    need(app, *needed)
    with (
        modify_settings(INSTALLED_APPS={"append": app}),
        override_settings(DATABASE_ROUTERS=[ToFresh()]),
    ):
        for label in (app, "django_tasks"):
            call_command("migrate", label, database=FRESH, verbosity=0)
        try:
            yield
        finally:
            connections[FRESH].close()
            # The first time that it is installed, the admin finds its module and its models.
            for model in [each for each in admin.site._registry if each._meta.app_label == app]:
                admin.site.unregister(model)
