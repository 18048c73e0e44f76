"""Every block of every page is run, or the page says why not."""

from pathlib import Path

import pytest

from tests.site.judging import complaints, undefined
from tests.site.pages import PAGES


@pytest.mark.parametrize("name", PAGES)
def test_every_block_is_run_or_excused(name: str) -> None:
    found = complaints(PAGES[name])
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", PAGES)
def test_every_name_of_a_block_is_defined(name: str, tmp_path: Path) -> None:
    found = undefined(PAGES[name], tmp_path)
    assert not found, "\n".join(found)
