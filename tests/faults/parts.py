"""The suite in parts, one for each of as many commits in a row."""

from tests.faults.acts import SCENARIOS
from tests.faults.databases import SITES

Play = tuple[str, str]

PARTS = 12


def plays() -> list[Play]:
    """Every site and every fault that there is at it."""
    return [
        (site, scenario.name)
        for site in SITES
        for scenario in SCENARIOS.values()
        if site in scenario.sites
    ]


def part(number: int) -> set[Play]:
    """One of the parts, with faults at each server."""
    return set(plays()[number::PARTS])
