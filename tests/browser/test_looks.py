"""Every page of the admin as it is drawn: readable by all, and no wider than its window."""

import os
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.looks import barriers, on_end, too_wide
from tests.browser.night import Night
from tests.browser.person import Person
from tests.browser.places import PLACES, Place
from tests.browser.windows import LOOKS, NARROW, WIDE

# The directory for pictures of the pages; none are kept without it.
PICTURES = os.environ.get("PICTURES", "")
# Pictures of every page in every window, not of those alone that the documentation shows.
ALL_PICTURES = os.environ.get("ALL_PICTURES", "0") not in ("", "0")


@pytest.mark.parametrize("name", PLACES)
def test_a_page_fits_every_window_and_nothing_keeps_anybody_from_using_it(
    name: str, night: Night, desk: Person, reader: Person
) -> None:
    """In Chinese, in which other widths are all that differs, in two windows."""
    place = PLACES[name]
    found = []
    for look in LOOKS:
        desk.sits_before(look)
        page = desk.page if look.is_dark else _opened(place, night, desk)
        if PICTURES and (ALL_PICTURES or look in place.kept):
            desk.draws(Path(PICTURES) / f"admin-{name}{look.suffix}.png", place.part)
        faults = too_wide(page) + barriers(page, colours_alone=look.is_dark)
        found += [f"{look}: {sentence}" for sentence in faults]
    page = _opened(place, night, reader)
    assert page.locator("html").get_attribute("lang") == "zh-hans"
    for look in (WIDE, NARROW):
        reader.sits_before(look)
        if PICTURES and (ALL_PICTURES or look in place.kept_in_chinese):
            path = Path(PICTURES) / f"zh-hans-{name}{look.suffix}.png"
            reader.draws(path, place.part)
        faults = too_wide(page) + on_end(page)
        found += [f"{look}, in Chinese: {sentence}" for sentence in faults]
    assert not found, "\n".join(found)


def _opened(place: Place, night: Night, person: Person) -> Page:
    return person.opens(place.name, *place.about(night), **place.query)
