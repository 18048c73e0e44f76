"""Tools for work on this project; they are no part of what is installed.

They need nothing but Python itself: some of them run before there is an environment. Only
``devtools.site`` needs Sphinx.
"""

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
