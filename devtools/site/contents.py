"""A page's table of its own contents: on a forge there is none but this, on the site one too many.

The theme has such a table beside each page, and complains of a second one in the page itself.
"""

from docutils import nodes
from sphinx.application import Sphinx


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", _without_contents)


def _without_contents(app: Sphinx, doctree: nodes.document) -> None:
    for topic in list(doctree.findall(nodes.topic)):
        if "contents" in topic["classes"]:
            topic.parent.remove(topic)
