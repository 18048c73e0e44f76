"""Each page with examples, as a project on the database of this run.

A page that makes its project itself is on SQLite, as ``startproject`` has it.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.site.pages import PAGES, needs
from tests.site.running import begins_from_nothing, has_work, run
from tests.vendor import ON_SQLITE

NAMES = [
    name
    for name, page in PAGES.items()
    if has_work(page) and not needs(page) and (ON_SQLITE or not begins_from_nothing(page))
]


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_run(name: str, tmp_path: Path, database: dict[str, Any]) -> None:
    found = run(PAGES[name], tmp_path / "project", database)
    assert not found, "\n\n".join(found)
