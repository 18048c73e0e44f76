"""Units of systemd, as far as ours go: sections, ``Name=value``, and lines of comment."""

from collections.abc import Mapping
from dataclasses import dataclass

# The units of time that systemd knows, as far as ours go. A number alone is in seconds.
UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0}


@dataclass(frozen=True)
class Unit:
    """The values of one unit by section and name; a name that may be repeated has several."""

    values: Mapping[tuple[str, str], tuple[str, ...]]

    def all(self, section: str, name: str) -> tuple[str, ...]:
        return self.values.get((section, name), ())

    def one(self, section: str, name: str) -> str:
        (value,) = self.all(section, name)
        return value

    def seconds(self, name: str) -> float:
        return seconds(self.one("Service", name))


def seconds(text: str) -> float:
    number = text.rstrip("mins")
    return float(number) * UNITS[text[len(number) :].strip() or "s"]


def read(text: str, instance: str = "") -> Unit:
    """Read a unit; ``%i`` is the name of the instance."""
    values: dict[tuple[str, str], tuple[str, ...]] = {}
    section = ""
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith(("#", ";")):
            name, equals, value = line.partition("=")
            assert equals, f"not a line of a unit: {line}"
            key = section, name
            values[key] = (*values.get(key, ()), value.replace("%i", instance))
    return Unit(values)
