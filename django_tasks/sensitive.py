"""Which values of this project nobody may read in an error's text.

Django's error reports hide settings by their names; the same names count here, those that a
project's own ``DEFAULT_EXCEPTION_REPORTER_FILTER`` adds included.
"""

import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

from django.conf import settings
from django.core.signals import setting_changed

from django_tasks.masking import masked

# Names that Django's pattern takes for secret, while their values stand in every second path and
# message; also those of CACHES.
_PUBLIC = {"AUTH_USER_MODEL", "CACHE_MIDDLEWARE_KEY_PREFIX", "KEY_PREFIX", "KEY_FUNCTION"}
_DEEPEST = 10

# Masking a text of many megabytes would hold up a worker's heartbeat.
_LONGEST = 100_000
# The cut may go through a secret, which is then not recognised: so far from it nothing is kept.
_MARGIN = 10_000


def without_secrets(text: str) -> str:
    """``text`` with passwords and this project's secrets masked. Raises nothing."""
    return masked(text, _secrets())


def beginning(text: str, limit: int) -> str:
    """At most the first ``limit`` characters of ``text`` without its secrets."""
    safe = without_secrets(text[:_LONGEST])
    if len(text) > _LONGEST:
        safe = f"{safe[:-_MARGIN]}…"
    return safe if len(safe) <= limit else f"{safe[: limit - 1]}…"


def ending(text: str, limit: int) -> str:
    """At most the last ``limit`` characters of ``text`` without its secrets."""
    safe = without_secrets(text[-_LONGEST:])
    if len(text) > _LONGEST:
        safe = f"…{safe[_MARGIN:]}"
    return safe if len(safe) <= limit else f"…{safe[1 - limit :]}"


@cache
def _secrets() -> tuple[str, ...]:
    """The values of settings with a sensitive name, on whatever level of a dict or a list."""
    hidden = _hidden_names()
    names = dir(settings)
    # The object behind it gives everything as it is; settings itself refuses an empty SECRET_KEY
    # and warns of what is deprecated, whoever asks.
    source = settings._wrapped  # type: ignore[misc]
    found: set[str] = set()
    for name in filter(str.isupper, names):
        value = getattr(source, name, None)
        found.update(_texts(name, value, hidden, is_secret=False, levels=_DEEPEST))
    return tuple(sorted(found))


def _texts(
    name: object, value: Any, hidden: "re.Pattern[str]", *, is_secret: bool, levels: int
) -> Iterator[str]:
    """The secret texts of a value that stands under ``name``; all below a secret name are."""
    if name in _PUBLIC or not levels:
        return
    is_secret = is_secret or (isinstance(name, str) and hidden.search(name) is not None)
    kind = type(value)  # isinstance() would wake up a lazy object
    if issubclass(kind, bytes):
        value, kind = value.decode("utf-8", "replace"), str
    if issubclass(kind, str):
        if is_secret and not _is_code(value):
            yield str(value)
    elif issubclass(kind, dict):
        for key, item in value.items():
            yield from _texts(key, item, hidden, is_secret=is_secret, levels=levels - 1)
    elif issubclass(kind, (list, tuple, set, frozenset)):
        for item in value:
            yield from _texts("", item, hidden, is_secret=is_secret, levels=levels - 1)


def _is_code(value: str) -> bool:
    """Whether a text is the dotted path of a class, as in AUTHENTICATION_BACKENDS."""
    first, *rest = value.split(".")
    return bool(rest) and first in sys.modules and all(part.isidentifier() for part in rest)


def _hidden_names() -> "re.Pattern[str]":
    # Here and not above: the module builds a template engine, which most processes never need.
    from django.views import debug

    try:
        pattern = debug.get_default_exception_reporter_filter().hidden_settings
    except Exception:  # noqa: BLE001 - a broken filter must not lose the end of a run
        pattern = debug.SafeExceptionReporterFilter.hidden_settings
    # A lazy object of Django's, which has the pattern's methods.
    found: re.Pattern[str] = pattern
    return found


def _forget(**_: Any) -> None:
    _secrets.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_tasks.sensitive")
