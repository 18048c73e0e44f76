"""The verdict on what arrived, from the journals alone."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.faults.verdicts import Accusation

Record = Mapping[str, Any]


@dataclass
class Arrivals:
    """Everything that was added, and what Celery's workers have done for it.

    ``last`` is the nonce of the last add of each key: earlier ones may have been replaced while
    they waited. ``ids`` are those of the messages by nonce, one for each time that one arrived.
    """

    last: dict[str, str] = field(default_factory=dict)
    ids: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    nonces: set[str] = field(default_factory=set)
    sends: int = 0

    @property
    def messages(self) -> int:
        return sum(map(len, self.ids.values()))

    @property
    def repeats(self) -> int:
        """The messages that a receiver tells by their id to be repeats."""
        return sum(len(ids) - len(set(ids)) for ids in self.ids.values())

    def missing(self) -> set[str]:
        """The last adds of which nothing has arrived."""
        return set(self.last.values()) - self.ids.keys()


def arrivals(records: Iterable[Record]) -> Arrivals:
    """Gather the journals' records, which are in the order of time."""
    found = Arrivals()
    for record in records:
        match record["kind"]:
            case "added":
                found.last[record["num"]] = record["nonce"]
                found.nonces.add(record["nonce"])
            case "arrived":
                found.ids[record["nonce"]].append(record["id"])
            case "sends":
                found.sends += 1
    return found


def accusations(found: Arrivals) -> Iterator[Accusation]:
    """Broken promises: an add that is lost, and ids that do not tell the calls apart."""
    for nonce in sorted(found.missing()):
        yield Accusation("lost", f"Add {nonce} was acknowledged and never arrived")
    calls: dict[str, set[str]] = defaultdict(set)
    for nonce, ids in found.ids.items():
        if nonce not in found.nonces:
            yield Accusation("other", f"{nonce} arrived, and nobody has added it")
        if len(set(ids)) > 1:
            yield Accusation("two ids", f"Add {nonce} arrived as {sorted(set(ids))}")
        for each in ids:
            calls[each].add(nonce)
    for each, nonces in calls.items():
        if len(nonces) > 1:
            yield Accusation("one id", f"{each} is the id of the adds {sorted(nonces)}")
