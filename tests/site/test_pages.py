"""Each page with examples, as a project on SQLite; on a server, the pages that show statements.

What the others do is asked of each database by tests of its own. A page that makes its project
itself is on SQLite, as ``startproject`` has it.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.site.pages import PAGES, needs
from tests.site.reading import Page
from tests.site.running import begins_from_nothing, has_work, run
from tests.vendor import ON_SQLITE


def is_run_here(page: Page) -> bool:
    if ON_SQLITE:
        return True
    shows = any(block.language == "sql" or "run on" in block.orders for block in page.blocks)
    return shows and not begins_from_nothing(page)


NAMES = [
    name for name, page in PAGES.items() if has_work(page) and not needs(page) and is_run_here(page)
]


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_run(name: str, tmp_path: Path, database: dict[str, Any]) -> None:
    found = run(PAGES[name], tmp_path / "project", database)
    assert not found, "\n\n".join(found)
