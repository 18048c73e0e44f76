"""Measure everybody, by turns, and write down what came of it.

    python -m benchmarks.run [--quick] [--database NAME …] [--contender NAME[:PROCESSES] …]
                             [--measure NAME …] [--rounds N] [--tasks N] [--json FILE]

In each round every contender takes its turn, so that whatever else the machine does meanwhile
befalls all of them alike. Shares ("of the floor") are taken within a round, and the median of
those is what counts.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from benchmarks import databases
from benchmarks.contenders import CATALOGUE, PLACES
from benchmarks.plan import PLAN, SIZES, Item, Size
from benchmarks.table import text
from devtools.interruption import heed_ctrl_c

CHECKOUT = Path(__file__).resolve().parents[1]

PATIENCE_SECONDS = 7200

# Where a slow contender gets fewer tasks; everything else goes by time.
PACED = ("drain", "enqueue", "processes", "history", "work", "functions")


class Turn(NamedTuple):
    """One contender's turn in one round."""

    database: str
    measure: str
    contender: str
    processes: int
    tasks: int
    seconds: float
    round: int

    @property
    def title(self) -> str:
        many = f" x{self.processes}" if self.processes > 1 else ""
        return f"{self.database}, {self.measure} {self.tasks}, {self.contender}{many}"


def main() -> int:
    options = _options()
    # Both ways to end us are by way of the cleaning up.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started = monotonic()
    with _directory() as directory, databases.started(options.database, directory) as urls:
        record = _facts(urls, options)
        before = _resumed(options, record)
        for turn in _turns(options, urls):
            if turn in before:
                continue
            entry = _take(turn, urls[turn.database], directory)
            record["turns"].append(entry)
            seconds = monotonic() - started
            _say(f"[{seconds:5.0f} s] round {turn.round}: {turn.title}: {_brief(entry)}")
            if options.json:
                write(record, options.json)
    _say(f"\n{text(record)}")
    return int(any("error" in entry for entry in record["turns"]))


def write(record: dict[str, Any], path: Path) -> None:
    """Write a record down: a line a turn, so that two runs can be compared; whole or not at all."""
    turns = ",\n".join(json.dumps(turn, ensure_ascii=False) for turn in record["turns"])
    head = json.dumps({**record, "turns": []}, indent=1).removesuffix("[]\n}")
    new = path.with_suffix(".new")
    new.write_text(f"{head}[\n{turns}\n]}}\n", encoding="utf-8")
    new.replace(path)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _resumed(options: argparse.Namespace, record: dict[str, Any]) -> set[Turn]:
    """Read the turns of an interrupted run, which go into the record of this one."""
    if not (options.resume and options.json and options.json.exists()):
        return set()
    record |= json.loads(options.json.read_text(encoding="utf-8"))
    record["turns"] = [entry for entry in record["turns"] if "error" not in entry]
    return {Turn(*(entry[name] for name in Turn._fields)) for entry in record["turns"]}


# What is to be done


def _turns(options: argparse.Namespace, urls: dict[str, str]) -> Iterator[Turn]:
    """Measure by measure, round by round, contender by contender."""
    size = SIZES[options.size]
    for item in PLAN:
        for database in urls if item.measure in options.measure else ():
            for number in range(options.rounds or item.how_often(size)):
                yield from _round(options, item, database, number, size)


def _round(
    options: argparse.Namespace, item: Item, database: str, number: int, size: Size
) -> Iterator[Turn]:
    tasks = options.tasks or item.how_many(size)
    for name in item.who():
        contender, _, processes = name.partition(":")
        if name not in options.contender and contender not in options.contender:
            continue
        entry = CATALOGUE[contender]
        if database not in {*entry.databases} & {*item.databases}:
            continue
        if item.measure in entry.measures and item.takes_part(database, name, number):
            yield Turn(
                database,
                item.measure,
                contender,
                int(processes or 1),
                max(item.least, round(tasks * entry.pace)) if item.measure in PACED else tasks,
                item.how_long(database, name, size),
                number,
            )


# Doing it


def _take(turn: Turn, url: str, directory: Path) -> dict[str, Any]:
    """Have one contender measured; what it said, or why it said nothing."""
    scratch = directory / "scratch"
    scratch.mkdir()
    command = [
        *("-m", "benchmarks.measure", turn.contender, turn.measure),
        *("--url", databases.emptied(url), "--scratch", str(scratch)),
        *("--tasks", str(turn.tasks), "--processes", str(turn.processes)),
        *("--seconds", str(turn.seconds)),
    ]
    python, place = _home(turn.contender, scratch)
    entry = {**turn._asdict(), "load": os.getloadavg()[0]}
    try:
        return {**entry, **_ask([python, *command], place)}
    except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
        return {**entry, "error": str(error)}
    finally:
        shutil.rmtree(scratch)


def _ask(command: list[str], place: Path) -> dict[str, Any]:
    child = subprocess.Popen(
        command,
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_ctrl_c,
    )
    try:
        answer, complaint = child.communicate(timeout=PATIENCE_SECONDS)
    except BaseException:
        # As Ctrl-C would: it has workers to stop.
        child.send_signal(signal.SIGINT)
        child.communicate()
        raise
    if child.returncode != 0:
        raise RuntimeError(complaint[-2000:])
    facts: dict[str, Any] = json.loads(answer.splitlines()[-1])
    return facts


def _home(contender: str, scratch: Path) -> tuple[str, Path]:
    """With which Python a contender runs, and where."""
    home = CATALOGUE[contender].home
    if not home:
        return sys.executable, CHECKOUT
    # Neighbours find the benchmarks and nothing else of the checkout: a package of theirs may have
    # the import name of ours.
    (scratch / "benchmarks").symlink_to(CHECKOUT / "benchmarks")
    return str(environment(home) / "bin" / "python"), scratch


def environment(home: str) -> Path:
    """The environment of the neighbours that live there."""
    return CHECKOUT / f".venv-benchmark-{home}"


def _facts(urls: dict[str, str], options: argparse.Namespace) -> dict[str, Any]:
    return {
        "when": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "size": options.size,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "commit": _commit(),
        "databases": {name: databases.version(url) for name, url in urls.items()},
        "turns": [],
    }


def _commit() -> str:
    """The commit that is measured, or nothing outside of a repository."""
    command = ["git", "describe", "--always", "--dirty"]
    try:
        found = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return found.stdout.strip()


def _brief(entry: dict[str, Any]) -> str:
    if "error" in entry:
        return f"FAILED: {entry['error'].strip().splitlines()[-1]}"
    numbers = {key: value for key, value in entry.items() if isinstance(value, float)}
    skipped = ("seconds", "load", "took")
    return ", ".join(f"{key} {value:.4g}" for key, value in numbers.items() if key not in skipped)


@contextmanager
def _directory() -> Iterator[Path]:
    # Not in /tmp, which may be in memory. The servers run as another user.
    directory = Path(tempfile.mkdtemp(prefix="benchmark-", dir="/var/tmp"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    names = [name for item in PLAN for name in item.who()]
    measures = list(dict.fromkeys(item.measure for item in PLAN))
    everybody = list(CATALOGUE)
    add("--database", nargs="+", choices=PLACES, default=list(PLACES), metavar="NAME")
    add("--contender", nargs="+", choices=[*everybody, *names], default=[], metavar="NAME")
    add("--measure", nargs="+", choices=measures, default=[], metavar="NAME")
    add("--rounds", type=int, default=0)
    add("--tasks", type=int, default=0)
    add("--quick", dest="size", action="store_const", const="quick", help="a few minutes")
    add(
        "--tiny",
        dest="size",
        action="store_const",
        const="tiny",
        help="seconds: only whether it runs",
    )
    add("--resume", action="store_true", help="go on with what is in FILE")
    add("--json", type=Path, help="write all results there")
    parser.set_defaults(size="full")
    options = parser.parse_args()
    size = SIZES[options.size]
    options.measure = options.measure or size.measures or measures
    options.contender = options.contender or size.contenders or everybody
    return options


if __name__ == "__main__":
    sys.exit(main())
