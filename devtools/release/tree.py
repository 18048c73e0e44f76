"""The tree that distributions are built of: the checkout, with the long description for an index.

A clone or an archive of the repository installs without this: its README is the long description
as it is, and nobody reads it there. So no program of ours runs in anybody's installation.
"""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from devtools import CHECKOUT
from devtools.release.addresses import Addresses
from devtools.release.description import for_index
from devtools.release.version import version_of

# Without git: what tools leave behind, and what no distribution has.
_LEFT_BEHIND = (".*", "__pycache__", "*.egg-info", "*.sqlite3*", "build", "dist", "mutants")


def lay_out(into: Path, addresses: Addresses, source: Path = CHECKOUT) -> None:
    """Copy the files of the checkout to a new folder, and put the addresses in."""
    _copy(source, into)
    _edit(into / "README.rst", lambda text: for_index(text, addresses, version_of(source)))
    _edit(into / "setup.cfg", lambda text: _with_addresses(text, addresses))


def _copy(source: Path, into: Path) -> None:
    if not (source / ".git").exists():
        shutil.copytree(source, into, ignore=shutil.ignore_patterns(*_LEFT_BEHIND))
        return
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=source, stdout=subprocess.PIPE, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (source / name).is_file():  # it is listed still if it was just removed
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, into / name)


def _edit(file: Path, change: Callable[[str], str]) -> None:
    file.write_text(change(file.read_text(encoding="utf-8")), encoding="utf-8")


def _with_addresses(text: str, addresses: Addresses) -> str:
    """Return ``setup.cfg`` with what the metadata says of the addresses that are known."""
    lines = ["[metadata]"]
    if addresses.maintainers:
        lines.append(f"author_email = {addresses.maintainers}")
    urls = _urls(addresses)
    if urls:
        lines.append("project_urls =")
        lines += [f"    {name} = {url}" for name, url in urls.items()]
    return text.replace("[metadata]", "\n".join(lines), 1)


def _urls(addresses: Addresses) -> dict[str, str]:
    repository, documentation = addresses.repository, addresses.documentation
    urls = {
        "Documentation": documentation,
        "Source": repository,
        "Issues": repository and f"{repository}/issues",
        "Changelog": repository and f"{repository}/blob/main/CHANGES.rst",
    }
    return {name: url for name, url in urls.items() if url}
