"""Handlers with limits, beside those of the fault suite."""

from tests.faults.handlers import Single

MOST_RUNNING = 2


class Limited(Single):
    """No more than two of its rows are ever owned, by all workers together."""

    biz_code = "limited"
    max_running = MOST_RUNNING


class Rated(Single):
    """One start a second, by all workers together."""

    biz_code = "rated"
    rate_limit = "60/m"
