"""The payload, ``biz_ext``: JSON text that every supported database stores alike. No Django."""

import json
import re
from typing import Any

from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.sentences import sentence as _

# MariaDB's CHECK (json_valid(…)) refuses 32 levels and more.
DEEPEST = 31

# json.dumps writes NUL as \u0000; an even run of backslashes before it means a plain text
# "\u0000" instead. PostgreSQL's jsonb cannot hold the character.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def dump(
    value: Any,
    limit: int,
    encoder: type[json.JSONEncoder] = json.JSONEncoder,
    field: str = "biz_ext",
) -> str | None:
    """``value`` as JSON text, or None for None (stored as NULL). ``field`` is named in errors.

    Raises TaskTypeError for what JSON has no word for, TaskValueError for NaN, infinities, NUL,
    lone surrogates, more than 31 levels, or more than ``limit`` bytes of UTF-8.
    """
    if value is None:
        return None
    text = _dumped(field, value, encoder)
    if "\\u0000" in text and _NUL.search(text):  # the pattern alone took most of the time
        raise TaskValueError(field, value, _("must not contain NUL characters"))
    if (size := _size(field, value, text)) > limit:
        raise TaskValueError(
            field,
            value,
            _(
                "is %(size)s bytes of JSON, more than the limit of %(limit)s",
                size=size,
                limit=limit,
            ),
        )
    # Of the text: an encoder may have made much of one object. With few brackets it is not deep.
    if text.count("[") + text.count("{") > DEEPEST and _deeper_than(json.loads(text), DEEPEST):
        raise TaskValueError(
            field, value, _("is nested more than %(deepest)s levels deep", deepest=DEEPEST)
        )
    return text


def load(text: str | None, decoder: type[json.JSONDecoder] | None = None) -> Any:
    """The value that ``text`` (JSON, or None for NULL) stands for; ValueError if it is broken."""
    return None if text is None else json.loads(text, cls=decoder)


def same(text: str, other: str | None) -> bool:
    """Tell if two JSON texts mean the same; 1, 1.0 and true do not, order and blanks do."""
    if text == other:
        return True
    one, two = (json.dumps(load(each), sort_keys=True) for each in (text, other))
    return one == two


def _dumped(field: str, value: Any, encoder: type[json.JSONEncoder]) -> str:
    try:
        return json.dumps(value, cls=encoder, ensure_ascii=False, allow_nan=False)
    except TypeError as error:
        raise TaskTypeError(field, value, _("is not JSON (%(error)s)", error=error)) from None
    except Exception as error:  # noqa: BLE001 - a project's encoder may raise anything
        raise TaskValueError(field, value, _("is not JSON (%(error)s)", error=error)) from None


def _size(field: str, value: Any, text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise TaskValueError(field, value, _("must not contain lone surrogates")) from None


def _deeper_than(value: Any, levels: int) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return False
    return levels == 0 or any(_deeper_than(item, levels - 1) for item in value)
