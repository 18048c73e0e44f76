"""The task that the neighbours run: it tells the journal its number, and nothing else."""

from functools import cache
from typing import Any

from benchmarks.journal import recorder


@cache
def _record() -> Any:
    return recorder()  # not before a worker runs: whoever only adds has no journal


def tick(number: int) -> None:
    _record()(number)
