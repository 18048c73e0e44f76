"""The languages of the site. English is at its root, and each other one in a folder below it."""

from typing import Any, NamedTuple

from docutils import nodes
from sphinx.application import Sphinx

ENGLISH = "en"


class Language(NamedTuple):
    code: str  # as a browser calls it
    name: str
    folder: str  # in the site


# By the names that Sphinx has for them, which are those of the catalogues.
LANGUAGES = {
    ENGLISH: Language("en", "English", ""),
    "zh_CN": Language("zh-Hans", "简体中文", "zh-hans"),
}
TRANSLATIONS = tuple(name for name in LANGUAGES if name != ENGLISH)


def setup(app: Sphinx) -> None:
    app.connect("html-page-context", _add_languages)


def _add_languages(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Tell the template of the sidebar where the page is in each language."""
    here = LANGUAGES[app.config.language]
    to_root = "../" if here.folder else ""
    context["languages"] = [
        {
            "code": each.code,
            "name": each.name,
            "is_this": each is here,
            "page": f"{to_root}{each.folder}{'/' * bool(each.folder)}{page}.html",
        }
        for each in LANGUAGES.values()
    ]
