"""Long lines of code and wide tables, which are scrolled sideways, by the keyboard too."""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

SCROLLED = ("<pre>", '<div class="table-wrapper docutils container">')


def setup(app: Sphinx) -> None:
    app.connect("html-page-context", _make_reachable)


def _make_reachable(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    for tag in SCROLLED:
        if "body" in context:
            context["body"] = context["body"].replace(tag, f'{tag[:-1]} tabindex="0">')
