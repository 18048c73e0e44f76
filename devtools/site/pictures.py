"""Pictures that the site has in several forms.

A picture with a dark twin is ``x.png`` and ``x-dark.png``: the theme shows one of them. A picture
of the admin, ``admin-x.png``, gives way to one in the language of the site: ``zh-hans-x.png``.
"""

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

from devtools.site.languages import LANGUAGES

# Sphinx collects the pictures of a page by the same event, with the priority 500.
BEFORE_SPHINX = 400


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", _in_language, priority=BEFORE_SPHINX - 1)
    app.connect("doctree-read", _dark_twins, priority=BEFORE_SPHINX)


def _in_language(app: Sphinx, doctree: nodes.document) -> None:
    folder = LANGUAGES[app.config.language].folder
    for picture in doctree.findall(nodes.image):
        uri = Path(picture["uri"])
        other = uri.with_name(uri.name.replace("admin-", f"{folder}-", 1))
        if folder and _exists(app, other):
            picture["uri"] = str(other)


def _dark_twins(app: Sphinx, doctree: nodes.document) -> None:
    for light in list(doctree.findall(nodes.image)):
        uri = Path(light["uri"])
        twin = uri.with_name(f"{uri.stem}-dark{uri.suffix}")
        if not _exists(app, twin):
            continue
        dark = light.deepcopy()
        dark["uri"] = str(twin)
        light["classes"].append("only-light")
        dark["classes"].append("only-dark")
        light.parent.insert(light.parent.index(light) + 1, dark)


def _exists(app: Sphinx, uri: Path) -> bool:
    return Path(app.env.relfn2path(str(uri))[1]).is_file()
