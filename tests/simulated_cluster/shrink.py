"""The shortest prefix of a schedule that still fails.

A prefix is a number of decisions: afterwards there are no faults, no calls of clients, and every
statement takes its shortest time. Failing is not monotonous, so bisecting may end at a longer one
than there is. Whatever it ends at has been played, and has failed.
"""

from collections.abc import Callable

# Plays that a search may take.
MOST_PLAYS = 24


def shortest(length: int, fails: Callable[[int], bool]) -> int:
    """The shortest failing prefix that bisecting finds; ``length`` is known to fail."""
    passing, failing = 0, length
    for _ in range(MOST_PLAYS):
        if failing - passing <= 1:
            break
        middle = (passing + failing) // 2
        if fails(middle):
            failing = middle
        else:
            passing = middle
    return failing
