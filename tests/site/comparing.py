"""What a page shows and what really came, compared. The process of a page uses this, too."""

import re
from difflib import ndiff

ANYTHING = "..."


def same(wanted: str, came: str, times_differ: bool = False) -> bool:
    """Tell if the output is the one of the page.

    ``...`` on a line of its own is any number of lines; within a line it is any text. How many
    blanks are between words does not matter. With ``times_differ`` a number is any number.
    """
    pattern = "".join(_pattern(line) for line in _plain(wanted, times_differ))
    text = "".join(f"{line}\n" for line in _plain(came, times_differ))
    return re.fullmatch(pattern, text) is not None


def begins(wanted: str, came: str, times_differ: bool = False) -> bool:
    """Tell if all lines of the page have come, and perhaps more after them."""
    return same(f"{wanted}\n{ANYTHING}", came, times_differ)


def differences(wanted: str, came: str) -> str:
    lines = ndiff(wanted.strip("\n").splitlines(), came.strip("\n").splitlines())
    return "\n".join(line.rstrip() for line in lines if not line.startswith("?"))


def _plain(text: str, times_differ: bool) -> list[str]:
    if times_differ:
        text = re.sub(r"\d+", "0", text)
    lines = (" ".join(line.split()) for line in text.strip("\n").splitlines())
    return [line for line in lines if line]


def _pattern(line: str) -> str:
    if line == ANYTHING:
        return "(?:.*\n)*"
    return ".*".join(re.escape(part) for part in line.split(ANYTHING)) + "\n"
