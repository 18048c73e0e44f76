"""System checks of handlers that hand over."""

from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage
from django.core.checks import register as register_check
from django.db import router

from django_tasks.checks import TAG
from django_tasks.checks.messages import error, warning
from django_tasks.exceptions import HandlerError
from django_tasks.handlers import registry
from django_tasks.handover import broker, tasks
from django_tasks.handover.handler import HandOver, check_target
from django_tasks.models import Task
from django_tasks.sentences import sentence as _

# Others whose TASKS backends write each call by the ORM, as a part of the caller's transaction.
IN_DATABASE = {"django_tasks_db", "django_ox", "dj_queue"}
OURS = "django_tasks"


def register() -> None:
    """Tell Django about the check. Twice is nothing."""
    register_check(check_hand_over, TAG)


def check_hand_over(**kwargs: Any) -> list[CheckMessage]:
    """E009, W010, W011"""
    return [
        message
        for code, handler in sorted(registry.get_task_handlers().items())
        if isinstance(handler, HandOver)
        for message in _messages(_who(code, handler), handler)
    ]


def _who(code: str, handler: HandOver) -> str:
    return _("The handler of %(code)r (%(handler)s)", code=code, handler=registry.describe(handler))


def _messages(who: str, handler: HandOver) -> Iterator[CheckMessage]:
    try:
        check_target(handler)
        yield from (_of_tasks if handler.celery_task is None else _of_celery)(who, handler)
    except HandlerError as problem:
        hint = _("No task of it can be handed over as it is; they are tried again until it can.")
        yield error(
            "E009", _("%(who)s cannot hand over: %(problem)s.", who=who, problem=problem), hint
        )


def _of_tasks(who: str, handler: HandOver) -> Iterator[CheckMessage]:
    backend = tasks.backend_of(tasks.task_at(handler.to))
    if handler.atomic:
        yield from beside_transaction(who, backend, router.db_for_write(Task))


def beside_transaction(who: str, backend: Any, using: str) -> Iterator[CheckMessage]:
    """W010, unless a TASKS backend is known to write in the database of this alias.

    ``who`` hands over to it from there, and is atomic.
    """
    if not _writes_in(backend, using):
        yield warning(
            "W010",
            _(
                "%(who)s is atomic, and the TASKS backend %(alias)r is not known to keep "
                "its calls in the database of the tasks: a call may be there although "
                "the run has been rolled back.",
                who=who,
                alias=backend.alias,
            ),
            _(
                "Take a backend that does, in the same database; or leave atomic out: "
                "without it, too, every task is handed over at least once."
            ),
        )


def _writes_in(backend: Any, using: str) -> bool:
    for base in type(backend).__mro__:
        package = base.__module__.partition(".")[0]
        if package == OURS:
            return bool(backend.database == using)
        if package in IN_DATABASE:
            app = apps.get_containing_app_config(base.__module__)
            return app is not None and all(
                router.db_for_write(model) == using for model in app.get_models()
            )
    return False


def _of_celery(who: str, handler: HandOver) -> Iterator[CheckMessage]:
    app = broker.application(handler.celery_app)
    if handler.atomic:
        yield warning(
            "W010",
            _(
                "%(who)s is atomic and hands over to Celery: a message may be out "
                "although the run has been rolled back.",
                who=who,
            ),
            _("Leave atomic out: without it, too, every task is handed over at least once."),
        )
    if not broker.is_confirmed(app):
        yield warning(
            "W011",
            _(
                "%(who)s sends to an AMQP broker without publisher confirms: what the "
                "broker has not stored when it or the network fails is lost, and nobody "
                "is told.",
                who=who,
            ),
            _("Set Celery's broker_transport_options = {'confirm_publish': True}."),
        )
