"""A page, run: its project is made, checked and tested, then its examples one after another."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.site.building import beginning_of, build, files_of, pages_before, write
from tests.site.reading import FROM_NOTHING, Block, Page
from tests.site.terminal import Command, Terminal, commands, environment
from tests.vendor import database

DATABASE = database().removesuffix("3")  # as pages name it: sqlite
SHELL = Path(__file__).parent / "shell.py"
STEPS = ("pycon", "console", "sql")
TEST_SECONDS = 120


def steps_of(page: Page) -> list[Block]:
    """The blocks that do something with the project, in the order of the page."""
    return [
        block
        for block in page.blocks
        if block.language in STEPS
        and block.is_run_here
        and DATABASE in block.orders.get("run on", DATABASE).split()
    ]


def has_work(page: Page) -> bool:
    """Tell if there is anything to run."""
    return bool(files_of(page) or steps_of(page))


def needs_tables(page: Page) -> bool:
    return bool(steps_of(page)) or any(map(_is_test, files_of(page)))


def migrates_itself(page: Page) -> bool:
    """Tell if the page shows how the tables are made: it begins without them."""
    shown = [block.text for block in steps_of(page) if block.language == "console"]
    return any("manage.py migrate" in text for text in shown)


def run(page: Page, place: Path, settings: dict[str, Any]) -> list[str]:
    """Run the page; say what is wrong by page and line."""
    if begins_from_nothing(page):
        return walk(page, place)
    build(page, place, settings)
    with Project(place) as project:
        problem = project.asks(
            do="prepare",
            modules=_modules(page),
            migrate=needs_tables(page) and not migrates_itself(page),
        )
        if problem:
            return [f"{page.path}: {problem}"]
        if beginning_of(page) and (problem := project.begins()):
            return [f"{page.path}: {problem}"]
        found = _tests(page, place)
        for each in [*pages_before(page), page]:
            for step in steps_of(each):
                if problem := project.does(step):
                    found.append(f"{each.path}:{step.line}: {problem}")
    return found


def begins_from_nothing(page: Page) -> bool:
    """Tell if the page makes its project itself, by the commands that it shows."""
    return page.orders.get("project") == FROM_NOTHING


def walk(page: Page, place: Path) -> list[str]:
    """Do all that the page shows, in its order, in an empty folder; stop at the first problem."""
    place.mkdir()
    for block in filter(lambda block: block.is_run_here, page.blocks):
        if block.language == "python":
            write(block, place)
        elif block.language in STEPS:
            # Each in a terminal of its own: it sees the files as they are by now.
            with Project(place) as project:
                problem = project.does_alone(block)
            if problem:
                return [f"{page.path}:{block.line}: {problem}"]
    return []


class Project:
    """The process and the terminal of a project."""

    def __init__(self, place: Path) -> None:
        self._terminal = Terminal(place)
        self._process = subprocess.Popen(
            [sys.executable, str(SHELL)],
            cwd=place,
            env=environment(place) | {"DJANGO_SETTINGS_MODULE": "mysite.settings"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> "Project":
        return self

    def __exit__(self, *error: object) -> None:
        self._terminal.close()
        self._process.communicate()

    def asks(self, **request: Any) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        return str(json.loads(answer)) if answer else "The process of the project has died."

    def begins(self) -> str:
        """Make the rows with which the page begins."""
        return self._terminal.type(Command("python begin.py", ""), False, False)

    def does(self, block: Block) -> str:
        """Do what a block shows, and say what is wrong."""
        does: dict[str, Callable[[], str]] = {
            "console": lambda: self._types(block),
            "pycon": lambda: self.asks(
                do="interactive",
                text=block.text,
                line=block.line,
                times_differ="times differ" in block.orders,
            ),
            "sql": lambda: self.asks(do="statements", text=block.text),
        }
        return does[block.language]()

    def does_alone(self, block: Block) -> str:
        """Do what a block shows in a process that has just been started."""
        if block.language == "console":
            return self.does(block)
        return self.asks(do="prepare", modules=[], migrate=False) or self.does(block)

    def _types(self, block: Block) -> str:
        differ, keeps = ("times differ" in block.orders), ("keeps running" in block.orders)
        typed = commands(block.text, block.orders.get("exits with", ""))
        problems = (self._terminal.type(each, differ, keeps) for each in typed)
        return "\n".join(filter(None, problems))


def _is_test(name: str) -> bool:
    return Path(name).name == "tests.py" or Path(name).name.startswith("test_")


def _modules(page: Page) -> list[str]:
    names = [Path(name) for name in files_of(page) if name.endswith(".py") and not _is_test(name)]
    return [
        ".".join(name.with_suffix("").parts).removesuffix(".__init__")
        for name in names
        if all(part.isidentifier() for part in name.with_suffix("").parts)
        and name.name not in ("manage.py", "conftest.py")
    ]


def _tests(page: Page, place: Path) -> list[str]:
    tests = sorted(filter(_is_test, files_of(page)))
    if not tests:
        return []
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--reuse-db", "-p", "no:cacheprovider", *tests],
        cwd=place,
        env=environment(place) | {"PAGE_TESTS": "in place"},
        capture_output=True,
        text=True,
        timeout=TEST_SECONDS,
    )
    if done.returncode == 0:
        return []
    return [f"{page.path}: the tests of the page fail:\n{done.stdout[-5000:]}{done.stderr[-2000:]}"]
