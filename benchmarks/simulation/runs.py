"""The simulations of the page: every strategy with more and more workers, under four loads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from benchmarks.simulation.costs import DATABASES, HOSTS, Costs, Site, capacity
from benchmarks.simulation.model import Case, Outcome, simulate

WORKERS = (1, 2, 4, 8, 16, 32, 64, 125, 250, 500, 1000)
QUICK_WORKERS = (1, 8, 125)

# Each on the database whose way it is, or was, or would be.
PLACES = {
    "head": "mariadb",
    "random": "mariadb",
    "shares": "mariadb",
    "locked": "postgresql",
}


class Load(NamedTuple):
    """Tasks due a second: so many, or a share of what the server can do. None: a backlog."""

    title: str
    tasks: float = 0.0
    share: float = 0.0

    def rate(self, costs: Costs, site: Site) -> float:
        return self.tasks or self.share * capacity(costs, site)


LOADS = {
    "drain": Load("a backlog"),
    "quiet": Load("50 tasks due a second", tasks=50),
    "half": Load("half of what the server can do", share=0.5),
    "heavy": Load("nine tenths of it", share=0.9),
}


class Key(NamedTuple):
    load: str
    strategy: str
    workers: int


@dataclass(frozen=True)
class Wish:
    """One simulation to run."""

    strategies: Sequence[str] = tuple(PLACES)
    workers: Sequence[int] = WORKERS
    site: Site = HOSTS
    seconds: float = 3.0
    seed: int = 1


def run(wish: Wish) -> Iterator[tuple[Key, Outcome]]:
    for strategy in wish.strategies:
        costs = DATABASES[PLACES[strategy]]
        for workers in wish.workers:
            for name, load in LOADS.items():
                case = Case(
                    costs,
                    strategy,
                    workers,
                    rate=load.rate(costs, wish.site),
                    site=wish.site,
                    seconds=wish.seconds,
                    seed=wish.seed,
                )
                yield Key(name, strategy, workers), simulate(case)
