"""Relative links between files, as a forge follows them, become links of the site.

A link to a page is checked, and so is its anchor, the id of a section there. A file that is no page
is offered as a download; a folder is only named. If ``source_url`` is set, both are links to there.
"""

import os
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.nodes import get_node_source

# Sphinx notes the downloads of a page by the same event, with the priority 500.
BEFORE_SPHINX = 400

logger = logging.getLogger(__name__)


class Target(NamedTuple):
    """A file or a folder on this machine, and the part of it that a link names."""

    path: Path
    anchor: str


def setup(app: Sphinx) -> None:
    app.add_config_value("source_url", "", "env")
    app.add_config_value("pages_elsewhere", {}, "env")
    app.connect("doctree-read", _files, priority=BEFORE_SPHINX)
    app.connect("doctree-resolved", _pages)


def _files(app: Sphinx, doctree: nodes.document) -> None:
    """Turn links to files that are no pages into what the site has for them."""
    for node in list(doctree.findall(nodes.reference)):
        target = _target(app.env, app.env.docname, node)
        if target is None or _page(app, target.path):
            continue
        if not target.path.exists():
            _warn(f"the link {node['refuri']} leads to nothing", node)
        elif app.config.source_url:
            place = os.path.relpath(target.path, _root(app))
            node["refuri"] = f"{app.config.source_url.rstrip('/')}/{place}"
        elif target.path.is_file():
            place = os.path.relpath(target.path, app.srcdir)
            download = addnodes.download_reference(
                "", "", *node.children, refdoc=app.env.docname, reftarget=f"/{place}"
            )
            node.replace_self(download)
        else:
            node.replace_self(nodes.literal("", node.astext()))


def _pages(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Turn links to pages into links of the site; all pages have been read now."""
    anchors = _Anchors(app.env)
    for node in doctree.findall(nodes.reference):
        target = _target(app.env, docname, node)
        page = _page(app, target.path) if target else None
        if target is None or page is None:
            continue
        if target.anchor and target.anchor not in anchors.of(page):
            _warn(f"the page {page} has no anchor #{target.anchor}", node)
        uri = app.builder.get_relative_uri(docname, page)
        node["refuri"] = f"{uri}#{target.anchor}" if target.anchor else uri
        node["internal"] = True


class _Anchors:
    """The ids of the pages that links of one page name."""

    def __init__(self, env: BuildEnvironment) -> None:
        self._env = env
        self.of = lru_cache(maxsize=None)(self._read)

    def _read(self, page: str) -> frozenset[str]:
        doctree = self._env.get_doctree(page)
        return frozenset(name for node in doctree.findall(nodes.Element) for name in node["ids"])


def _target(env: BuildEnvironment, docname: str, node: nodes.reference) -> Target | None:
    """The file that a relative link means; None for any other link."""
    if "refuri" not in node or node.get("internal"):
        return None
    scheme, host, path, _, anchor = urlsplit(node["refuri"])
    if scheme or host:
        return None
    here = _written_in(env, docname, node)
    return Target((here.parent / unquote(path)).resolve() if path else here, anchor)


def _written_in(env: BuildEnvironment, docname: str, node: nodes.Element) -> Path:
    """The file that has the words of a node: a page, or a file that a page includes."""
    page = Path(env.doc2path(docname)).resolve()
    # A translated text says "PAGE:LINE:<translated>" here.
    source = Path((get_node_source(node) or "").partition(":")[0])
    return source.resolve() if source.is_file() else page


def _page(app: Sphinx, path: Path) -> str | None:
    """The name of the page that the site has for a file."""
    elsewhere = app.config.pages_elsewhere.get(os.path.relpath(path, _root(app)))
    page = elsewhere or app.env.path2doc(path)
    return page if page in app.env.found_docs else None


def _root(app: Sphinx) -> Path:
    """The folder of the repository: the pages stand in one below it."""
    return Path(app.srcdir).resolve().parent


def _warn(text: str, node: nodes.Element) -> None:
    logger.warning("%s", text, location=node, type="links")
