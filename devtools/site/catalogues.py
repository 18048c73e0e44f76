"""The catalogues of the site's pages in ``docs/locale``, as the English pages are now.

    python -m devtools.site.catalogues

takes the messages from the pages into their catalogues. A new message is empty, and a changed one
keeps its old translation, marked "fuzzy": both are for a translator, and a test refuses them.
"""

import contextlib
import io
import tempfile
from collections.abc import Iterator
from pathlib import Path

import polib
from sphinx.application import Sphinx
from sphinx_intl.basic import update  # type: ignore[import-untyped]

from devtools import CHECKOUT
from devtools.messages import Problem, say
from devtools.site.languages import TRANSLATIONS

PAGES = CHECKOUT / "docs"
LOCALE = PAGES / "locale"
# The pages that are translated, and folders of them. All others are in English in each language.
TRANSLATED = (
    "index",
    "start",
    "how-to",
    "coming-from",
    "understand/index",
    "understand/guarantees",
    "understand/databases",
    "reference",
    "faq",
)
WIDTH = 100


def catalogue(language: str, page: str) -> Path:
    """The file that a translator writes."""
    return LOCALE / language / "LC_MESSAGES" / f"{page}.po"


def is_translated(page: str) -> bool:
    """Tell if a page, ``how-to/add``, is one of those that have catalogues."""
    return any(page == place or page.startswith(f"{place}/") for place in TRANSLATED)


def extract(room: Path) -> list[str]:
    """Write a template for each translated page into the empty directory ``room``: their names."""
    with contextlib.redirect_stdout(io.StringIO()):
        app = Sphinx(PAGES, PAGES, room, room / ".doctrees", "gettext", status=None)
        app.build(force_all=True)
    if app.statuscode:
        raise Problem("The messages of the pages cannot be extracted.")
    return sorted(_kept(room))


def _kept(room: Path) -> Iterator[str]:
    for template in room.rglob("*.pot"):
        page = str(template.relative_to(room).with_suffix(""))
        if is_translated(page):
            yield page
        else:
            template.unlink()


def refresh(language: str) -> None:
    """Take the messages of the pages as they are now into the catalogues of a language."""
    with tempfile.TemporaryDirectory() as room:
        pages = extract(Path(room))
        with contextlib.redirect_stdout(io.StringIO()):
            update(str(LOCALE), room, (language,), line_width=WIDTH, ignore_obsolete=True, jobs=1)
    kept = {catalogue(language, page) for page in pages}
    for found in (LOCALE / language).rglob("*.po"):
        if found in kept:
            _without_date(found)
        else:
            found.unlink()


def _without_date(path: Path) -> None:
    """Leave out what changes each time, though no message does."""
    found = polib.pofile(str(path), wrapwidth=WIDTH)
    for name in ("POT-Creation-Date", "PO-Revision-Date"):
        found.metadata.pop(name, None)
    found.metadata["Language-Team"] = found.metadata["Last-Translator"] = ""
    found.header = "The page in another language: see docs/glossary-zh-hans.rst."
    found.metadata_is_fuzzy = False
    found.save()


def main() -> None:
    for language in TRANSLATIONS:
        refresh(language)
        say(f"Written: {(LOCALE / language).relative_to(CHECKOUT)}")


if __name__ == "__main__":
    main()
