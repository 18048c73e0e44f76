"""One database and one number of rows: seed it, get each page, tell what it took.

    DATABASE_URL=… python -m benchmarks.pages.measure ROWS

It prints a line of JSON for each page.
"""

import json
import logging
import os
import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any, TextIO

import django

TIMES = 5


def main() -> None:
    rows = int(sys.argv[1])
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.pages.settings"
    django.setup()
    logging.disable(logging.CRITICAL)  # a page that fails is told by its line
    from benchmarks.pages import crowd
    from benchmarks.pages.addresses import KEPT, PAGES, rows_to_look_at

    _prepare(rows)
    person, scraper, ids = _superuser(), _scraper(), rows_to_look_at()
    wanted = sys.argv[2:]
    for page in (KEPT, *PAGES):
        if page.is_there() and (not wanted or any(text in page.title for text in wanted)):
            client, before = (person, _nothing) if page.site else (scraper, crowd.count_runs)
            found = _measured(client, page.url(ids), before)
            _say(sys.stdout, json.dumps({"page": page.title, "rows": rows, **found}))


def _prepare(rows: int) -> None:
    from django.core.management import call_command

    from benchmarks.pages import crowd

    call_command("migrate", verbosity=0)
    started = perf_counter()
    if not crowd.seeded(rows):
        crowd.seed(rows)
    crowd.seed_present()
    _say(sys.stderr, f"{rows:,} rows after {perf_counter() - started:.0f} s")


def _superuser() -> Any:
    from django.contrib.auth.models import User
    from django.test import Client

    user, _created = User.objects.get_or_create(
        username="anna", is_staff=True, is_superuser=True, is_active=True
    )
    client = Client(raise_request_exception=True)
    client.force_login(user)
    return client


def _scraper() -> Any:
    """Prometheus: it has a token, and neither session nor user."""
    from django.test import Client

    from django_tasks.conf import options

    return Client(headers={"authorization": f"Bearer {options().metrics_token}"})


def _nothing() -> None:
    """Write nothing before a request."""


def _measured(client: Any, url: str, before: Callable[[], None]) -> dict[str, Any]:
    """The number of statements, the slowest of them, and the median of the milliseconds, warm.

    ``before`` is called before each request that is timed: between two scrapes a worker has
    counted runs.
    """
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    try:
        with CaptureQueriesContext(connection) as captured:
            status = client.get(url).status_code
    except Exception as error:  # noqa: BLE001 - whatever it is, the other pages are measured
        return {"url": url, "error": repr(error)}
    queries = list(captured.captured_queries)  # the next request forgets them
    slowest = max(queries, key=lambda query: float(query["time"]), default={})
    times = [_milliseconds(client, url, before) for _ in range(TIMES)]
    return {
        "url": url,
        "status": status,
        "queries": len(queries),
        "ms": round(median(times), 1),
        "times": times,
        "slowest_ms": round(1000 * float(slowest.get("time", 0)), 1),
        "slowest": slowest.get("sql", "")[:2000],
    }


def _milliseconds(client: Any, url: str, before: Callable[[], None]) -> float:
    before()
    started = perf_counter()
    client.get(url)
    return round(1000 * (perf_counter() - started), 1)


def _say(stream: TextIO, words: str) -> None:
    stream.write(f"{words}\n")
    stream.flush()


if __name__ == "__main__":
    main()
