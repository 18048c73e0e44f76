"""Get every page of the admin among millions of rows, and tell how long it took.

    python -m benchmarks.pages [--rows 10 1000000 10000000] [--database NAME …] [--page TEXT …]
                               [--json FILE] [--rst] [--keep]

Servers of their own are started for it. Ten million rows take a few minutes to make, and 10 GB on
each database; with ``--keep`` those of SQLite stay, in ``.pages``, for the next time.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from benchmarks import databases
from benchmarks.address import connect, parse
from benchmarks.pages.report import rst, text
from devtools.databases import TITLES

CHECKOUT = Path(__file__).resolve().parents[2]


def main() -> int:
    options = _options()
    records: list[dict[str, Any]] = []
    with (
        _directory(options.keep) as directory,
        databases.started(options.database, directory) as urls,
    ):
        for name in options.database:
            for rows in options.rows:
                url = _emptied(urls[name], rows, options.keep)
                records += _measured(name, url, rows, options.page)
                if options.json:
                    lines = ",\n".join(json.dumps(record) for record in records)
                    options.json.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    _say(rst(records) if options.rst else text(records))
    return int(any("error" in record for record in records))


def _measured(name: str, url: str, rows: int, pages: list[str]) -> list[dict[str, Any]]:
    """One database with so many rows, in a process of its own: its settings name the database."""
    command = [sys.executable, "-m", "benchmarks.pages.measure", str(rows), *pages]
    environment = {**os.environ, "DATABASE_URL": url}
    done = subprocess.run(
        command, cwd=CHECKOUT, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return [{"database": name, **record} for record in found]


def _emptied(url: str, rows: int, keep: bool) -> str:
    """A database for this number of rows, with nothing in it unless it was kept."""
    address = parse(url)
    if address.vendor == "sqlite":
        path = Path(f"{address.name}.{rows}")
        for suffix in ("", "-wal", "-shm") if not keep else ():
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        return f"sqlite:{path}"
    connection, name = connect(url), f"pages_{rows}"
    cursor = connection.cursor()
    known = {
        "mariadb": "SELECT 1 FROM information_schema.schemata WHERE schema_name = %s",
        "postgresql": "SELECT 1 FROM pg_database WHERE datname = %s",
    }
    cursor.execute(known[address.vendor], [name])
    is_there = bool(cursor.fetchall())
    if is_there and not keep:
        cursor.execute(f"DROP DATABASE {name}")
    if not is_there or not keep:
        cursor.execute(f"CREATE DATABASE {name}")
    connection.close()
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


@contextmanager
def _directory(keep: bool) -> Iterator[Path]:
    if keep:
        kept = CHECKOUT / ".pages"
        kept.mkdir(exist_ok=True)
        yield kept
    else:
        # Not /tmp, which may be in memory.
        with tempfile.TemporaryDirectory(prefix="pages-", dir="/var/tmp") as directory:
            yield Path(directory)


def _options() -> argparse.Namespace:
    summary, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        "python -m benchmarks.pages",
        description=summary,
        epilog=rest,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[10, 1_000_000])
    parser.add_argument("--database", nargs="+", choices=list(TITLES), default=list(TITLES))
    parser.add_argument("--page", nargs="+", default=[], help="parts of titles; all by default")
    parser.add_argument("--json", type=Path, help="write the records into this file")
    parser.add_argument("--rst", action="store_true", help="print the table as the docs have it")
    parser.add_argument("--keep", action="store_true", help="keep the rows for the next time")
    return parser.parse_args()


def _say(words: str) -> None:
    sys.stdout.write(f"{words}\n")


if __name__ == "__main__":
    main()
