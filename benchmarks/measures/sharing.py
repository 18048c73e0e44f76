"""The sharing of workers: rows between processes, time between threads."""

from typing import Any

from benchmarks import statements
from benchmarks.measures.stage import Stage
from benchmarks.measures.throughput import drain

THREADS = 32


def waste(stage: Stage) -> dict[str, Any]:
    """The share of the candidates of the processes that somebody else took.

    Only where reading and taking are two statements: PostgreSQL and SQLite take what they read.
    """
    said = stage.scratch / "statements"
    facts = drain(stage, {statements.VARIABLE: str(said)})
    read = taken = 0
    for _, group in statements.claims(statements.read(said)):
        if statements.is_taking(group[-1]) and len(group) > 1:
            read += group[-2].rows
            taken += group[-1].rows
    return {"rate": facts["rate"], "wasted": 1 - taken / read}


def handlers(stage: Stage) -> dict[str, Any]:
    """Handlers of ten milliseconds with one query each, on 32 threads, connections kept."""
    vars(stage.contender).update(code="query", flags=("--threads", str(THREADS)))
    return drain(stage, {"BENCHMARK_KEEP_CONNECTIONS": "1"})
