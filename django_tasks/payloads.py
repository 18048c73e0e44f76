"""The payload between Python and its JSON text, by the encoder and the decoder of the settings."""

from json import JSONDecoder, JSONEncoder
from typing import Any

from django_tasks.conf import options
from django_tasks.values import payload


def encoded(value: Any, field: str = "biz_ext") -> str | None:
    """A payload as JSON text, None for None. Raises TaskTypeError and TaskValueError."""
    wishes = options()
    return payload.dump(value, wishes.payload_limit, wishes.payload_encoder, field)


def decoded(text: str | None) -> Any:
    """The payload of a JSON text, None for None; ValueError if it is broken."""
    wanted = options().payload_decoder
    # json keeps one decoder of its own kind ready: that takes half of the time.
    return payload.load(text, None if wanted is JSONDecoder else wanted)


def encoder(**manners: Any) -> JSONEncoder:
    """An encoder as json makes one. The settings are read then: a model is made before them."""
    return options().payload_encoder(**manners)


def decoder(**manners: Any) -> JSONDecoder:
    """A decoder as json makes one."""
    return options().payload_decoder(**manners)
