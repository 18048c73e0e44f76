"""A page's table of its own contents: on a forge there is none but this, on the site one too many.

The theme has such a table beside each page, and complains of a second one in the page itself.
"""

from docutils import nodes
from sphinx.application import Sphinx


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", _without_contents)


def _without_contents(app: Sphinx, doctree: nodes.document) -> None:
    removed = [topic for topic in doctree.findall(nodes.topic) if "contents" in topic["classes"]]
    for topic in removed:
        topic.parent.remove(topic)
    if removed:
        # The headings lead back to their lines in it.
        for title in doctree.findall(nodes.title):
            title.attributes.pop("refid", None)
