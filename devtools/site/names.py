"""The names that the reference explains: each is a target of its own, and stands in the index.

On a forge a page has no such targets; there the browser finds a name in the page.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.locale import _
from sphinx.transforms import SphinxTransform

from devtools.definitions import before_arrow

PAGES = "reference/"
CONTENTS = "reference/index"
NAME = re.compile(r"@?((?:--)?[A-Za-z_][\w.-]*)")


def setup(app: Sphinx) -> None:
    app.add_transform(Names)


class Names(SphinxTransform):
    """Runs when a page is translated, and before Sphinx collects what is for the index."""

    default_priority = 800

    def apply(self, **options: Any) -> None:
        page = self.env.docname
        self._met: set[str] = set()
        if page == CONTENTS:
            next(self.document.findall(nodes.section)).append(_to_the_index())
        elif page.startswith(PAGES):
            for literal in [*_in_terms(self.document), *_in_first_cells(self.document)]:
                self._mark(literal)

    def _mark(self, literal: nodes.literal) -> None:
        """Make the first literal of a name on a page its target, and put it into the index.

        A section may have the name already: then the index leads there.
        """
        found = NAME.match(literal.astext())
        if found is None or (name := found[1]) in self._met:
            return
        self._met.add(name)
        place = literal.parent.index(literal)
        if name not in self.document.ids:
            # Not an empty target before it: the search shows the text of the element.
            literal["ids"].append(name)
            self.document.ids[name] = literal
            literal.parent.insert(place + 1, _link(name))
        literal.parent.insert(place, addnodes.index(entries=[("single", name, name, "", None)]))


def _link(name: str) -> nodes.raw:
    title = _("Link to this definition")
    text = f'<a class="headerlink" href="#{name}" title="{title}">¶</a>'
    return nodes.raw("", text, format="html")


def _to_the_index() -> nodes.paragraph:
    words = nodes.inline("", _("Index"))
    link = addnodes.pending_xref(
        "", words, refdomain="std", reftype="ref", reftarget="genindex", refexplicit=True
    )
    return nodes.paragraph("", "", link)


def _in_terms(page: nodes.document) -> Iterator[nodes.literal]:
    for term in page.findall(nodes.term):
        yield from _literals(before_arrow(term))


def _in_first_cells(page: nodes.document) -> Iterator[nodes.literal]:
    for body in page.findall(nodes.tbody):
        for row in body.children:
            yield from _literals(row.children[:1])


def _literals(parts: Iterable[nodes.Node]) -> Iterator[nodes.literal]:
    for part in parts:
        yield from part.findall(nodes.literal)
