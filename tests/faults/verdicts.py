"""Results of a scenario: accusations, and measures."""

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple


class Accusation(NamedTuple):
    """A promise that was broken, and the facts that show it."""

    what: str
    text: str


# What a worker says of itself when something happened that no fault excuses: ``django_tasks.logs``.
_OWN_FAULT = re.compile(
    r"^(?=.*(?:A cycle of the poller .* failed|failed outside its handler|could not be written))",
    re.MULTILINE,
)


def defects(log: str) -> list[Accusation]:
    """Defects of ours that workers have survived, with what their log says after each."""
    return [Accusation("defect", text[:3000]) for text in _OWN_FAULT.split(log)[1:]]


@dataclass
class Verdict:
    """The checker's findings."""

    tasks: int = 0
    runs: int = 0
    refused: int = 0
    unknown: int = 0
    accusations: list[Accusation] = field(default_factory=list)
    lateness: list[float] = field(default_factory=list)
    recovery: list[float] = field(default_factory=list)

    @property
    def counts(self) -> Counter[str]:
        return Counter(accusation.what for accusation in self.accusations)

    def __add__(self, other: "Verdict") -> "Verdict":
        return Verdict(
            self.tasks + other.tasks,
            self.runs + other.runs,
            self.refused + other.refused,
            self.unknown + other.unknown,
            self.accusations + other.accusations,
            sorted(self.lateness + other.lateness),
            sorted(self.recovery + other.recovery),
        )
