"""Faults against databases, and one table of what came of it.

    python -m tests.faults.run [--site sqlite ...] [--fault NAME ...] [--habit NAME ...]
                               [--part N] [--tasks N] [--seed S]

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
from multiprocessing.synchronize import Event
from pathlib import Path
from time import monotonic

from devtools import turns
from tests.faults import databases, habits, parts
from tests.faults.acts import SCENARIOS, Scenario, why_not
from tests.faults.databases import Site
from tests.faults.handing import play as handing
from tests.faults.handing import table as handed_table
from tests.faults.handing.acts import FAULTS
from tests.faults.handing.stage import BROKER
from tests.faults.options import COMMIT, parsed
from tests.faults.stage import Size, play
from tests.faults.table import Row, Table
from tests.faults.verdicts import Accusation, Verdict

# What the servers of two sites and their journals may take together.
MEMORY_BYTES = 6 << 30


def main() -> int:
    options = parsed(__doc__)
    try:
        broken = _played(options)
    except Exception as error:
        _keep([repr(error)], options.broken)
        raise
    # A continuous integration shows the last lines of a log first.
    say("\n".join(broken))
    _keep(broken, options.broken)
    return int(bool(broken))


def _keep(broken: list[str], path: Path | None) -> None:
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(broken), encoding="utf-8")


def _played(options: argparse.Namespace) -> list[str]:
    """Play what was chosen and print the tables; returns what is broken, a line each."""
    seed = options.seed if options.seed is not None else random.randrange(1 << 30)
    say(f"Seed {seed}")
    if options.part == COMMIT:
        options.part, reason = turns.of_commit(parts.PARTS)
        say(f"Part {options.part} of 0 to {parts.PARTS - 1}, by {reason}")
    wanted = [site for site in options.site if site != BROKER or with_broker(options)]
    options.site = [site for site in wanted if not _left_out(site, _why_missing(site))]
    started = monotonic()
    table, handed = Table(), handed_table.Rows()
    with _directory(options.keep) as directory:
        for turn in itertools.count():
            _everywhere(options, directory / str(turn), seed + turn, table, handed)
            if monotonic() - started >= options.hours * 3600:
                break
    say(f"\nSeed {seed}, {monotonic() - started:.0f} s, {table.versions()}\n")
    say("\n\n".join(filter(None, (table.text(), handed.text()))))
    if options.rst:
        page = table.page(seed, _size(options)) + handed.section()
        options.rst.write_text(page, encoding="utf-8")
    missed = [site for site in wanted if options.demand and site not in options.site]
    return [
        *(f"{site} is left out" for site in missed),
        *table.broken(options.show),
        *handed.broken(options.show),
    ]


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _everywhere(
    options: argparse.Namespace,
    directory: Path,
    seed: int,
    table: Table,
    handed: handed_table.Rows,
) -> None:
    """Play at several sites at once: much of a fault is waiting."""
    context = get_context("spawn")
    interrupted = context.Event()
    with ProcessPoolExecutor(options.jobs, context, _hear_of, (interrupted,)) as pool:
        calls = [
            pool.submit(play_at, site, options, directory / site.replace(" ", "-"), seed)
            for site in options.site
            if scenarios_at(site, options)
        ]
        handing_over = None
        if with_broker(options):
            wishes = handing.Wishes(options.fault, _size(options), seed, options.keep)
            handing_over = pool.submit(handing.play_all, wishes, directory / BROKER)
        try:
            for call in calls:
                table.add(*call.result())
            if handing_over is not None:
                handed.add(handing_over.result())
        except BaseException:
            # Ctrl-C ends what is played now. The sites behind it must not begin: one of them is
            # with its process already, where it cannot be taken back.
            interrupted.set()
            pool.shutdown(cancel_futures=True)
            raise


def with_broker(options: argparse.Namespace) -> bool:
    """Tell if tasks are handed over, too: not in a part, which every machine can play."""
    played = any(fault in FAULTS for fault in options.fault)
    return BROKER in options.site and played and options.part is None


_interrupted: Event


def _hear_of(interrupted: Event) -> None:
    global _interrupted
    _interrupted = interrupted


def play_at(
    name: str, options: argparse.Namespace, directory: Path, seed: int
) -> tuple[str, list[Row]]:
    """All that can be played at one site, one after the other; its version, and what came of it."""
    if _interrupted.is_set():
        raise KeyboardInterrupt
    directory.mkdir(parents=True)
    os.environ["SERVERS_DIR"] = str(directory / "servers")
    with databases.SITES[name](directory) as site:
        return databases.version_of(site), [
            _play(scenario, site, options, directory, seed)
            for scenario in scenarios_at(name, options)
            if not _left_out(f"{name}, {scenario.name}", why_not(scenario, name))
        ]


def scenarios_at(site: str, options: argparse.Namespace) -> list[Scenario]:
    """The faults to play at one site."""
    plays = parts.plays() if options.part is None else parts.part(options.part)
    return [SCENARIOS[fault] for fault in options.fault if (site, fault) in plays]


def _play(
    scenario: Scenario, site: Site, options: argparse.Namespace, directory: Path, seed: int
) -> Row:
    place = directory / scenario.name.replace(" ", "-").replace("/", "-")
    started = monotonic()
    there = _habits(scenario, site, options.habit, seed)
    try:
        verdict = play(scenario, site, place, seed=seed, size=_size(options), habits=there)
    except Exception as error:
        verdict = Verdict(accusations=[Accusation("not played", f"{error!r}")])
    row = Row(site.name, scenario.name, verdict, site.name not in scenario.unpromised, there)
    say("\n".join([f"{row} ({monotonic() - started:.0f} s)", *row.accusations(options.show)]))
    if not options.keep:
        shutil.rmtree(place)
    return row


def _habits(scenario: Scenario, site: Site, forced: list[str] | None, seed: int) -> tuple[str, ...]:
    if forced is not None:
        return habits.possible(forced, site.vendor)
    there = habits.chosen(seed, site.name, site.vendor, scenario.name)
    return tuple(name for name in there if name not in scenario.without)


def _why_missing(site: str) -> str:
    return handing.why_missing() if site == BROKER else databases.why_missing(site)


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


if __name__ == "__main__":
    sys.exit(main())
