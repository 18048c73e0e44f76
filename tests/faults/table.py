"""The one table: site x fault, for a terminal and as a page of the documentation."""

import subprocess
from collections.abc import Sequence
from datetime import date
from os import cpu_count
from platform import python_version
from typing import NamedTuple

import django

from benchmarks import rst
from devtools import CHECKOUT
from tests.faults.acts import SCENARIOS
from tests.faults.databases import SITES
from tests.faults.habits import KNOWN
from tests.faults.stage import Size
from tests.faults.verdicts import Verdict

TITLES = {
    "sqlite": "SQLite",
    "mysql": "MySQL",
    "mariadb": "MariaDB",
    "postgresql": "PostgreSQL",
    "galera": "Galera, three nodes",
    "synchronous standby": "PostgreSQL, synchronous standby",
    "asynchronous standby": "PostgreSQL, asynchronous standby",
}
HEADS = (
    "database",
    "fault",
    "tasks",
    "runs",
    "lost",
    "overlaps",
    "duplicates",
    "early",
    "after cancel",
    "stuck",
    "other",
    "refused",
    "unknown",
    "recovery p50/p99",
    "lateness p50/p99/max",
)
_NAMED = ("lost", "overlap", "duplicate", "early", "after cancel", "stuck")


PAGE = """\
===========
Reliability
===========

What is promised is tried here: real ``starttask`` processes and real servers, clients that add,
change, move, cancel, pause and resume tasks all the time, and faults in between. Everybody keeps a
journal outside the database: each call and its answer, each run with its beginning and end, what
the database said to each end. Afterwards a checker reads the journals and goes through them key
by key.

The checker is tested itself: it must see each of a set of broken histories, and it must see it
when one guard is taken out of the product (the version of an add, the owner in a finish, the
hand-over of a moved row, the rule who may rescue, the look before the second call of a batch, what
a stop says in the rows that it leaves, what a worker clears away between two runs), when a
heartbeat waits for something else, and when a worker keeps an end to itself.

This run: {day:%d %B %Y}, commit ``{commit}``, seed {seed}; {versions}; {cores} cores, which
workers, clients and servers shared. {size.workers} workers with {size.threads} threads each (on
SIGKILL supervisor and on run without end: two supervisors with two processes each); {size.clients}
clients, 100 hot keys and many cold ones; a lease of {size.lease:g} seconds, 8 on Galera, where the
default is 30: short leases make faults worse. {zeros}

.. not run: it takes half an hour and more

.. code-block:: shell

    make faults                           # every fault everywhere, half an hour
    make faults ARGS="--seed {seed}"    # the same choices again
    make soak HOURS=8                     # 100,000 tasks a fault, again and again

The long form has a page of its own: `the soak <soak.rst>`_, one pass of 100,000 tasks a fault.


What the columns say
====================

These must be 0:

* *lost*: an acknowledged add that nothing took the place of, and that never ran to its end.
* *overlaps*: two runs of a key at once while both owners could still finish.
* *duplicates*: a claim with two accepted ends, or effects of an ``atomic`` handler that are there
  twice.
* *early*: a start before the task's time, by the database's clock.
* *after cancel*: a start after a ``cancel_task`` that had answered "cancelled".
* *stuck*: a row, or a dead worker, that is still there when everything was over; a row that a
  worker held, and neither ran nor ended, for more than six heartbeats; a worker that ended and had
  not been told to; a child of a handler that could not be terminated.
* *other*: a payload of another add, or one that was replaced before the claim; a task of a batch
  that is in a further call although a client has changed it; an attempt that no failure of the task
  itself has used; a suspect where processes have ended in order alone; a start in a pause of its
  code or queue; a misfire of a task that had begun before, or that a pause had held; a run that
  found what another one had left in its thread; an id given twice, an end refused without reason, a
  rescue by somebody who had no right to judge, a worker without a heartbeat for a lease although
  neither its process nor its database was in the hands of a fault, an end without its line in the
  `history <../how-to/look-up.rst#the-history>`_ or with two, a defect that a worker has met in
  itself and survived. On *many lanes* also a start more than 30 seconds late.

The rest are measures. *refused*: ends that came from a worker whose claim was gone, and changed
nothing, or whose first answer had been lost. *unknown*: calls of clients that ended in an error
of the database. *recovery*: until what a dead or frozen worker had in hand ran again; for other
faults, until the database had answered to each worker again. *lateness*: start minus due time,
backlog and outage included. All times are milliseconds.

No zeros are promised where an asynchronous standby takes over: what the lost primary had
acknowledged and not yet sent is gone, ids come a second time, and the journals remember both. See
`Running on a cluster <clusters.rst>`_.


The faults
==========

{faults}


The habits
==========

Under each fault some of these are in force too, chosen from the seed. None of them excuses
anything.

{habits}


In simulated time
=================

``make explore`` plays the same workers, handlers, clients and checker as one process with simulated
clocks, threads and connections, where faults strike at any statement and every order of events can
be played again: `A cluster in a box <explore.rst>`_.


The results
===========
"""
ALL_ZEROS = "Zeros everywhere but where none are promised."
NOT_ALL = "Not zero although promised: {rows}."


class Row(NamedTuple):
    """The verdict on one fault at one site; ``promised`` is false where zeros are not.

    ``habits`` were in force, the last time that it was played.
    """

    site: str
    fault: str
    verdict: Verdict
    promised: bool = True
    habits: tuple[str, ...] = ()

    @property
    def place(self) -> tuple[int, int]:
        """Its place in the table."""
        return list(SITES).index(self.site), list(SCENARIOS).index(self.fault)

    def cells(self) -> list[str]:
        verdict = self.verdict
        counts = verdict.counts
        named = [counts[what] for what in _NAMED]
        return [
            self.site,
            self.fault if self.promised else f"{self.fault} (no zeros are promised)",
            str(verdict.tasks),
            str(verdict.runs),
            *map(str, named),
            str(counts.total() - sum(named)),
            str(verdict.refused),
            str(verdict.unknown),
            _percentiles(verdict.recovery, 0.5, 0.99),
            _percentiles(verdict.lateness, 0.5, 0.99, 1.0),
        ]

    @property
    def is_broken(self) -> bool:
        """Tell if a zero that was promised is not one."""
        return self.promised and bool(self.verdict.accusations)

    def accusations(self, number: int) -> list[str]:
        """The first promises that were broken, with the facts that show it."""
        return [f"  {what}: {text}" for what, text in self.verdict.accusations[:number]]

    def __str__(self) -> str:
        site, fault, *numbers = self.cells()
        named = zip(HEADS[2:], numbers, strict=True)
        fault += f" [{' '.join(self.habits) or 'no habits'}]"
        return ", ".join([site, fault, *(f"{head} {number}" for head, number in named)])


class Table:
    """All rows of a run; those of one site and fault are added up."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, int], Row] = {}
        self._versions: dict[str, str] = {}

    def add(self, version: str, rows: Sequence[Row]) -> None:
        for row in rows:
            known = self._rows.get(row.place)
            together = known.verdict + row.verdict if known else row.verdict
            self._rows[row.place] = row._replace(verdict=together)
            self._versions[TITLES[row.site].split(",")[0]] = version

    def broken(self, number: int) -> list[str]:
        """Each row that is broken, with its first accusations."""
        return [
            line
            for row in self._sorted()
            if row.is_broken
            for line in (str(row), *row.accusations(number))
        ]

    def versions(self) -> str:
        servers = [f"{title} {version}" for title, version in self._versions.items()]
        return ", ".join([f"Python {python_version()}", f"Django {django.__version__}", *servers])

    def text(self) -> str:
        """The table for a terminal; times in milliseconds."""
        lines = [list(HEADS), *(row.cells() for row in self._sorted())]
        widths = [max(len(line[place]) for line in lines) for place in range(len(HEADS))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )

    def page(self, seed: int, size: Size) -> str:
        """The table as a page of the documentation."""
        facts = {
            "size": size,
            "seed": seed,
            "day": date.today(),
            "commit": _commit(),
            "cores": cpu_count(),
            "zeros": self._zeros(),
        }
        parts = [PAGE.format(**facts, versions=self.versions(), faults=_faults(), habits=_habits())]
        for site, title in TITLES.items():
            if rows := [row for row in self._sorted() if row.site == site]:
                parts.append(_section(title, rows))
        return "\n\n".join(parts)

    def _zeros(self) -> str:
        broken = [f"{row.fault} ({TITLES[row.site]})" for row in self._sorted() if row.is_broken]
        return NOT_ALL.format(rows=", ".join(broken)) if broken else ALL_ZEROS

    def _sorted(self) -> list[Row]:
        return [self._rows[place] for place in sorted(self._rows)]


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def _percentiles(ordered: Sequence[float], *shares: float) -> str:
    """Milliseconds, slash by slash."""
    if not ordered:
        return "-"
    places = [min(len(ordered) - 1, int(share * len(ordered))) for share in shares]
    return "/".join(f"{ordered[place] * 1000:.0f}" for place in places)


def _faults() -> str:
    return "\n".join(
        f"* **{name}.** {(scenario.act.__doc__ or '').strip()}"
        for name, scenario in SCENARIOS.items()
    )


def _habits() -> str:
    return "\n".join(f"* **{name}**: {habit.about}." for name, habit in KNOWN.items())


def _section(title: str, rows: Sequence[Row]) -> str:
    lines = rst.table(HEADS[1:], [row.cells()[1:] for row in rows])
    return f"{title}\n{'-' * len(title)}\n\n{lines}\n"
