"""Words for the user."""

import sys


class Problem(Exception):
    """Something the user must read; the text is the whole message."""


def say(text: str) -> None:
    """Tell the user; standard output is kept for the KEY=URL lines."""
    print(text, file=sys.stderr, flush=True)
