"""A language made by the tests, in which every message of ours stands in brackets.

The rest is German, as Django has it. A word outside of brackets that is neither German nor data is
one that nobody can translate.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

from django.utils.translation import trans_real
from django.utils.translation.template import templatize

import django_tasks

LANGUAGE = "de"
OPEN, CLOSE = "⟦", "⟧"
PACKAGE = Path(django_tasks.__file__).parent
WORD = re.compile(r"[^\W\d_]{2,}")
_CALL = re.compile(r"\b(?:n|p|np)?gettext\(")


class Message(NamedTuple):
    """A message as ``makemessages`` finds it."""

    text: str
    plural: str = ""
    context: str = ""


# How many texts each marker takes, and whether the first of them is a context.
_MARKERS = {
    "gettext": (1, False),
    "gettext_lazy": (1, False),
    "_": (1, False),
    "ngettext": (2, False),
    "ngettext_lazy": (2, False),
    "pgettext": (2, True),
    "pgettext_lazy": (2, True),
    "npgettext": (3, True),
    "npgettext_lazy": (3, True),
}


@cache
def messages() -> frozenset[Message]:
    """All that is marked in the package: in its modules and in its templates."""
    return frozenset((*_of_modules(), *_of_templates()))


def _of_modules() -> Iterator[Message]:
    for path in PACKAGE.rglob("*.py"):
        yield from _marked(ast.parse(path.read_text("utf-8")), str(path))


def _of_templates() -> Iterator[Message]:
    for path in PACKAGE.rglob("*.html"):
        code = templatize(path.read_text("utf-8"), origin=str(path))
        for match in _CALL.finditer(code):
            yield from _marked(_call_at(code, match.start()), str(path))


def _call_at(code: str, start: int) -> ast.AST:
    """The call that begins there; its end is the first at which it can be read."""
    for match in re.finditer(r"\)", code[start:]):
        try:
            return ast.parse(code[start : start + match.end()].strip())
        except SyntaxError:
            continue
    raise AssertionError(code[start : start + 100])


def _marked(tree: ast.AST, place: str) -> Iterator[Message]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if (found := _MARKERS.get(node.func.id)) is None:
            continue
        count, has_context = found
        texts = [str(each.value) for each in node.args[:count] if isinstance(each, ast.Constant)]
        assert len(texts) == count, f"{place}: {ast.unparse(node)} marks no constant"
        context = texts.pop(0) if has_context else ""
        yield Message(texts[0], "".join(texts[1:]), context)


def install() -> None:
    """Put the brackets into the language, as Django has it at the moment."""
    catalog: Any = trans_real.translation(LANGUAGE)._catalog  # type: ignore[attr-defined]
    for each in messages():
        key = f"{each.context}\x04{each.text}" if each.context else each.text
        catalog[key] = f"{OPEN}{each.text}{CLOSE}"
        if each.plural:
            del catalog._catalogs[0][key]
            for number, text in enumerate((each.text, each.plural)):
                catalog[key, number] = f"{OPEN}{text}{CLOSE}"


@cache
def german() -> frozenset[str]:
    """The words of Django's own pages."""
    catalog: Any = trans_real.DjangoTranslation(LANGUAGE)._catalog  # type: ignore[attr-defined]
    texts = (text for each in catalog._catalogs for text in each.values())
    return frozenset(word.lower() for text in texts for word in WORD.findall(text))


class Texts(HTMLParser):
    """All that a person reads, or hears, of a page: its texts and its titles."""

    ATTRIBUTES = ("title", "aria-label", "placeholder", "alt")

    def __init__(self, body: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self._silent = 0
        self.feed(body)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._silent += tag in ("script", "style", "textarea")
        self.found += [given[name] or "" for name in self.ATTRIBUTES if name in given]
        if tag == "input" and given.get("type") in ("submit", "button", "reset"):
            self.found.append(given.get("value") or "")

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in ("script", "style", "textarea")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.found.append(data)


def read(page: Any) -> str:
    """The texts of a response."""
    return "\n".join(Texts(page.content.decode()).found)


def outside(text: str) -> str:
    """All that stands in no brackets."""
    kept, depth = [], 0
    for each in text:
        depth += each == OPEN
        if not depth:
            kept.append(each)
        elif each == CLOSE:
            depth -= 1
            kept.append(" ")
    assert not depth, f"brackets that were cut: {text[-300:]}"
    return "".join(kept)


def unmarked(text: str, data: Iterable[str] = ()) -> set[str]:
    """The words outside of brackets that are neither German nor ``data``."""
    rest = outside(text)
    for each in sorted(data, key=len, reverse=True):
        rest = rest.replace(each, " ")
    return {word for word in WORD.findall(rest) if word.lower() not in german()}
