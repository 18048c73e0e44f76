"""Calls for Celery: a message that the broker has, or an error, within a bounded time."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import Any, NamedTuple

from django.conf import settings

from django_tasks.exceptions import HandlerError, TaskTimeout, TaskValueError
from django_tasks.handover.places import object_at
from django_tasks.redaction import BAD_URL
from django_tasks.sentences import sentence as _

OLDEST = (5, 5)  # the first that bounds the wait for the broker's confirmation
ANSWER_SECONDS = 10.0


class BrokerCall(NamedTuple):
    """A call as ``send_task`` takes it."""

    name: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    task_id: str
    options: Mapping[str, Any]


def application(named: Any) -> Any:
    """The Celery application: ``named``, at the dotted path ``named``, or the project's own.

    That is ``celery_app`` of the package that has the settings, as Celery's manual wants it, or
    else the one whose ``set_default()`` was called. Not Celery's *current* one: in a thread that
    has none, as ours, Celery makes one without settings. Raises HandlerError if there is none.
    """
    _check_version()
    from celery import Celery
    from celery.local import Proxy

    found = object_at(named) if isinstance(named, str) else named or _of_project()
    if isinstance(found, Proxy):
        found = found._get_current_object()
    if not isinstance(found, Celery):
        raise HandlerError(
            _(
                "%(named)r is no Celery application: give celery_app, as 'mysite.celery.app'",
                named=named,
            )
            if named
            else _("there is no Celery application: give celery_app, as 'mysite.celery.app'")
        )
    return found


def _check_version() -> None:
    try:
        import celery
    except ImportError as error:
        raise HandlerError(_("Celery is not installed: %(error)s", error=error)) from error
    major, minor = celery.__version__.split(".")[:2]
    if (int(major), int(minor)) < OLDEST:
        raise HandlerError(
            _("Celery %(version)s is too old: 5.5 or newer is needed", version=celery.__version__)
        )


def _of_project() -> Any:
    from celery.app import default_app

    package = (settings.SETTINGS_MODULE or "").partition(".")[0]
    own = getattr(import_module(package), "celery_app", None) if package else None
    # The one that Celery makes itself, where it finds none, has no settings and this name.
    return own or (default_app if default_app and default_app.main != "default" else None)


def is_confirmed(app: Any) -> bool:
    """Tell if a message that was sent is a message that the broker has.

    Only AMQP's brokers have to be asked to say so. Raises HandlerError for a broker's URL of which
    the transport is unknown, or not installed.
    """
    try:
        connection = app.connection_for_write()
        speaks_amqp = connection.transport.driver_type == "amqp"
    # AttributeError: kombu's module for Redis, where the library of it is not installed.
    except (ImportError, LookupError, AttributeError, ValueError) as error:
        shown = BAD_URL if isinstance(error, ValueError) else error
        raise HandlerError(
            _("its broker's transport cannot be used: %(error)s", error=shown)
        ) from None
    return not speaks_amqp or bool(connection.transport_options.get("confirm_publish"))


def send(app: Any, call: BrokerCall) -> None:
    """Send a call to the broker of a Celery application.

    Returns once the transport has it: with RabbitMQ's publisher confirms, when it is safe there.
    Raises kombu's OperationalError, or OSError, if the broker does not answer in time, and
    TaskValueError for arguments that cannot be serialized.
    """
    from kombu.exceptions import EncodeError, OperationalError

    try:
        with app.producer_or_acquire() as producer:
            was_open = producer.connection.connected
            try:
                _publish(app, producer, call)
            except (OperationalError, OSError) as error:
                # The handler's time limit is an OSError to Kombu, which wraps it.
                if not was_open or isinstance(error.__cause__ or error, TaskTimeout):
                    raise
                # A broker closes connections that are idle, and all of them when it restarts. That
                # is seen here first, and a new connection tells if there is more to it.
                _publish(app, producer, call)
    except EncodeError as error:
        raise TaskValueError(
            "arguments", (call.args, call.kwargs), _("cannot be sent (%(error)s)", error=error)
        ) from error


def _publish(app: Any, producer: Any, call: BrokerCall) -> None:
    connection = producer.connection
    try:
        # Each broker once: left to itself, the connection would be tried for ever.
        tries = max(1, len(connection.alt))
        connection.ensure_connection(max_retries=tries - 1, interval_start=0, interval_step=0)
        producer.revive(connection)
        with _bounded(connection):
            app.send_task(
                **{
                    "timeout": ANSWER_SECONDS,
                    "confirm_timeout": ANSWER_SECONDS,
                    **call.options,
                    **call._asdict(),
                    "producer": producer,
                    "retry": False,
                }
            )
    except BaseException:
        # There may be half of a message on it, or a confirmation to come, which the next call would
        # take for its own.
        connection.collect()
        raise


@contextmanager
def _bounded(connection: Any) -> Iterator[None]:
    """Bound each wait for an AMQP broker: that for the declaration of a queue has no limit."""
    transport = getattr(connection.connection, "transport", None)
    having_timeout = getattr(transport, "having_timeout", None)
    with having_timeout(ANSWER_SECONDS) if having_timeout else nullcontext():
        yield
