"""The payload, ``biz_ext``: JSON text that every supported database stores alike. No Django."""

import json
import re
import sys
from decimal import Decimal
from typing import Any

from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.sentences import sentence as _

# MariaDB's CHECK (json_valid(…)) refuses 32 levels and more.
DEEPEST = 31
# MySQL makes floats of other whole numbers, in silence, and takes no longer key, in bytes.
LEAST, MOST = -(2**63), 2**64 - 1
LONGEST_KEY = 65_535
_MANY_DIGITS = re.compile("[0-9]{19}")

# json.dumps writes NUL as \u0000; an even run of backslashes before it means a plain text
# "\u0000" instead. PostgreSQL's jsonb cannot hold the character.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
# What PostgreSQL would change, and the texts, where it means nothing.
_FLOATS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|-?[0-9.]+e\+[0-9]+|-0\.0(?![0-9])')


def dump(
    value: Any,
    limit: int,
    encoder: type[json.JSONEncoder] = json.JSONEncoder,
    field: str = "biz_ext",
) -> str | None:
    """``value`` as JSON text, or None for None (stored as NULL). ``field`` is named in errors.

    Raises TaskTypeError for what JSON has no word for, TaskValueError for NaN, infinities, NUL,
    lone surrogates, whole numbers beyond 64 bits, keys of more than 65,535 bytes, more than 31
    levels, or more than ``limit`` bytes of UTF-8.
    """
    if value is None:
        return None
    text = portable(_dumped(field, value, encoder))
    if _writes_its_own(encoder):  # it may write anything, and shorter than json does
        dump(_loaded(field, value, text), sys.maxsize, field=field)
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
    is_nested = text.count("[") + text.count("{") > DEEPEST
    if is_nested or size > LONGEST_KEY or _MANY_DIGITS.search(text):
        _look_inside(field, value, text)
    return text


def _writes_its_own(encoder: type[json.JSONEncoder]) -> bool:
    usual = json.JSONEncoder
    return encoder.encode is not usual.encode or encoder.iterencode is not usual.iterencode


def portable(text: str) -> str:
    """A JSON text of json's in which no database changes a number.

    PostgreSQL's jsonb makes whole numbers of floats with an exponent, and knows no negative zero:
    so it is none anywhere.
    """
    return _FLOATS.sub(_in_full, text) if "e+" in text or "-0.0" in text else text


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


def _in_full(found: re.Match[str]) -> str:
    token = found[0]
    if token[0] == '"':
        return token
    return f"{Decimal(token):f}.0" if "e" in token else "0.0"


def _loaded(field: str, value: Any, text: str, **hooks: Any) -> Any:
    try:
        return json.loads(text, **hooks)
    except TaskValueError:
        raise
    except Exception as error:  # noqa: BLE001 - it is a project's, or too deep for json
        raise TaskValueError(field, value, _("is not JSON (%(error)s)", error=error)) from None


def _look_inside(field: str, value: Any, text: str) -> None:
    """Raise TaskValueError for depth, numbers and keys that some database does not take."""

    def whole(digits: str) -> int:
        if LEAST <= (number := int(digits)) <= MOST:
            return number
        problem = _("has a whole number beyond 64 bits; give it as a text")
        raise TaskValueError(field, value, problem)

    def checked(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if any(len(key.encode()) > LONGEST_KEY for key, _value in pairs):
            problem = _("has a key of more than %(longest)s bytes", longest=LONGEST_KEY)
            raise TaskValueError(field, value, problem)
        return dict(pairs)

    loaded = _loaded(field, value, text, parse_int=whole, object_pairs_hook=checked)
    if _deeper_than(loaded, DEEPEST):
        raise TaskValueError(
            field, value, _("is nested more than %(deepest)s levels deep", deepest=DEEPEST)
        )


def _deeper_than(value: Any, levels: int) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return False
    return levels == 0 or any(_deeper_than(item, levels - 1) for item in value)
