"""Judgement of a page as it is drawn: can it be read by all, and does it fit its window."""

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

GRAVE = ("serious", "critical")
# Rules that may find other things in other colours; all others see the same page.
COLOURS = ["color-contrast", "link-in-text-block"]
# Barriers of Django's own templates, in each of its releases: rule and place.
DJANGOS_OWN = (
    ("label-title-only", "#searchbar"),
    ("link-in-text-block", ".breadcrumbs"),
)

# Scrolled boxes are for long texts, such as a traceback; lists and forms must fit.
_TOO_WIDE = """
() => {
  const found = [];
  const screen = document.documentElement.clientWidth;
  const name = (e) => e.tagName.toLowerCase() + (e.id && "#" + e.id)
      + [...e.classList].map((c) => "." + c).join("");
  const scrolls = (e) => ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
  const isText = (e) => e.closest("pre, code, textarea, select") !== null;
  if (document.documentElement.scrollWidth > screen) {
    found.push(`the page is ${document.documentElement.scrollWidth} px wide, not ${screen}`);
    const inBox = (e) => e !== null && e !== document.body
        && (getComputedStyle(e).overflowX !== "visible" || inBox(e.parentElement));
    for (const e of document.querySelectorAll("body *")) {
      const box = e.getBoundingClientRect();
      if (box.width && box.right > screen + 1 && !inBox(e.parentElement)) {
        found.push(`${name(e)} ends at ${Math.round(box.right)} px`);
      }
    }
  }
  for (const e of document.querySelectorAll("#content *")) {
    if (scrolls(e) && !isText(e) && e.scrollWidth > e.clientWidth + 1 && e.clientWidth) {
      found.push(`${name(e)} is scrolled sideways: ${e.scrollWidth} px in ${e.clientWidth}`);
    }
  }
  return found.slice(0, 8);
}
"""


# Chinese may be broken between any two characters: a narrow column stands such a word on end. (The
# heads of cards are for screen readers; the toolbar and what is beside a time are Django's.)
_ON_END = """
() => {
  const isSeen = (e) => e.checkVisibility()
      && e.closest("#toolbar, .datetimeshortcuts") === null
      && !(e.closest("thead")?.getBoundingClientRect().width <= 1);
  const isShort = (text) => text.length <= 12 && (text.match(/\\p{Script=Han}/gu) ?? []).length
      <= 6 && /\\p{Script=Han}/u.test(text);
  const found = [];
  const places = "th, td, dt, a, button, summary, .task-badge, .task-mark, .life-badge";
  for (const e of document.querySelectorAll("#content :is(" + places + ")")) {
    for (const node of isSeen(e) ? e.childNodes : []) {
      const text = node.nodeType === Node.TEXT_NODE ? node.data.trim() : "";
      if (!isShort(text)) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      const tops = [...range.getClientRects()].filter((box) => box.width > 1)
          .map((box) => Math.round(box.top));
      if (new Set(tops).size > 1) found.push(`${e.tagName.toLowerCase()} “${text}” is broken`);
    }
  }
  return [...new Set(found)].slice(0, 8);
}
"""


def on_end(page: Page) -> list[str]:
    """Sentences about short Chinese texts of a table or a button that take two lines."""
    found: list[str] = page.evaluate(_ON_END)
    return found


def too_wide(page: Page) -> list[str]:
    """Sentences about whatever makes the page, or a list on it, scroll sideways."""
    found: list[str] = page.evaluate(_TOO_WIDE)
    return found


def barriers(page: Page, *, colours_alone: bool = False) -> list[str]:
    """Sentences about what axe finds that keeps somebody from using the page.

    It loads no style sheet again, for which it would break the page's policy.
    """
    options: dict[str, Any] = {"resultTypes": ["violations"], "preload": False}
    if colours_alone:
        options["runOnly"] = COLOURS
    found = Axe().run(page, options=options).response["violations"]
    return [
        f"{rule['id']} ({rule['impact']}): {rule['help']}: {_some(places)}"
        for rule in found
        if rule["impact"] in GRAVE and (places := _ours(rule))
    ]


def _ours(rule: dict[str, Any]) -> list[str]:
    """The places of a rule's findings, without those that every admin has."""
    places = [" ".join(map(str, node["target"])) for node in rule["nodes"]]
    known = [place for name, place in DJANGOS_OWN if name == rule["id"]]
    return [place for place in places if not any(each in place for each in known)]


def _some(places: list[str]) -> str:
    more = f" and {len(places) - 5} more" if len(places) > 5 else ""
    return "; ".join(places[:5]) + more
