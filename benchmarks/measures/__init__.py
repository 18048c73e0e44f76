"""What is measured, the same way for every contender."""

from collections.abc import Callable
from typing import Any

from benchmarks.measures.stage import Stage
from benchmarks.measures.throughput import drain, enqueue

__all__ = ["MEASURES", "Stage"]

MEASURES: dict[str, Callable[[Stage], dict[str, Any]]] = {
    "drain": drain,
    "enqueue": enqueue,
}
