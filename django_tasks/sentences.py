"""Sentences for people, which show themselves in the language of the moment.

An error is made in one place and read in another: by a visitor of the admin in Chinese, by a log in
English. So its sentence is kept as it was written, with the values that it names, and put into a
language when somebody looks. As a value, ``==``, ``in`` and JSON of it, it is its English.

Django is asked for translations only then: a sentence can be made before it is set up, or without
it, and is English there.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_in_english: ContextVar[bool] = ContextVar("django_tasks_in_english", default=False)

# C0, DEL, C1, and the two by which Unicode ends a line: what begins a line, or steers a terminal.
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def plain(value: Any) -> str:
    """A value as one line: what would end it, or move the cursor, is written out."""
    text = "" if value is None else str(value)
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def on_a_line(text: str) -> str:
    """``text``; ``plain`` if there are control characters in it, which no new key may have."""
    return plain(text) if CONTROLS.search(text) else text


class Sentence(str):
    """A text in English that ``str()``, ``format()`` and ``%s`` turn into that of the language."""

    message: str
    plural: str
    number: int
    values: dict[str, Any]

    def __new__(cls, message: str, plural: str, number: int, values: dict[str, Any]) -> "Sentence":
        kept = {name: _kept(name, value, message) for name, value in values.items()}
        english = message if number == 1 or not plural else plural
        # ``join`` of str's own: without it the text would be of this class, and be translated.
        filled = (
            english % {name: _english(value) for name, value in kept.items()} if kept else english
        )
        self = super().__new__(cls, filled)
        self.message, self.plural, self.number, self.values = message, plural, number, kept
        return self

    @property
    def english(self) -> str:
        return "".join(self)

    def __str__(self) -> str:
        if _in_english.get():
            return self.english
        try:
            text = self._translated()
            return text % self.values if self.values else text
        # Before Django is set up, or with a translation whose placeholders are others: the words of
        # an error must not hide it behind another.
        except Exception:  # noqa: BLE001
            return self.english

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return Sentence, (self.message, self.plural, self.number, self.values)

    def _translated(self) -> str:
        from django.conf import settings
        from django.utils import translation

        if not settings.configured:  # nor shall they be read for this: they may be what is wrong
            return self.message if self.number == 1 or not self.plural else self.plural
        if self.plural:
            return translation.ngettext(self.message, self.plural, self.number)
        return translation.gettext(self.message)


def sentence(message: str, /, **values: Any) -> Sentence:
    """A sentence, with the values of its named placeholders. Import it as ``_``."""
    return Sentence(message, "", 1, values)


def counted(message: str, plural: str, number: int, /, **values: Any) -> Sentence:
    """A sentence about a number of things. Import it as ``ngettext_lazy``."""
    return Sentence(message, plural, number, values)


def said(error: BaseException) -> str:
    """The words of an error; a sentence of ours as such, and not in the language of now."""
    words = getattr(error, "sentence", None)
    if not isinstance(words, Sentence) and len(error.args) == 1:
        words = error.args[0]
    return words if isinstance(words, Sentence) else str(error)


@contextmanager
def in_english() -> Iterator[None]:
    """Show sentences of ours in English meanwhile: for the log, and for what is stored."""
    token = _in_english.set(True)
    try:
        yield
    finally:
        _in_english.reset(token)


class Shown:
    """The text of a value, where the value itself would be kept alive, or change, or not pickle."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _kept(name: str, value: Any, message: str) -> Any:
    if type(value) in (str, int, float, Sentence):
        return value
    if f"%({name})r" in message:
        return Shown(repr(value))
    return said(value) if isinstance(value, BaseException) else Shown(str(value))


def _english(value: Any) -> Any:
    return value.english if isinstance(value, Sentence) else value
