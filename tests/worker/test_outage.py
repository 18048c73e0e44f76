"""While a database does not answer: longer waits, and two lines in the log."""

import pytest

from django_tasks.worker.outage import FIRST_DELAY, LONGEST_DELAY, Outage


def test_delays_grow_with_jitter_up_to_a_limit() -> None:
    outage = Outage("default")
    delays = [outage.delay_after(OSError("down"), 0) for _ in range(30)]
    assert FIRST_DELAY / 2 <= delays[0] <= FIRST_DELAY
    assert all(delay <= LONGEST_DELAY for delay in delays)
    assert all(delay >= LONGEST_DELAY / 2 for delay in delays[8:])
    assert len(set(delays)) == len(delays)


def test_it_is_said_once_that_it_is_down_and_once_that_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outage = Outage("default")
    for _ in range(5):
        outage.delay_after(OSError("refused"), 7)
    for _ in range(3):
        outage.is_over()
    down, back = (record.getMessage() for record in caplog.records)
    assert down.startswith("Database default does not answer (OSError: refused); 7 ends are kept")
    assert back.startswith("Database default is back after")


def test_each_outage_begins_with_short_delays(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage("default")
    for _ in range(8):
        outage.delay_after(OSError("down"), 0)
    outage.is_over()
    assert outage.delay_after(OSError("down"), 0) <= FIRST_DELAY
    assert len(caplog.records) == 3


def test_without_an_outage_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    Outage("default").is_over()
    assert caplog.records == []
