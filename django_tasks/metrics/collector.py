"""The collector of prometheus-client: it asks the database each time when it is asked."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext

from django.db import Error, connections
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from django_tasks import logs
from django_tasks.host.clocks import ticks
from django_tasks.metrics import gauges
from django_tasks.metrics.catalogue import (
    DURATION,
    ENTRIES,
    LATENESS,
    RUNS,
    SCRAPE_SECONDS,
    SKIPPED,
    UP,
)
from django_tasks.metrics.families import MOST_CODES, MOST_QUEUES, Families, Labels, Samples
from django_tasks.metrics.state import look
from django_tasks.metrics.totals import Totals
from django_tasks.store.aliases import write_alias
from django_tasks.store.connection import KeptConnections, separate_connection
from django_tasks.store.dialects import Bounds
from django_tasks.values.figures import NO_FIGURES, OUTCOMES, Figures, Histogram

Using = str | Iterable[str] | None

# Prometheus waits for ten seconds by default, and the answer that a database is down must come too.
BOUNDS = Bounds(lock_wait=2.0, statement=2.0)
# A time that was skipped is no run.
OF_RUNS = tuple(outcome for outcome in OUTCOMES if outcome != "skipped")


class TaskCollector(Collector):
    """Metrics of the tasks on one or several databases, for a registry of prometheus-client.

    ``using`` is an alias or some of them; None is the one that tasks are written to, as the router
    says. Any thread may collect, several at once. It keeps nothing but the sums of what was counted
    long ago; each process gives the same answer, with prometheus-client's multiprocess mode too.
    With ``keep_connections`` a connection to a server stays open from one scrape to the next.

    Raises UnknownDatabase for an alias that is none, when it is asked.
    """

    def __init__(self, using: Using = None, *, keep_connections: bool = False) -> None:
        self._connections = KeptConnections(BOUNDS) if keep_connections else None
        self._using = using if using is None or isinstance(using, str) else tuple(using)
        self._totals: dict[str, Totals] = {}
        self._down: set[str] = set()

    def describe(self) -> Iterator[Metric]:
        """All metrics, without a look at any database: it may be down when one registers."""
        for entry in ENTRIES:
            yield entry.family()

    def collect(self) -> Iterator[Metric]:
        """All metrics with their samples; of a database that does not answer ``up`` alone."""
        families = Families()
        for alias in self._aliases():
            self._write(alias, families.of(alias))
        return iter(families)

    def _aliases(self) -> list[str]:
        several = self._using if isinstance(self._using, tuple) else (self._using,)
        return list(dict.fromkeys(write_alias(alias) for alias in several))

    def _write(self, alias: str, samples: Samples) -> None:
        started = ticks()
        try:
            with self._reading(alias):
                state = look(using=alias)
                totals = self._totals.setdefault(alias, Totals()).read(state.now, using=alias)
        except Error as error:
            samples.add(UP, 0)
            self._tell_down(alias, error)
            return
        self._tell_up(alias)
        codes = Labels({*state.codes(), *totals}, MOST_CODES)
        _write_totals(totals, codes, samples)
        gauges.write(state, codes, Labels(state.queues(), MOST_QUEUES), samples)
        samples.add(UP, 1)
        samples.add(SCRAPE_SECONDS, ticks() - started)

    def _tell_down(self, alias: str, error: Error) -> None:
        if alias not in self._down:
            self._down.add(alias)
            logs.metrics_unreadable(alias, error)

    def _tell_up(self, alias: str) -> None:
        if alias in self._down:
            self._down.discard(alias)
            logs.metrics_readable(alias)

    def _reading(self, alias: str) -> AbstractContextManager[None]:
        """A connection whose waits are bounded, so that a server that is gone costs some seconds.

        On SQLite nothing is gone. In a transaction of the caller's, such as that of a test, it is
        part of it.
        """
        connection = connections[alias]
        if connection.vendor == "sqlite" or connection.in_atomic_block:
            return nullcontext()
        if self._connections is not None:
            return self._connections.separate(alias)
        return separate_connection(alias, BOUNDS)


def _write_totals(totals: Mapping[str, Figures], labels: Labels, samples: Samples) -> None:
    """Write a sample of each label, 0 where nothing has run: a first failure is a rise then."""
    for code, figures in _by_label(totals, labels).items():
        for outcome in OF_RUNS:
            samples.add(RUNS, figures.outcomes[outcome], code, outcome)
        samples.add(SKIPPED, figures.outcomes["skipped"], code)
        samples.add_histogram(LATENESS, figures.late, code)
        samples.add_histogram(DURATION, figures.took, code)


def _by_label(totals: Mapping[str, Figures], labels: Labels) -> dict[str, Figures]:
    found = dict.fromkeys(labels.all(), NO_FIGURES)
    for code, figures in totals.items():
        label = labels(code)
        before = found[label]
        found[label] = figures if before is NO_FIGURES else _together(before, figures)
    return found


def _together(one: Figures, other: Figures) -> Figures:
    outcomes = {name: count + other.outcomes[name] for name, count in one.outcomes.items()}
    return Figures(outcomes, _sum((one.late, other.late)), _sum((one.took, other.took)))


def _sum(histograms: Iterable[Histogram]) -> Histogram:
    bounds, counts, sums = zip(*histograms, strict=True)
    return Histogram(bounds[0], tuple(map(sum, zip(*counts, strict=True))), sum(sums))
