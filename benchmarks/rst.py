"""reStructuredText, as the pages have it."""

import csv
import io
from collections.abc import Iterable, Sequence
from textwrap import fill, indent


def wrapped(words: str) -> str:
    return fill(words, 100, break_long_words=False, break_on_hyphens=False)


def heading(title: str) -> str:
    return f"\n{title}\n{'=' * len(title)}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with one line for each of its rows."""
    found = io.StringIO()
    csv.writer(found, lineterminator="\n").writerows([heads, *rows])
    return f".. csv-table::\n   :header-rows: 1\n\n{indent(found.getvalue(), '   ').rstrip()}"
