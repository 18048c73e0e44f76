"""A page of the admin as a browser would read it."""

from html.parser import HTMLParser
from typing import Any


class Strict(HTMLParser):
    """Collects what a policy without inline scripts and styles forbids."""

    def __init__(self, body: str) -> None:
        super().__init__()
        self.bad: list[str] = []
        self.feed(body)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        data = (given.get("type") or "").endswith("json")
        if tag == "style" or (tag == "script" and "src" not in given and not data):
            self.bad.append(f"<{tag}>")
        for name, value in attrs:
            text = (value or "").strip().lower()
            if name == "style" or name.startswith("on") or text.startswith("javascript:"):
                self.bad.append(f"{tag} {name}={value}")


def forbidden(response: Any) -> list[str]:
    """The inline scripts and styles of a page."""
    return Strict(response.content.decode()).bad
