"""Pauses between processes that die and those that take their place."""

# A child that lives for less than STEADY_SECONDS may have failed at its start: its successor waits
# for FIRST_DELAY, and each time twice as long.
FIRST_DELAY = 0.5
LONGEST_DELAY = 30.0
STEADY_SECONDS = 60.0


def next_delay(last: float, lived: float) -> float:
    """Seconds until the successor of a process that ``lived`` so long, after a ``last`` delay."""
    return 0.0 if lived >= STEADY_SECONDS else min(LONGEST_DELAY, 2 * last) or FIRST_DELAY
