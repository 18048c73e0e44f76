"""The README on the page of an index."""

import re
from email.message import Message
from html.parser import HTMLParser

import pytest
from readme_renderer import rst

from devtools import CHECKOUT
from devtools.release.addresses import Addresses
from devtools.release.description import for_index

KNOWN = Addresses(
    repository="https://forge.invalid/tasks",
    documentation="https://docs.invalid/en/stable",
    security="security@tasks.invalid",
    conduct="conduct@tasks.invalid",
    maintainers="maintainers@tasks.invalid",
)
README = (CHECKOUT / "README.rst").read_text(encoding="utf-8")


class _Links(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= {value for name, value in attrs if name in ("href", "src") and value}

    @property
    def relative(self) -> set[str]:
        return {link for link in self.found if not re.match(r"https?:|mailto:|#", link)}


def links(text: str) -> _Links:
    """Render the text as an index does, and find its links."""
    html = rst.render(text)
    assert html is not None
    return _Links(html)


def test_the_built_description_has_no_relative_link(metadata: Message) -> None:
    assert links(str(metadata.get_payload())).relative == set()


def test_with_the_addresses_all_links_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    found = links(for_index(README, KNOWN, "1.2.3"))
    assert found.relative == set()
    before = links(README)
    assert before.relative
    assert len(found.found) == len(before.found)


def test_pages_are_on_the_site_and_files_at_the_tag() -> None:
    text = "`A guide\n<docs/how-to/add.rst#now>`_ and `Changes <CHANGES.rst>`__"
    assert for_index(text, KNOWN, "1.2.3") == (
        "`A guide <https://docs.invalid/en/stable/how-to/add.html#now>`__ and "
        "`Changes <https://forge.invalid/tasks/blob/v1.2.3/CHANGES.rst>`__"
    )


def test_links_that_are_absolute_stay_as_they_are() -> None:
    text = "`Django <https://www.djangoproject.com/>`_ and `below <#below>`_"
    assert for_index(text, Addresses(), "1.2.3") == text


def test_pictures_are_at_the_tag_or_left_out() -> None:
    text = "Before.\n\n.. image:: docs/pictures/a.png\n   :alt: It works.\n\nAfter.\n"
    target = "https://forge.invalid/tasks/raw/v1.2.3/docs/pictures/a.png"
    known = for_index(text, KNOWN, "1.2.3")
    assert known == text.replace("docs/pictures/a.png", target)
    assert for_index(text, Addresses(), "1.2.3") == "Before.\n\n\nAfter.\n"
