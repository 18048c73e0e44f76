"""The pages about deployment: their blocks are the files, all of them, to the letter."""

import re
from textwrap import indent

import pytest

from devtools import CHECKOUT
from tests.deploy import units
from tests.deploy.kubelet import container, manifest
from tests.deploy.shop import DEPLOY

PAGES = (CHECKOUT / "docs" / "how-to").glob("deploy*.rst")
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
FILES = sorted(str(path.relative_to(DEPLOY)) for path in DEPLOY.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", FILES)
def test_a_block_of_the_page_is_the_file(name: str) -> None:
    block = indent((DEPLOY / name).read_text(encoding="utf-8"), " " * 4)
    assert re.search(rf"code-block:: \w+\n\n{re.escape(block.rstrip())}\n\n", TEXT), (
        f"No page of docs/how-to shows deploy/{name}, or another one"
    )


def test_every_setting_of_the_units_is_told_of() -> None:
    unit = units.read((DEPLOY / "systemd" / "django-tasks.service").read_text(encoding="utf-8"))
    service = [name for section, name in unit.values if section == "Service"]
    hardening = service[service.index("NoNewPrivileges") :]
    told = set(re.findall(r"``(\w+)=", TEXT))
    assert set(service) - set(hardening) - told == {"ExecStart"}  # the command explains itself
    assert "NoNewPrivileges" in told


def test_the_probes_and_times_of_the_manifests_are_told_of() -> None:
    for name in container(manifest("worker.yaml")):
        if name.endswith("Probe") or name in ("resources", "securityContext"):
            assert f"\n``{name}``\n" in TEXT
