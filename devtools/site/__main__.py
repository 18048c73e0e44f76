"""Build the site of the documentation, from nothing, into ``build/site``.

    make docs [ARGS="SPHINX-BUILD ARGUMENT..."]

A warning is an error: a link that leads to nothing, a page in no table of contents, a word that is
spelt wrong.
"""

import sys

from sphinx.cmd.build import main as sphinx_build

from devtools import CHECKOUT
from devtools.messages import say

PAGES = CHECKOUT / "docs"
BUILD = CHECKOUT / "build"
SITE = BUILD / "site"

# Links are checked in pages that are written, hence all are.
OPTIONS = ("-q", "-E", "-a", "-W", "-n", "--keep-going", "-b", "html")


def main() -> int:
    places = ("-d", str(BUILD / "doctrees"), str(PAGES), str(SITE))
    code = sphinx_build([*OPTIONS, *sys.argv[1:], *places])
    if code == 0:
        say(f"The site is in {SITE.relative_to(CHECKOUT)}/index.html.")
    return code


if __name__ == "__main__":
    sys.exit(main())
