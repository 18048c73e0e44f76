"""Faults against databases, and one table of what came of it.

    python -m tests.faults.run [--site sqlite ...] [--fault NAME ...] [--tasks N] [--seed S]

Starts private servers and stops them again. The exit code is 1 if a promised zero is not zero.
"""

import argparse
import itertools
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from time import monotonic
from typing import Any

from tests.faults import databases
from tests.faults.acts import SCENARIOS, Scenario, why_not
from tests.faults.databases import Site
from tests.faults.stage import Size, play
from tests.faults.table import Row, Table
from tests.faults.verdicts import Accusation, Verdict

SHORT = ("SIGKILL worker", "SIGSTOP > lease", "database kill -9", "proxy: cut after COMMIT")

# What the servers of two sites and their journals may take together.
MEMORY_BYTES = 6 << 30

# The forms by name: what they change of the defaults.
FORMS: dict[str, dict[str, Any]] = {
    "short": {"fault": SHORT, "tasks": 400, "seconds": 2.0, "rounds": 2},
    "long": {"tasks": 100_000, "seconds": 60.0, "batch": 200},
}


def main() -> int:
    options = _options()
    seed = options.seed if options.seed is not None else random.randrange(1 << 30)
    say(f"Seed {seed}")
    started = monotonic()
    table = Table()
    with _directory(options.keep) as directory:
        for turn in itertools.count():
            _everywhere(options, directory / str(turn), seed + turn, table)
            if monotonic() - started >= options.hours * 3600:
                break
    say(f"\nSeed {seed}, {monotonic() - started:.0f} s, {table.versions()}\n\n{table.text()}")
    if options.rst:
        options.rst.write_text(table.page(seed, _size(options)), encoding="utf-8")
    return int(table.is_broken)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _everywhere(options: argparse.Namespace, directory: Path, seed: int, table: Table) -> None:
    """Play at several sites at once: much of a fault is waiting."""
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        calls = [
            pool.submit(play_at, site, options, directory / site.replace(" ", "-"), seed)
            for site in options.site
            if not _left_out(site, databases.why_missing(site))
        ]
        for call in calls:
            table.add(*call.result())


def play_at(
    name: str, options: argparse.Namespace, directory: Path, seed: int
) -> tuple[str, list[Row]]:
    """All that can be played at one site, one after the other; its version, and what came of it."""
    directory.mkdir(parents=True)
    os.environ["SERVERS_DIR"] = str(directory / "servers")
    with databases.SITES[name](directory) as site:
        scenarios = [SCENARIOS[fault] for fault in options.fault if name in SCENARIOS[fault].sites]
        return databases.version_of(site), [
            _play(scenario, site, options, directory, seed)
            for scenario in scenarios
            if not _left_out(f"{name}, {scenario.name}", why_not(scenario, name))
        ]


def _play(
    scenario: Scenario, site: Site, options: argparse.Namespace, directory: Path, seed: int
) -> Row:
    place = directory / scenario.name.replace(" ", "-").replace("/", "-")
    started = monotonic()
    try:
        verdict = play(scenario, site, place, seed=seed, size=_size(options))
    except Exception as error:
        verdict = Verdict(accusations=[Accusation("not played", f"{error!r}")])
    row = Row(site.name, scenario.name, verdict, site.name not in scenario.unpromised)
    texts = [f"  {what}: {text}" for what, text in verdict.accusations[: options.show]]
    say("\n".join([f"{row} ({monotonic() - started:.0f} s)", *texts]))
    if not options.keep:
        shutil.rmtree(place)
    return row


def _left_out(name: str, reason: str) -> bool:
    if reason:
        say(f"{name}: left out, {reason}")
    return bool(reason)


def _size(options: argparse.Namespace) -> Size:
    return Size(
        options.tasks,
        options.seconds,
        options.batch,
        options.rounds,
        options.workers,
        options.threads,
    )


@contextmanager
def _directory(keep: bool) -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="faults-", dir=_roomy()))
    # The servers run as another user.
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        if keep:
            say(f"The journals are in {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


def _roomy() -> str:
    """Memory, if there is enough: no fault here takes the power away, so waiting for disks shows
    nothing and takes half of the time."""
    memory = Path("/dev/shm")  # noqa: S108 - the directory in it is private
    if memory.is_dir() and shutil.disk_usage(memory).free > MEMORY_BYTES:
        return str(memory)
    return "/var/tmp"  # noqa: S108


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    sites, faults = list(databases.SITES), list(SCENARIOS)
    add("--site", nargs="+", choices=sites, default=sites, metavar="SITE", help=", ".join(sites))
    add(
        "--fault", nargs="+", choices=faults, default=faults, metavar="NAME", help=", ".join(faults)
    )
    add("--tasks", type=int, default=600)
    add("--seconds", type=float, default=1.2, help="over which the clients spread them")
    add("--batch", type=int, default=0, help="so many new tasks in one call, now and then")
    add("--rounds", type=int, default=10, help="of faults that must come that often")
    add("--workers", type=int, default=4)
    add("--threads", type=int, default=8)
    add("--jobs", type=int, default=2, help="so many sites at once")
    add("--hours", type=float, default=0.0, help="begin again, from other seeds, for so long")
    add("--seed", type=int)
    for form, changed in FORMS.items():
        add(f"--{form}", dest="form", action="store_const", const=form, help=f"{changed}")
    add("--rst", type=Path, help="write the table there")
    add("--keep", action="store_true", help="keep the journals")
    add("--show", type=int, default=5, help="so many accusations of each")
    form = parser.parse_known_args()[0].form
    parser.set_defaults(**FORMS.get(form, {}))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
