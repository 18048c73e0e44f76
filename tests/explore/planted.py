"""The product with one guard removed, or with a defect of former days: what must be found."""

from collections.abc import Callable

from tests.faults import broken

GUARDS = ("add_without_version", "finish_by_id", "no_hand_over", "rescue_at_once")
HABITS = ("forgotten_ends", "waits_with_the_heartbeat")

PLANTED: dict[str, Callable[[], None]] = {name: broken.GUARDS[name] for name in (*GUARDS, *HABITS)}


def plant(name: str) -> None:
    """Plant one in this process."""
    PLANTED[name]()
