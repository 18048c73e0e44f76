"""Redaction: passwords and this project's secrets out of an error's text.

Masked by their surroundings: the password of ``scheme://user:password@host``, and the value of
``password=…``, ``'PASSWORD': '…'``, ``token: …`` and their kin. Masked by what they are: the values
of settings that Django's error reports hide, by the same names, those included that a project's own
``DEFAULT_EXCEPTION_REPORTER_FILTER`` adds. When in doubt it is masked: an error that says too
little costs a look at the log, a password that is read costs more.

Every pattern goes over a text once. Each repetition ends at a character that begins the next
match, or has a bound: error texts may be megabytes long, and made by strangers.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import Any
from urllib.parse import quote, quote_plus

from django.conf import settings
from django.core.signals import setting_changed

from django_tasks.sentences import sentence as _

# In place of the error of a library, which quotes the part of it that is no port: of a password.
BAD_URL = _(
    "it is no URL: its port is no number, or its password has an @, : or / that is not quoted"
)

MASK = "********"

# Shorter values are not looked for: masking every "a" or "tasks" would leave no readable text.
# Where a short password stands in a URL or behind its name it is masked all the same.
SHORTEST = 6
# Shorter ones are masked as whole words only: "postgres" is not "django.db.backends.postgresql".
ANYWHERE = 12

# The last @ ends the password, which may hold more of them, and slashes, if nobody has quoted it.
# Two slashes behind a colon begin the next URL; blanks, double quotes and brackets end any.
_IN_URL = re.compile(
    r"""(://[^\s/:@"<>]*:)[^\s:"<>]*(?::(?!//)[^\s:"<>]*)*@""",
)

# Every name that is looked for has one of these in it.
_HINTS = ("pass", "pwd", "secret", "token", "credential", "authorization", "key")
_WORD = (
    r"(?:pass(?:word|wd|phrase|code)|pwd|secret|token|credential|authorization"
    r"|(?:api|access|private|signing|encryption)[_-]?key)"
)
# What stands between a name and its value: an equals sign, not two; or a colon behind a quoted
# name, as in a dict, or behind a whole word, so that "InvalidToken: no" keeps its reason.
_BEFORE = (
    rf"(?:{_WORD}[\w-]{{0,40}}(?:\\{{0,3}}[\"'])?\]?[ \t]{{0,4}}=(?![=~])>?"
    rf"|{_WORD}[\w-]{{0,40}}\\{{0,3}}[\"'][ \t]{{0,4}}:"
    rf"|(?<![a-z]){_WORD}s?(?:[_-][\w-]{{0,40}})?[ \t]{{0,4}}:(?!:))[ \t]{{0,4}}"
)
# Words in the place of a value that tell much and betray nothing: MySQL's "(using password: YES)".
_HARMLESS = r"(?!(?:yes|no|none|null|true|false)(?![^\s,;)\]}]))"
# A text in quotes that may stand behind r, b or f, or in quotes within quotes; all that brackets
# hold; or what goes on until a blank or an ampersand. What is not closed ends with its line.
_VALUE = (
    r"""(?:[bfru]{0,2}"[^"\\\n]*(?:\\.[^"\\\n]*)*"?"""
    r"""|[bfru]{0,2}'[^'\\\n]*(?:\\.[^'\\\n]*)*'?"""
    r"""|\\{1,3}["'][^"'\\\n]*(?:\\{1,3}["'])?"""
    r"""|[\[({][^\])}\n]*[\])}]?"""
    r"""|(?:basic|bearer|digest|token)[ ]{1,4}[^\s&]+"""
    r"""|[^\s&]+)"""
)
_BY_NAME = re.compile(rf"({_BEFORE}){_HARMLESS}({_VALUE})", re.IGNORECASE)

# Names that Django's pattern takes for secret, while their values stand in every second path and
# message; also those of CACHES.
_PUBLIC = {"AUTH_USER_MODEL", "CACHE_MIDDLEWARE_KEY_PREFIX", "KEY_PREFIX", "KEY_FUNCTION"}
_DEEPEST = 10

# Masking a text of many megabytes would hold up a worker's heartbeat.
_LONGEST = 100_000
# The cut may go through a secret, which is then not recognised: so far from it nothing is kept.
_MARGIN = 10_000


# The public functions


def without_secrets(text: str) -> str:
    """``text`` with passwords and this project's secrets masked. Raises nothing."""
    return masked(text, _secrets())


def redacted_head(text: str, limit: int) -> str:
    """At most the first ``limit`` characters of ``text`` without its secrets."""
    safe = without_secrets(text[:_LONGEST])
    if len(text) > _LONGEST:
        safe = f"{safe[:-_MARGIN]}…"
    return safe if len(safe) <= limit else f"{safe[: limit - 1]}…"


def redacted_tail(text: str, limit: int) -> str:
    """At most the last ``limit`` characters of ``text`` without its secrets."""
    safe = without_secrets(text[-_LONGEST:])
    if len(text) > _LONGEST:
        safe = f"…{safe[_MARGIN:]}"
    return safe if len(safe) <= limit else f"…{safe[1 - limit :]}"


def masked(text: str, secrets: Iterable[str] = ()) -> str:
    """``text`` with MASK in the place of passwords and of the literal values of ``secrets``.

    Secrets shorter than SHORTEST are not looked for. Linear in the length of ``text``.
    """
    for form in _forms(tuple(secrets)):
        # Most texts hold none of them, and this search is many times faster than a pattern's.
        if form in text:
            text = _literal(form).sub(MASK, text)
    text = _IN_URL.sub(rf"\1{MASK}@", text)
    return "\n".join(map(_without_named, text.split("\n")))


# By their surroundings, and by their values


def _without_named(line: str) -> str:
    # Most lines hold no name, and these searches are forty times faster than the pattern's.
    lowered = line.lower()
    return _BY_NAME.sub(_hide, line) if any(hint in lowered for hint in _HINTS) else line


def _hide(match: re.Match[str]) -> str:
    """The name and MASK, in quotes if the value was."""
    before, value = match.groups()
    quotes = value[0] if value[0] in "\"'" else ""
    return f"{before}{quotes}{MASK}{quotes}"


@lru_cache(maxsize=4)
def _forms(secrets: tuple[str, ...]) -> list[str]:
    """The secrets as they may be written, the longest first: one may be a part of another."""
    long = [secret for secret in secrets if len(secret.strip()) >= SHORTEST]
    return sorted({form for secret in long for form in _written(secret)}, key=len, reverse=True)


def _written(secret: str) -> set[str]:
    in_url = {write(secret, safe="", errors="replace") for write in (quote, quote_plus)}
    in_json = {json.dumps(secret, ensure_ascii=escape)[1:-1] for escape in (True, False)}
    return {secret, repr(secret)[1:-1], *in_json, *in_url}


@lru_cache(maxsize=1024)
def _literal(secret: str) -> re.Pattern[str]:
    pattern = re.escape(secret)
    if len(secret) >= ANYWHERE:
        return re.compile(pattern)
    before, after = (r"\b" if re.match(r"\w", edge) else "" for edge in (secret[0], secret[-1]))
    return re.compile(f"{before}{pattern}{after}")


# The values of this project


@cache
def _secrets() -> tuple[str, ...]:
    hidden = _hidden_names()
    names = dir(settings)
    # The object behind it gives everything as it is; settings itself refuses an empty SECRET_KEY
    # and warns of what is deprecated.
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
    """Tell if a text is the dotted path of a class, as in AUTHENTICATION_BACKENDS."""
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


setting_changed.connect(_forget, dispatch_uid="django_tasks.redaction")
