"""The addresses of the project: one file has them, and none is invented."""

import configparser
from dataclasses import dataclass, fields
from pathlib import Path

from devtools import CHECKOUT

FILE = CHECKOUT / "devtools" / "release" / "addresses.cfg"


@dataclass(frozen=True)
class Addresses:
    """An empty value is a placeholder: the address does not exist yet."""

    repository: str = ""
    documentation: str = ""
    security: str = ""
    conduct: str = ""
    maintainers: str = ""

    def unset(self) -> list[str]:
        return [field.name for field in fields(self) if not getattr(self, field.name)]


def read(file: Path = FILE) -> Addresses:
    parser = configparser.ConfigParser()
    parser.read_string(file.read_text(encoding="utf-8"))
    return Addresses(**parser["addresses"])
