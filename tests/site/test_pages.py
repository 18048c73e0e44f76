"""Each page with examples, as a project on the database of this run."""

from pathlib import Path
from typing import Any

import pytest

from tests.site.pages import READY, needs
from tests.site.running import has_work, run

NAMES = [name for name, page in READY.items() if has_work(page) and not needs(page)]


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_run(name: str, tmp_path: Path, database: dict[str, Any]) -> None:
    found = run(READY[name], tmp_path / "project", database)
    assert not found, "\n\n".join(found)
