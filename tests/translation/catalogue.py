"""Catalogues as they are read by tests."""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import polib

from devtools import translations

LANGUAGE = "zh_Hans"
KEPT = translations.catalogue(LANGUAGE)

_NAMED = re.compile(r"%\(\w+\)[-+#0-9.]*[a-zA-Z]")


class Message(NamedTuple):
    """One text of the code. Two that are alike have different contexts."""

    context: str | None
    text: str
    plural: str


class Entry(NamedTuple):
    """A message with its translation."""

    message: Message
    said: str
    flags: frozenset[str]

    @property
    def is_format(self) -> bool:
        return "python-format" in self.flags


def read(path: Path) -> dict[Message, Entry]:
    """All entries of a catalogue, those that are obsolete too."""
    found = [_entry(each) for each in polib.pofile(str(path))]
    return {each.message: each for each in found}


@cache
def kept() -> dict[Message, Entry]:
    """The Chinese catalogue of the package."""
    return read(KEPT)


def placeholders(text: str) -> set[str]:
    return set(_NAMED.findall(text))


def _entry(each: polib.POEntry) -> Entry:
    plural = each.msgid_plural or ""
    said = each.msgstr_plural[0] if plural else each.msgstr
    flags = {*each.flags, *(["obsolete"] if each.obsolete else [])}
    return Entry(Message(each.msgctxt, each.msgid, plural), said, frozenset(flags))
