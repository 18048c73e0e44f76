"""Make the distributions, or see if a release can begin.

python -m devtools.release build [FOLDER]    both, into dist or another folder
python -m devtools.release ready [TAG]       each reason why not, and code 1
"""

import sys
from pathlib import Path

from devtools import CHECKOUT
from devtools.messages import Problem, say
from devtools.release import distributions, ready


def main(words: list[str]) -> int:
    match words:
        case ["build", *folder] if len(folder) <= 1:
            return _build(Path(folder[0]) if folder else CHECKOUT / "dist")
        case ["ready", *tag] if len(tag) <= 1:
            return _ready(tag[0] if tag else None)
    say((__doc__ or "").strip())
    return 2


def _build(folder: Path) -> int:
    try:
        built = distributions.build(folder)
    except Problem as problem:
        say(str(problem))
        return 1
    print(built.source, built.wheel, sep="\n")
    return 0


def _ready(tag: str | None) -> int:
    reasons = ready.why_not(tag)
    for reason in reasons:
        say(reason)
    return 1 if reasons else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
