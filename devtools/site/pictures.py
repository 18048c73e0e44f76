"""A picture that has a dark twin: ``x.png`` and ``x-dark.png``. The theme shows one of them."""

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

# Sphinx collects the pictures of a page by the same event, with the priority 500.
BEFORE_SPHINX = 400


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", _dark_twins, priority=BEFORE_SPHINX)


def _dark_twins(app: Sphinx, doctree: nodes.document) -> None:
    for light in list(doctree.findall(nodes.image)):
        uri = Path(light["uri"])
        twin = uri.with_name(f"{uri.stem}-dark{uri.suffix}")
        if not Path(app.env.relfn2path(str(twin))[1]).is_file():
            continue
        dark = light.deepcopy()
        dark["uri"] = str(twin)
        light["classes"].append("only-light")
        dark["classes"].append("only-dark")
        light.parent.insert(light.parent.index(light) + 1, dark)
