"""The distributions of this checkout."""

import os
import subprocess
import tarfile
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

from devtools.release.distributions import Distributions, build


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """Those that the session of nox has built; others if a test is run by itself."""
    built = os.environ.get("DISTRIBUTIONS")
    return Distributions(Path(built)) if built else build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def unpacked(distributions: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution in a folder of its own."""
    place = tmp_path_factory.mktemp("source")
    with tarfile.open(distributions.source) as archive:
        archive.extractall(place, filter="data")
    (folder,) = place.iterdir()
    return folder


@pytest.fixture(scope="session")
def metadata(distributions: Distributions) -> Message:
    with ZipFile(distributions.wheel) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
        return Parser().parsestr(wheel.read(name).decode())


def checked(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run a command that has nothing of our environment; returns what it prints."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={"PATH": os.defpath, "LANG": "C.UTF-8", **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
