"""Seeds that have found a defect once. They are played again whenever there are new ones."""

from collections.abc import Iterable, Iterator
from pathlib import Path

PATH = Path(__file__).with_name("kept.txt")


def kept() -> list[int]:
    """The kept seeds."""
    return list(numbers(PATH.read_text(encoding="utf-8").splitlines()))


def numbers(lines: Iterable[str]) -> Iterator[int]:
    """The seeds at the beginnings of lines; a line with # at its beginning is a remark."""
    for line in lines:
        if words := line.partition("#")[0].split():
            yield int(words[0])
