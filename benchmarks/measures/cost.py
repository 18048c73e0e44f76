"""The cost of a worker: while nothing is to be done, and after very many tasks."""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic, sleep, time
from typing import Any

from benchmarks import statements
from benchmarks.address import connect, parse, redis_command
from benchmarks.measures.snapshots import snapshot
from benchmarks.measures.stage import Stage
from benchmarks.processes import wait_until

START_SECONDS = 60
SETTLE_SECONDS = 3.0
PATIENCE_SECONDS = 1800
DAY = 86_400


def idle(stage: Stage) -> dict[str, Any]:
    """Statements, transactions' beginnings and ends included, and processor seconds a minute.

    The queue holds one task, for tomorrow. MariaDB counts statements itself; PostgreSQL logs them;
    for Redis they are commands; SQLite is asked only by our own workers.
    """
    contender, journal = stage.contender, stage.journal(1)
    contender.prepare()
    asking = stage.scratch / "statements"
    with stage.workers({statements.VARIABLE: str(asking)} if _on_sqlite(stage) else {}) as workers:
        contender.add(0, time())
        journal.wait(1, START_SECONDS, workers.look)
        contender.add(1, time() + DAY)
        sleep(SETTLE_SECONDS)
        with_count = _counter(stage, asking)
        begin, count, cpu = monotonic(), with_count(), workers.cpu_seconds()
        sleep(stage.seconds)
        minutes = (monotonic() - begin) / 60
        cpu, count = workers.cpu_seconds() - cpu, with_count() - count
    facts = {"cpu_seconds": cpu / minutes}
    return facts if count < 0 else {**facts, "statements": count / minutes}


def _on_sqlite(stage: Stage) -> bool:
    return parse(stage.contender.url).vendor == "sqlite"


def _counter(stage: Stage, asking: Path) -> Callable[[], int]:
    """Something that tells how many statements there were so far."""
    vendor = parse(stage.contender.url).vendor
    if vendor == "mariadb":
        return _questions(stage.contender.url)
    if vendor == "postgresql":
        return _logged(stage.contender.url)
    if vendor == "redis":
        return _commands(stage.contender.url)
    if asking.exists():
        return lambda: len(asking.read_text(encoding="utf-8").splitlines())
    return iter(range(0, -9, -1)).__next__


def _questions(url: str) -> Callable[[], int]:
    cursor = connect(url).cursor()
    asked = iter(range(1, 9))

    def count() -> int:
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Questions'")
        return int(cursor.fetchone()[1]) - next(asked)

    return count


def _commands(url: str) -> Callable[[], int]:
    asked = iter(range(1, 9))

    def count() -> int:
        text = redis_command(url, "INFO stats").partition("total_commands_processed:")[2]
        return int(text.split()[0]) - next(asked)

    return count


def _logged(url: str) -> Callable[[], int]:
    connection = connect(url)
    connection.execute("ALTER SYSTEM SET log_statement = 'all'")
    connection.execute("SELECT pg_reload_conf()")
    connection.close()
    log = Path(os.environ["SERVERS_DIR"]) / "logs" / "postgresql.log"
    sleep(1.0)

    def count() -> int:
        text = log.read_text(encoding="utf-8", errors="replace")
        return len(re.findall(r"LOG:  (?:statement|execute)\b", text))

    return count


def long(stage: Stage) -> dict[str, Any]:
    """A long drain: is it as fast at its end as at its start, and does the worker grow?

    The rates are those of the second and of the last but one twentieth of all starts; memory is
    that of the largest process when a tenth, half and all have started.
    """
    contender, journal = stage.contender, stage.journal(stage.tasks)
    contender.prepare()
    contender.fill(range(stage.tasks), time() - 10 * DAY)
    stage.settle()
    memory = []
    with stage.workers() as workers:
        for part in (stage.tasks // 10, stage.tasks // 2, stage.tasks):
            journal.wait(part, PATIENCE_SECONDS, workers.look)
            memory.append(workers.memory() / 1e6)
        wait_until(contender.is_empty, PATIENCE_SECONDS)
    starts = sorted(journal.times())
    step = stage.tasks // 20
    names = ("memory_tenth", "memory_half", "memory_end")
    return {
        "rate": stage.tasks / (starts[-1] - starts[0]),
        "end_to_start": _rate(starts[-2 * step : -step]) / _rate(starts[step : 2 * step]),
        **dict(zip(names, memory, strict=True)),
    }


def held(stage: Stage) -> dict[str, Any]:
    """The same while somebody holds a snapshot from before, as a dump or a long report does.

    The rates are those of the last quarter and of the first. On SQLite also how large its log of
    writes has become, in MB: it cannot begin anew as long as somebody reads what was before it.
    """
    contender, journal = stage.contender, stage.journal(stage.tasks)
    contender.prepare()
    contender.add_many(contender.make(range(stage.tasks), time() - 10 * DAY))
    stage.settle()
    with snapshot(contender.url), stage.workers() as workers:
        journal.wait(stage.tasks, PATIENCE_SECONDS, workers.look)
        wait_until(contender.is_empty, PATIENCE_SECONDS)
        log = Path(parse(contender.url).name + "-wal")
        facts = {"wal_mb": log.stat().st_size / 1e6} if log.exists() else {}
    starts = sorted(journal.times())
    quarter = stage.tasks // 4
    return {
        "rate": stage.tasks / (starts[-1] - starts[0]),
        "end_to_start": _rate(starts[-quarter:]) / _rate(starts[:quarter]),
        **facts,
    }


def _rate(starts: Sequence[float]) -> float:
    return len(starts) / (starts[-1] - starts[0])
