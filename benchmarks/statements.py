"""The statements of a Django process: one line of JSON a statement, when asked for.

From outside, through Django's own hook, so that it goes on working whatever the store looks like.
"""

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import get_ident
from time import monotonic
from typing import Any, NamedTuple

VARIABLE = "BENCHMARK_STATEMENTS"
PAUSE_SECONDS = 0.02  # between statements: whatever comes then belongs to another cycle
TEXT_LENGTH = 300


class Statement(NamedTuple):
    process: int
    thread: int
    begin: float
    end: float
    rows: int  # -1 where the driver does not know
    text: str


def watch() -> None:
    """Write down the statements of every connection that this process opens from now on."""
    path = os.environ.get(VARIABLE)
    if path is None:
        return
    from django.db.backends.signals import connection_created

    output = open(path, "a", buffering=1, encoding="utf-8")  # noqa: SIM115  # until the end

    def write(
        execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]
    ) -> Any:
        begin = monotonic()
        answer = execute(sql, params, many, context)
        rows = context["cursor"].cursor.rowcount
        line = Statement(
            os.getpid(), get_ident(), begin, monotonic(), rows, sql.strip()[:TEXT_LENGTH]
        )
        output.write(json.dumps(line) + "\n")
        return answer

    def created(connection: Any, **_: Any) -> None:
        connection.execute_wrappers.append(write)

    connection_created.connect(created, weak=False)


def read(path: Path) -> list[Statement]:
    return [Statement(*json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def claims(statements: list[Statement]) -> Iterator[tuple[float, list[Statement]]]:
    """Each claim, and each look that found nothing: its seconds and statements.

    From the first question about tasks to the UPDATE that takes them, Python's time between
    them included. A DELETE is the end of runs and parts what comes before it from what follows.
    """
    threads: dict[tuple[int, int], list[Statement]] = defaultdict(list)
    for statement in statements:
        threads[statement[:2]].append(statement)
    for each in threads.values():
        yield from _claims_of_thread(each)


def _claims_of_thread(statements: list[Statement]) -> Iterator[tuple[float, list[Statement]]]:
    group: list[Statement] = []
    for statement in statements:
        pause = group and statement.begin - group[-1].end > PAUSE_SECONDS
        ends_runs = "t_task_worker" in statement.text or statement.text.startswith("DELETE")
        if group and (pause or ends_runs):
            yield group[-1].end - group[0].begin, group
            group = []
        if "t_task" in statement.text and not ends_runs:
            group.append(statement)
        if group and is_taking(statement):
            yield group[-1].end - group[0].begin, group
            group = []


def is_taking(statement: Statement) -> bool:
    return statement.text.startswith("UPDATE") and "t_task_worker" not in statement.text
