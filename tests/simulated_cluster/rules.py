"""Questions that the checker of the fault suite does not ask: who was late without a reason."""

from collections.abc import Iterator
from typing import Any

from tests.faults.verdicts import Accusation

Records = list[dict[str, Any]]

# Seconds for which a due task may wait while threads are free, and nothing has happened for long.
PATIENCE = 20.0
LONG = 30.0


def missed_twice(records: Records) -> Iterator[Accusation]:
    """A task that has begun once is in time for good, whoever dies in its run."""
    began = set()
    for record in records:
        time = record.get("id"), record.get("when")
        if record["kind"] == "began":
            began.add(time)
        elif record["kind"] == "missed" and record["action"] == "fail" and time in began:
            yield Accusation("missed", f"{record['text']} had begun before, in time")


def left_waiting(records: Records) -> Iterator[Accusation]:
    """In fair weather no due task waits for long while threads are free."""
    since: dict[tuple[int, int], float] = {}
    for record, is_fair in _looks(records):
        at = record["at"]
        rows = map(tuple, record["rows"]) if is_fair and record["free"] > 0 else ()
        since = {row: since.get(row, at) for row in rows}
        seconds = at - min(since.values(), default=at)
        if seconds > PATIENCE:
            yield Accusation("waits", f"for {seconds:.0f} s at {at:.1f}: {since}, {record}")
            return


def _looks(records: Records) -> Iterator[tuple[dict[str, Any], bool]]:
    """Looks at waiting rows, and whether nothing has happened for long."""
    is_stormy, troubled_until = False, 0.0
    for record in sorted(records, key=_begin):
        kind, at = record["kind"], _begin(record)
        if kind == "storm":
            is_stormy = True
        elif kind == "calm":
            is_stormy, troubled_until = False, max(troubled_until, at + LONG)
        elif kind == "fault" and not record["name"].startswith("SIG"):
            troubled_until = max(troubled_until, record["at"] + LONG)
        elif kind == "waiting":
            yield record, not is_stormy and at > troubled_until


def _begin(record: dict[str, Any]) -> float:
    """Its time; that of a fault is its end."""
    return float(record.get("from", record["at"]))


RULES = (missed_twice, left_waiting)
