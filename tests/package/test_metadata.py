"""The metadata: true, and what is missing is known."""

import configparser
import re
from email.message import Message
from itertools import chain
from pathlib import Path

import pytest
import yaml

import noxfile
from devtools import CHECKOUT
from devtools.databases import NEWEST, TITLES
from devtools.release import tree
from devtools.release.addresses import Addresses
from devtools.test import SHORT, TURNS, turn
from tests.package.test_description import KNOWN

USERS = {"mysql", "postgres", "cron", "json", "progress", "prometheus", "sentry"}
# The sessions of "make test-all", whoever's turn it is.
ALL = {*SHORT, *(name for number in range(TURNS) for name in turn(number).sessions)}


def versions(metadata: Message, prefix: str) -> set[str]:
    found = (each.rpartition(" :: ") for each in metadata.get_all("Classifier", []))
    return {last for begin, _, last in found if begin == prefix and re.match(r"\d+\.\d", last)}


def test_the_classifiers_name_the_versions_that_the_tests_run_on(metadata: Message) -> None:
    main_line = "3.11"  # with Django 5.2
    assert versions(metadata, "Programming Language :: Python :: 3") == set()
    assert versions(metadata, "Programming Language :: Python") == {main_line, *noxfile.MATRIX}
    assert versions(metadata, "Framework :: Django") == {*noxfile.MATRIX.values()}


def test_extras_are_for_users_only(metadata: Message) -> None:
    assert set(metadata.get_all("Provides-Extra", [])) == USERS


def test_the_licence_is_an_expression_and_its_text_is_there(metadata: Message) -> None:
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert metadata.get_all("License-File") == ["LICENSE"]


@pytest.mark.parametrize("addresses", [Addresses(), KNOWN], ids=["unknown", "known"])
def test_an_address_is_in_the_metadata_if_it_is_known(addresses: Addresses, tmp_path: Path) -> None:
    tree.lay_out(tmp_path / "tree", addresses)
    setup = configparser.ConfigParser()
    setup.read(tmp_path / "tree" / "setup.cfg", encoding="utf-8")
    urls = setup["metadata"].get("project_urls", "")
    assert ("https://docs.invalid/en/stable" in urls) == bool(addresses.documentation)
    assert setup["metadata"].get("author_email", "") == addresses.maintainers


def test_the_workflow_runs_the_sessions_of_make_test_all() -> None:
    text = (CHECKOUT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"].values()
    commands = "\n".join(step.get("run", "") for job in jobs for step in job["steps"])
    sessions = {re.split("[(-]", session)[0] for session in ALL}
    assert set(re.findall(r'--session "?(\w+)', commands)) == sessions


def test_the_places_that_sessions_name_are_there() -> None:
    about = (noxfile.ABOUT_NO_DATABASE, noxfile.ABOUT_PROCESSES)
    on_some = (noxfile.ABOUT_SERVERS, noxfile.NOT_ON_NEWEST)
    long = (noxfile.LONG, noxfile.ABOUT_TOOLS, noxfile.PAGES_OF_ADMIN)
    for place in chain(*long, *on_some, *about, [noxfile.ABOUT_THE_SITE]):
        assert (CHECKOUT / place).exists(), place


def test_each_version_of_the_matrix_is_a_session_of_make_test_all() -> None:
    versions = {session[7:] for session in ALL if session.startswith("matrix-")}
    assert versions == set(noxfile.MATRIX)


def test_the_workflow_runs_the_versions_of_the_matrix() -> None:
    text = (CHECKOUT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    assert jobs["matrix"]["strategy"]["matrix"]["python"] == list(noxfile.MATRIX)
    assert jobs["tests"]["strategy"]["matrix"]["database"] == [*TITLES, *NEWEST]
    assert jobs["long"]["strategy"]["matrix"]["database"] == list(TITLES)
    assert jobs["admin"]["strategy"]["matrix"]["database"] == list(noxfile.WITH_ADMIN)
    assert jobs["processes"]["strategy"]["matrix"]["database"] == list(noxfile.WITH_PROCESSES)
