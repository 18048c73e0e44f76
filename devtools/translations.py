"""The catalogues of messages in ``django_tasks/locale``: taken from the code, and compiled.

    python -m devtools.translations

writes ``django.po`` again with what the code says now, and ``django.mo`` from it. New messages are
empty in it, and those that look like an old one have its translation, marked "fuzzy": both are for
a translator, and a test refuses them.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from devtools import CHECKOUT
from devtools.messages import Problem, say

PACKAGE = CHECKOUT / "django_tasks"
LANGUAGES = ("zh_Hans",)
# As Debian calls the package of both.
GETTEXT, PROGRAMS = "gettext", ("xgettext", "msgfmt")


def why_not() -> str:
    """The reason why messages cannot be extracted here; nothing if they can."""
    return "" if all(map(shutil.which, PROGRAMS)) else f"not installed: {GETTEXT}"


def catalogue(language: str, package: Path = PACKAGE) -> Path:
    """The file that a translator writes."""
    return package / "locale" / language / "LC_MESSAGES" / "django.po"


def extract(language: str, room: Path) -> Path:
    """The catalogue as the code is now: a copy in the empty directory ``room``."""
    if reason := why_not():
        raise Problem(reason)
    copy = room / PACKAGE.name
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "*.mo"))
    command = [sys.executable, "-m", "django", "makemessages", "--locale", language]
    # With the file alone: a line would be another one with each change of the code.
    options = ["--add-location", "file", "--no-obsolete"]
    settings = {"DJANGO_SETTINGS_MODULE", "PYTHONPATH"}
    subprocess.run(
        [*command, *options],
        cwd=room,
        env={name: value for name, value in os.environ.items() if name not in settings},
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    found = catalogue(language, copy)
    lines = found.read_text(encoding="utf-8").splitlines(keepends=True)
    found.write_text("".join(line for line in lines if not _is_date(line)), encoding="utf-8")
    return found


def _is_date(line: str) -> bool:
    """Tell if the line changes each time, though no message does."""
    return line.startswith('"POT-Creation-Date:')


def compile_into(target: Path, source: Path) -> None:
    """Compile a catalogue; a translation with other placeholders than its message is refused."""
    if reason := why_not():
        raise Problem(reason)
    subprocess.run(["msgfmt", "--check-format", "-o", target, source], check=True)


def main() -> None:
    for language in LANGUAGES:
        kept = catalogue(language)
        with tempfile.TemporaryDirectory() as room:
            shutil.copyfile(extract(language, Path(room)), kept)
        compile_into(kept.with_suffix(".mo"), kept)
        say(f"Written: {kept.relative_to(CHECKOUT)}")


if __name__ == "__main__":
    main()
