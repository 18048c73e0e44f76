"""Faults against databases, and one table of what came of it.

    python -m tests.faults.run [--database sqlite ...] [--fault NAME ...] [--tasks N] [--seed S]

Starts private servers and stops them again. The exit code is 1 if a promised zero is not zero.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic

from tests.faults import databases, table
from tests.faults.checker import Verdict
from tests.faults.faults import ALL, SCENARIOS, can_run, servers
from tests.faults.stage import Size, play

SHORT = ("SIGKILL worker", "SIGSTOP > lease", "database kill -9", "proxy: cut after write")


def main() -> int:
    options = _options()
    seed = options.seed if options.seed is not None else random.randrange(1 << 30)
    say(f"Seed {seed}")
    size = Size(options.tasks, options.seconds, options.workers, options.threads)
    rows: list[table.Row] = []
    started = monotonic()
    with ExitStack() as stack:
        directory = stack.enter_context(_directory(options.keep))
        for vendor in options.database:
            url, admin_url = stack.enter_context(_database(vendor, directory))
            for name in options.fault:
                if reason := can_run(SCENARIOS[name], vendor):
                    say(f"{vendor}, {name}: left out, {reason}")
                    continue
                place = directory / f"{vendor}-{name.replace(' ', '-').replace('/', '-')}"
                verdict = play(
                    SCENARIOS[name], url, place, seed=seed, size=size, admin_url=admin_url
                )
                rows.append(table.Row(vendor, name, verdict))
                say(table.line(rows[-1]))
                _explain(verdict, options.show)
        versions = databases.versions()
    say(f"\nSeed {seed}, {monotonic() - started:.0f} s\n\n{table.text(rows)}")
    if options.rst:
        options.rst.write_text(table.page(rows, seed, size, versions), encoding="utf-8")
    return int(any(row.verdict.accusations for row in rows))


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _explain(verdict: Verdict, most: int) -> None:
    for accusation in verdict.accusations[:most]:
        say(f"  {accusation.what}: {accusation.text}")


@contextmanager
def _directory(keep: bool) -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="faults-", dir="/var/tmp"))
    try:
        yield directory
    finally:
        if keep:
            say(f"The journals are in {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _database(vendor: str, directory: Path) -> Iterator[tuple[str, str]]:
    """The address for workers and clients, and the one for the server's administrator."""
    if vendor == "sqlite":
        with databases.small_disk(directory / "disk") as disk:
            url = f"sqlite:///{disk / 'tasks.sqlite3'}"
            yield url, url
        return
    os.environ["SERVERS_DIR"] = str(directory / "servers")
    (line,) = servers("start", vendor).splitlines()
    try:
        admin_url = line.partition("=")[2]
        yield databases.for_plain_user(admin_url), admin_url
    finally:
        servers("stop", vendor)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--database", nargs="+", choices=ALL, default=ALL)
    add("--fault", nargs="+", choices=SCENARIOS, default=tuple(SCENARIOS), metavar="NAME")
    add("--tasks", type=int, default=3000)
    add("--seconds", type=float, default=8.0, help="over which the clients spread them")
    add("--workers", type=int, default=4)
    add("--threads", type=int, default=8)
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
