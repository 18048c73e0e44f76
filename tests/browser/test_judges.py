"""The judges of all other tests here: they see what must never be."""

import pytest

from tests.browser.looks import barriers, on_end, too_wide
from tests.browser.person import Person, is_icon
from tests.browser.windows import NARROW, WIDE, Look

STYLE = (
    "document.head.append(Object.assign(document.createElement('style'), {textContent: 'p {}'}))"
)
WIDE_THING = """
(width) => {
    const thing = document.createElement("div");
    thing.className = "wide-thing";
    thing.style.width = `${width}px`;
    thing.style.height = "10px";
    document.querySelector("#content").append(thing);
}
"""
GREY_THING = """
(colour) => {
    const thing = document.createElement("p");
    thing.style.color = colour;
    thing.textContent = "Nobody can read this.";
    document.querySelector("#content").append(thing);
}
"""

NARROW_CELL = """
() => {
    const table = document.createElement("table");
    table.innerHTML = "<tr><td></td><td class='narrow-cell'>9 个任务</td><td>mail</td></tr>";
    table.rows[0].cells[1].style.maxWidth = table.rows[0].cells[1].style.width = "10px";
    document.querySelector("#content").append(table);
}
"""


@pytest.fixture
def before_a_page(desk: Person) -> Person:
    """Anna before a page without a fault."""
    desk.opens("index")
    assert desk.troubles == []
    return desk


@pytest.mark.parametrize(
    ("deed", "sentence"),
    [
        (STYLE, "Content-Security-Policy: style-src-elem"),
        ("console.error('out of order')", "error: out of order"),
        ("fetch('https://elsewhere.example/')", "Content-Security-Policy"),
        ("fetch('/admin/nowhere/')", "404 for"),
    ],
)
def test_what_a_browser_complains_of_is_a_trouble(
    deed: str, sentence: str, before_a_page: Person
) -> None:
    # A browser may ask for the icon of the site at this moment, and complain that there is none.
    with before_a_page.page.expect_event("console", lambda told: not is_icon(told.location["url"])):
        before_a_page.page.evaluate(f"() => {{ {deed}; }}")
    # The complaints of one deed come together; the answer of this call comes after them.
    before_a_page.page.evaluate("1")
    told, before_a_page.troubles = before_a_page.troubles, []
    assert any(sentence in trouble for trouble in told), told


@pytest.mark.parametrize("look", [WIDE, NARROW], ids=str)
def test_a_page_that_is_wider_than_its_window_is_seen(look: Look, before_a_page: Person) -> None:
    before_a_page.sits_before(look)
    assert too_wide(before_a_page.page) == []
    before_a_page.page.evaluate(WIDE_THING, look.width + 40)
    found = too_wide(before_a_page.page)
    assert found[0].startswith("the page is")
    assert any("div.wide-thing ends at" in sentence for sentence in found)


def test_a_short_chinese_cell_that_takes_two_lines_is_seen(before_a_page: Person) -> None:
    assert on_end(before_a_page.page) == []
    before_a_page.page.evaluate(NARROW_CELL)
    assert on_end(before_a_page.page) == ["td “9 个任务” is broken"]


def test_a_text_that_few_can_read_is_seen(before_a_page: Person) -> None:
    assert barriers(before_a_page.page) == []
    before_a_page.page.evaluate(GREY_THING, "#ddd")
    (found,) = barriers(before_a_page.page, colours_alone=True)
    assert found.startswith("color-contrast (serious)")
