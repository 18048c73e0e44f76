"""What is measured, of whom, and how much of it."""

from typing import NamedTuple


class Size(NamedTuple):
    """The full size; smaller ones say what is smaller."""

    rounds: int = 5
    share: float = 1.0  # of the number of tasks
    seconds: float = 60.0  # of looking at an idle worker, and the like


QUICK = Size(rounds=3, share=0.2, seconds=10.0)
TINY = Size(rounds=1, share=0.002, seconds=1.0)


class Item(NamedTuple):
    measure: str
    contenders: tuple[str, ...]  # NAME or NAME:PROCESSES
    amounts: tuple[int, ...]
    once: bool = False  # too long to be repeated; many readings are taken within it

    def rounds(self, size: Size) -> int:
        return 1 if self.once else size.rounds

    def tasks(self, size: Size, wanted: int) -> list[int]:
        """Of which sizes; without repetitions."""
        amounts = [wanted] if wanted else [int(amount * size.share) for amount in self.amounts]
        return list(dict.fromkeys(amounts))


OWN = ("floor", "ours", "floor:2", "ours:2", "seed")

PLAN = (
    Item("drain", OWN, (100_000,)),
    Item("enqueue", ("floor", "ours", "seed"), (100_000,)),
)
