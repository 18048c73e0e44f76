"""The pictures of terminals: what commands print in the night that the admin's pictures show."""

from pathlib import Path
from typing import Any

import pytest

from devtools import CHECKOUT
from tests.browser.conftest import ZONE
from tests.browser.night import Night
from tests.browser.terminal import COLUMNS, drawn, typed, words
from tests.browser.test_looks import PICTURES

KEPT = CHECKOUT / "docs" / "pictures"
TERMINALS = {
    "status": ["taskstatus"],
    "failed": ["listtasks --failed --code send_invoice", "showtask send_invoice {invoice}"],
}


@pytest.mark.parametrize("name", TERMINALS)
def test_a_picture_of_a_terminal_shows_what_the_commands_print(
    name: str, night: Night, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.TIME_ZONE = ZONE  # as where the pictures of the admin are drawn
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    lines = [line.format(invoice=night.invoice.biz_num) for line in TERMINALS[name]]
    title = f"A terminal: {', '.join(lines)}"
    picture = drawn((typed(*line.split()) for line in lines), title, f"terminal-{name}")
    if PICTURES:
        (Path(PICTURES) / f"terminal-{name}.svg").write_text(picture, encoding="utf-8")
    kept = (KEPT / f"terminal-{name}.svg").read_text(encoding="utf-8")
    assert words(picture) == words(kept)
