"""Work that a task may do: cancel the order of its number. The same for every contender."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

from benchmarks.address import connect, parse

ROWS_A_STATEMENT = 1000

CREATE = "CREATE TABLE bench_order (number varchar(20) PRIMARY KEY, status varchar(10) NOT NULL)"


def create(url: str) -> None:
    connect(url).cursor().execute(CREATE)


def fill(url: str, numbers: Iterable[int]) -> None:
    """An unpaid order for each number."""
    cursor, left = connect(url).cursor(), iter(numbers)
    mark = "?" if parse(url).vendor == "sqlite" else "%s"
    while part := [str(number) for number in islice(left, ROWS_A_STATEMENT)]:
        rows = ", ".join([f"({mark}, 'unpaid')"] * len(part))
        cursor.execute(f"INSERT INTO bench_order (number, status) VALUES {rows}", part)


def cancelling(count: int, mark: str = "%s") -> str:
    """The statement that cancels so many orders."""
    marks = ", ".join([mark] * count)
    return (
        "UPDATE bench_order SET status = 'cancelled'"
        f" WHERE number IN ({marks}) AND status = 'unpaid'"
    )


def cancel(cursor: Any, numbers: list[str], mark: str = "%s") -> None:
    cursor.execute(cancelling(len(numbers), mark), numbers)
