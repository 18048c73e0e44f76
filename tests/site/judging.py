"""Faults of the blocks of a page, without running them."""

import ast
import subprocess
import sys
from pathlib import Path

from devtools import CHECKOUT
from tests.site.building import (
    APPENDED,
    BASE,
    END_OF_SETTINGS,
    END_OF_URLS,
    beginning_of,
    files_of,
    pages_before,
)
from tests.site.reading import FROM_NOTHING, PROMPT, Block, Page

RUN = ("python", "pycon", "console", "sql")
COMMANDS = ("shell", "sh", "bash", "shell-session")
DATABASES = ("sqlite", "mariadb", "mysql", "postgresql")
WORDS_OF_A_REASON = 3


def complaints(page: Page) -> list[str]:
    """Say, by page and line, which blocks nobody runs and which could not run."""
    found = list(page.problems)
    for block in page.blocks:
        if problem := _problem(page, block):
            found.append(f"{page.path}:{block.line}: {problem}")
    if page.orders.get("project", FROM_NOTHING) != FROM_NOTHING:
        found.append(f"{page.path}:1: “project” can only be “{FROM_NOTHING}”.")
    beginning = beginning_of(page)
    if beginning and not (beginning / "begin.py").is_file():
        found.append(f"{page.path}:1: {page.orders['begins with']} has no begin.py.")
    for before in pages_before(page):
        if "continues" in before.orders and before.path == page.path:
            found.append(f"{page.path}:1: The page continues itself.")
    return found


def _problem(page: Page, block: Block) -> str:
    orders = block.orders
    if "not run" in orders and len(orders["not run"].split()) < WORDS_OF_A_REASON:
        return "“not run” needs a reason of some words."
    if "run by" in orders:
        return _not_run_by(page, orders["run by"])
    if "run on" in orders and not set(orders["run on"].split()) <= set(DATABASES):
        return f"“run on” names databases of {', '.join(DATABASES)}."
    if "exits with" in orders and not _is_exit_code(orders["exits with"]):
        return "“exits with” is a number from 0 to 255."
    if not block.is_run_here:
        return ""
    if block.language in COMMANDS:
        return f"A block of {block.language} is not run: make it one of console, with prompts."
    if block.language not in RUN and PROMPT.search(block.text):
        return "A block with a prompt is one of console, or of pycon."
    return _cannot_run(block)


def _is_exit_code(text: str) -> bool:
    return text.isdecimal() and int(text) < 256


def _cannot_run(block: Block) -> str:
    if block.language == "python" and not block.path:
        return "The first line of a Python block names its file: “# shop/tasks.py”."
    if block.language == "python" and (problem := _syntax(block.text)):
        return problem
    if block.language == "console" and not block.text.startswith("$ "):
        return "A console block begins with a prompt, “$ ”."
    if block.language == "pycon" and not block.text.startswith(">>> "):
        return "A pycon block begins with a prompt, “>>> ”."
    return ""


def _syntax(code: str) -> str:
    try:
        ast.parse(code)
    except SyntaxError as error:
        return f"This is no Python: {error.msg}, line {error.lineno} of the block."
    return ""


def _not_run_by(page: Page, name: str) -> str:
    test = CHECKOUT / name
    if not name.startswith("tests/") or not test.is_file():
        return f"“run by” names no file of tests: {name}."
    if page.path.name not in test.read_text(encoding="utf-8"):
        return f"{name} says nothing of {page.path.name}."
    return ""


def undefined(page: Page, place: Path) -> list[str]:
    """Names in the files of the page that nothing defines."""
    files = {name: text for name, text in files_of(page).items() if name.endswith(".py")}
    for name, end in zip(APPENDED, (END_OF_SETTINGS, END_OF_URLS), strict=True):
        if name in files:
            files[name] = (BASE / name).read_text() + "\n\n" + files[name] + end
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text, encoding="utf-8")
    if not files:
        return []
    ruff = (sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821,E9")
    done = subprocess.run(
        [*ruff, "--output-format", "concise", "--quiet", *files],
        cwd=place,
        capture_output=True,
        text=True,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr)
    return [f"{page.path}: {line}" for line in done.stdout.splitlines()]
