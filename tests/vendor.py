"""The database that this run is about."""

import os
from typing import NoReturn

import pytest
from django.conf import settings

VENDOR = settings.DATABASES["default"]["ENGINE"].rpartition(".")[2]
ON_SQLITE = VENDOR == "sqlite3"


def leave_out(reason: str) -> NoReturn:
    """Skip a test for which something is missing here; fail where nothing may be left out."""
    if os.environ.get("REQUIRE_ALL_DATABASES", "0") not in ("", "0"):
        pytest.fail(reason)
    pytest.skip(reason=reason)
