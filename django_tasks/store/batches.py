"""How much goes into one statement."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

# MariaDB refuses statements above max_allowed_packet, 16 MiB by default, by closing the
# connection: which cannot be told from an outage. A quarter of it leaves room for quoting.
MOST_TEXT = 4_000_000


def batches(items: Iterable[T], most: int, text: Callable[[T], str | None]) -> Iterator[list[T]]:
    """Split ``items`` so that no batch has more than ``most``, nor more text than a statement may.

    ``text`` gives the part of an item that can be long. An item is never split.
    """
    batch: list[T] = []
    size = 0
    for item in items:
        length = len(text(item) or "")
        if batch and (len(batch) == most or size + length > MOST_TEXT):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += length
    if batch:
        yield batch
