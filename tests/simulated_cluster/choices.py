"""The decisions of a seed. After the last one that counts, everything takes its calmest course."""

from collections.abc import Sequence
from math import inf
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Decisions by a seed, numbered. From number ``limit`` on there are no more surprises.

    So a prefix of a schedule can be played again without what followed it.
    """

    def __init__(self, seed: int, limit: float = inf) -> None:
        self._random = Random(seed)
        self._limit = limit
        self.made = 0

    @property
    def are_over(self) -> bool:
        """Tell if all decisions that count have been made."""
        return self.made >= self._limit

    def chance(self, probability: float) -> bool:
        """Decide whether something happens; in calm it does not."""
        return self._draw() < probability if self._counts() else False

    def between(self, least: float, most: float) -> float:
        """Decide on a number; in calm it is one at the lower end."""
        return least + (most - least) * self._draw() if self._counts() else least

    def scale(self, least: float, most: float) -> float:
        """Decide on a number of which no order of magnitude is likelier than another."""
        factor: float = (most / least) ** self.between(0.0, 1.0)
        return least * factor

    def pick(self, items: Sequence[T], weights: Sequence[float] | None = None) -> T:
        """Decide on one of several; in calm it is the first."""
        if not self._counts():
            return items[0]
        (item,) = self._random.choices(items, weights)
        return item

    def _counts(self) -> bool:
        if self.made >= self._limit:
            return False
        self.made += 1
        return True

    def _draw(self) -> float:
        return self._random.random()
