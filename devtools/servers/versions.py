"""Versions: those that were tested, as versions.cfg has them, and which is taken without them."""

import re
from collections.abc import Sequence
from configparser import ConfigParser
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("versions.cfg")


@dataclass(frozen=True)
class Wanted:
    """The packages of one server, and the versions that it may have."""

    packages: tuple[str, ...]
    tested: str
    series: tuple[str, ...] = ()  # the best one first
    sha256: tuple[str, ...] = ()

    def choose(self, available: Sequence[str]) -> str | None:
        """The tested version, or the newest of the first series that is there."""
        if self.tested in available:
            return self.tested
        for series in self.series:
            found = [each for each in available if upstream(each).startswith(f"{series}.")]
            if found:
                return max(found, key=_numbers)
        return None


def wanted(name: str) -> Wanted:
    parser = ConfigParser(delimiters=("=",))
    parser.read(FILE, encoding="utf-8")
    values = {key: tuple(value.split()) for key, value in parser[name].items()}
    (tested,) = values.pop("tested")
    return Wanted(tested=tested, **values)


def upstream(version: str) -> str:
    """The version without Debian's epoch: in names of files a colon divides two paths."""
    return version.rpartition(":")[2]


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]
