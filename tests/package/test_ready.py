"""The reasons that keep a release back."""

import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from devtools import CHECKOUT
from devtools.release import addresses, ready
from devtools.release.version import version_of
from django_tasks import __version__

CHANGES = "=======\nChanges\n=======\n\n1.2.3 (2027-01-31)\n==================\n"
SET = "".join(f"{name} = https://forge.invalid\n" for name in addresses.Addresses().unset())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A checkout that is ready."""
    texts = {
        "django_tasks/__init__.py": '__version__ = "1.2.3"\n',
        "CHANGES.rst": CHANGES,
        "devtools/release/addresses.cfg": f"[addresses]\n{SET}",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    identity = ("-c", "user.name=x", "-c", "user.email=x@tasks.invalid")
    for words in (("init",), ("add", "."), (*identity, "commit", "-m", "x")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


def test_nothing_keeps_back_what_is_ready(source: Path) -> None:
    assert ready.why_not("v1.2.3", source) == []


def test_a_placeholder_keeps_a_release_back(source: Path) -> None:
    file = source / "devtools" / "release" / "addresses.cfg"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("security = https://forge.invalid", "security ="), "utf-8")
    first, *_ = ready.why_not(None, source)
    assert first == (
        'devtools/release/addresses.cfg: "security" is a placeholder; give it an address.'
    )


def test_so_do_changes_without_a_version_another_tag_and_files_not_committed(source: Path) -> None:
    (source / "CHANGES.rst").write_text("Unreleased\n==========\n", encoding="utf-8")
    assert ready.why_not("v1.2.4", source) == [
        "CHANGES.rst begins with Unreleased, and not with 1.2.3 and its date.",
        "The tag is v1.2.4, but django_tasks.__version__ says 1.2.3.",
        "There are changes that are not committed.",
    ]


def test_the_changes_have_headings_of_one_style() -> None:
    text = (CHECKOUT / "CHANGES.rst").read_text(encoding="utf-8")
    lines = text.splitlines()
    marked = {title for title, line in pairwise(lines[3:]) if line and line == "=" * len(title)}
    assert marked
    assert marked == {found[1] for found in ready.HEADING.finditer(text)}


def test_the_version_is_read_without_an_import() -> None:
    assert version_of() == __version__
