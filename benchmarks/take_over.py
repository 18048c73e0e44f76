"""Take measures of another run over into the results of the page.

    python -m benchmarks.take_over RESULTS.json OTHER.json

The turns of OTHER replace all turns of the same measures in RESULTS; each says of which run it is.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.run import write
from benchmarks.table import TITLES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("other", type=Path)
    options = parser.parse_args()
    record = json.loads(options.results.read_text(encoding="utf-8"))
    other = json.loads(options.other.read_text(encoding="utf-8"))
    write(taken_over(record, other), options.results)


def taken_over(record: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The record with the other one's turns."""
    replaced = {turn["measure"] for turn in other["turns"]}
    turns = [turn for turn in record["turns"] if turn["measure"] not in replaced]
    name = _name(other)
    return {**record, "turns": [*turns, *({**turn, "other_run": name} for turn in other["turns"])]}


def _name(record: dict[str, Any]) -> str:
    """One clause about a run: its day, commit, machine, versions and load."""
    loads = [turn["load"] for turn in record["turns"]]
    databases = [f"{TITLES[name]} {version}" for name, version in record["databases"].items()]
    return (
        f"{record['when'][:10]} at commit {record['commit']} on {record['cores']} cores"
        f" ({record['machine']}) with Python {record['python']}, {', '.join(databases)}; load"
        f" average before the turns {min(loads):.1f} to {max(loads):.1f}"
    )


if __name__ == "__main__":
    main()
