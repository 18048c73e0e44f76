"""The payload between Python and its JSON text, by the encoder and the decoder of the settings."""

from json import JSONDecoder
from typing import Any

from django_tasks.conf import options
from django_tasks.exceptions import TaskValueError
from django_tasks.sentences import sentence as _
from django_tasks.values import payload_text


def encoded(value: Any, field: str = "biz_ext") -> str | None:
    """A payload as JSON text, None for None. Raises TaskTypeError and TaskValueError."""
    wishes = options()
    text = payload_text.dump(value, wishes.payload_limit, wishes.payload_encoder, field)
    if wishes.payload_decoder is not JSONDecoder:
        try:
            decoded(text)  # before it is stored: nobody could read the task
        except Exception as error:  # noqa: BLE001 - a project's decoder may raise anything
            raise TaskValueError(
                field, value, _("cannot be read back (%(error)r)", error=error)
            ) from None
    return text


def decoded(text: str | None) -> Any:
    """The payload of a JSON text, None for None; ValueError if it is broken."""
    wanted = options().payload_decoder
    # json keeps one decoder of its own kind ready: that takes half of the time.
    return payload_text.load(text, None if wanted is JSONDecoder else wanted)


class _Encoder:
    """An encoder as json asks for one; writes what every database keeps alike."""

    def __init__(self, **manners: Any) -> None:
        self._own = options().payload_encoder(**manners)

    def encode(self, value: Any) -> str:
        return payload_text.portable(self._own.encode(value))


def encoder(**manners: Any) -> _Encoder:
    """An encoder as json makes one. The settings are read then: a model is made before them."""
    return _Encoder(**manners)


def decoder(**manners: Any) -> JSONDecoder:
    """A decoder as json makes one."""
    return options().payload_decoder(**manners)
