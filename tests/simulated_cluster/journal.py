"""The journal of a play: the records that the checker reads, and a digest of every step."""

import hashlib
import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.simulated_cluster import stage
from tests.simulated_cluster.database import Answer
from tests.simulated_cluster.hosts import current

# Records that are counted, and how they are called.
EVENTS = {
    "rescue": "rows rescued",
    "lost": "ends refused",
    "given_up": "calls given up",
    "forgiven": "stops with runs under way",
}


class Journal:
    """Takes the place of the fault suite's journal: records stay in memory, times are simulated."""

    def __init__(self, is_traced: bool = False) -> None:
        self.records: list[dict[str, Any]] = []
        # How often what was met: a play in which nothing happens proves nothing.
        self.met: Counter[str] = Counter()
        self.log: list[str] = []
        self.trace: list[str] | None = [] if is_traced else None
        self.steps = 0
        self._numbers = itertools.count(1)
        self._digest = hashlib.blake2b(digest_size=8)

    def write(self, kind: str, **facts: Any) -> None:
        """Append a record of the present actor."""
        actor = stage.scheduler.current
        pid = actor.host.pid if actor else 0
        self.records.append({"kind": kind, "at": stage.scheduler.now, "pid": pid, **facts})
        if kind in EVENTS:
            self.met[EVENTS[kind]] += facts.get("count", 1)
        if self.trace is not None and kind not in ("held", "beat"):
            self.tell(f"{kind} {facts}")

    def unique(self) -> str:
        return str(next(self._numbers))

    def step(self, sql: str, params: Sequence[Any], answer: Answer | None) -> None:
        """Note a statement that was carried out."""
        self.steps += 1
        actor, now = current(), stage.scheduler.now
        rows = answer.rows if answer else ""
        words = f"{now!r} {actor.host.pid} {actor.number} {sql} {params} {rows}\n"
        self._digest.update(words.encode())
        if self.trace is not None:
            count = answer.count if answer else ""
            self.tell(f"{' '.join(sql.split())[:150]} {str(params)[:200]} -> {count} {rows}")

    def fault(self, name: str, until: float, pids: Sequence[int] = ()) -> None:
        """Note a fault that begins now, and whose end is known; without ``pids`` all suffer."""
        away = not pids
        record = {"kind": "fault", "name": name, "pids": list(pids), "away": away, "pid": 0}
        self.records.append({**record, "from": stage.scheduler.now, "at": until})
        if self.trace is not None:
            self.tell(f"FAULT {name} until {until:.3f} {list(pids)}")

    def tell(self, text: str) -> None:
        """Add a line to the trace."""
        if self.trace is not None:
            actor = stage.scheduler.current
            who = f"{actor.host.name}.{actor.name}" if actor else "-"
            self.trace.append(f"{stage.scheduler.now:12.6f} {who:40} {text[:600]}")

    def digest(self) -> str:
        """The same for two plays whose steps were the same."""
        return self._digest.hexdigest()
