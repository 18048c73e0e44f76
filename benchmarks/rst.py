"""reStructuredText, as the pages have it."""

from collections.abc import Iterable, Sequence
from textwrap import fill


def wrapped(words: str) -> str:
    return fill(words, 100, break_long_words=False, break_on_hyphens=False)


def heading(title: str) -> str:
    return f"\n{title}\n{'=' * len(title)}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = "\n".join(_row(row) for row in rows)
    return f".. list-table::\n   :header-rows: 1\n\n{_row(heads)}\n{lines}"


def _row(cells: Sequence[str]) -> str:
    first, *rest = cells
    return "\n".join([f"   * - {first}", *(f"     - {cell}" for cell in rest)])
