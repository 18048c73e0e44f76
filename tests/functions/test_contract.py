"""Django's own tests of its tasks framework pass with our backend in place of Django's own two."""

import io
import json
import subprocess
import sys
import unittest
from pathlib import Path

import pytest

from tests.functions.contract import Outcomes

pytestmark = pytest.mark.each_database

ROOT = Path(__file__).resolve().parent.parent.parent
DEADLINE = 300.0

DUMMY = "tasks.test_dummy_backend.DummyBackendTestCase"
IMMEDIATE = "tasks.test_immediate_backend.ImmediateBackendTestCase"
# These say how Django's two differ from a backend with a database, and why ours cannot do so.
DIFFERENT = {
    f"{DUMMY}.test_refresh_result": "changes an object in the memory of the backend",
    f"{DUMMY}.test_refresh_result_async": "as above",
    f"{IMMEDIATE}.test_cannot_get_result": "wants no results: ours are kept",
    f"{IMMEDIATE}.test_cannot_refresh_result": "as above",
    f"{IMMEDIATE}.test_cannot_pass_run_after": "wants no run_after: ours waits",
    f"{IMMEDIATE}.test_throws_keyboard_interrupt": "wants it raised by enqueue(): ours fails a run",
}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    """The outcome of each of Django's tests."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.functions.contract"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert done.stdout, done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_all_of_them_are_there(outcomes: dict[str, str]) -> None:
    assert len(outcomes) >= 76
    assert outcomes.keys() >= DIFFERENT.keys()


def test_one_that_was_left_out_has_not_passed() -> None:
    class Tests(unittest.TestCase):
        def test_good(self) -> None:
            """Passes."""

        @unittest.skip("not here")
        def test_skipped(self) -> None:
            """Is never called."""

        def test_skips(self) -> None:
            self.skipTest("not now")

        @unittest.expectedFailure
        def test_bad(self) -> None:
            self.fail()

    found = unittest.TextTestRunner(io.StringIO(), resultclass=Outcomes).run(
        unittest.defaultTestLoader.loadTestsFromTestCase(Tests)
    )
    assert isinstance(found, Outcomes)
    named = {name.rpartition(".")[-1]: outcome for name, outcome in found.outcomes.items()}
    assert named == {
        "test_good": "passed",
        "test_skipped": "skipped",
        "test_skips": "skipped",
        "test_bad": "not run",
    }


def test_all_pass_but_six(outcomes: dict[str, str]) -> None:
    bad = {name for name, outcome in outcomes.items() if outcome != "passed"}
    assert bad == set(DIFFERENT)
