"""The pages of the documentation."""

from pathlib import Path

import django

from devtools import CHECKOUT
from tests.site.reading import Page, read

# Pages that do not follow the conventions yet.
PENDING = (
    "docs/how-to/add.rst",
    "docs/how-to/admin.rst",
    "docs/how-to/async.rst",
    "docs/how-to/cancel-and-change.rst",
    "docs/how-to/chain.rst",
    "docs/how-to/command-line.rst",
    "docs/how-to/crash-test.rst",
    "docs/how-to/deploy-docker.rst",
    "docs/how-to/deploy-kubernetes.rst",
    "docs/how-to/deploy-supervisord.rst",
    "docs/how-to/deploy-systemd.rst",
    "docs/how-to/deploy.rst",
    "docs/how-to/every-host.rst",
    "docs/how-to/exactly-once.rst",
    "docs/how-to/limit-a-code.rst",
    "docs/how-to/locks.rst",
    "docs/how-to/logs.rst",
    "docs/how-to/look-up.rst",
    "docs/how-to/monitor.rst",
    "docs/how-to/one-of-many.rst",
    "docs/how-to/pause.rst",
    "docs/how-to/probes.rst",
    "docs/how-to/repeat.rst",
    "docs/how-to/test-handlers.rst",
    "docs/how-to/time-limits.rst",
    "docs/how-to/web-servers.rst",
    "docs/how-to/write-handlers.rst",
    "docs/reference/functions.rst",
    "docs/reference/schedules.rst",
    "docs/reference/settings.rst",
    "docs/understand/benchmarks.rst",
    "docs/understand/clusters.rst",
    "docs/understand/databases.rst",
    "docs/understand/explore.rst",
    "docs/understand/reliability.rst",
    "docs/understand/scaling.rst",
    "docs/understand/simulation.rst",
    "README.rst",
)


def paths() -> list[Path]:
    """All pages; the catalogues of other languages are not pages."""
    return [CHECKOUT / "README.rst", *sorted((CHECKOUT / "docs").rglob("*.rst"))]


def name_of(path: Path) -> str:
    return str(path.relative_to(CHECKOUT))


def needs(page: Page) -> str:
    """The version of Django that the page needs, if not every one will do."""
    return page.orders.get("needs", "").removeprefix("Django ")


def enough(version: str) -> bool:
    return django.VERSION[:2] >= tuple(map(int, version.split(".")))


PAGES = {name_of(path): read(path) for path in paths()}
READY = {name: page for name, page in PAGES.items() if not name.startswith(PENDING)}
