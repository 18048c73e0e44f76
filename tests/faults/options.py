"""Options of a run of the suite."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.faults import databases, habits, parts
from tests.faults.acts import SCENARIOS
from tests.faults.handing.acts import FAULTS
from tests.faults.handing.stage import BROKER

# In place of a number: the part that is this commit's turn.
COMMIT = "commit"

# The forms by name: what they change of the defaults.
FORMS: dict[str, dict[str, Any]] = {
    "long": {"tasks": 100_000, "seconds": 60.0, "batch": 200},
}


def parsed(about: str | None, arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the command line; ``about`` is its description."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    _add_choices(parser)
    _add_sizes(parser)
    _add_rest(parser)
    form = parser.parse_known_args(arguments)[0].form
    parser.set_defaults(**FORMS.get(form, {}))
    return parser.parse_args(arguments)


def _add_choices(parser: argparse.ArgumentParser) -> None:
    """Sites, faults and habits."""
    add = parser.add_argument
    sites, known = [*databases.SITES, BROKER], list(habits.KNOWN)
    faults = list({**SCENARIOS, **FAULTS})
    about = ", ".join(f"{name} ({habit.about})" for name, habit in habits.KNOWN.items())
    part = f"a twelfth of them all: 0 to {parts.PARTS - 1}, or {COMMIT!r}: by the number of commits"
    add("--site", nargs="+", choices=sites, default=sites, metavar="SITE", help=", ".join(sites))
    add(
        "--fault", nargs="+", choices=faults, default=faults, metavar="NAME", help=", ".join(faults)
    )
    add(
        "--habit",
        nargs="*",
        choices=known,
        metavar="NAME",
        help=f"these, or none, instead of some at random: {about}",
    )
    add("--part", type=_part, metavar="N", help=part)
    add("--demand", action="store_true", help="a site that is left out is a failure")
    add("--seed", type=int)


def _add_sizes(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--tasks", type=int, default=600)
    add("--seconds", type=float, default=1.2, help="over which the clients spread them")
    add("--batch", type=int, default=0, help="so many new tasks in one call, now and then")
    add("--rounds", type=int, default=10, help="of faults that must come that often")
    add("--workers", type=int, default=4)
    add("--threads", type=int, default=8)
    add("--jobs", type=int, default=2, help="so many sites at once")
    add("--hours", type=float, default=0.0, help="begin again, from other seeds, for so long")


def _add_rest(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    for form, changed in FORMS.items():
        add(f"--{form}", dest="form", action="store_const", const=form, help=f"{changed}")
    add("--rst", type=Path, help="write the table there")
    add("--broken", type=Path, metavar="FILE", help="write what is broken there, too")
    add("--keep", action="store_true", help="keep the journals")
    add("--show", type=int, default=5, help="so many accusations of each")


def _part(text: str) -> int | str:
    if text != COMMIT and text not in map(str, range(parts.PARTS)):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither one of 0 to {parts.PARTS - 1} nor {COMMIT!r}"
        )
    return text if text == COMMIT else int(text)
