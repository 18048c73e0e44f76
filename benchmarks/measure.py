"""One measurement of one contender, in a process and an environment of its own.

    python -m benchmarks.measure CONTENDER MEASURE --url URL --scratch DIRECTORY [--tasks N] …

Expects an empty database. Prints one line of JSON.
"""

import argparse
import importlib
import json
import sys
from pathlib import Path

from benchmarks.contenders import CATALOGUE
from benchmarks.contenders.base import Contender
from benchmarks.measures import MEASURES, Stage


def main() -> None:
    options = _options()
    module = importlib.import_module(f"benchmarks.contenders.{CATALOGUE[options.contender].module}")
    contender: Contender = module.CONTENDER(options.url)
    stage = Stage(contender, options.scratch, options.tasks, options.processes, options.seconds)
    result = MEASURES[options.measure](stage)
    facts = {"settings": contender.settings, "versions": contender.versions()}
    facts |= {"caveat": contender.caveat} if contender.caveat else {}
    sys.stdout.write(json.dumps({**result, **facts}) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("contender", choices=CATALOGUE)
    add("measure", choices=MEASURES)
    add("--url", required=True)
    add("--scratch", type=Path, required=True, help="an empty directory")
    add("--tasks", type=int, default=1000)
    add("--processes", type=int, default=1)
    add("--seconds", type=float, default=10.0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
