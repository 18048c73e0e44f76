"""Twelve CI runs in a row play every fault at every site, and each of them once."""

from collections import Counter

import pytest

from tests.faults import parts
from tests.faults.acts import SCENARIOS
from tests.faults.databases import SITES
from tests.faults.options import COMMIT, parsed
from tests.faults.run import scenarios_at, with_broker

NUMBERS = range(parts.PARTS)
EVERYTHING = {(site, scenario.name) for scenario in SCENARIOS.values() for site in scenario.sites}


def played(*arguments: str) -> list[tuple[str, str]]:
    """The plays of a run with these arguments, if nothing is left out."""
    options = parsed("", arguments)
    return [(site, each.name) for site in options.site for each in scenarios_at(site, options)]


def test_the_parts_are_all_faults_at_all_sites_each_exactly_once():
    together = [play for number in NUMBERS for play in played("--part", str(number))]
    assert Counter(together) == Counter(EVERYTHING)


def test_without_a_part_everything_is_played():
    assert Counter(played()) == Counter(EVERYTHING)


def test_a_part_needs_no_broker_and_everything_does():
    assert with_broker(parsed("", []))
    assert not with_broker(parsed("", ["--fault", "disk full"]))
    assert not with_broker(parsed("", ["--site", "sqlite"]))
    assert not any(with_broker(parsed("", ["--part", str(number)])) for number in NUMBERS)


def test_no_part_is_much_longer_than_another():
    sizes = [len(played("--part", str(number))) for number in NUMBERS]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("site", ["mysql", "mariadb", "postgresql"])
@pytest.mark.parametrize("number", NUMBERS)
def test_each_part_has_faults_at_each_server(number, site):
    assert played("--part", str(number), "--site", site)


def test_a_part_of_what_was_chosen_is_of_that_only():
    assert set(played("--part", "1", "--site", "sqlite")) == {
        play for play in parts.part(1) if play[0] == "sqlite"
    }


@pytest.mark.parametrize("wrong", ["12", "-1", "", "first"])
def test_there_are_twelve_parts(wrong, capsys):
    with pytest.raises(SystemExit):
        parsed("", ["--part", wrong])
    assert repr(wrong) in capsys.readouterr().err


def test_every_site_of_a_scenario_is_a_site():
    assert {site for site, _ in EVERYTHING} == set(SITES)


def test_a_run_can_be_told_to_choose_by_the_commit():
    assert parsed("", ["--part", COMMIT]).part == COMMIT
