"""System checks of handlers that hand over to Celery; those of TASKS are beside its tests."""

from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery
from django.core.checks import CheckMessage

from django_tasks.api import HandOver
from django_tasks.checks.project import check_names
from django_tasks.handover.checks import check_hand_over
from tests.handover.parts import app

Handlers = Callable[..., None]

AMQP = Celery("amqp", broker="amqp://", set_as_current=False)
CONFIRMING = Celery(
    "confirming",
    broker="amqp://",
    set_as_current=False,
    changes={"broker_transport_options": {"confirm_publish": True}},
)


def heard(handlers: Handlers, **attributes: Any) -> list[CheckMessage]:
    """Messages about a handler with these attributes."""
    handlers(type("Cancel", (HandOver,), {"biz_code": "cancel", **attributes}))
    return check_hand_over()


def ids(messages: list[CheckMessage]) -> list[str]:
    return [str(message.id).removeprefix("django_tasks.") for message in messages]


@pytest.mark.parametrize("named", [app, "tests.handover.parts.app", CONFIRMING])
def test_a_handler_that_can_hand_over_hears_nothing(handlers: Handlers, named: Any) -> None:
    assert heard(handlers, celery_task="shop.cancel", celery_app=named) == []


@pytest.mark.parametrize(
    ("attributes", "sentence"),
    [
        ({}, "it needs one of to and celery_task"),
        ({"to": "shop.tasks.cancel", "celery_task": "x"}, "it needs one of to and celery_task"),
        ({"celery_task": "x", "celery_app": "no.such.app"}, "'no.such.app' cannot be imported"),
        ({"celery_task": "x", "celery_app": "app"}, "a dotted path is wanted, not 'app'"),
        ({"celery_task": len}, "celery_task must be the name of a Celery task, not <built-in"),
        ({"celery_task": "x", "celery_app": 5}, "5 is no Celery application"),
    ],
)
def test_e010_says_why_a_handler_cannot_hand_over(
    handlers: Handlers, attributes: dict[str, Any], sentence: str
) -> None:
    (error,) = heard(handlers, **attributes)
    assert error.id == "django_tasks.E009"
    assert "The handler of 'cancel' (tests.handover.test_checks.Cancel) cannot" in error.msg
    assert sentence in error.msg
    assert error.is_serious()


@pytest.mark.parametrize("scheme", ["pigeon", "no.such.transport", "json.none", "etcd"])
def test_e010_speaks_of_a_transport_that_is_not_there(handlers: Handlers, scheme: str) -> None:
    broken = Celery("broken", broker=f"{scheme}://", set_as_current=False)
    (error,) = heard(handlers, celery_task="shop.cancel", celery_app=broken)
    assert error.id == "django_tasks.E009"
    assert "its broker's transport cannot be used" in error.msg


@pytest.mark.parametrize("address", ["u:secret", "u:secret@h:port//", "u:secret@[::1//"])
def test_e010_says_no_part_of_a_url_that_cannot_be_read(handlers: Handlers, address: str) -> None:
    broken = Celery("broken", broker=f"amqp://{address}", set_as_current=False)
    (error,) = heard(handlers, celery_task="shop.cancel", celery_app=broken)
    assert "it is no URL: its port is no number" in error.msg
    assert "secret" not in error.msg


def test_w008_knows_the_attributes_of_a_handler_that_hands_over(handlers: Handlers) -> None:
    attributes = {"celery_task": "shop.cancel", "celery_app": app, "celery_opptions": {}}
    assert heard(handlers, **attributes) == []
    (warning,) = check_names()
    assert "Did you mean 'celery_options'?" in str(warning.hint)


def test_w010_says_that_a_message_is_no_part_of_a_transaction(handlers: Handlers) -> None:
    (warning,) = heard(handlers, celery_task="shop.cancel", celery_app=app, atomic=True)
    assert warning.id == "django_tasks.W010"
    assert "hands over to Celery" in warning.msg


def test_w011_asks_for_the_confirms_of_an_amqp_broker(handlers: Handlers) -> None:
    (warning,) = heard(handlers, celery_task="shop.cancel", celery_app=AMQP)
    assert warning.id == "django_tasks.W011"
    assert warning.hint == "Set Celery's broker_transport_options = {'confirm_publish': True}."


def test_both_warnings_are_given(handlers: Handlers) -> None:
    found = heard(handlers, celery_task="shop.cancel", celery_app=AMQP, atomic=True)
    assert ids(found) == ["W010", "W011"]
