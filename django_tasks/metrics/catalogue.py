"""The metrics: their names, kinds, labels and texts. Names here are promised: rules use them.

Their texts are not translated: a metric must say the same to every scrape.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

_FAMILIES: dict[str, Callable[..., Metric]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


class Entry(NamedTuple):
    """One metric; ``labels`` are those beside ``database``.

    A counter's ``name`` is without "_total", as prometheus-client wants it.
    """

    kind: str
    name: str
    labels: tuple[str, ...]
    text: str

    def family(self) -> Metric:
        """A family without samples."""
        return _FAMILIES[self.kind](self.name, self.text, labels=("database", *self.labels))

    @property
    def shown(self) -> str:
        """The name as it stands in rules and queries."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


UP = Entry(
    "gauge", "django_tasks_up", (), "1 if the metrics of the database could be read, else 0."
)
SCRAPE_SECONDS = Entry(
    "gauge", "django_tasks_scrape_duration_seconds", (), "Time that the look at it took."
)

RUNS = Entry("counter", "django_tasks_runs", ("code", "outcome"), "Runs that have ended.")
SKIPPED = Entry(
    "counter", "django_tasks_skipped", ("code",), "Times that were skipped, without a run."
)
LATENESS = Entry(
    *("histogram", "django_tasks_lateness_seconds", ("code",)),
    "Time from the moment when a task was due to the start of its run.",
)
DURATION = Entry("histogram", "django_tasks_duration_seconds", ("code",), "Time that a run took.")

DUE = Entry(
    *("gauge", "django_tasks_due", ("code",)),
    "Tasks that are due and wait, without those that are paused; counted up to a limit.",
)
LATE = Entry(
    *("gauge", "django_tasks_late", ("code",)),
    "Those of django_tasks_due that are due for more than a minute; counted up to a limit.",
)
OLDEST_DUE = Entry(
    *("gauge", "django_tasks_oldest_due_seconds", ("code",)),
    "Time for which the oldest of django_tasks_due has been due; 0 without any.",
)
RUNNING = Entry(
    "gauge", "django_tasks_running", ("code",), "Tasks that workers have claimed; up to 5000."
)
OLDEST_CLAIM = Entry(
    *("gauge", "django_tasks_oldest_claim_seconds", ("code",)),
    "Time since the oldest of django_tasks_running was claimed; 0 without any.",
)
STUCK = Entry(
    *("gauge", "django_tasks_stuck", ("code",)),
    "Those of django_tasks_running whose worker is gone, or silent for longer than its lease.",
)
FAILED = Entry(
    *("gauge", "django_tasks_failed", ("code",)),
    "Tasks that have failed for good and stay until somebody acts; counted up to a limit.",
)
CODE_WORKERS = Entry(
    *("gauge", "django_tasks_code_workers", ("code",)),
    "Workers that claim tasks and have a handler of the code.",
)
QUEUE_DUE = Entry(
    "gauge", "django_tasks_queue_due", ("queue",), "The same as django_tasks_due, by queue."
)
QUEUE_OLDEST_DUE = Entry(
    *("gauge", "django_tasks_queue_oldest_due_seconds", ("queue",)),
    "The same as django_tasks_oldest_due_seconds, by queue.",
)
QUEUE_WORKERS = Entry(
    *("gauge", "django_tasks_queue_workers", ("queue",)),
    "Workers that claim tasks and serve the queue.",
)
CAPPED = Entry(
    *("gauge", "django_tasks_capped_codes", ("count",)),
    "Codes of which there are more tasks than the gauge of this name tells.",
)
LEFT_OUT = Entry(
    *("gauge", "django_tasks_other_codes", ()),
    "Codes that have no label of their own and are together under the code other.",
)

WORKERS = Entry(
    *("gauge", "django_tasks_workers", ("state",)),
    "Workers: working, quiet (alive, but claims nothing) or silent for longer than its lease.",
)
THREADS = Entry(
    "gauge", "django_tasks_threads", (), "Threads of the workers that work or are quiet."
)
BUSY = Entry("gauge", "django_tasks_busy_threads", (), "Those of django_tasks_threads with a run.")
HEARTBEAT = Entry(
    *("gauge", "django_tasks_last_heartbeat_timestamp_seconds", ()),
    "Time of the last heartbeat of any worker; absent if no worker is known.",
)
PAUSES = Entry(
    "gauge", "django_tasks_pauses", (), "Pauses of a code, a queue or everything that are in force."
)

ENTRIES: Sequence[Entry] = (
    *(UP, SCRAPE_SECONDS),
    *(RUNS, SKIPPED, LATENESS, DURATION),
    *(DUE, LATE, OLDEST_DUE, RUNNING, OLDEST_CLAIM, STUCK, FAILED, CODE_WORKERS),
    *(QUEUE_DUE, QUEUE_OLDEST_DUE, QUEUE_WORKERS),
    *(CAPPED, LEFT_OUT),
    *(WORKERS, THREADS, BUSY, HEARTBEAT, PAUSES),
)
