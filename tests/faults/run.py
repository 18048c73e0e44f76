"""Faults against databases, and one table of what came of it.

    python -m tests.faults.run [--site sqlite ...] [--fault NAME ...] [--tasks N] [--seed S]

Starts private servers and stops them again. The exit code is 1 if a promised zero is not zero.
"""

import argparse
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

from tests.faults import databases, table
from tests.faults.faults import SCENARIOS, why_not
from tests.faults.stage import Size, play

SHORT = ("SIGKILL worker", "SIGSTOP > lease", "database kill -9", "proxy: cut after COMMIT")


def main() -> int:
    options = _options()
    seed = options.seed if options.seed is not None else random.randrange(1 << 30)
    say(f"Seed {seed}")
    started = monotonic()
    rows: dict[tuple[str, str], table.Row] = {}
    with _directory(options.keep) as directory:
        for turn in range(1 << 30):
            for row in _everywhere(options, directory / str(turn), seed + turn):
                rows[row.names] = rows[row.names].plus(row) if row.names in rows else row
            if monotonic() - started >= options.hours * 3600:
                break
    order = list(SCENARIOS)
    done = sorted(
        rows.values(), key=lambda row: (options.site.index(row.site), order.index(row.fault))
    )
    say(f"\nSeed {seed}, {monotonic() - started:.0f} s\n\n{table.text(done)}")
    if options.rst:
        page = table.page(done, seed, _size(options), databases.versions())
        options.rst.write_text(page, encoding="utf-8")
    return int(any(row.is_broken for row in done))


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _everywhere(options: argparse.Namespace, directory: Path, seed: int) -> Iterator[table.Row]:
    """Play at several sites at once: much of a fault is waiting."""
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        calls = [
            pool.submit(play_at, site, options, directory / site.replace(" ", "-"), seed)
            for site in options.site
        ]
        for call in calls:
            yield from call.result()


def play_at(name: str, options: argparse.Namespace, directory: Path, seed: int) -> list[table.Row]:
    """All that can be played at one site, one after the other."""
    directory.mkdir(parents=True)
    os.environ["SERVERS_DIR"] = str(directory / "servers")
    rows = []
    with databases.SITES[name](directory) as site:
        for fault in options.fault:
            if reason := why_not(SCENARIOS[fault], name):
                if "exist" not in reason:
                    say(f"{name}, {fault}: left out, {reason}")
                continue
            place = directory / fault.replace(" ", "-").replace("/", "-")
            verdict = play(SCENARIOS[fault], site, place, seed=seed, size=_size(options))
            rows.append(table.Row(name, fault, verdict, name not in SCENARIOS[fault].unpromised))
            say(table.line(rows[-1]))
            for accusation in verdict.accusations[: options.show]:
                say(f"  {accusation.what}: {accusation.text}")
            if not options.keep:
                shutil.rmtree(place)
    return rows


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
    directory = Path(tempfile.mkdtemp(prefix="faults-", dir="/var/tmp"))
    # The servers run as another user.
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        if keep:
            say(f"The journals are in {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    sites, faults = list(databases.SITES), list(SCENARIOS)
    add("--site", nargs="+", choices=sites, default=sites, metavar="SITE", help=", ".join(sites))
    add(
        "--fault", nargs="+", choices=faults, default=faults, metavar="NAME", help=", ".join(faults)
    )
    add("--tasks", type=int, default=2000)
    add("--seconds", type=float, default=4.0, help="over which the clients spread them")
    add("--batch", type=int, default=0, help="so many new tasks in one call, now and then")
    add("--rounds", type=int, default=10, help="of faults that must come that often")
    add("--workers", type=int, default=4)
    add("--threads", type=int, default=8)
    add("--jobs", type=int, default=1, help="so many sites at once")
    add("--hours", type=float, default=0.0, help="begin again, from other seeds, for so long")
    add("--seed", type=int)
    add("--short", action="store_true", help=f"only {', '.join(SHORT)}")
    add("--rst", type=Path, help="write the table there")
    add("--keep", action="store_true", help="keep the journals")
    add("--show", type=int, default=5, help="so many accusations of each")
    options = parser.parse_args()
    if options.short:
        options.fault = SHORT
    return options


if __name__ == "__main__":
    sys.exit(main())
