"""Sentry: each run has a scope of its own, and one that fails for good is an event.

::

    sentry_sdk.init(dsn=..., integrations=[DjangoTasksIntegration()])

Needs the extra ``sentry``, no models and no settings: a settings file may import it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django_tasks.handlers.companions import COMPANIONS
from django_tasks.handlers.running_task import RunningTask
from django_tasks.sentences import sentence as _

try:
    import sentry_sdk
    from sentry_sdk.integrations import Integration
    from sentry_sdk.utils import event_from_exception
except ImportError as error:
    raise ImportError(
        _(
            "%(module)s needs %(package)s: pip install 'django-delayed-tasks[%(extra)s]'",
            module=__name__,
            package="sentry-sdk",
            extra="sentry",
        )
    ) from error

Tasks = Sequence[RunningTask]
Fields = dict[str, Any]

NAME = "django_tasks"
ORIGIN = f"auto.queue.{NAME}"
# As those of the SDK's own integrations: "queue.task.celery".
OPERATION = f"queue.task.{NAME}"
# How long a process that ends waits for its events to be sent.
FLUSH_SECONDS = 2.0


class DjangoTasksIntegration(Integration):
    """Isolates runs, names and times them as transactions, and captures their failures.

    ``report_retries``: also those that are tried again, as warnings. ``transactions``: False sends
    no times, whatever ``traces_sample_rate`` says.
    """

    identifier = NAME

    def __init__(self, *, report_retries: bool = False, transactions: bool = True) -> None:
        self.report_retries = report_retries
        self.transactions = transactions

    @staticmethod
    def setup_once() -> None:
        COMPANIONS.append(_Scopes())


def _integration() -> DjangoTasksIntegration | None:
    return sentry_sdk.get_client().get_integration(DjangoTasksIntegration)


class _Scopes:
    """A companion of runs: see ``companions``."""

    @contextmanager
    def around(self, tasks: Tasks) -> Iterator[None]:
        integration = _integration()
        if integration is None:
            yield
            return
        with sentry_sdk.isolation_scope() as scope:
            scope.clear_breadcrumbs()
            scope.set_transaction_name(tasks[0].biz_code, source="task")
            scope.set_tags(_tags(tasks))
            scope.add_event_processor(_without_line)
            with _transaction(tasks, integration):
                yield

    def failed(self, task: RunningTask, error: BaseException, *, is_final: bool) -> None:
        integration = _integration()
        if integration is None:
            return
        _set_failed()
        if is_final or integration.report_retries:
            _capture(task, error, "error" if is_final else "warning")

    def leave(self) -> None:
        if _integration() is not None:
            sentry_sdk.flush(timeout=FLUSH_SECONDS)


@contextmanager
def _transaction(tasks: Tasks, integration: DjangoTasksIntegration) -> Iterator[None]:
    transaction = sentry_sdk.continue_trace(
        {}, op=OPERATION, name=tasks[0].biz_code, source="task", origin=ORIGIN
    )
    if not integration.transactions:
        yield
        return
    known = {"biz_code": tasks[0].biz_code, "queue": tasks[0].queue, "database": tasks[0].using}
    sampling: Any = {NAME: known}
    with sentry_sdk.start_transaction(transaction, custom_sampling_context=sampling) as span:
        for name, value in _data(tasks).items():
            span.set_data(name, value)
        span.set_status("ok")
        yield


def _tags(tasks: Tasks) -> Fields:
    first = tasks[0]
    tags = {
        "biz_code": first.biz_code,
        "queue": first.queue,
        "database": first.using,
        "worker": first.worker,
    }
    return {**tags, "batch": len(tasks)} if len(tasks) > 1 else {**tags, **_own_tags(first)}


def _own_tags(task: RunningTask) -> Fields:
    return {"biz_num": task.biz_num, "attempt": task.attempt}


def _data(tasks: Tasks) -> Fields:
    first = tasks[0]
    data = {"messaging.system": NAME, "messaging.destination.name": first.queue}
    if len(tasks) > 1:
        return {**data, "messaging.batch.message_count": len(tasks)}
    return {
        **data,
        "messaging.message.id": str(first),
        "messaging.message.retry.count": first.attempt - 1,
        "messaging.message.receive.latency": first.lateness * 1000,  # milliseconds
    }


def _capture(task: RunningTask, error: BaseException, level: str) -> None:
    options = sentry_sdk.get_client().options
    mechanism = {"type": NAME, "handled": False}
    event, hint = event_from_exception(error, client_options=options, mechanism=mechanism)
    event["level"] = level  # type: ignore[typeddict-item]
    with sentry_sdk.new_scope() as scope:
        scope.set_tags(_own_tags(task))  # one of a batch, perhaps
        scope.capture_event(event, hint=hint)


def _set_failed() -> None:
    transaction = sentry_sdk.get_current_scope().transaction
    if transaction is not None:
        transaction.set_status("internal_error")


def _without_line(event: Any, hint: Fields) -> Any:
    """Drop the event that the SDK makes of our line about a failure: it was captured already.

    The SDK drops most of these by itself, as the exception is the same.
    """
    record = hint.get("log_record")
    if getattr(record, "event", "") == "task_failed" and getattr(record, "name", "") == NAME:
        return None
    return event
