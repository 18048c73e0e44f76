"""People who knock at the admin's doors, and databases that are only looked at."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ConnectionHandler
from django.test import Client

from django_tasks import checks, requirements
from tests.vendor import fail_for_want

Staff = Callable[..., Client]


@pytest.fixture
def staff(db: None) -> Staff:
    """A logged-in client of a staff user with just these permissions, such as "view_task"."""

    def login(*codenames: str) -> Client:
        user = User.objects.create_user(f"staff {User.objects.count()}", is_staff=True)
        found = Permission.objects.filter(
            content_type__app_label="django_tasks", codename__in=codenames
        )
        user.user_permissions.set(found)
        assert found.count() == len(codenames)
        return logged_in(user)

    return login


@pytest.fixture
def boss(db: None) -> Client:
    """A logged-in client of a superuser."""
    return logged_in(User.objects.create_superuser("boss"))


def logged_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def databases(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ConnectionHandler]:
    """Let the checks see these databases, which nobody can connect to; returns what they see."""

    def refuse(self: BaseDatabaseWrapper) -> None:
        raise AssertionError(f"a check connected to {self.alias!r}")

    def see(**settings: Any) -> ConnectionHandler:
        monkeypatch.setattr(BaseDatabaseWrapper, "connect", refuse)
        # Django insists on an alias of this name; nothing of ours does.
        handler = ConnectionHandler({"default": {}} | settings)
        for alias in settings:
            _skip_without_driver(handler, alias)
        monkeypatch.setattr(checks.messages, "connections", handler)
        monkeypatch.setattr(requirements, "connections", handler)
        monkeypatch.setattr(checks.database_answers, "session_rejection", lambda alias: None)
        monkeypatch.setattr(checks.database_answers, "_missing", lambda *_: [])
        return handler

    return see


def _skip_without_driver(handler: ConnectionHandler, alias: str) -> None:
    try:
        handler[alias]
    except ImproperlyConfigured as error:
        fail_for_want(f"the driver of the other database is not installed: {error}")


@pytest.fixture
def another_database(db: None) -> Iterator[Callable[..., None]]:
    """Add a database to the project for this test."""
    added: list[str] = []

    def add(alias: str, **settings: Any) -> None:
        configured = connections.configure_settings({"default": {}, alias: settings})
        connections.settings[alias] = configured[alias]
        added.append(alias)
        # Django's guard of undeclared databases looks at connections that are not open yet.
        connections[alias].connect()

    yield add
    for alias in added:
        # Django's own close() leaves a database in memory open.
        BaseDatabaseWrapper.close(connections[alias])
        del connections[alias], connections.settings[alias]


class ToTasks:
    """A router that writes the tasks, and nothing else, to the database "tasks".

    It reads them elsewhere, as from a replica that may be behind.
    """

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "tasks" if model._meta.app_label == "django_tasks" else None

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        return (db == "tasks") == (app_label == "django_tasks")


@pytest.fixture
def task_database(settings: Any, another_database: Callable[..., None]) -> str:
    """Another database, in memory, that the tasks are kept in."""
    another_database("tasks", ENGINE="django.db.backends.sqlite3", NAME=":memory:")
    settings.DATABASE_ROUTERS = [f"{__name__}.ToTasks"]
    call_command("migrate", "django_tasks", database="tasks", verbosity=0)
    return "tasks"
