"""The entries of a page of the reference: the rows of its tables, and its definitions."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docutils import nodes

from devtools.definitions import before_arrow
from tests.site.reading import parse


@dataclass(frozen=True)
class Entry:
    """A first cell or a definition term, and what stands beside it or below it.

    ``heads`` and ``words`` are the literals of the two; ``cells`` are the texts of a row.
    """

    section: str
    heads: tuple[str, ...]
    words: tuple[str, ...]
    cells: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The subject of the entry: its heads without their arguments."""
        return [head.lstrip("@").partition("(")[0].partition(" ")[0] for head in self.heads]


def entries(path: Path) -> list[Entry]:
    """The entries of a page, in no order."""
    tree = parse(path)
    return [*_rows(tree), *_definitions(tree)]


def paragraph(path: Path, section: str) -> tuple[str, ...]:
    """The literals of the first paragraph of a section."""
    (found,) = [each for each in parse(path).findall(nodes.section) if _title(each) == section]
    return _literals([next(found.findall(nodes.paragraph))])


def _rows(tree: nodes.document) -> Iterator[Entry]:
    for row in tree.findall(nodes.row):
        first, *others = row.children
        cells = tuple(" ".join(cell.astext().split()) for cell in row.children)
        yield Entry(_section(row), _literals([first]), _literals(others), cells)


def _definitions(tree: nodes.document) -> Iterator[Entry]:
    for item in tree.findall(nodes.definition_list_item):
        term, *others = item.children
        yield Entry(_section(item), _literals(before_arrow(term)), _literals(others))


def _literals(found: list[nodes.Node]) -> tuple[str, ...]:
    return tuple(each.astext() for node in found for each in node.findall(nodes.literal))


def _section(node: nodes.Node) -> str:
    while node is not None and not isinstance(node, nodes.section | nodes.document):
        node = node.parent
    return _title(node)


def _title(section: nodes.Node) -> str:
    return next((each.astext() for each in section.findall(nodes.title)), "")
