"""The pages of the documentation."""

from pathlib import Path

import django

from devtools import CHECKOUT
from tests.site.reading import Page, read


def paths() -> list[Path]:
    """All pages; the catalogues of other languages are not pages."""
    return [CHECKOUT / "README.rst", *sorted((CHECKOUT / "docs").rglob("*.rst"))]


def name_of(path: Path) -> str:
    return str(path.relative_to(CHECKOUT))


def needs(page: Page) -> str:
    """The version of Django that the page needs, if not every one will do."""
    return page.orders.get("needs", "").removeprefix("Django ")


def enough(version: str) -> bool:
    return django.VERSION[:2] >= tuple(map(int, version.split(".")))


PAGES = {name_of(path): read(path) for path in paths()}
