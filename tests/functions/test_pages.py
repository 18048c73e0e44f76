"""The pages that need a newer Django than the main line's, run where there is one that is enough.

Beside ``tests/site/test_pages.py``, which runs all others on the main line.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.site import conftest
from tests.site.pages import PAGES, enough, needs
from tests.site.running import has_work, run

NAMES = [
    name for name, page in PAGES.items() if needs(page) and enough(needs(page)) and has_work(page)
]

database = conftest.database


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_run(name: str, tmp_path: Path, database: dict[str, Any]) -> None:
    found = run(PAGES[name], tmp_path / "project", database)
    assert not found, "\n\n".join(found)
