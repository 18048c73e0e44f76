"""The project of a page: the base project, and over it the files that the page shows."""

import json
import shutil
from configparser import ConfigParser
from pathlib import Path
from typing import Any

from devtools import CHECKOUT
from tests.site.reading import Block, Page, read

BASE = Path(__file__).parent / "project"
# A page adds to these files, all others it shows whole.
APPENDED = ("mysite/settings.py", "mysite/urls.py")

# A page may write ``[..., "shop"]``: the dots are what stands there already.
END_OF_SETTINGS = """

from mysite import given  # noqa: E402

INSTALLED_APPS = given.filled(INSTALLED_APPS, given.INSTALLED_APPS)
MIDDLEWARE = given.filled(MIDDLEWARE, given.MIDDLEWARE)
DATABASES = given.databases(DATABASES)
"""
END_OF_URLS = """

from mysite import given  # noqa: E402

urlpatterns = given.filled(urlpatterns, [])
"""
GIVEN = '''"""The database of this run, and the apps of the base project."""

import json
import os
from pathlib import Path

INSTALLED_APPS = {apps}
MIDDLEWARE = {middleware}
HERE = Path(__file__).resolve().parent.parent


def filled(wanted, dots):
    """The list with what the dots stand for, each thing once."""
    found = []
    for each in wanted:
        found += [one for one in (dots if each is ... else [each]) if one not in found]
    return found


def databases(wanted):
    """The databases of the page on the server of this run.

    Options of the page are kept if it is about this kind of database.
    """
    ours = json.loads((HERE / "database.json").read_text())
    found = {{}}
    for alias, database in wanted.items():
        same = database.get("ENGINE", ours["ENGINE"]) == ours["ENGINE"]
        kept = {{k: v for k, v in database.items() if k not in (*ours, "TEST") or k == "OPTIONS"}}
        name = ours["NAME"] if alias == "default" else f"{{ours['NAME']}}_{{alias}}"
        test = name if os.environ.get("PAGE_TESTS") == "in place" else f"{{name}}_test"
        own = {{"NAME": name, "TEST": {{"NAME": test}}}}
        found[alias] = {{**(kept if same else {{}}), **ours, **own}}
        if same and "OPTIONS" in database:
            found[alias]["OPTIONS"] = {{**ours.get("OPTIONS", {{}}), **database["OPTIONS"]}}
    return found
'''


def files_of(page: Page) -> dict[str, str]:
    """The files that the page shows; blocks of one file are joined."""
    files: dict[str, str] = {}
    for before in pages_before(page):
        files |= files_of(before)
    own: dict[str, list[str]] = {}
    for block in page.blocks:
        if block.language == "python" and block.path and block.is_run_here:
            own.setdefault(block.path, []).append(block.text.rstrip() + "\n")
    for name, parts in own.items():
        earlier = [files[name]] if name in files else []
        files[name] = "\n\n".join(earlier + parts)
    return files


def pages_before(page: Page) -> list[Page]:
    """The page that this one continues."""
    if "continues" not in page.orders:
        return []
    return [read(page.path.parent / page.orders["continues"])]


def beginning_of(page: Page) -> Path | None:
    """The folder that lies over the base project; its ``begin.py`` makes the rows of the page."""
    name = page.orders.get("begins with")
    return CHECKOUT / name if name else None


def build(page: Page, place: Path, database: dict[str, Any]) -> None:
    """Write the project of the page; its database is this one."""
    shutil.copytree(BASE, place, dirs_exist_ok=True)
    if beginning := beginning_of(page):
        shutil.copytree(beginning, place, dirs_exist_ok=True)
    files = files_of(page)
    for name, end in zip(APPENDED, (END_OF_SETTINGS, END_OF_URLS), strict=True):
        files[name] = (BASE / name).read_text() + "\n\n" + files.get(name, "") + end
    for name, text in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        for folder in list(Path(name).parents)[:-1]:
            (place / folder / "__init__.py").touch()
    (place / "mysite" / "given.py").write_text(_given())
    (place / "database.json").write_text(json.dumps(database))
    _announce(place)


def write(block: Block, place: Path) -> None:
    """Write the file that a block shows whole; add to those that a new project has already."""
    path = place / block.path
    before = path.read_text(encoding="utf-8") + "\n" if block.path in APPENDED else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(before + block.text.rstrip() + "\n", encoding="utf-8")


def _given() -> str:
    base: dict[str, Any] = {"__file__": str(BASE / "mysite" / "settings.py")}
    exec((BASE / "mysite" / "settings.py").read_text(), base)  # noqa: S102 - our own file
    return GIVEN.format(apps=base["INSTALLED_APPS"], middleware=base["MIDDLEWARE"])


def _announce(place: Path) -> None:
    """Have this worktree's entry points known, as an installation of it would."""
    setup = ConfigParser()
    setup.read(CHECKOUT / "setup.cfg")
    (points,) = setup["options.entry_points"].values()
    facts = place / "the_worktree-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: the-worktree\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(f"[pytest11]\n{points.strip()}\n")
