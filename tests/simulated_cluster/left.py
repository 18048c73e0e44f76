"""Exceptions that one simulated thread leaves with another, which meets them where it wakes up.

Python's own would reach the one real thread, in which all of these are. The rest of an interrupt
is the product's: who has the right to raise it, and where it is kept away.
"""

from tests.simulated_cluster import stage

# How long the thread that interrupts another one takes between its two lines, at the most.
LONGEST_STEP = 0.0005


def leave_with(number: int, kind: type[BaseException]) -> None:
    """Leave an exception with the thread of this number. It may go on for a moment before."""
    stage.scheduler.sleep(stage.choices.between(0.0, LONGEST_STEP))
    stage.journal.met["interrupts"] += 1
    stage.scheduler.actor(number).left = kind


def take_back(number: int) -> None:
    """Have a thread meet nothing any more that was left with it."""
    stage.scheduler.actor(number).left = None
