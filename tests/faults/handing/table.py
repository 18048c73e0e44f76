"""The outcome of each fault: for a terminal, and as a section of the documentation's page."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import celery

from benchmarks import rst
from tests.faults.handing.acts import FAULTS
from tests.faults.verdicts import Accusation

HEADS = ("fault", "adds", "sends", "messages", "lost", "mixed up", "stuck", "other", "repeats")
_MIXED_UP = ("one id", "two ids")

SECTION = """
Handing over to Celery
======================

Four workers of ours hand tasks of PostgreSQL to two workers of Celery {celery} with two processes
each, by way of RabbitMQ: durable queues, publisher confirms, ``acks_late``, as `the page
<../how-to/hand-over.rst>`_ has it. Between our workers and the broker is a proxy. A client adds
tasks, a third of them under 50 keys again and again, also while they run. Celery's side writes each
message that arrives into a journal, with its id.

*adds* were acknowledged. *sends* are runs of the handler, tries included. *messages* arrived.
These must be 0: *lost*, adds that nothing took the place of, and that never arrived; *mixed up*, an
id that two adds have, or an add that arrived under two ids; *stuck*, a task or a worker that was
left; *other*, a message that nobody had added, or a defect that a worker has met in itself.
*repeats* is a measure: messages that had arrived before, under the same id.

{faults}

{table}
"""


@dataclass
class Row:
    """The verdict on one fault."""

    fault: str
    adds: int = 0
    sends: int = 0
    messages: int = 0
    repeats: int = 0
    accusations: list[Accusation] = field(default_factory=list)

    def cells(self) -> list[str]:
        said = [accusation.what for accusation in self.accusations]
        named = [
            said.count("lost"),
            sum(said.count(what) for what in _MIXED_UP),
            said.count("stuck"),
        ]
        numbers = [self.adds, self.sends, self.messages, *named, len(said) - sum(named)]
        return [self.fault, *map(str, numbers), str(self.repeats)]

    def __add__(self, other: "Row") -> "Row":
        return Row(
            self.fault,
            self.adds + other.adds,
            self.sends + other.sends,
            self.messages + other.messages,
            self.repeats + other.repeats,
            self.accusations + other.accusations,
        )

    def __str__(self) -> str:
        name, *numbers = self.cells()
        named = zip(HEADS[1:], numbers, strict=True)
        return ", ".join([f"rabbitmq, {name}", *(f"{head} {number}" for head, number in named)])


class Rows:
    """All rows of a run; those of one fault are added up."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}

    def add(self, rows: Iterable[Row]) -> None:
        for row in rows:
            known = self._rows.get(row.fault)
            self._rows[row.fault] = known + row if known else row

    def broken(self, number: int) -> list[str]:
        """Each row that is broken, with its first accusations."""
        return [
            line
            for row in self._rows.values()
            if row.accusations
            for line in (
                str(row),
                *(f"  {what}: {said}" for what, said in row.accusations[:number]),
            )
        ]

    def text(self) -> str:
        """The table for a terminal; nothing if nothing was played."""
        lines = [list(HEADS), *(row.cells() for row in self._rows.values())]
        widths = [max(len(line[place]) for line in lines) for place in range(len(HEADS))]
        padded = [
            [cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines
        ]
        return "\n".join("  ".join(line).rstrip() for line in padded) if self._rows else ""

    def section(self) -> str:
        """The table as a section of the page; nothing if nothing was played."""
        if not self._rows:
            return ""
        faults = "\n".join(
            f"* **{name}.** {' '.join((each.act.__doc__ or '').split())}"
            for name, each in FAULTS.items()
        )
        table = rst.table(HEADS, [row.cells() for row in self._rows.values()])
        return SECTION.format(celery=celery.__version__, faults=faults, table=table)
