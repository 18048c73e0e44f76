"""The plan of a run: measures, contenders, and their sizes."""

from typing import NamedTuple

from benchmarks.contenders import CATALOGUE, PLACES


class Size(NamedTuple):
    """A share of the full size, and the contenders and measures that are left out."""

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


# What ``starttask`` starts by itself on two cores or more.
PROCESSES = {"sqlite": 1, "mariadb": 2, "postgresql": 2}


class Item(NamedTuple):
    """``name`` in its methods is NAME or NAME:PROCESSES, as in ``contenders``."""

    measure: str
    tasks: int
    contenders: tuple[str, ...] = ()  # everybody who can, if empty
    besides: tuple[str, ...] = ()  # and these
    seconds: float = 0.0
    rounds: int = 0  # fewer than the others, where one takes long
    judged: tuple[str, ...] = ("ours", "floor")  # whom a target is about
    others_rounds: int = 0  # in how many rounds all others take part; 0: all
    others_seconds: float = 0.0  # how long they are looked at; 0: as long
    least: int = 10  # tasks
    databases: tuple[str, ...] = PLACES

    def how_often(self, size: Size) -> int:
        return min(size.rounds, self.rounds or size.rounds)

    def is_judged(self, database: str, name: str) -> bool:
        """Tell if a target is about it: of us and the floor, with our default of processes."""
        contender, _, processes = name.partition(":")
        if f"{contender}:2" in self.besides:
            return int(processes or 1) == PROCESSES[database]
        return contender in self.judged

    def takes_part(self, database: str, name: str, number: int) -> bool:
        """Tell if it has a turn in this round, the first of which is 0."""
        others = 0 if self.is_judged(database, name) else self.others_rounds
        return number < (others or number + 1)

    def how_long(self, database: str, name: str, size: Size) -> float:
        others = 0.0 if self.is_judged(database, name) else self.others_seconds
        return size.time * (others or self.seconds)

    def how_many(self, size: Size) -> int:
        return max(self.least, int(self.tasks * size.tasks))

    def who(self) -> tuple[str, ...]:
        able = (name for name, entry in CATALOGUE.items() if self.measure in entry.measures)
        return (*(self.contenders or able), *self.besides)


RIVALS = ("seed", "huey", "django-tasks-db", "django-q2", "graphile-worker", "pgqueuer")

PLAN = (
    Item("drain", 100_000, besides=("floor:2", "ours:2"), judged=RIVALS, others_rounds=2),
    Item("enqueue", 100_000, others_rounds=2),
    # Each round is a distribution already, and others may be half a minute late.
    Item("lateness", 1_000, besides=("ours:2",), seconds=10.0, others_rounds=1),
    Item("pickup", 100, besides=("ours:2",), seconds=10.0, others_rounds=1),
    Item("idle", 1, seconds=60.0, rounds=1, others_seconds=30.0),
    Item("waste", 100_000, ("ours:4",), rounds=3, databases=("mariadb",)),
    Item("handlers", 20_000, ("alone", "ours")),
    Item("blocking", 2_000, seconds=60.0, rounds=1),
    Item("claim", 10_000_000, rounds=1, least=10_000),
    Item("long", 1_000_000, besides=("ours:2",), rounds=1),
    Item("held", 300_000, rounds=1),
    Item("lanes", 1_000, seconds=10.0, rounds=1, least=100),
    Item("busy", 75_000, seconds=15.0, rounds=3, least=100),
    Item("work", 100_000, rounds=3, judged=("ours-plain", "ours-atomic", "ours-batch")),
    Item("functions", 100_000),
    Item("function-calls", 20_000),
    Item("history", 100_000, ("ours:1", "ours-history:1", "ours:2", "ours-history:2"), rounds=2),
    Item(
        "processes",
        100_000,
        ("floor:1", "ours:1", "floor:2", "ours:2", "floor:4", "ours:4", "floor:8", "ours:8"),
        rounds=1,
    ),
)
