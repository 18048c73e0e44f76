"""A page is read in one sitting."""

import pytest

from tests.site.pages import PAGES

MOST = 500
# Pages of measurements: what was measured, and how.
LONGER = ("docs/understand/benchmarks.rst", "docs/understand/reliability.rst")


@pytest.mark.parametrize("name", [name for name in PAGES if name not in LONGER])
def test_no_page_is_over_500_lines(name: str) -> None:
    lines = PAGES[name].path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= MOST, f"{name} has {len(lines)} lines."
