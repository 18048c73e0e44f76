"""Build the site of the documentation, from nothing, into ``build/site``.

    make docs [ARGS="SPHINX-BUILD ARGUMENT..."]

It has each language in a folder of its own. A warning is an error: a link that leads to nothing, a
page in no table of contents, a translation with other links than its text, a misspelt word.
"""

import subprocess
import sys
from pathlib import Path

from sphinx.cmd.build import main as sphinx_build

from devtools import CHECKOUT
from devtools.messages import say
from devtools.site.catalogues import PAGES
from devtools.site.languages import LANGUAGES

BUILD = CHECKOUT / "build"
SITE = BUILD / "site"

# Links are checked in pages that are written, hence all are.
OPTIONS = ("-q", "-E", "-a", "-W", "-n", "--keep-going", "-b", "html")


def build(target: Path, doctrees: Path, *options: str) -> int:
    return sphinx_build([*OPTIONS, *options, "-d", str(doctrees), str(PAGES), str(target)])


def misspelt() -> int:
    """Look for words that are spelt wrongly: the exit code of the program that knows them."""
    program = Path(sys.executable).with_name("typos")
    return subprocess.run([program, PAGES], cwd=CHECKOUT).returncode


def main() -> int:
    code = misspelt()
    for name, language in LANGUAGES.items():
        options = ("-D", f"language={name}", *sys.argv[1:])
        code = code or build(SITE / language.folder, BUILD / "doctrees" / name, *options)
    if code == 0:
        say(f"The site is in {SITE.relative_to(CHECKOUT)}/index.html.")
    return code


if __name__ == "__main__":
    sys.exit(main())
