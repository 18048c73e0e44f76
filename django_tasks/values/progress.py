"""The progress of a run, as its handler tells it. No Django."""

from typing import NamedTuple

MOST = 2**53
TEXT_LENGTH = 200


class Progress(NamedTuple):
    """The number of steps that are done, of all if that is known, and a word about it."""

    done: int
    total: int | None
    text: str
