"""The measures, the same for every contender."""

from collections.abc import Callable
from typing import Any

from benchmarks.measures.busy import busy
from benchmarks.measures.claiming import claim_time
from benchmarks.measures.cost import held, idle, long
from benchmarks.measures.lanes import many_lanes
from benchmarks.measures.latency import blocking, lateness, pickup
from benchmarks.measures.sharing import handlers, waste
from benchmarks.measures.stage import Stage
from benchmarks.measures.throughput import drain, enqueue

__all__ = ["MEASURES", "Stage"]

MEASURES: dict[str, Callable[[Stage], dict[str, Any]]] = {
    "drain": drain,
    "enqueue": enqueue,
    "lateness": lateness,
    "pickup": pickup,
    "idle": idle,
    "functions": drain,
    "function-calls": enqueue,
    "history": drain,
    "work": drain,
    "claim": claim_time,
    "processes": drain,
    "waste": waste,
    "handlers": handlers,
    "blocking": blocking,
    "long": long,
    "held": held,
    "busy": busy,
    "lanes": many_lanes,
}
