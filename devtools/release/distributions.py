"""The source distribution, and the wheel that is built of it."""

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from devtools.messages import Problem
from devtools.release import addresses, tree

BUILD_SECONDS = 300


@dataclass(frozen=True)
class Distributions:
    folder: Path

    @property
    def source(self) -> Path:
        return self._only("*.tar.gz")

    @property
    def wheel(self) -> Path:
        return self._only("*.whl")

    def _only(self, pattern: str) -> Path:
        (found,) = self.folder.glob(pattern)
        return found


def build(folder: Path, known: addresses.Addresses | None = None) -> Distributions:
    """Build both into the folder, with the setuptools of this environment.

    The dependency group ``package`` has it; nothing is fetched.
    """
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "source"
        tree.lay_out(source, known or addresses.read())
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder)]
        done = subprocess.run(
            [*command, str(source)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
    if done.returncode:
        raise Problem(f"The distributions cannot be built:\n{done.stdout}")
    return Distributions(folder)
