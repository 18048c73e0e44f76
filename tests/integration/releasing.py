"""A handler whose schedule is that of the release that runs."""

import os

from tests.integration.handlers import Run


class Report(Run):
    biz_code = "report"
    schedule = os.environ.get("TEST_SCHEDULE", "")
