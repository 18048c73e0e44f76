"""The payload, ``biz_ext``: JSON text that every supported database stores alike. No Django."""

import json
import re
from typing import Any

from django_tasks.exceptions import TaskTypeError, TaskValueError

# MariaDB's CHECK (json_valid(…)) refuses 32 levels and more.
DEEPEST = 31

# json.dumps writes NUL as \u0000; an even run of backslashes before it means a plain text
# "\u0000" instead. PostgreSQL's jsonb cannot hold the character.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def dump(value: Any, limit: int) -> str | None:
    """``value`` as JSON text, or None for None (stored as NULL).

    Raises TaskTypeError for what JSON has no word for, TaskValueError for NaN, infinities, NUL,
    lone surrogates, more than 31 levels, or more than ``limit`` bytes of UTF-8.
    """
    if value is None:
        return None
    text = _dumped(value)
    if _NUL.search(text):
        raise TaskValueError("biz_ext", value, "must not contain NUL characters")
    if (size := _size(value, text)) > limit:
        raise TaskValueError(
            "biz_ext", value, f"is {size} bytes of JSON, more than the limit of {limit}"
        )
    if _deeper_than(value, DEEPEST):
        raise TaskValueError("biz_ext", value, f"is nested more than {DEEPEST} levels deep")
    return text


def load(text: str | None) -> Any:
    """The value that ``text`` (JSON, or None for NULL) stands for; ValueError if it is broken."""
    return None if text is None else json.loads(text)


def same(text: str, other: str | None) -> bool:
    """Tell if two JSON texts mean the same; 1, 1.0 and true do not, order and blanks do."""
    if text == other:
        return True
    one, two = (json.dumps(load(each), sort_keys=True) for each in (text, other))
    return one == two


def _dumped(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except TypeError as error:
        raise TaskTypeError("biz_ext", value, f"is not JSON ({error})") from None
    except (ValueError, RecursionError) as error:
        raise TaskValueError("biz_ext", value, f"is not JSON ({error})") from None


def _size(value: Any, text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise TaskValueError("biz_ext", value, "must not contain lone surrogates") from None


def _deeper_than(value: Any, levels: int) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, (list, tuple)):
        return False
    return levels == 0 or any(_deeper_than(item, levels - 1) for item in value)
