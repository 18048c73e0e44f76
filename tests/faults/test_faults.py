"""A short form of the proof, on the database at hand."""

from pathlib import Path

import pytest

from tests.faults.faults import SCENARIOS, can_run
from tests.faults.stage import Size, play
from tests.faults.world import vendor_of

SHORT = Size(tasks=600, seconds=4.0, workers=2, threads=4, lease=1.5)
CHEAP = ("SIGKILL worker", "SIGSTOP > lease", "proxy: cut after write", "mixed")


@pytest.mark.parametrize("name", CHEAP)
def test_nothing_is_lost_doubled_or_stuck(name: str, faults_url: str, tmp_path: Path) -> None:
    if reason := can_run(SCENARIOS[name], vendor_of(faults_url)):
        pytest.skip(reason)

    verdict = play(SCENARIOS[name], faults_url, tmp_path, seed=42, size=SHORT)

    assert verdict.accusations == []
    assert verdict.runs >= SHORT.tasks / 2
