"""What is measured, of whom, and how much of it."""

from typing import NamedTuple

from benchmarks.contenders import CATALOGUE, PLACES


class Size(NamedTuple):
    """How much smaller than the full size everything is; who and what is left out."""

    rounds: int = 5
    tasks: float = 1.0  # share of their number
    time: float = 1.0  # share of the time that something is looked at
    measures: tuple[str, ...] = ()  # all of them, if empty
    contenders: tuple[str, ...] = ()


SIZES = {
    "full": Size(),
    "quick": Size(
        rounds=1,
        tasks=0.2,
        time=0.3,
        measures=("drain", "enqueue", "lateness", "pickup", "idle", "handlers"),
        contenders=("ours", "floor", "seed", "alone", "huey", "graphile-worker", "django-tasks-db"),
    ),
    "tiny": Size(rounds=1, tasks=0.002, time=0.05),
}


class Item(NamedTuple):
    measure: str
    tasks: int
    contenders: tuple[str, ...] = ()  # NAME or NAME:PROCESSES; everybody who can, if empty
    besides: tuple[str, ...] = ()  # and these
    seconds: float = 0.0
    rounds: int = 0  # fewer than the others, where one takes long
    others_rounds: int = 0  # in how many of them all but ours and the floor take part; 0: all
    least: int = 10  # tasks
    databases: tuple[str, ...] = PLACES

    def how_often(self, size: Size) -> int:
        return min(size.rounds, self.rounds or size.rounds)

    def takes_part(self, contender: str, number: int) -> bool:
        """Whether a contender has a turn in this round, the first of which is 0."""
        most = 0 if contender in ("ours", "floor") else self.others_rounds
        return number < (most or number + 1)

    def how_many(self, size: Size) -> int:
        return max(self.least, int(self.tasks * size.tasks))

    def who(self) -> tuple[str, ...]:
        able = (name for name, entry in CATALOGUE.items() if self.measure in entry.measures)
        return (*(self.contenders or able), *self.besides)


PLAN = (
    Item("drain", 100_000, besides=("floor:2", "ours:2")),
    Item("enqueue", 100_000, others_rounds=2),
    # Each round is a distribution already, and others may be half a minute late.
    Item("lateness", 1_000, besides=("ours:2",), seconds=10.0, others_rounds=1),
    Item("pickup", 100, besides=("ours:2",), seconds=10.0, others_rounds=1),
    Item("idle", 1, seconds=60.0, rounds=1),
    Item("waste", 100_000, ("ours:4",), rounds=3, databases=("mariadb",)),
    Item("handlers", 20_000, ("alone", "ours")),
    Item("blocking", 2_000, seconds=60.0, rounds=1),
    Item("claim", 10_000_000, rounds=1, least=10_000),
    Item("long", 1_000_000, besides=("ours:2",), rounds=1),
    Item("history", 100_000, ("ours:1", "ours-history:1", "ours:2", "ours-history:2"), rounds=2),
    Item(
        "processes",
        100_000,
        ("floor:1", "ours:1", "floor:2", "ours:2", "floor:4", "ours:4", "floor:8", "ours:8"),
        rounds=1,
    ),
)
