"""Batches: the part of many rows that goes into one statement."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

# MariaDB refuses statements above max_allowed_packet, 16 MiB by default, by closing the
# connection: which cannot be told from an outage. The other half of it is for what is not counted:
# keys, queues, times and numbers, up to two kilobytes a row.
MOST_BYTES = 8_000_000


def batches(
    items: Iterable[T], most: int, texts: Callable[[T], Iterable[str | None]]
) -> Iterator[list[T]]:
    """Split ``items`` so that no batch has more than ``most``, nor more text than a statement may.

    ``texts`` gives all texts of an item that can be long and go into the statement. An item is
    never split.
    """
    batch: list[T] = []
    size = 0
    for item in items:
        length = 0
        for text in texts(item):
            if text:
                length += most_bytes(text)
        if batch and (len(batch) == most or size + length > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += length
    if batch:
        yield batch


def most_bytes(text: str) -> int:
    """The most bytes that a text takes in a statement; to count them would be to encode it.

    In UTF-8 a character has up to four bytes, and one that is escaped has two.
    """
    return len(text) * (2 if text.isascii() else 4)
