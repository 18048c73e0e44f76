"""Terms of the reference, read in the same way by the site and by the tests of its pages."""

from itertools import takewhile

from docutils import nodes

# Before the type of what a function answers.
ARROW = "→"


def before_arrow(term: nodes.Node) -> list[nodes.Node]:
    """The parts of a term without the type of the answer."""
    return list(takewhile(lambda part: ARROW not in part.astext(), term.children))
