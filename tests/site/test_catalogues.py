"""The catalogues of the pages: all is translated, and the markup is that of the English page."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import polib
import pytest
from docutils import nodes
from docutils.core import publish_doctree

from devtools import CHECKOUT
from devtools.site import catalogues
from devtools.site.languages import TRANSLATIONS
from tests.translation.marks import RULES

LITERAL = re.compile(r"``(.+?)``")
LINK = re.compile(r"<([^<>`\s]+)>`_")
LANGUAGE = "zh_CN"
SILENT = 5
STRAY = re.compile(r"`|\*\*")
PAGES = sorted(
    str(path.relative_to(catalogues.PAGES).with_suffix(""))
    for path in catalogues.PAGES.rglob("*.rst")
    if catalogues.is_translated(str(path.relative_to(catalogues.PAGES).with_suffix("")))
)


def entries(page: str, language: str = LANGUAGE) -> list[polib.POEntry]:
    return list(polib.pofile(str(catalogues.catalogue(language, page))))


def test_the_pages_are_those_that_are_asked_for() -> None:
    assert TRANSLATIONS == (LANGUAGE,)
    assert len(PAGES) > 60
    english = {"understand/clusters", "understand/scaling", "understand/benchmarks"}
    assert not english & set(PAGES)


def test_the_messages_of_the_catalogues_are_those_of_the_pages(tmp_path: Path) -> None:
    pages = catalogues.extract(tmp_path)

    assert pages == PAGES
    for page in pages:
        said = {each.msgid for each in polib.pofile(str(tmp_path / f"{page}.pot"))}
        assert {each.msgid for each in entries(page)} == said, page


def test_no_other_page_has_a_catalogue() -> None:
    folder = catalogues.LOCALE / LANGUAGE / "LC_MESSAGES"
    found = {str(path.relative_to(folder).with_suffix("")) for path in folder.rglob("*.po")}
    assert found == set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_every_message_is_translated_and_was_looked_at(page: str) -> None:
    wanting = [each.msgid for each in entries(page) if not each.msgstr or each.fuzzy]
    assert wanting == []


@pytest.mark.parametrize("page", PAGES)
def test_a_translation_has_the_markup_of_its_message(page: str) -> None:
    different = [
        (each.msgstr, wanted - found, found - wanted)
        for each in entries(page)
        if (wanted := markup(each.msgid)) != (found := markup(each.msgstr))
    ]
    assert different == []


def markup(text: str) -> Counter[tuple[str, str]]:
    """The literals and the targets of links, and marks that mark nothing.

    By docutils, as the site has it: two literals with a mark of full width at the wrong place
    become one, without a warning.
    """
    tree = publish_doctree(text, settings_overrides={"report_level": SILENT})
    found = Counter(("literal", node.astext()) for node in tree.findall(nodes.literal))
    found.update(("link", node.get("refuri", "")) for node in tree.findall(nodes.reference))
    texts = tree.findall(nodes.Text)
    plain = (text for text in texts if not isinstance(text.parent, nodes.literal))
    found.update(("left", mark) for text in plain for mark in STRAY.findall(text))
    return found


@pytest.mark.parametrize("page", PAGES)
def test_marks_and_spaces_are_those_of_chinese(page: str) -> None:
    assert list(wrong_marks(page)) == []


def wrong_marks(page: str) -> Iterator[tuple[str, str]]:
    for each in entries(page):
        text = LINK.sub("`_", LITERAL.sub("X", each.msgstr))
        yield from ((name, each.msgstr) for name, rule in RULES.items() if rule.search(text))


def test_the_chinese_readme_has_the_blocks_and_links_of_the_english_one() -> None:
    english, chinese = (
        (CHECKOUT / name).read_text(encoding="utf-8")
        for name in ("README.rst", "README.zh-hans.rst")
    )
    assert list(code(chinese)) == list(code(english))
    theirs = sorted(LINK.findall(english.replace("README.zh-hans.rst", "README.rst")))
    assert sorted(LINK.findall(chinese)) == theirs


def code(readme: str) -> Iterator[str]:
    """The blocks of code, without what their comments say."""
    tree = publish_doctree(readme, settings_overrides={"report_level": SILENT})
    for block in tree.findall(nodes.literal_block):
        yield re.sub(r"(^|\s+)#.*", "", block.astext(), flags=re.MULTILINE)
