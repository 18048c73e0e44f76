"""Measure the cost of counting: drains of empty tasks on SQLite, with counting and without it.

    python -m benchmarks.counting [--tasks 150000] [--rounds 14]

Prints the medians over the rounds of the ratios within one: a drain with counting to one without.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any, NamedTuple
from unittest.mock import patch

import django
from django.conf import settings
from django.core.management import call_command
from django.utils.timezone import now

from benchmarks.address import django_database

CODE = "empty"
# As many tasks one statement adds.
AT_ONCE = 1000
# All that counting does, but for the statement that writes what was counted.
STEPS = ("__enter__", "__exit__", "count", "count_done", "count_rescued")


class Cost(NamedTuple):
    """Seconds of a drain: of the processor, and by the clock."""

    processor: float
    clock: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=150_000)
    parser.add_argument("--rounds", type=int, default=14)
    options = parser.parse_args()
    with TemporaryDirectory() as scratch:
        _set_up(Path(scratch) / "db.sqlite3")
        ratios = [_ratios(options.tasks, turn) for turn in range(options.rounds)]
    for name, values in zip(Cost._fields, zip(*ratios, strict=True), strict=True):
        sys.stdout.write(f"{name}: {median(values):.3f} ({min(values):.3f}-{max(values):.3f})\n")


def _set_up(path: Path) -> None:
    settings.configure(
        DATABASES={"default": django_database(f"sqlite:///{path}")},
        INSTALLED_APPS=["django_tasks"],
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        USE_TZ=True,
    )
    django.setup()
    call_command("migrate", verbosity=0)
    from django_tasks.api import register_task_handler, task_handler

    register_task_handler(task_handler(CODE)(lambda task: None))


def _ratios(tasks: int, turn: int) -> Cost:
    """Counting against nothing, in one round. Who comes first changes from round to round."""
    order: list[bool] = [True, False] if turn % 2 else [False, True]
    costs = {with_counting: _drain(tasks, with_counting) for with_counting in order}
    pairs = zip(costs[True], costs[False], strict=True)
    return Cost(*(one / other for one, other in pairs))


def _drain(tasks: int, with_counting: bool) -> Cost:
    """Add tasks, and let one worker drain them: only that is timed."""
    from django_tasks.api import Task, add_tasks
    from django_tasks.worker.config import worker_config
    from django_tasks.worker.worker import Worker

    for start in range(0, tasks, AT_ONCE):
        numbers = range(start, min(start + AT_ONCE, tasks))
        add_tasks(Task(biz_code=CODE, biz_num=str(each), when=now()) for each in numbers)
    with nullcontext() if with_counting else _uncounted():
        worker = Worker(worker_config("default", until_empty=True))
        processor, clock = process_time(), perf_counter()
        worker.start()
        worker.join()
        return Cost(process_time() - processor, perf_counter() - clock)


@contextmanager
def _uncounted() -> Iterator[None]:
    from django_tasks.worker.counting import Counts

    nothing: Callable[..., Any] = lambda *args, **kwargs: None  # noqa: E731
    with ExitStack() as patches:
        for step in STEPS:
            patches.enter_context(patch.object(Counts, step, nothing))
        yield


if __name__ == "__main__":
    main()
