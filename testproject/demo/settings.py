"""The test project's settings, on the demo's own database and with times that one can wait for."""

import os
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from testproject.settings import *  # noqa: F403
from testproject.settings import BASE_DIR, INSTALLED_APPS, database


def local_time_zone() -> str:
    """The name of this machine's time zone, so that the demo shows what the clock here shows."""
    named = os.environ.get("TZ", "").lstrip(":")
    name = named or os.path.realpath("/etc/localtime").rpartition("/zoneinfo/")[2]
    try:
        return ZoneInfo(name).key
    except (OSError, KeyError, ValueError):
        return "UTC"


DIRECTORY = Path(os.environ.get("DEMO_DIR") or BASE_DIR)
DATABASES = {
    "default": database(
        {"ENGINE": "django.db.backends.sqlite3", "NAME": str(DIRECTORY / "demo.sqlite3")}
    )
}
INSTALLED_APPS = [*INSTALLED_APPS, "testproject.demo"]
USE_TZ = True
TIME_ZONE = local_time_zone()

SHOP_PAY_WITHIN = timedelta(seconds=8)
SHOP_SETTLED_AFTER = timedelta(seconds=2)
