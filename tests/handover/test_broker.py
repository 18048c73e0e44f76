"""Messages for Celery, by a broker in memory, and by brokers that are not there."""

import socket
import sys
from collections.abc import Iterator
from typing import Any

import celery.app
import pytest
from celery import Celery
from kombu.exceptions import OperationalError

from django_tasks.exceptions import HandlerError, TaskTimeout, TaskValueError
from django_tasks.handover import broker
from django_tasks.handover.broker import BrokerCall, application, is_confirmed, send
from tests.handover.parts import app, received


def a_call(*args: Any, **options: Any) -> BrokerCall:
    return BrokerCall("shop.cancel", args, {"number": 42}, "cancel:42:7", options)


def an_app(url: str, **settings: Any) -> Celery:
    return Celery("other", broker=url, set_as_current=False, changes=settings)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port at which nobody listens, and nobody will."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


# Messages


def test_a_message_has_the_name_the_arguments_and_the_id() -> None:
    send(app, a_call(1, 2))
    (message,) = received()
    assert message.headers["task"] == "shop.cancel"
    assert message.headers["id"] == message.properties["correlation_id"] == "cancel:42:7"
    assert message.payload[:2] == [[1, 2], {"number": 42}]


def test_a_message_goes_to_the_queue_that_the_options_name() -> None:
    send(app, a_call(queue="mail", priority=5))
    (message,) = received("mail")
    assert message.properties["priority"] == 5
    assert received() == []


def test_arguments_that_cannot_be_serialized_are_a_bad_value() -> None:
    with pytest.raises(TaskValueError, match="arguments cannot be sent"):
        send(app, a_call({1, 2, object()}))
    assert received() == []


# Brokers that are not there


def test_a_broker_that_is_down_is_an_error_after_one_try(
    closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []
    connect = socket.socket.connect

    def counting(self: socket.socket, address: Any) -> None:
        tried.append(address[1])
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", counting)
    with pytest.raises(OperationalError):
        send(an_app(f"amqp://127.0.0.1:{closed_port}//"), a_call())
    assert tried == [closed_port]


def test_a_broker_that_says_nothing_is_an_error_in_time(silent_port: int) -> None:
    quick = an_app(f"amqp://127.0.0.1:{silent_port}//", broker_connection_timeout=0.1)
    with pytest.raises(OperationalError):
        send(quick, a_call())


def test_each_broker_of_several_is_tried(closed_port: int) -> None:
    reached: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(10)
        url = f"amqp://127.0.0.1:{closed_port}//;amqp://127.0.0.1:{other.getsockname()[1]}//"
        with pytest.raises(OperationalError):
            send(an_app(url, broker_connection_timeout=0.1), a_call())
        connection, _ = other.accept()
        with connection:
            reached.append(len(connection.recv(8)))
    assert reached == [8]


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """Errors that the next calls of ``send_task`` end with, once the message is out."""
    errors: list[BaseException] = []
    sending = app.send_task

    def send_task(*args: Any, **kwargs: Any) -> None:
        sending(*args, **kwargs)
        if errors:
            raise errors.pop()

    monkeypatch.setattr(app, "send_task", send_task)
    return errors


def test_a_connection_that_was_kept_and_is_broken_is_replaced_at_once(
    breaking: list[BaseException],
) -> None:
    send(app, a_call())
    breaking.append(ConnectionResetError())
    send(app, a_call())
    assert [message.headers["id"] for message in received()] == ["cancel:42:7"] * 3


def test_a_new_connection_that_is_broken_is_an_error(breaking: list[BaseException]) -> None:
    with app.producer_or_acquire() as producer:
        producer.connection.collect()
    breaking.append(ConnectionResetError())
    with pytest.raises(ConnectionResetError):
        send(app, a_call())
    assert len(received()) == 1


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_call_that_took_too_long_is_not_made_again(
    breaking: list[BaseException], wrapped: bool
) -> None:
    error: Exception = TaskTimeout("after 5 s")
    if wrapped:  # as Kombu does to every OSError
        wrapper = OperationalError("after 5 s")
        wrapper.__cause__, error = error, wrapper
    send(app, a_call())
    breaking.append(error)
    with pytest.raises(type(error)):
        send(app, a_call())
    assert len(received()) == 2


def test_a_connection_on_which_a_call_was_interrupted_is_not_used_again(
    breaking: list[BaseException],
) -> None:
    send(app, a_call())
    with app.producer_or_acquire() as producer:
        kept = producer.connection
        assert kept.connected
    breaking.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        send(app, a_call())
    assert not kept.connected


# The application


def test_an_application_is_given_or_named() -> None:
    assert application(app) is app
    assert application("tests.handover.parts.app") is app


def test_a_path_to_something_else_is_refused_with_it() -> None:
    with pytest.raises(HandlerError, match=r"'tests\.handover\.parts\.received' is no Celery app"):
        application("tests.handover.parts.received")
    with pytest.raises(HandlerError, match=r"'tests\.handover\.parts' has no 'nothing'"):
        application("tests.handover.parts.nothing")


def test_the_projects_own_is_the_celery_app_beside_its_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules["testproject"], "celery_app", app, raising=False)
    assert application(None) is app


def test_without_one_it_is_the_default_application(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(celery.app, "default_app", app)
    assert application(None) is app


def test_the_one_that_celery_makes_itself_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Celery("default", set_as_current=False)
    monkeypatch.setattr(celery.app, "default_app", made)
    with pytest.raises(HandlerError, match="there is no Celery application: give celery_app"):
        application(None)


def test_without_celery_a_handler_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "celery", None)
    with pytest.raises(HandlerError, match="Celery is not installed"):
        application(app)


def test_a_celery_that_waits_without_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(celery, "__version__", "5.4.0")
    with pytest.raises(HandlerError, match=r"Celery 5\.4\.0 is too old"):
        application(app)


# Confirms


@pytest.mark.parametrize(
    ("url", "options", "expected"),
    [
        ("amqp://", {}, False),
        ("amqp://", {"confirm_publish": True}, True),
        ("memory://", {}, True),
    ],
)
def test_only_brokers_of_amqp_have_to_be_asked_to_confirm(
    url: str, options: dict[str, Any], expected: bool
) -> None:
    assert is_confirmed(an_app(url, broker_transport_options=options)) is expected


def test_every_wait_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr(app, "send_task", lambda **options: seen.update(options))
    send(app, a_call())
    assert (seen["timeout"], seen["confirm_timeout"]) == (broker.ANSWER_SECONDS,) * 2
    assert seen["retry"] is False
