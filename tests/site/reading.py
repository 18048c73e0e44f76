"""The blocks of a page, with the comments before them that say how they are run."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import Directive, directives

# How a comment before a block begins, and what follows.
ORDERS = re.compile(
    r"(not run|run by|run on|exits with|times differ|keeps running)\b *(:?) *(.*)", re.DOTALL
)
# A comment that is about the whole page.
PAGE_ORDERS = re.compile(r"(continues|needs|project|begins with): *(.*)", re.DOTALL)
# The project of such a page is made by the commands that the page shows.
FROM_NOTHING = "from nothing"
NEARLY = re.compile(
    r"(not|never)[ -]run|times? diff|keeps? run|run (by|on)\b|exit(s|ed)?[ -](with|code)",
    re.IGNORECASE,
)
HEADING = re.compile(r"^# ([\w.-]+(?:/[\w.-]+)*\.\w+)$")
PROMPT = re.compile(r"^(\$|>>>) ", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of code of a page."""

    line: int
    language: str
    text: str
    orders: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The file that the first line names."""
        found = HEADING.match(self.text.partition("\n")[0])
        return found[1] if found else ""

    @property
    def is_run_here(self) -> bool:
        return not self.orders.keys() & {"not run", "run by"}


@dataclass
class Page:
    """The blocks of a page, its orders, and the problems with them."""

    path: Path
    blocks: list[Block] = field(default_factory=list)
    orders: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def complain(self, line: int | None, problem: str) -> None:
        self.problems.append(f"{self.path}:{line or 1}: {problem}")


def read(path: Path) -> Page:
    """Read a page; what is wrong with its markup is among its problems."""
    page = Page(path)
    tree = parse(path)
    for message in tree.findall(nodes.system_message):
        if "Unknown directive" in message.astext():
            page.complain(
                message.get("line"),
                f"{message.astext().splitlines()[0]} tests/site/reading.py must know it.",
            )
    used = {id(comment) for block in _literals(tree) for comment in _comments_before(block)}
    for literal in _literals(tree):
        page.blocks.append(_block(page, literal))
    for comment in tree.findall(nodes.comment):
        text = comment.astext().strip()
        if found := PAGE_ORDERS.fullmatch(text):
            page.orders[found[1]] = " ".join(found[2].split())
        elif id(comment) not in used and (ORDERS.match(text) or NEARLY.match(text)):
            page.complain(comment.line, f"The comment “{_short(text)}” is before no block.")
    return page


def _block(page: Page, literal: nodes.Element) -> Block:
    line = literal.get("at") or literal.line or 1
    orders = {}
    for comment in _comments_before(literal):
        text = comment.astext().strip()
        found = ORDERS.fullmatch(text)
        if found and bool(found[2]) == bool(found[3]):
            orders[found[1]] = " ".join(found[3].split())
        elif found or NEARLY.match(text):
            page.complain(line, f"The comment “{_short(text)}” is no order of tests/site.")
    language = literal.get("language", "")
    if isinstance(literal, nodes.doctest_block):
        language = "pycon"
    return Block(line, language, literal.astext(), orders)


def _literals(tree: nodes.document) -> Iterator[nodes.Element]:
    for node in tree.findall(nodes.Element):
        within_message = isinstance(node.parent, nodes.system_message)
        if isinstance(node, nodes.literal_block | nodes.doctest_block) and not within_message:
            yield node


def _comments_before(literal: nodes.Element) -> list[nodes.comment]:
    """The comments directly before a block."""
    siblings = literal.parent.children
    found: list[nodes.comment] = []
    for node in reversed(siblings[: siblings.index(literal)]):
        if isinstance(node, nodes.system_message):
            continue
        if not isinstance(node, nodes.comment):
            break
        found.append(node)
    return found


def _short(text: str) -> str:
    return " ".join(text.split())[:60]


class AnyOptions(dict[str, Any]):
    """Take every option as a text."""

    def __bool__(self) -> bool:
        return True  # docutils looks for no options where there are none to know

    def __missing__(self, name: str) -> Any:
        return directives.unchanged


class Code(Directive):
    """A block of code that is not highlighted, and knows its line."""

    optional_arguments = 1
    has_content = True
    option_spec = AnyOptions()

    def run(self) -> list[nodes.Node]:
        text = "\n".join(self.content)
        language = self.arguments[0] if self.arguments else ""
        return [nodes.literal_block(text, text, language=language, at=self.lineno)]


class Nested(Directive):
    """A directive of Sphinx whose content is text as usual."""

    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec = AnyOptions()

    def run(self) -> list[nodes.Node]:
        node = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, node)
        return [node]


class Nothing(Nested):
    """A directive of Sphinx whose content is no text."""

    def run(self) -> list[nodes.Node]:
        return []


OF_SPHINX: dict[str, type[Directive]] = {
    **dict.fromkeys(("code-block", "code", "sourcecode"), Code),
    **dict.fromkeys(
        ("versionadded", "versionchanged", "deprecated", "seealso", "only", "glossary"),
        Nested,
    ),
    **dict.fromkeys(
        ("toctree", "highlight", "literalinclude", "graphviz", "index", "tags"),
        Nothing,
    ),
}


def parse(path: Path) -> nodes.document:
    known = directives._directives  # type: ignore[attr-defined]
    before = dict(known)
    known.update(OF_SPHINX)
    try:
        return publish_doctree(
            path.read_text(encoding="utf-8"),
            source_path=str(path),
            settings_overrides={
                "report_level": 5,
                "halt_level": 5,
                "file_insertion_enabled": False,
                "raw_enabled": False,
                "_disable_config": True,
            },
        )
    finally:
        known.clear()
        known.update(before)
