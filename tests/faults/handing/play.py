"""All faults between us and the broker, one after the other, on a PostgreSQL and a RabbitMQ."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from devtools.servers.command import servers
from tests.faults import databases
from tests.faults.databases import Site
from tests.faults.handing.acts import FAULTS, Fault
from tests.faults.handing.judging import accusations
from tests.faults.handing.stage import BROKER, Stage
from tests.faults.handing.table import Row
from tests.faults.stage import LIMIT_SECONDS, Size
from tests.faults.verdicts import Accusation

DATABASE = "postgresql"


class Wishes(NamedTuple):
    """The faults to play, how, and what stays of them."""

    faults: Sequence[str]
    size: Size
    seed: int
    keep: bool


def why_missing() -> str:
    """The packages that are needed and not there; nothing if all are."""
    return " ".join(filter(None, map(databases.why_missing, (DATABASE, BROKER))))


def play_all(wishes: Wishes, directory: Path) -> list[Row]:
    """Play the faults; servers and journals are in ``directory``."""
    directory.mkdir(parents=True)
    os.environ["SERVERS_DIR"] = str(directory / "servers")
    with databases.single(DATABASE) as site:
        (url,) = servers("start", BROKER).values()
        try:
            return [
                _play(fault, site, url, directory, wishes)
                for name, fault in FAULTS.items()
                if name in wishes.faults
            ]
        finally:
            servers("stop", BROKER)


def _play(fault: Fault, site: Site, url: str, directory: Path, wishes: Wishes) -> Row:
    place = directory / fault.name.replace(" ", "-")
    row, started = Row(fault.name), monotonic()
    stage = Stage(site, url, place, wishes.seed, wishes.size)
    try:
        _fill(row, fault, stage)
    except Exception as error:
        row.accusations.append(Accusation("not played", f"{error!r}"))
    finally:
        stage.close()
    sys.stdout.write(f"{row} ({monotonic() - started:.0f} s)\n")
    sys.stdout.flush()
    if not wishes.keep:
        shutil.rmtree(place)
    return row


def _fill(row: Row, fault: Fault, stage: Stage) -> None:
    """Play one fault, and write down what came of it."""
    stage.open()
    deadline = monotonic() + LIMIT_SECONDS
    while stage.goes_on(fault.rounds):
        stage.world.between(0.2, 0.8)
        fault.act(stage)
        stage.faults += 1
        assert monotonic() < deadline, f"{fault.name} has no end"
    row.accusations += stage.settle()
    found = stage.found()
    row.accusations += accusations(found)
    row.adds, row.sends = len(found.nonces), found.sends
    row.messages, row.repeats = found.messages, found.repeats
