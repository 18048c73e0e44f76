"""Passwords out of a text: by what stands around them, and by what they are. No Django.

Masked by their surroundings: the password of ``scheme://user:password@host``, and the value of
``password=…``, ``'PASSWORD': '…'``, ``token: …`` and their kin. When in doubt it is masked: an
error that says too little costs a look at the log, a password that is read costs more.

Every pattern goes over a text once. Each repetition ends at a character that begins the next
match, or has a bound: error texts may be megabytes long, and made by strangers.
"""

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import quote, quote_plus

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
    """As it is, and inside a Python text, a JSON text and a URL."""
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
