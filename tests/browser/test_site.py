"""The site of the documentation in a browser: it fits, and all can read it."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page

from devtools.site.__main__ import OPTIONS
from devtools.site.catalogues import PAGES as SOURCE
from devtools.site.languages import LANGUAGES
from django_tasks import api
from tests.browser.looks import barriers, too_wide
from tests.browser.person import is_icon
from tests.browser.windows import LOOKS, WIDE, Look

PAGES = ("index", "start/tutorial", "how-to/admin", "how-to/command-line", "reference/settings")
WITHIN = re.compile(r'href="#([^"]+)"')
IDS = re.compile(r'\bid="([^"]+)"')
# A page on a small laptop.
FIRST_SCREEN = 720


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as ``make docs`` builds it, with each language in its folder.

    SITE in the environment names one that was built just now.
    """
    if built := os.environ.get("SITE"):
        return Path(built)
    place, doctrees = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("doctrees")
    for name, language in LANGUAGES.items():
        # In a process of its own: what it leaves open is not ours to complain of.
        options = (*OPTIONS, "-D", f"language={name}", "-d", doctrees / name)
        target = place / language.folder
        subprocess.run([sys.executable, "-m", "sphinx", *options, SOURCE, target], check=True)
    return place


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The address of the site: a search reads its pages, which no browser does with files."""
    quiet = partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), quiet) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def opened(browser: Browser, address: str) -> Iterator[Page]:
    page = browser.new_page(base_url=address)
    complaints: list[str] = []

    def heard(said: ConsoleMessage) -> None:
        if not is_icon(said.location["url"]):
            complaints.append(said.text)

    page.on("console", heard)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    page.close()
    assert complaints == []


def show(page: Page, folder: str, name: str, look: Look) -> None:
    page.set_viewport_size({"width": look.width, "height": look.height})
    page.emulate_media(color_scheme="dark" if look.is_dark else "light")
    page.goto(f"{folder}/{name}.html".lstrip("/"))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_the_site_fits_every_window_and_all_can_read_it(
    name: str, language: str, opened: Page
) -> None:
    folder = LANGUAGES[language].folder
    found = []
    for look in LOOKS:
        show(opened, folder, name, look)
        faults = too_wide(opened) + barriers(opened, colours_alone=look.is_dark)
        found += [f"{look}: {sentence}" for sentence in faults]
    assert opened.locator("html").get_attribute("lang") == language.replace("_", "-")
    assert opened.locator(".contents").count() == 0
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("folder", "words", "page"),
    [
        *(("", "crash_test", "how-to/crash-test"), ("", "add_task", "how-to/add")),
        *(("", "rollback", "faq"), ("", "last_run", "reference/tables")),
        ("zh-hans", "暂停", "how-to/pause"),
    ],
)
def test_the_search_finds_the_page(folder: str, words: str, page: str, opened: Page) -> None:
    opened.goto(f"{folder}/search.html?q={words}".lstrip("/"))
    opened.locator(f"#search-results a[href^='{page}.html']").first.wait_for()
    opened.wait_for_load_state("networkidle")  # each page that was found is read for its summary


def test_the_first_screen_says_what_it_is_promises_and_is_not_for(opened: Page, site: Path) -> None:
    show(opened, "", "index", WIDE)
    for words in ("It promises", "How fast", "It runs on", "It is not for"):
        box = opened.get_by_text(words).bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < FIRST_SCREEN, words


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_index_leads_to_each_public_name(language: str, site: Path) -> None:
    folder = site / LANGUAGES[language].folder
    index = (folder / "genindex.html").read_text(encoding="utf-8")
    places = re.findall(r'href="(reference/[^"#]+)#([^"]+)">', index)
    names = {name for _, name in places}
    assert {*api.__all__, "POLL_INTERVAL", "django_tasks.W012", "--metrics-port"} <= names
    lost = [
        (page, name)
        for page, name in places
        if f'id="{name}"' not in (folder / page).read_text(encoding="utf-8")
    ]
    assert lost == []


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
