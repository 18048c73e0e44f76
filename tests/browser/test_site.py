"""The site of the documentation in a browser: it fits, and all can read it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from devtools.site.__main__ import build
from devtools.site.languages import LANGUAGES
from tests.browser.looks import barriers, too_wide
from tests.browser.windows import LOOKS, WIDE, Look

PAGES = ("index", "start/tutorial", "how-to/admin", "how-to/command-line", "reference/settings")
WITHIN = re.compile(r'href="#([^"]+)"')
IDS = re.compile(r'\bid="([^"]+)"')
# A page on a small laptop.
FIRST_SCREEN = 800


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as ``make docs`` builds it, with each language in its folder."""
    place = tmp_path_factory.mktemp("site")
    for name, language in LANGUAGES.items():
        doctrees = tmp_path_factory.mktemp("doctrees")
        assert build(place / language.folder, doctrees, "-D", f"language={name}") == 0
    return place


@pytest.fixture
def opened(browser: Browser, site: Path) -> Iterator[Page]:
    page = browser.new_page()
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    page.close()
    assert complaints == []


def show(page: Page, site: Path, folder: str, name: str, look: Look) -> None:
    page.set_viewport_size({"width": look.width, "height": look.height})
    page.emulate_media(color_scheme="dark" if look.is_dark else "light")
    page.goto((site / folder / f"{name}.html").as_uri())


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_the_site_fits_every_window_and_all_can_read_it(
    name: str, language: str, opened: Page, site: Path
) -> None:
    folder = LANGUAGES[language].folder
    found = []
    for look in LOOKS:
        show(opened, site, folder, name, look)
        faults = too_wide(opened) + barriers(opened, colours_alone=look.is_dark)
        found += [f"{look}: {sentence}" for sentence in faults]
    assert opened.locator("html").get_attribute("lang") == language.replace("_", "-")
    assert opened.locator(".contents").count() == 0
    assert not found, "\n".join(found)


def test_the_first_screen_says_what_it_is_promises_and_is_not_for(opened: Page, site: Path) -> None:
    show(opened, site, "", "index", WIDE)
    for words in ("It promises", "How fast", "It runs on", "It is not for"):
        box = opened.get_by_text(words).bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < FIRST_SCREEN, words


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_link_within_a_page_leads_to_a_place_of_it(language: str, site: Path) -> None:
    pages = list((site / LANGUAGES[language].folder).rglob("*.html"))
    assert len(pages) > 80
    dead = {
        f"{page.relative_to(site)}#{name}"
        for page in pages
        for text in [page.read_text(encoding="utf-8")]
        for name in set(WITHIN.findall(text)) - set(IDS.findall(text))
    }
    assert dead == set()
